package pjrt

import (
	"runtime"
	"structs"
	"unsafe"
)

type plainArgs struct { // PJRT_Plugin_Initialize_Args
	_    structs.HostLayout
	size uintptr
	ext  unsafe.Pointer
}

type attributesArgs struct { // PJRT_Plugin_Attributes_Args
	_    structs.HostLayout
	size uintptr
	ext  unsafe.Pointer
	attr unsafe.Pointer // out
	n    uintptr        // out
}

// Initialize is the one call that must come before any other.
func (a *API) Initialize() error {
	x := &plainArgs{}
	x.size = unsafe.Sizeof(*x)
	return invoke(a, fnPluginInitialize, x)
}

// Attributes returns the attributes of the plugin, such as the versions of XLA and StableHLO.
func (a *API) Attributes() (Named, error) {
	x := &attributesArgs{}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(a, fnPluginAttributes, x); err != nil {
		return nil, err
	}
	return decodeNamed(x.attr, x.n), nil
}

// Client is a PJRT_Client.
type Client struct {
	api *API
	p   unsafe.Pointer
}

// Device is a PJRT_Device; it lives as long as its client.
type Device struct {
	api *API
	p   unsafe.Pointer
}

type clientCreateArgs struct {
	_          structs.HostLayout
	size       uintptr
	ext        unsafe.Pointer
	options    unsafe.Pointer
	numOptions uintptr
	kvGet      uintptr
	kvGetArg   unsafe.Pointer
	kvPut      uintptr
	kvPutArg   unsafe.Pointer
	client     unsafe.Pointer // out
	kvTry      uintptr
	kvTryArg   unsafe.Pointer
}

// NewClient creates a client.
func (a *API) NewClient(options Named) (*Client, error) {
	var p runtime.Pinner
	defer p.Unpin()
	opts, err := options.encode(&p)
	if err != nil {
		return nil, err
	}
	x := &clientCreateArgs{options: pin(&p, dataOf(opts)), numOptions: uintptr(len(opts))}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(a, fnClientCreate, x); err != nil {
		return nil, err
	}
	return &Client{a, x.client}, nil
}

type clientArgs struct { // PJRT_Client_Destroy_Args, and the start of the others
	_      structs.HostLayout
	size   uintptr
	ext    unsafe.Pointer
	client unsafe.Pointer
}

type clientTextArgs struct { // PlatformName, PlatformVersion
	_ structs.HostLayout
	clientArgs
	text unsafe.Pointer // out
	n    uintptr        // out
}

type clientDevicesArgs struct {
	_ structs.HostLayout
	clientArgs
	devices unsafe.Pointer // out
	n       uintptr        // out
}

// Destroy shuts the client down.
func (c *Client) Destroy() error {
	x := &clientArgs{client: c.p}
	x.size = unsafe.Sizeof(*x)
	return invoke(c.api, fnClientDestroy, x)
}

// askText calls a function that returns a text about the client.
func (c *Client) askText(f fn) (string, error) {
	x := &clientTextArgs{clientArgs: clientArgs{client: c.p}}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(c.api, f, x); err != nil {
		return "", err
	}
	return copyText(x.text, x.n), nil
}

// PlatformName is "cpu", "cuda", "tpu".
func (c *Client) PlatformName() (string, error) { return c.askText(fnClientPlatformName) }

// PlatformVersion is free text.
func (c *Client) PlatformVersion() (string, error) { return c.askText(fnClientPlatformVersion) }

// Devices lists all devices, or only those this process can use.
func (c *Client) Devices(addressable bool) ([]Device, error) {
	x := &clientDevicesArgs{clientArgs: clientArgs{client: c.p}}
	x.size = unsafe.Sizeof(*x)
	f := fnClientDevices
	if addressable {
		f = fnClientAddressableDevices
	}
	if err := invoke(c.api, f, x); err != nil {
		return nil, err
	}
	var out []Device
	for _, p := range copyPointers(x.devices, x.n) {
		out = append(out, Device{c.api, p})
	}
	return out, nil
}

type deviceDescriptionArgs struct { // PJRT_Device_GetDescription_Args
	_      structs.HostLayout
	size   uintptr
	ext    unsafe.Pointer
	device unsafe.Pointer
	desc   unsafe.Pointer // out
}

// Description is a PJRT_DeviceDescription.
type Description struct {
	api *API
	p   unsafe.Pointer
}

// Description describes the device.
func (d Device) Description() (Description, error) {
	x := &deviceDescriptionArgs{device: d.p}
	x.size = unsafe.Sizeof(*x)
	err := invoke(d.api, fnDeviceGetDescription, x)
	return Description{d.api, x.desc}, err
}

type descIntArgs struct { // Id, ProcessIndex
	_    structs.HostLayout
	size uintptr
	ext  unsafe.Pointer
	desc unsafe.Pointer
	v    int32 // out
}

type descTextArgs struct { // Kind, DebugString, ToString
	_    structs.HostLayout
	size uintptr
	ext  unsafe.Pointer
	desc unsafe.Pointer
	text unsafe.Pointer // out
	n    uintptr        // out
}

type descAttributesArgs struct {
	_    structs.HostLayout
	size uintptr
	ext  unsafe.Pointer
	desc unsafe.Pointer
	n    uintptr        // out
	attr unsafe.Pointer // out
}

// askInt calls a function that returns a number about the device.
func (d Description) askInt(f fn) (int, error) {
	x := &descIntArgs{desc: d.p}
	x.size = unsafe.Sizeof(*x)
	err := invoke(d.api, f, x)
	return int(x.v), err
}

// ID is unique among all devices of the job.
func (d Description) ID() (int, error) { return d.askInt(fnDeviceDescriptionId) }

// Process is the process the device belongs to.
func (d Description) Process() (int, error) { return d.askInt(fnDeviceDescriptionProcessIndex) }

// Kind is a vendor's word: "cpu", "TPU v4".
func (d Description) Kind() (string, error) {
	x := &descTextArgs{desc: d.p}
	x.size = unsafe.Sizeof(*x)
	err := invoke(d.api, fnDeviceDescriptionKind, x)
	return copyText(x.text, x.n), err
}

// Attributes are facts such as coordinates.
func (d Description) Attributes() (Named, error) {
	x := &descAttributesArgs{desc: d.p}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(d.api, fnDeviceDescriptionAttributes, x); err != nil {
		return nil, err
	}
	return decodeNamed(x.attr, x.n), nil
}

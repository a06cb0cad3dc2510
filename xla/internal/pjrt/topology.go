package pjrt

import (
	"runtime"
	"structs"
	"unsafe"
)

// Topology is a PJRT_TopologyDescription: devices that need not exist.
type Topology struct {
	api *API
	p   unsafe.Pointer
}

type topologyCreateArgs struct {
	_          structs.HostLayout
	size       uintptr
	ext        unsafe.Pointer
	name       unsafe.Pointer
	nameSize   uintptr
	options    unsafe.Pointer
	numOptions uintptr
	topology   unsafe.Pointer // out
}

type topologyArgs struct { // Destroy
	_        structs.HostLayout
	size     uintptr
	ext      unsafe.Pointer
	topology unsafe.Pointer
}

type topologyListArgs struct { // PlatformName, PlatformVersion, GetDeviceDescriptions
	_ structs.HostLayout
	topologyArgs
	data unsafe.Pointer // out
	n    uintptr        // out
}

type compileArgs struct { // PJRT_Compile_Args
	_           structs.HostLayout
	size        uintptr
	ext         unsafe.Pointer
	topology    unsafe.Pointer
	program     unsafe.Pointer
	options     unsafe.Pointer
	optionsSize uintptr
	client      unsafe.Pointer
	executable  unsafe.Pointer // out
}

// NewTopology describes devices by name.
func (a *API) NewTopology(name string, options Named) (*Topology, error) {
	var p runtime.Pinner
	defer p.Unpin()
	opts, err := options.encode(&p)
	if err != nil {
		return nil, err
	}
	x := &topologyCreateArgs{name: pin(&p, stringData(name)), nameSize: uintptr(len(name)), options: pin(&p, dataOf(opts)), numOptions: uintptr(len(opts))}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(a, fnTopologyDescriptionCreate, x); err != nil {
		return nil, err
	}
	return &Topology{a, x.topology}, nil
}

// Destroy frees the description.
func (t *Topology) Destroy() {
	x := &topologyArgs{topology: t.p}
	x.size = unsafe.Sizeof(*x)
	_ = invoke(t.api, fnTopologyDescriptionDestroy, x)
}

// askList calls a function that returns an array about the topology: the devices, or
// the bytes of a text.
func (t *Topology) askList(f fn) (*topologyListArgs, error) {
	x := &topologyListArgs{topologyArgs: topologyArgs{topology: t.p}}
	x.size = unsafe.Sizeof(*x)
	return x, invoke(t.api, f, x)
}

// PlatformVersion is the compiler's own words.
func (t *Topology) PlatformVersion() (string, error) {
	x, err := t.askList(fnTopologyDescriptionPlatformVersion)
	return copyText(x.data, x.n), err
}

// Devices describes each device.
func (t *Topology) Devices() ([]Description, error) {
	x, err := t.askList(fnTopologyDescriptionGetDeviceDescriptions)
	if err != nil {
		return nil, err
	}
	var out []Description
	for _, p := range copyPointers(x.data, x.n) {
		out = append(out, Description{t.api, p})
	}
	return out, nil
}

// Compile compiles for the topology, with no client and no device.
func (t *Topology) Compile(code, options []byte) (*Executable, error) {
	var p runtime.Pinner
	defer p.Unpin()
	x := &compileArgs{topology: t.p, program: unsafe.Pointer(newProgram(&p, code)), options: pin(&p, dataOf(options)), optionsSize: uintptr(len(options))}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(t.api, fnCompile, x); err != nil {
		return nil, err
	}
	runtime.KeepAlive(code)
	runtime.KeepAlive(options)
	return &Executable{t.api, x.executable}, nil
}

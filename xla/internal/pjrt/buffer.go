package pjrt

import (
	"runtime"
	"structs"
	"unsafe"
)

// Semantics say how long a plugin may look at host memory it was given.
type Semantics int32

// The PJRT_HostBufferSemantics that weft uses.
const (
	OnlyDuringCall         Semantics = 0
	UntilTransferCompletes Semantics = 1
	ImmutableZeroCopy      Semantics = 2
)

// Buffer is a PJRT_Buffer.
type Buffer struct {
	api *API
	p   unsafe.Pointer
}

type fromHostArgs struct { // PJRT_Client_BufferFromHostBuffer_Args
	_          structs.HostLayout
	size       uintptr
	ext        unsafe.Pointer
	client     unsafe.Pointer
	data       unsafe.Pointer
	kind       int32
	_          int32
	dims       unsafe.Pointer
	numDims    uintptr
	strides    unsafe.Pointer
	numStrides uintptr
	semantics  int32
	_          int32
	device     unsafe.Pointer
	memory     unsafe.Pointer
	layout     unsafe.Pointer
	done       unsafe.Pointer // out
	buffer     unsafe.Pointer // out
}

// FromHost makes a buffer of host memory. The event says when the plugin is done with data.
func (c *Client) FromHost(data unsafe.Pointer, kind int32, dims []int64, d Device, s Semantics) (*Buffer, *Event, error) {
	var p runtime.Pinner
	defer p.Unpin()
	x := &fromHostArgs{client: c.p, data: data, kind: kind, dims: pin(&p, dataOf(dims)), numDims: uintptr(len(dims)),
		semantics: int32(s), device: d.p}
	x.size = unsafe.Sizeof(*x)
	if err := invoke(c.api, fnClientBufferFromHostBuffer, x); err != nil {
		return nil, nil, err
	}
	runtime.KeepAlive(dims)
	return &Buffer{c.api, x.buffer}, c.api.wrapEvent(x.done), nil
}

type bufferArgs struct { // PJRT_Buffer_Destroy_Args, _Delete_Args
	_      structs.HostLayout
	size   uintptr
	ext    unsafe.Pointer
	buffer unsafe.Pointer
}

type bufferSizeArgs struct { // OnDeviceSizeInBytes
	_ structs.HostLayout
	bufferArgs
	n uintptr // out
}

type bufferPointerArgs struct { // PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args
	_ structs.HostLayout
	bufferArgs
	ptr uintptr // out
}

// Destroy frees the buffer and the object.
func (b *Buffer) Destroy() error {
	x := &bufferArgs{buffer: b.p}
	x.size = unsafe.Sizeof(*x)
	return invoke(b.api, fnBufferDestroy, x)
}

// Size is the bytes held on the device.
func (b *Buffer) Size() (int64, error) {
	x := &bufferSizeArgs{bufferArgs: bufferArgs{buffer: b.p}}
	x.size = unsafe.Sizeof(*x)
	err := invoke(b.api, fnBufferOnDeviceSizeInBytes, x)
	return int64(x.n), err
}

// Address returns the address of the data on the device, which is only good for comparing.
func (b *Buffer) Address() (uintptr, error) {
	x := &bufferPointerArgs{bufferArgs: bufferArgs{buffer: b.p}}
	x.size = unsafe.Sizeof(*x)
	err := invoke(b.api, fnBufferOpaqueDeviceMemoryDataPointer, x)
	return x.ptr, err
}

// layout is PJRT_Buffer_MemoryLayout holding its tiled form.
type layout struct {
	_            structs.HostLayout
	size         uintptr
	ext          unsafe.Pointer
	tiledSize    uintptr
	tiledExt     unsafe.Pointer
	minorToMajor unsafe.Pointer
	numDims      uintptr
	tileDims     unsafe.Pointer
	tileSizes    unsafe.Pointer
	numTiles     uintptr
	kind         int32 // 0 is tiled
}

type toHostArgs struct {
	_       structs.HostLayout
	size    uintptr
	ext     unsafe.Pointer
	src     unsafe.Pointer
	layout  unsafe.Pointer
	dst     unsafe.Pointer
	dstSize uintptr
	event   unsafe.Pointer // out
}

// ToHost starts a copy into dst, row-major whatever the device keeps, and
// returns the event of its end. The caller keeps dst alive and pinned until then.
func (b *Buffer) ToHost(dst []byte, rank int) (*Event, error) {
	var p runtime.Pinner
	defer p.Unpin()
	x := &toHostArgs{src: b.p, dst: dataOf(dst), dstSize: uintptr(len(dst))}
	x.size = unsafe.Sizeof(*x)
	order := make([]int64, rank)
	for i := range order {
		order[i] = int64(rank - 1 - i)
	}
	l := &layout{minorToMajor: pin(&p, dataOf(order)), numDims: uintptr(rank)}
	l.size, l.tiledSize = unsafe.Sizeof(*l), unsafe.Offsetof(l.kind)-unsafe.Offsetof(l.tiledSize)
	p.Pin(l)
	x.layout = unsafe.Pointer(l)
	err := invoke(b.api, fnBufferToHostBuffer, x)
	runtime.KeepAlive(order)
	if err != nil {
		return nil, err
	}
	return b.api.wrapEvent(x.event), nil
}

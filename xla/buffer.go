package xla

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"weft/dtype"
	"weft/fault"
	"weft/tensor"
	"weft/xla/internal/pjrt"
)

// Alignment is the alignment at which a CPU plugin uses host memory in place. At any
// smaller alignment (tried: 4, 8, 16, 32) it makes a copy without saying so.
const Alignment = 64

// AlignedBytes returns n zeroed bytes that a CPU plugin uses without copying them.
func AlignedBytes(n int) []byte {
	b := make([]byte, n+Alignment-1)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (Alignment - 1))
	return b[off : off+n : off+n]
}

// isAligned reports whether a CPU plugin would use b in place.
func isAligned(b []byte) bool {
	return len(b) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Alignment == 0
}

// kinds maps element types to PJRT_Buffer_Type.
var kinds = map[dtype.DType]int32{
	dtype.Bool: 1, dtype.I8: 2, dtype.I16: 3, dtype.I32: 4, dtype.I64: 5,
	dtype.U8: 6, dtype.U16: 7, dtype.U32: 8, dtype.U64: 9,
	dtype.F16: 10, dtype.F32: 11, dtype.F64: 12, dtype.BF16: 13, dtype.F8E5M2: 16, dtype.F8E4M3: 17,
}

// Buffer is an array on one device.
type Buffer struct {
	client *Client
	raw    *pjrt.Buffer
	dtype  dtype.DType
	shape  []int
	device int
	made   *Event // the call that computes it; nil for one that came from the host

	mu    sync.Mutex
	state bufferState
	uses  int // calls into the plugin that are looking at raw
}

type bufferState uint8

const (
	live bufferState = iota
	donated
	destroyed
)

func (s bufferState) String() string { return [...]string{"live", "donated", "destroyed"}[s] }

// FromHost puts data on a device. Where data is aligned to Alignment a CPU
// plugin uses it in place, for as long as the buffer lives; else it is copied.
// Either way data must not change until release is called, which happens once,
// from another goroutine, and not at all when FromHost fails. release may be nil.
func (c *Client) FromHost(data []byte, d dtype.DType, shape []int, device int, release func()) (*Buffer, error) {
	s := pjrt.UntilTransferCompletes
	if isAligned(data) {
		s = pjrt.ImmutableZeroCopy
	}
	return c.fromHost(data, d, shape, device, s, release)
}

// Put copies data to a device before it returns.
func (c *Client) Put(data []byte, d dtype.DType, shape []int, device int) (*Buffer, error) {
	return c.fromHost(data, d, shape, device, pjrt.OnlyDuringCall, nil)
}

func (c *Client) fromHost(data []byte, d dtype.DType, shape []int, device int, s pjrt.Semantics, release func()) (*Buffer, error) {
	if err := c.enterPlugin(); err != nil {
		return nil, err
	}
	defer c.leavePlugin()
	dev, err := c.deviceByID(device)
	if err != nil {
		return nil, err
	}
	kind, ok := kinds[d]
	if !ok {
		return nil, fault.New(ErrArgument, Argument{Device: device, Arg: -1, Check: "dtype", Have: d.String()}, "element type %v cannot be put on a device", d)
	}
	n, ok := bytesOf(d, shape)
	if !ok || n != len(data) {
		return nil, fault.New(ErrArgument, Argument{Device: device, Arg: -1, Check: "bytes", Want: fmt.Sprint(n), Have: fmt.Sprint(len(data))},
			"%v%v needs %d bytes, %d given", d, shape, n, len(data))
	}
	dims := make([]int64, len(shape))
	for i, v := range shape {
		dims[i] = int64(v)
	}
	ptr := unsafe.Pointer(unsafe.SliceData(data))
	if len(data) == 0 {
		ptr = unsafe.Pointer(&empty) // a plugin may want an address even for nothing
	}
	pinner := new(runtime.Pinner)
	pinner.Pin(ptr)
	raw, done, err := c.raw.FromHost(ptr, kind, dims, dev.raw, s)
	if err != nil {
		pinner.Unpin()
		return nil, pluginError(ErrPlugin, "from host", err)
	}
	// The memory is held by the closure below, and pinned, until PJRT is done.
	// A callback rather than a waiting thread: a weight taken in place is in use
	// as long as the model, and there are hundreds.
	finish := func(error) {
		pinner.Unpin()
		runtime.KeepAlive(data)
		if release != nil {
			go release() // user code does not run on a thread of XLA's
		}
	}
	if done == nil {
		finish(nil)
	} else {
		if err := done.OnReady(finish); err != nil {
			// Without a notice, wait for it: correct, if slow.
			go func() { _ = done.Await(); finish(nil); done.Destroy() }()
		} else {
			done.Destroy() // safe before it is ready; the callback stays
		}
	}
	return c.trackBuffer(&Buffer{client: c, raw: raw, dtype: d, shape: slices.Clone(shape), device: device}), nil
}

var empty [Alignment]byte

// bytesOf returns the size of a tensor in bytes, or false when a dim is negative or the
// size overflows an int.
func bytesOf(d dtype.DType, shape []int) (int, bool) {
	n := d.Size()
	for _, s := range shape {
		if s < 0 || (s > 0 && n > int(^uint(0)>>1)/s) {
			return 0, false
		}
		n *= s
	}
	return n, true
}

// trackBuffer registers a buffer, so that Close frees it.
func (c *Client) trackBuffer(b *Buffer) *Buffer {
	c.mu.Lock()
	c.buffers[b] = struct{}{}
	c.mu.Unlock()
	return b
}

// DType is the element type.
func (b *Buffer) DType() dtype.DType { return b.dtype }

// Shape is the array's shape; the caller does not write to it.
func (b *Buffer) Shape() []int { return b.shape }

// Device is the id of the device.
func (b *Buffer) Device() int { return b.device }

// Bytes is the size of the array on a host.
func (b *Buffer) Bytes() int { n, _ := bytesOf(b.dtype, b.shape); return n }

// Done is the call that computes the buffer; nil when it came from the host.
func (b *Buffer) Done() *Event { return b.made }

// addUse keeps raw from being freed until endUse is called. It fails if the buffer is
// donated or destroyed.
func (b *Buffer) addUse() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != live {
		return fault.New(ErrClosed, nil, "the buffer %v%v on device %d is %v", b.dtype, b.shape, b.device, b.state)
	}
	b.uses++
	return nil
}

// endUse ends a use that addUse began, and frees raw if the buffer has ended meanwhile.
func (b *Buffer) endUse() {
	b.mu.Lock()
	b.uses--
	free := b.uses == 0 && b.state != live
	b.mu.Unlock()
	if free {
		_ = b.raw.Destroy()
	}
}

// endAs moves the buffer into a final state, donated or destroyed, and frees raw once
// nothing uses it.
func (b *Buffer) endAs(s bufferState) {
	b.mu.Lock()
	if b.state != live {
		b.mu.Unlock()
		return
	}
	b.state = s
	free := b.uses == 0
	b.mu.Unlock()
	b.client.mu.Lock()
	delete(b.client.buffers, b)
	b.client.mu.Unlock()
	if free {
		_ = b.raw.Destroy() // safe while a call reads it: PJRT counts its uses
	}
}

// Destroy frees the buffer. A call that is running keeps what it needs. Calling
// it again, or on a donated buffer, does nothing.
func (b *Buffer) Destroy() { b.endAs(destroyed) }

// Donated reports whether a call has taken the buffer's memory over.
func (b *Buffer) Donated() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == donated
}

// ToHost waits for the buffer's value and copies it, row-major, into dst, which
// must have exactly its size.
func (b *Buffer) ToHost(ctx context.Context, dst []byte) error {
	if n := b.Bytes(); len(dst) != n {
		return fault.New(ErrArgument, Argument{Device: b.device, Arg: -1, Check: "bytes", Want: fmt.Sprint(n), Have: fmt.Sprint(len(dst))},
			"the buffer %v%v has %d bytes, the destination %d", b.dtype, b.shape, n, len(dst))
	}
	if b.made != nil { // so that the copy below never waits for a device
		if err := b.made.Wait(ctx); err != nil {
			return err
		}
	}
	if err := b.client.enterPlugin(); err != nil {
		return err
	}
	defer b.client.leavePlugin()
	if err := b.addUse(); err != nil {
		return err
	}
	defer b.endUse()
	if len(dst) == 0 {
		return nil
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(unsafe.SliceData(dst))
	ev, err := b.raw.ToHost(dst, len(b.shape))
	if err == nil && ev != nil {
		err = ev.Await()
		ev.Destroy()
	}
	runtime.KeepAlive(dst)
	if err != nil {
		return pluginError(ErrPlugin, "to host", err)
	}
	return nil
}

// Tensor is ToHost into new memory.
func (b *Buffer) Tensor(ctx context.Context) (*tensor.Tensor, error) {
	t := tensor.New(b.dtype, b.shape...)
	return t, b.ToHost(ctx, t.Data)
}

// DeviceBytes returns the bytes that the buffer takes on its device.
func (b *Buffer) DeviceBytes() (int64, error) {
	if err := b.addUse(); err != nil {
		return 0, err
	}
	defer b.endUse()
	n, err := b.raw.Size()
	if err != nil {
		return 0, pluginError(ErrPlugin, "buffer size", err)
	}
	return n, nil
}

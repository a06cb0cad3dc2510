package xla

import (
	"bytes"
	"errors"
	"testing"
	"time"
	"unsafe"

	"weft/dtype"
	"weft/fault"
)

// TestZeroCopy: memory aligned to 64 is used in place until the buffer goes;
// any other is copied, and given back as soon as it has been.
func TestZeroCopy(t *testing.T) {
	c := newClient(t, 1)
	block := AlignedBytes(4096 + 64)
	for off, inPlace := range map[int]bool{0: true, 64: true, 4: false, 8: false, 16: false, 32: false} {
		data := block[off : off+4096]
		released := make(chan struct{})
		b, err := c.FromHost(data, dtype.F32, []int{1024}, 0, func() { close(released) })
		if err != nil {
			t.Fatal(err)
		}
		at, err := b.deviceAddress()
		if err != nil {
			t.Fatal(err)
		}
		if same := at == uintptr(unsafe.Pointer(&data[0])); same != inPlace {
			t.Errorf("offset %d: in place %v, want %v", off, same, inPlace)
		}
		if inPlace {
			select {
			case <-released:
				t.Errorf("offset %d: released while the buffer uses it", off)
			case <-time.After(20 * time.Millisecond):
			}
			b.Destroy()
		}
		wait(t, released, "release")
		b.Destroy()
	}
}

// TestZeroCopyInUse: memory of a buffer that was destroyed stays until the call that reads it ends.
func TestZeroCopyInUse(t *testing.T) {
	c := newClient(t, 1)
	x := compile(t, c, slowProgram(1), CompileOptions{})
	released := make(chan struct{})
	b, err := c.FromHost(f32s(1), dtype.F32, []int{1}, 0, func() { close(released) })
	if err != nil {
		t.Fatal(err)
	}
	_, done, err := x.Execute(t.Context(), [][]*Buffer{{b}})
	if err != nil {
		t.Fatal(err)
	}
	b.Destroy()
	if err := done.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, released, "release")
}

func TestRoundTrip(t *testing.T) {
	c := newClient(t, 2)
	for d := range kinds {
		for _, shape := range [][]int{{}, {0}, {1}, {3}, {2, 3}, {2, 0, 3}, {2, 3, 4}, {1, 2, 3, 4, 5}} {
			n, _ := bytesOf(d, shape)
			data := make([]byte, n)
			for i := range data {
				if data[i] = byte(i*7 + 1); d == dtype.Bool {
					data[i] &= 1
				}
			}
			b, err := c.FromHost(data, d, shape, 1, nil)
			if err != nil {
				t.Fatalf("%v%v: %v", d, shape, err)
			}
			got, err := b.Tensor(t.Context())
			if err != nil || !bytes.Equal(got.Data, data) {
				t.Errorf("%v%v: %v, want %v (%v)", d, shape, got.Data, data, err)
			}
			if size, err := b.DeviceBytes(); err != nil || size < int64(n) {
				t.Errorf("%v%v: %d bytes on the device, %d on the host (%v)", d, shape, size, n, err)
			}
			b.Destroy()
		}
	}
}

func TestBufferErrors(t *testing.T) {
	c := newClient(t, 2)
	for _, k := range []struct {
		data   int
		d      dtype.DType
		shape  []int
		device int
		check  string
	}{
		{7, dtype.F32, []int{2}, 0, "bytes"},
		{8, dtype.F32, []int{2}, 2, "device"},
		{8, dtype.F32, []int{2}, -1, "device"},
		{0, dtype.Invalid, []int{2}, 0, "dtype"},
		{8, dtype.F32, []int{-2}, 0, "bytes"},
		{8, dtype.F32, []int{1 << 62, 8}, 0, "bytes"},
	} {
		_, err := c.FromHost(make([]byte, k.data), k.d, k.shape, k.device, func() { t.Error("released what was not taken") })
		if f, _ := fault.Fields[Argument](err); !errors.Is(err, ErrArgument) || f.Check != k.check {
			t.Errorf("%+v: %v", k, err)
		}
	}
	b := put(t, c, []int{0}, []int{4}, value)[0][0]
	if err := b.ToHost(t.Context(), make([]byte, 15)); !errors.Is(err, ErrArgument) {
		t.Errorf("a destination that is too small: %v", err)
	}
	b.Destroy()
	b.Destroy()
	if err := b.ToHost(t.Context(), make([]byte, 16)); !errors.Is(err, ErrClosed) {
		t.Errorf("a destroyed buffer: %v", err)
	}
}

// deviceAddress returns where the data lies on the device, which tells what is copied and
// what is not.
func (b *Buffer) deviceAddress() (uintptr, error) {
	if err := b.addUse(); err != nil {
		return 0, err
	}
	defer b.endUse()
	return b.raw.Address()
}

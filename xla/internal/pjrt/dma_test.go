//go:build (linux || darwin) && (amd64 || arm64) && !weft_noxla

package pjrt

import (
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A plugin of no device says which memory it is asked for. Weights that are streamed to a device
// come from host memory that DmaMap has pinned, what JAX calls pinned_host, and go to the device's
// own memory: no PJRT_Memory is named, so that it is the device's default one, and the plugin may
// read the host's memory until its event is ready, without a copy of its own first.
func TestTransfersFromPinnedMemory(t *testing.T) {
	var pinned, put, unpinned []uintptr // addresses
	var bytes uintptr
	var asked fromHostArgs
	type table struct {
		header
		slots [fnCount]uintptr
	}
	tab := &table{}
	tab.size = unsafe.Sizeof(*tab)
	tab.slots[fnClientDmaMap] = purego.NewCallback(func(a *dmaMapArgs) uintptr {
		pinned, bytes = append(pinned, uintptr(a.data)), a.bytes
		return 0
	})
	tab.slots[fnClientDmaUnmap] = purego.NewCallback(func(a *dmaUnmapArgs) uintptr {
		unpinned = append(unpinned, uintptr(a.data))
		return 0
	})
	tab.slots[fnClientBufferFromHostBuffer] = purego.NewCallback(func(a *fromHostArgs) uintptr {
		asked = *a
		put = append(put, uintptr(a.data))
		return 0
	})
	api := FromTable(unsafe.Pointer(tab), "device.so")
	c, d := &Client{api: api}, Device{api: api, p: unsafe.Pointer(new(int))}
	if !api.HasDMA() {
		t.Fatal("a table with DmaMap and DmaUnmap")
	}
	slot := make([]byte, 1<<16)
	if err := c.DmaMap(slot); err != nil {
		t.Fatal(err)
	}
	const weight = 4096 // where the weight begins in the slot
	if _, _, err := c.FromHost(unsafe.Pointer(&slot[weight]), 11, []int64{4, 8}, d, UntilTransferCompletes); err != nil {
		t.Fatal(err)
	}
	if err := c.DmaUnmap(slot); err != nil {
		t.Fatal(err)
	}
	at := uintptr(unsafe.Pointer(&slot[0]))
	if len(pinned) != 1 || pinned[0] != at || bytes != uintptr(len(slot)) || len(unpinned) != 1 || unpinned[0] != at {
		t.Errorf("%d bytes at %x were pinned, unpinned %x; the slot is %d at %x", bytes, pinned, unpinned, len(slot), at)
	}
	if len(put) != 1 || put[0] != at+weight || asked.memory != nil || asked.device != d.p || Semantics(asked.semantics) != UntilTransferCompletes {
		t.Errorf("put from %x: %+v", put, asked)
	}
	tab.slots[fnClientDmaUnmap] = 0
	if api.HasDMA() {
		t.Error("a table without DmaUnmap")
	}
}

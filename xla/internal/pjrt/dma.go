package pjrt

import (
	"structs"
	"unsafe"
)

type dmaMapArgs struct { // PJRT_Client_DmaMap_Args
	_      structs.HostLayout
	size   uintptr
	ext    unsafe.Pointer
	client unsafe.Pointer
	data   unsafe.Pointer
	bytes  uintptr
}

type dmaUnmapArgs struct { // PJRT_Client_DmaUnmap_Args
	_      structs.HostLayout
	size   uintptr
	ext    unsafe.Pointer
	client unsafe.Pointer
	data   unsafe.Pointer
}

// HasDMA reports whether the plugin has DmaMap and DmaUnmap; 0.81's table ends before them.
func (a *API) HasDMA() bool {
	return a.functionAddress(fnClientDmaMap) != 0 && a.functionAddress(fnClientDmaUnmap) != 0
}

// DmaMap pins host memory, which must lie outside the collector's heap, for transfers to devices.
func (c *Client) DmaMap(data []byte) error {
	x := &dmaMapArgs{client: c.p, data: unsafe.Pointer(unsafe.SliceData(data)), bytes: uintptr(len(data))}
	x.size = unsafe.Sizeof(*x)
	return invoke(c.api, fnClientDmaMap, x)
}

// DmaUnmap ends DmaMap.
func (c *Client) DmaUnmap(data []byte) error {
	x := &dmaUnmapArgs{client: c.p, data: unsafe.Pointer(unsafe.SliceData(data))}
	x.size = unsafe.Sizeof(*x)
	return invoke(c.api, fnClientDmaUnmap, x)
}

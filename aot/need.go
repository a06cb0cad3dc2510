package aot

import (
	"weft/plan"
	"weft/topology"
)

// Need compares the bytes that a device must hold with the memory that it has. A figure
// that is not known is nil, and null in JSON.
type Need struct {
	HBMBytesPerDevice *int64                `json:"hbm_bytes_per_device"`
	HBMLimitBytes     *int64                `json:"hbm_limit_bytes"` // DeviceMemory's usable part
	DeviceMemory      topology.DeviceMemory `json:"device_memory"`
	OverBytes         *int64                `json:"over_bytes"`
	Fits              plan.Fit              `json:"fits"`
}

// Bytes are HBMBytesPerDevice, 0 where they are not known.
func (n Need) Bytes() int64 {
	if n.HBMBytesPerDevice == nil {
		return 0
	}
	return *n.HBMBytesPerDevice
}

// unknownNeed is the note on a compiler whose memory statistics are all 0.
const unknownNeed = "the compiler gives no memory statistics: what a device holds is unknown, and so is whether it fits"

// judgeFit compares the bytes that are needed, nil where they are not known, with a
// device's memory. The notes say which of the two is not known.
func (n *Need) judgeFit(bytes *int64, has topology.DeviceMemory) (notes []string) {
	*n = Need{HBMBytesPerDevice: bytes, HBMLimitBytes: has.UsableBytes, DeviceMemory: has}
	if bytes == nil {
		notes = append(notes, unknownNeed)
	} else {
		n.Fits, n.OverBytes = plan.Judge(*bytes, n.HBMLimitBytes)
	}
	if n.HBMLimitBytes == nil {
		notes = append(notes, plan.UnknownMemory)
	}
	return notes
}

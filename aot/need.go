package aot

import (
	"weft/plan"
	"weft/topology"
)

// Need is what a device must hold, beside what it has. A figure that is not known is nil,
// and null in JSON.
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

// judgeFit holds what is needed, nil where it is not known, against a device's memory. The
// notes say what is not known.
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

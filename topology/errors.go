package topology

import "weft/fault"

// Kinds of errors. Each has a struct of fields of the same name without Err, unless it says otherwise.
var (
	// ErrUnknownSlice: no hardware has the name, or its shape.
	ErrUnknownSlice = fault.NewKind("unknown-slice")
	// ErrHosts: a slice cannot be made of that number of hosts.
	ErrHosts = fault.NewKind("slice-hosts")
	// ErrAxisBytes: the bytes of an axis are malformed. It has no fields.
	ErrAxisBytes = fault.NewKind("axis-bytes")
	// ErrData: weft's own data lacks a figure, or has one that cannot be.
	ErrData = fault.NewKind("topology-data")
)

// UnknownSlice are the fields of ErrUnknownSlice.
type UnknownSlice struct {
	Name    string   `json:"name"`
	Nearest []string `json:"nearest"` // right names, best first
}

// Hosts are the fields of ErrHosts.
type Hosts struct {
	Slice string `json:"slice"`
	Hosts int    `json:"hosts"`
	Known []int  `json:"known"`
}

// Data are the fields of ErrData.
type Data struct {
	File string `json:"file"`
	Key  string `json:"key"` // "generations[v4].cubes.most"; "" where the file is no such JSON
}

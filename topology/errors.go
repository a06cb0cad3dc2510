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

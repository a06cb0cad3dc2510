package mesh

import "weft/fault"

// Kinds of errors. Each has a struct of fields of the same name without Err.
var (
	// ErrDeviceCount: the axis sizes multiply to another number than the devices given.
	ErrDeviceCount = fault.NewKind("device-count")
	// ErrDuplicateAxisName: two axes of one mesh have one name.
	ErrDuplicateAxisName = fault.NewKind("duplicate-axis-name")
	// ErrAxisSize: an axis has a size below 1, or sizes whose product overflows.
	ErrAxisSize = fault.NewKind("axis-size")
	// ErrMeshSyntax: a mesh text, or an axis name, is malformed.
	ErrMeshSyntax = fault.NewKind("mesh-syntax")
	// ErrDuplicateDevice: a device id occurs at two positions.
	ErrDuplicateDevice = fault.NewKind("duplicate-device")
	// ErrUnknownAxis: an axis is named that the mesh does not have.
	ErrUnknownAxis = fault.NewKind("unknown-axis")
	// ErrAxisIndex: a coordinate lies outside its axis.
	ErrAxisIndex = fault.NewKind("axis-index")
)

// DeviceCount are the fields of ErrDeviceCount.
type DeviceCount struct {
	Need int `json:"need"` // product of the axis sizes
	Have int `json:"have"` // devices given
}

// DuplicateAxisName are the fields of ErrDuplicateAxisName.
type DuplicateAxisName struct {
	Axis  string `json:"axis"`
	Sizes []int  `json:"sizes"` // of every axis with that name, in order
}

// AxisSize are the fields of ErrAxisSize.
type AxisSize struct {
	Axis string `json:"axis"`
	Size int    `json:"size"`
}

// MeshSyntax are the fields of ErrMeshSyntax.
type MeshSyntax struct {
	Text string `json:"text"` // the whole mesh
	Part string `json:"part"` // the part that is malformed
}

// DuplicateDevice are the fields of ErrDuplicateDevice.
type DuplicateDevice struct {
	Device    int   `json:"device"`    // device id
	Positions []int `json:"positions"` // where it occurs
}

// UnknownAxis are the fields of ErrUnknownAxis.
type UnknownAxis struct {
	Axis  string   `json:"axis"`
	Known []string `json:"known"`
}

// AxisIndex are the fields of ErrAxisIndex.
type AxisIndex struct {
	Axis  string `json:"axis"`
	Index int    `json:"index"`
	Size  int    `json:"size"`
}

package strategy

import (
	"fmt"
	"slices"
	"strings"

	"weft/fault"
	"weft/mesh"
)

// Kinds of errors. Each has a struct of fields of the same name without Err.
// Kinds of mesh and sharding are used where they fit: mesh.ErrUnknownAxis,
// mesh.ErrDeviceCount, mesh.ErrDuplicateAxisName, sharding.ErrUneven,
// sharding.ErrDuplicateAxis (with Conflict as its fields where two strategies
// claim one axis), sharding.ErrHeadsNotDivisible and sharding.ErrKVHeads.
var (
	// ErrDegree: a degree is below 1.
	ErrDegree = fault.NewKind("degree")
	// ErrFill: more than one degree is to be filled, or one still is.
	ErrFill = fault.NewKind("fill")
	// ErrDegreesSyntax: the text of degrees is malformed.
	ErrDegreesSyntax = fault.NewKind("degrees-syntax")
	// ErrNotDivisible: a number of devices, or a size of the workload, does not divide by degrees.
	ErrNotDivisible = fault.NewKind("not-divisible")
	// ErrMismatch: a mesh has other sizes than the degrees.
	ErrMismatch = fault.NewKind("degrees-mismatch")
	// ErrTensor: a tensor's dim names do not fit its shape.
	ErrTensor = fault.NewKind("bad-tensor")
	// ErrNoDim: a rule names a dim that the tensor does not have.
	ErrNoDim = fault.NewKind("no-dim")
	// ErrMinSize: the minimum size of FSDP is negative, or given beside All.
	ErrMinSize = fault.NewKind("min-size")
	// ErrFamily: no tensor-parallel rules are shipped under a name.
	ErrFamily = fault.NewKind("unknown-family")
	// ErrSplit: a number of layers or stages is below 1, or too large.
	ErrSplit = fault.NewKind("bad-split")
	// ErrNoLayers: a model of no layers is to be cut into stages. Its fields are BadSplit.
	ErrNoLayers = fault.NewKind("no-layers")
	// ErrEmptyStage: there are more stages than layers.
	ErrEmptyStage = fault.NewKind("empty-stage")
	// ErrCosts: costs are negative or not finite, or not one for each layer.
	ErrCosts = fault.NewKind("bad-costs")
	// ErrStage: a parameter's name tells no stage.
	ErrStage = fault.NewKind("unknown-stage")
	// ErrSchedule: a schedule of that kind does not exist for these numbers.
	ErrSchedule = fault.NewKind("bad-schedule")
	// ErrOrder: a list of actions waits for something that never comes.
	ErrOrder = fault.NewKind("schedule-order")
)

// Degree are the fields of ErrDegree.
type Degree struct {
	Axis   string `json:"axis"`
	Degree int    `json:"degree"`
}

// FillAxes are the fields of ErrFill.
type FillAxes struct {
	Axes []string `json:"axes"` // that are to be filled
}

// DegreesSyntax are the fields of ErrDegreesSyntax.
type DegreesSyntax struct {
	Text string `json:"text"`
	Part string `json:"part"` // the part that is malformed
}

// NotDivisible are the fields of ErrNotDivisible.
type NotDivisible struct {
	What    string   `json:"what"` // devices, batch, ffn, sequence
	Size    int      `json:"size"`
	Parts   int      `json:"parts"`
	Axes    []string `json:"axes"`    // whose degrees multiply to parts
	Nearest []int    `json:"nearest"` // of devices: parts that divide; else sizes that divide
}

// Mismatch are the fields of ErrMismatch.
type Mismatch struct {
	Axis   string `json:"axis"`
	Mesh   int    `json:"mesh"` // 0: the mesh does not have the axis
	Degree int    `json:"degree"`
}

// TensorDims are the fields of ErrTensor.
type TensorDims struct {
	Tensor string   `json:"tensor"`
	Dims   []string `json:"dims"`
	Shape  []int    `json:"shape"`
}

// NoDim are the fields of ErrNoDim.
type NoDim struct {
	Tensor string   `json:"tensor"`
	Rule   string   `json:"rule"`
	Dim    string   `json:"dim"`
	Dims   []string `json:"dims"` // that the tensor has
}

// Conflict are the fields of sharding.ErrDuplicateAxis when strategies claim one
// axis, or one strategy claims it for two dims of a tensor.
type Conflict struct {
	Tensor     string   `json:"tensor,omitempty"`
	Axis       string   `json:"axis"`
	Strategies []string `json:"strategies"`
	Dims       []int    `json:"dims,omitempty"`
}

// MinSize are the fields of ErrMinSize.
type MinSize struct {
	MinSize int `json:"min_size"`
}

// Family are the fields of ErrFamily.
type Family struct {
	Family string   `json:"family"`
	Known  []string `json:"known"`
}

// BadSplit are the fields of ErrSplit.
type BadSplit struct {
	Layers int `json:"layers"`
	Stages int `json:"stages"`
}

// EmptyStage are the fields of ErrEmptyStage.
type EmptyStage struct {
	Layers int `json:"layers"`
	Stages int `json:"stages"`
	Stage  int `json:"stage"` // the first that would hold no layer
	// Most is the largest number of stages that these layers fill. Legal, where it is
	// given, are the numbers that work beside the rest of what is asked.
	Most  int   `json:"most"`
	Legal []int `json:"legal"`
}

// Choice is pp's sizes.
func (f EmptyStage) Choice() (string, []int) {
	legal := slices.Clone(f.Legal)
	for n := 1; n <= min(f.Most, 64); n++ {
		legal = append(legal, n)
	}
	return mesh.PP, legal
}

// WithLegal are the fields with numbers that work.
func (f EmptyStage) WithLegal(legal []int) fault.Choices {
	f.Legal, f.Most = legal, 0
	return f
}

// Advice names the numbers.
func (f EmptyStage) Advice() string {
	switch {
	case f.Most > 0:
		return fmt.Sprintf("each stage holds at least one, so at most %d stages", f.Most)
	case len(f.Legal) > 0:
		return fmt.Sprintf("each stage holds at least one; the pp that work: %s", strings.Trim(fmt.Sprint(f.Legal), "[]"))
	}
	return "each stage holds at least one"
}

// BadCosts are the fields of ErrCosts.
type BadCosts struct {
	Layers int `json:"layers"`
	Costs  int `json:"costs"` // how many costs of layers were given; 0 for none
}

// UnknownStage are the fields of ErrStage.
type UnknownStage struct {
	Name   string `json:"name"`
	Layers int    `json:"layers"`
}

// BadSchedule are the fields of ErrSchedule.
type BadSchedule struct {
	Kind   Kind `json:"kind"`
	Stages int  `json:"stages"`
	Micro  int  `json:"micro"`
	Chunks int  `json:"chunks"`
	// Nearest are the numbers of microbatches nearest to Micro that an interleaved
	// schedule takes, where that is what is wrong.
	Nearest []int `json:"nearest,omitempty"`
}

// Order are the fields of ErrOrder.
type Order struct {
	Stage  int    `json:"stage"`
	Action string `json:"action"`
}

package sharding

import (
	"fmt"
	"strings"

	"weft/fault"
	"weft/mesh"
)

// Kinds of errors. mesh.ErrUnknownAxis is used for an axis the mesh does not have.
var (
	// ErrDuplicateAxis: an axis occurs twice in one spec.
	ErrDuplicateAxis = fault.NewKind("duplicate-axis")
	// ErrRank: a spec has more dims than its tensor.
	ErrRank = fault.NewKind("spec-rank")
	// ErrUneven: a dim, or a part of a fused dim, does not divide by its number of parts.
	ErrUneven = fault.NewKind("uneven")
	// ErrShape: a shape has a negative size, or more bytes than can be counted.
	ErrShape = fault.NewKind("bad-shape")
	// ErrPosition: a mesh position, or the number of a shard, lies outside its range.
	ErrPosition = fault.NewKind("position-out-of-range")
	// ErrSpecSyntax: the text or JSON of a spec is malformed.
	ErrSpecSyntax = fault.NewKind("spec-syntax")
	// ErrToPartial: a reshard asks for a partial axis that the source does not have.
	ErrToPartial = fault.NewKind("to-partial")
	// ErrNoRule: no rule speaks of a parameter.
	ErrNoRule = fault.NewKind("no-rule")
	// ErrDuplicateParam: two parameters have one name.
	ErrDuplicateParam = fault.NewKind("duplicate-param")
	// ErrFusedLayout: the layout of a fused tensor does not describe it.
	ErrFusedLayout = fault.NewKind("fused-layout")
	// ErrHeadsNotDivisible: the query heads do not divide over the devices that split them.
	ErrHeadsNotDivisible = fault.NewKind("heads-not-divisible")
	// ErrKVHeads: the key and value heads can be neither split nor copied evenly.
	ErrKVHeads = fault.NewKind("kv-heads")
)

// DuplicateAxis are the fields of ErrDuplicateAxis.
type DuplicateAxis struct {
	Tensor  string `json:"tensor,omitempty"`
	Axis    string `json:"axis"`
	Dims    []int  `json:"dims"`    // where it occurs; a dim stands twice when it names the axis twice
	Partial bool   `json:"partial"` // whether it is also a partial axis
}

// Rank are the fields of ErrRank.
type Rank struct {
	Tensor string `json:"tensor,omitempty"`
	Spec   int    `json:"spec"` // dims of the spec
	Rank   int    `json:"rank"` // dims of the tensor
}

// Uneven are the fields of ErrUneven. Sizes are in elements.
type Uneven struct {
	Tensor  string   `json:"tensor,omitempty"`
	Dim     int      `json:"dim"`
	Size    int      `json:"size"`
	Parts   int      `json:"parts"`
	Axes    []string `json:"axes,omitempty"`
	Nearest []int    `json:"nearest"` // the nearest sizes above 0 that divide
}

// Shape are the fields of ErrShape.
type Shape struct {
	Tensor string `json:"tensor,omitempty"`
	Shape  []int  `json:"shape"`
}

// Position are the fields of ErrPosition.
type Position struct {
	Position int `json:"position"`
	Count    int `json:"count"` // legal are 0 to Count-1
}

// SpecSyntax are the fields of ErrSpecSyntax.
type SpecSyntax struct {
	Text string `json:"text"`
	Part string `json:"part"` // the part that is malformed
}

// ToPartial are the fields of ErrToPartial.
type ToPartial struct {
	Axis string `json:"axis"`
	From Spec   `json:"from"`
	To   Spec   `json:"to"`
}

// NoRule are the fields of ErrNoRule.
type NoRule struct {
	Params []string `json:"params"`
}

// DuplicateParam are the fields of ErrDuplicateParam.
type DuplicateParam struct {
	Param string `json:"param"`
}

// FusedLayout are the fields of ErrFusedLayout. Parts are sizes in elements.
type FusedLayout struct {
	Tensor string `json:"tensor,omitempty"`
	Dim    int    `json:"dim"`
	Size   int    `json:"size"`
	Parts  []int  `json:"parts"`
}

// HeadsNotDivisible are the fields of ErrHeadsNotDivisible.
type HeadsNotDivisible struct {
	Heads int `json:"heads"`
	TP    int `json:"tp"`
	SP    int `json:"sp"`
	// Legal are sizes that work of Axis: sp at this tp, else tp at this sp, else tp*sp.
	Legal []int  `json:"legal"`
	Axis  string `json:"axis"`
	// Ring splits the tokens over as many devices without sharing out so many heads:
	// "ulysses=4,ring=2"; "" where nothing does, or the model takes no ring.
	Ring string `json:"ring,omitempty"`
}

// Choice is the axis and its sizes.
func (f HeadsNotDivisible) Choice() (string, []int) { return f.Axis, f.Legal }

// WithLegal are the fields with other sizes.
func (f HeadsNotDivisible) WithLegal(legal []int) fault.Choices {
	f.Legal = legal
	return f
}

// Advice names the sizes.
func (f HeadsNotDivisible) Advice() string {
	at, ring := "", ""
	if f.Ring != "" {
		ring = fmt.Sprintf("; %s splits the tokens over as many devices", f.Ring)
	}
	switch {
	case len(f.Legal) == 0 && f.Heads > 0:
		return strings.TrimPrefix(ring, "; ")
	case f.Axis == mesh.SP:
		at = fmt.Sprintf(" at tp=%d", f.TP)
	case f.Axis == mesh.TP && f.SP > 1:
		at = fmt.Sprintf(" at sp=%d", f.SP)
	}
	return fmt.Sprintf("the %s that work%s: %s%s", f.Axis, at, joinNumbers(f.Legal), ring)
}

// KVHeadsMismatch are the fields of ErrKVHeads.
type KVHeadsMismatch struct {
	Tensor  string `json:"tensor,omitempty"`
	QHeads  int    `json:"q_heads,omitempty"`
	KVHeads int    `json:"kv_heads"`
	Parts   int    `json:"parts"`
	Legal   []int  `json:"legal"` // numbers of parts that work
}

// Choice is the numbers of parts, which are no one axis's size.
func (f KVHeadsMismatch) Choice() (string, []int) { return "devices", f.Legal }

// WithLegal are the fields with other numbers.
func (f KVHeadsMismatch) WithLegal(legal []int) fault.Choices {
	f.Legal = legal
	return f
}

// Advice names the numbers.
func (f KVHeadsMismatch) Advice() string {
	if len(f.Legal) == 0 && f.KVHeads > 0 {
		return ""
	}
	more := ""
	if f.QHeads == 0 {
		more = fmt.Sprintf(", and multiples of %d", f.KVHeads)
	}
	return fmt.Sprintf("numbers of devices that work: %s%s", joinNumbers(f.Legal), more)
}

package models

import (
	"fmt"
	"slices"
	"strings"

	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/strategy"
)

// fsdpMinSize is the fewest elements that a weight must have to be sharded over the
// fsdp axes. A collective of its own gathers it, which costs a latency however small
// the weight is.
const fsdpMinSize = 1 << 10

// FSDPAxes returns the axes over which a request shards weights at rest.
func FSDPAxes(on *mesh.Mesh, r Request) []string {
	if own := strategy.Axes(strategy.AtRest); len(r.FSDP) == 0 && on.Size(own...) > 1 {
		return own
	}
	return r.FSDP
}

// CheckFSDP reports axes that the mesh does not have, or has twice.
func CheckFSDP(on *mesh.Mesh, r Request) error {
	var l fault.List
	for i, a := range r.FSDP {
		if !on.Has(a) {
			l.Add(unknownFSDPAxis(on, a))
		}
		if slices.Contains(r.FSDP[:i], a) {
			l.Add(fault.New(mesh.ErrDuplicateAxisName, nil, "axis %s is named twice among the fsdp axes", a))
		}
	}
	return l.Err()
}

// unknownFSDPAxis returns the error that a mesh does not have an fsdp axis. It names
// the axes that may be one: all but tp, over which rules shard weights already, and
// pp, which gives each stage its own weights.
func unknownFSDPAxis(on *mesh.Mesh, axis string) error {
	known := slices.DeleteFunc(on.Names(), func(name string) bool {
		return slices.Contains(strategy.Axes(strategy.Heads, strategy.Layers), name)
	})
	return fault.New(mesh.ErrUnknownAxis, mesh.UnknownAxis{Axis: axis, Known: known},
		"fsdp axis %s is not in mesh %s; axes that weights are shared over: %s", axis, on, strings.Join(known, " "))
}

// Share shards weights further over the fsdp axes, for the time in which no program
// uses them. Vectors stay whole, because together they are less than a thousandth of a
// model. notes name each larger weight that could not be sharded, and why.
func Share(on *mesh.Mesh, ws []graph.Weight, axes []string) (notes []string, err error) {
	if on.Size(axes...) == 1 || len(axes) == 0 {
		return nil, nil
	}
	plan := strategy.Plan{strategy.FSDP{Axes: axes, MinSize: fsdpMinSize}}
	for i := range ws {
		w := &ws[i]
		if len(w.Shape) < 2 {
			continue
		}
		shape := slices.Clone(w.Shape)
		if d := w.Layout.Dim; !w.Layout.IsZero() { // shards of stacked matrices would be gathered in another order
			shape[d] = on.Size(append(w.Spec.Dim(d), "")...)
		}
		spec, why, err := plan.Refine(on, strategy.Tensor{Name: w.Name, Shape: shape, Elem: w.DType.Size()}, w.Spec)
		if err != nil {
			return nil, err
		}
		for _, n := range why {
			notes = append(notes, n.Text)
		}
		// A view merges dims of the file's tensor; only the first dim is the same in both.
		if !slices.Equal(w.File[1:], w.Shape[1:]) && !slices.Equal(spec.Dim(1), w.Spec.Dim(1)) {
			notes = append(notes, fmt.Sprintf("fsdp: %s: dim 0 of %v does not divide, and the others are one in the programs; whole over %v", w.Name, w.File, axes))
			continue
		}
		w.Spec = spec.Canonical(on, len(w.Shape))
	}
	return notes, nil
}

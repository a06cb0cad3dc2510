package models

import (
	"slices"

	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/strategy"
)

// fsdpMinSize is the fewest elements a weight must have to be shared out. Its
// share is fetched by a collective of its own, which costs a latency however
// small it is.
const fsdpMinSize = 1 << 10

// FSDPAxes are the axes a request shares weights over on a mesh.
func FSDPAxes(on *mesh.Mesh, r Request) []string {
	if len(r.FSDP) == 0 && on.Size("fsdp") > 1 {
		return []string{"fsdp"}
	}
	return r.FSDP
}

// CheckFSDP reports axes that the mesh does not have, or has twice.
func CheckFSDP(on *mesh.Mesh, r Request) error {
	var l fault.List
	for i, a := range r.FSDP {
		if !on.Has(a) {
			l.Add(on.Unknown(a))
		}
		if slices.Contains(r.FSDP[:i], a) {
			l.Add(fault.New(mesh.ErrDuplicateAxisName, nil, "axis %s is named twice among the fsdp axes", a))
		}
	}
	return l.Err()
}

// Share splits weights further over the fsdp axes: what a device keeps at rest.
// Vectors stay whole: together they are less than a thousandth of a model. notes
// name each larger weight that could not be split, and why.
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
		if !slices.Equal(w.File, w.Shape) { // a view merges dims: only the first is the file's own
			for d := 1; d < len(shape); d++ {
				shape[d] = 1
			}
		}
		spec, why, err := plan.Refine(on, strategy.Tensor{Name: w.Name, Shape: shape, Elem: w.DType.Size()}, w.Spec)
		if err != nil {
			return nil, err
		}
		w.Spec = spec.Canonical(on, len(w.Shape))
		for _, n := range why {
			notes = append(notes, "fsdp: "+n.Text)
		}
	}
	return notes, nil
}

package sharding

import (
	"slices"

	"weft/mesh"
)

// Spec says which axes split which dims of a tensor, and over which axes it is
// partial. It is immutable; the zero value is the spec of a whole scalar, and
// also a whole tensor of any rank, as missing trailing dims are whole.
//
// A Spec by itself knows no mesh and no shape; Check tells whether it is legal
// on one.
type Spec struct {
	// Specs share these lists: none is written to once it is in one.
	dims    [][]string // dims[i]: axes that split dim i, major first; nil when whole
	partial []string   // sorted
}

// NewSpec makes a spec with one list of axes for each dim, major first; nil for
// a dim that is whole: NewSpec([]string{"data"}, nil, []string{"fsdp", "model"}).
func NewSpec(dims ...[]string) Spec {
	s := Spec{dims: make([][]string, len(dims))}
	for i, d := range dims {
		s.dims[i] = cloneAxes(d)
	}
	return s
}

// Whole is the spec of a tensor of some rank that is the same on every device.
func Whole(rank int) Spec { return Spec{dims: make([][]string, max(0, rank))} }

func cloneAxes(axes []string) []string {
	if len(axes) == 0 {
		return nil
	}
	return slices.Clone(axes)
}

// dropAxes gives the axes for which drop is false. It returns the list itself where all
// stay, to save the copy.
func dropAxes(axes []string, drop func(string) bool) []string {
	if !slices.ContainsFunc(axes, drop) {
		return axes
	}
	return cloneAxes(slices.DeleteFunc(slices.Clone(axes), drop))
}

// WithPartial is s, partial over these axes too.
func (s Spec) WithPartial(axes ...string) Spec {
	if len(axes) > 0 {
		s.partial = slices.Concat(s.partial, axes)
		slices.Sort(s.partial)
	}
	return s
}

// WithoutPartial is s, no longer partial over these axes; without arguments, over none at all.
func (s Spec) WithoutPartial(axes ...string) Spec {
	s.partial = dropAxes(s.partial, func(a string) bool { return len(axes) == 0 || slices.Contains(axes, a) })
	return s
}

// WithDim is s with the axes of one dim replaced; without axes the dim becomes
// whole. A dim past the end extends the spec; a negative one counts from the end
// and is ignored before the start.
func (s Spec) WithDim(dim int, axes ...string) Spec {
	if dim < 0 {
		dim += len(s.dims)
	}
	if dim < 0 {
		return s
	}
	dims := make([][]string, max(len(s.dims), dim+1))
	copy(dims, s.dims)
	dims[dim] = cloneAxes(axes)
	s.dims = dims
	return s
}

// Rank is the number of dims the spec speaks of.
func (s Spec) Rank() int { return len(s.dims) }

// Dim gives the axes that split a dim, major first; nil when it is whole or past the end.
func (s Spec) Dim(i int) []string {
	if i < 0 || i >= len(s.dims) {
		return nil
	}
	return cloneAxes(s.dims[i])
}

// DimEqual reports whether dim i of s is split as dim j of t is.
func (s Spec) DimEqual(i int, t Spec, j int) bool { return slices.Equal(s.dim(i), t.dim(j)) }

// Partial gives the axes the tensor is partial over, sorted.
func (s Spec) Partial() []string { return cloneAxes(s.partial) }

// Uses reports whether an axis splits a dim or is partial.
func (s Spec) Uses(axis string) bool {
	return s.DimOf(axis) >= 0 || slices.Contains(s.partial, axis)
}

// DimOf is the first dim that an axis splits, or -1.
func (s Spec) DimOf(axis string) int {
	return slices.IndexFunc(s.dims, func(d []string) bool { return slices.Contains(d, axis) })
}

// IsWhole reports whether no dim is split and nothing is partial.
func (s Spec) IsWhole() bool {
	return len(s.partial) == 0 && !slices.ContainsFunc(s.dims, func(d []string) bool { return len(d) > 0 })
}

// Equal reports whether two specs mean the same for every tensor both fit:
// trailing whole dims do not count, the order of the axes of a dim does.
func (s Spec) Equal(o Spec) bool {
	for i := range max(len(s.dims), len(o.dims)) {
		if !slices.Equal(s.dim(i), o.dim(i)) {
			return false
		}
	}
	return slices.Equal(s.partial, o.partial)
}

// dim is Dim without the copy, for callers that do not change the list.
func (s Spec) dim(i int) []string {
	if i < len(s.dims) {
		return s.dims[i]
	}
	return nil
}

// OnMesh is s without the optional axes (mesh.IsOptional) that a mesh does not have, as it is shown to
// people.
func (s Spec) OnMesh(m *mesh.Mesh) Spec {
	missing := func(axis string) bool { return mesh.IsOptional(axis) && !m.Has(axis) }
	dims := make([][]string, len(s.dims))
	for i, d := range s.dims {
		dims[i] = dropAxes(d, missing)
	}
	s.dims, s.partial = dims, dropAxes(s.partial, missing)
	return s
}

// Canonical is the one form of a spec on a mesh: axes of size 1 left out, and optional ones
// (mesh.IsOptional) that the mesh does not have, padded with whole dims to rank. Other axes that the
// mesh does not have stay, for Check to report, and a spec that is longer than rank keeps its length.
func (s Spec) Canonical(m *mesh.Mesh, rank int) Spec {
	none := func(axis string) bool { return m.Size(axis) == 1 && (m.Has(axis) || mesh.IsOptional(axis)) }
	s.partial = dropAxes(s.partial, none)
	if len(s.dims) >= rank && !slices.ContainsFunc(s.dims, func(d []string) bool { return slices.ContainsFunc(d, none) }) {
		return s
	}
	dims := make([][]string, max(len(s.dims), rank))
	for i, d := range s.dims {
		dims[i] = dropAxes(d, none)
	}
	s.dims = dims
	return s
}

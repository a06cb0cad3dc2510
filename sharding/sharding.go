package sharding

import "weft/mesh"

// Sharding is a spec on a mesh.
type Sharding struct {
	Mesh *mesh.Mesh
	Spec Spec
}

// Replicated is the sharding of tensors that are whole on every device.
func Replicated(m *mesh.Mesh) Sharding { return Sharding{m, Whole(0)} }

// Batch is the sharding of tensors of ndim dims whose dim 0 is the batch: it is
// split over dp and over nothing else. For ndim 0 it is Replicated.
func Batch(m *mesh.Mesh, ndim int) Sharding {
	s := Whole(ndim)
	if ndim > 0 {
		s = s.WithDim(0, mesh.DP)
	}
	return Sharding{m, s}
}

// Local is the local shape of a tensor of shape. Errors are those of Spec.Check.
func (s Sharding) Local(shape []int) ([]int, error) { return s.Spec.Local(s.Mesh, shape) }

// Ranges is Spec.Ranges on the mesh.
func (s Sharding) Ranges(shape []int, pos int) ([]Range, error) {
	return s.Spec.Ranges(s.Mesh, shape, pos)
}

// Holders counts the devices that hold each element: the product of the sizes of the axes
// that the spec does not use.
func (s Sharding) Holders() int {
	n := s.Mesh.NumDevices()
	for _, a := range s.Mesh.Axes() {
		if s.Spec.Uses(a.Name) {
			n /= a.Size
		}
	}
	return n
}

// Equal reports whether two shardings place every tensor alike on equal meshes.
func (s Sharding) Equal(o Sharding) bool {
	if !s.Mesh.Equal(o.Mesh) || s.Mesh == nil {
		return false
	}
	rank := max(s.Spec.Rank(), o.Spec.Rank())
	return s.Spec.Canonical(s.Mesh, rank).Equal(o.Spec.Canonical(s.Mesh, rank))
}

// String gives spec and mesh.
func (s Sharding) String() string { return s.Spec.String() + " on " + s.Mesh.String() }

package sharding

import (
	"math"
	"slices"

	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
)

// Reshard lists the steps that bring a tensor of shape, with elements of
// elemBytes bytes, from one spec to another. Each step's From is the To of the
// one before; the first starts at from and the last ends at to, both canonical.
// Specs that mean the same on m need no step.
//
// The steps are those with the fewest bytes sent by a device, and of those the
// fewest, and of those the fewest hops; only axes whose place changes take part, so that an all-reduce over
// one axis never uses the links of another. Over one axis this gives
//
//	replicated -> split       slice, 0 bytes
//	split(i) -> replicated    all-gather
//	split(i) -> split(j)      all-to-all
//	partial -> replicated     all-reduce
//	partial -> split(i)       reduce-scatter
//
// and over two axes of one size, split over a -> split over b, a permute. With
// very many axes changing at once (see searchLimit) the steps are right but may
// not be the cheapest.
//
// Errors, all that apply joined: those of Spec.Check for both specs, ErrShape for
// an elemBytes below 1 or a tensor of more than 2^62 bytes, and ErrToPartial for an axis that
// is partial in to but not in from: such a tensor would be counted as many times
// as the axis is long.
func Reshard(m *mesh.Mesh, from, to Spec, shape []int, elemBytes int) ([]Move, error) {
	var list fault.List
	for _, s := range []Spec{from, to} {
		list.Add(s.Check(m, shape))
	}
	bytes := tensorBytes(&list, shape, elemBytes)
	from, to = from.Canonical(m, len(shape)), to.Canonical(m, len(shape))
	for _, axis := range to.partial {
		if !slices.Contains(from.partial, axis) {
			list.Add(fault.New(ErrToPartial, ToPartial{axis, from, to},
				"%s cannot become %s: axis %s is partial only in the second, and the sum would count the tensor %d times; leave %s out of the partial axes", from,
				to, axis, m.Size(axis), axis))
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	if from.Equal(to) {
		return nil, nil
	}
	p := newProblem(m, from, to, shape, bytes)
	path := p.findPath()
	steps := make([]Move, len(path))
	for i, e := range path {
		steps[i] = p.moveOf(e)
	}
	return steps, nil
}

// tensorBytes is the size of the whole tensor. The limit leaves room for the
// sums of bytes that a search makes.
func tensorBytes(list *fault.List, shape []int, elemBytes int) int64 {
	if elemBytes < 1 {
		list.Add(fault.New(ErrShape, Shape{Shape: slices.Clone(shape)},
			"elements of %d bytes do not exist; the least is 1", elemBytes))
		return 0
	}
	if slices.Contains(shape, 0) {
		return 0
	}
	const limit = math.MaxInt64 / 2
	n := int64(elemBytes)
	for _, size := range shape {
		if size < 0 {
			return 0 // Check reports it
		}
		if n > limit/int64(size) {
			list.Add(fault.New(ErrShape, Shape{Shape: slices.Clone(shape)},
				"a tensor of shape %s with elements of %d bytes has more than 2^62 bytes", numbers.ShapeText(shape), elemBytes))
			return 0
		}
		n *= int64(size)
	}
	return n
}

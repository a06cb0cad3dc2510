package checkpoint

import (
	"weft/dtype"
	"weft/fault"
)

// Part is one block of one tensor, wanted in one place: a device's shard.
type Part struct {
	Name string
	// Slices gives the half-open range of each dim; nil is the whole tensor.
	Slices [][2]int
	// Runs[d], where not nil, replaces Slices[d] by several ranges of dim d, ascending and
	// disjoint, which follow each other in Dst. A shard of stacked q, k and v needs this:
	// it takes some rows of each of the three.
	Runs [][][2]int
	// As is the dtype of Dst; Invalid stands for the stored dtype.
	As dtype.DType
	// Dst takes the block, row-major, and has exactly its size.
	Dst []byte
	// Add, where set, is added to the elements before they are rounded to As.
	Add Addend
}

// Addend is what is added to a tensor's elements as they are read. Several goroutines may call
// it at once. Parts of one tensor that have the same addend must have the same value in Add, so
// that devices that want the same share one reading.
type Addend interface {
	// AddTo adds to values what belongs to as many elements of the tensor, row-major, from the
	// one with index at on.
	AddTo(values []float32, at int64) error
}

// dimRanges checks the ranges of p and gives those of each dim, nil for a whole dim.
func (p Part) dimRanges(e Entry) ([][][2]int, error) {
	rank := len(e.Shape)
	for _, n := range []int{len(p.Slices), len(p.Runs)} {
		if n != 0 && n != rank {
			return nil, fault.New(ErrSlice, Slice{Tensor: p.Name, Dim: -1, Size: rank},
				"tensor %s has %s; slices were given for %d", p.Name, plural(rank, "dim"), n)
		}
	}
	ranges := make([][][2]int, rank)
	for d := range ranges {
		switch {
		case p.Runs != nil && p.Runs[d] != nil:
			ranges[d] = p.Runs[d]
		case p.Slices != nil:
			ranges[d] = p.Slices[d : d+1]
		}
	}
	return ranges, checkRanges(p.Name, e.Shape, ranges)
}

// LocalShape gives the shape of the block that p asks for.
func (c *Checkpoint) LocalShape(p Part) ([]int, error) {
	e, ok := c.Lookup(p.Name)
	if !ok {
		return nil, noTensor(p.Name)
	}
	ranges, err := p.dimRanges(e)
	if err != nil {
		return nil, err
	}
	return localShape(e.Shape, ranges), nil
}

// localShape gives the shape of a block; nil ranges stand for whole dims.
func localShape(shape []int, ranges [][][2]int) []int {
	local := make([]int, len(shape))
	for d, list := range ranges {
		if list == nil {
			local[d] = shape[d]
		}
		for _, r := range list {
			local[d] += r[1] - r[0]
		}
	}
	return local
}

func noTensor(name string) error {
	return fault.New(ErrMissingTensors, Tensors{[]string{name}}, "no tensor %s in the checkpoint", name)
}

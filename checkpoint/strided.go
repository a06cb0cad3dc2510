package checkpoint

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// strided is the layout of a tensor that is not row-major in its file. A .pth file may
// have such tensors: transposed, cut out of a larger one, or expanded. The layout is
// described by a row-major tensor, the frame, that contains the tensor. The frame's dims
// are in the order of the file. Each is a dim of the tensor or a filler, whose first
// index alone is used. So a shard of the tensor is a selection of the frame, which is
// read like any other.
type strided struct {
	frame  []int
	from   []int // for each dim of the frame, the tensor's dim; -1 for a filler
	repeat []int // dims of stride 0: every index is the same data
}

// newStrided describes the layout that strides give. plain is true for a row-major
// layout, which needs no description. ok is false where elements overlap, or where the
// strides are not multiples of each other.
func newStrided(shape, strides []int) (s *strided, plain, ok bool) {
	s = &strided{}
	var dims []int
	for d, n := range shape {
		switch {
		case n == 0:
			return nil, true, true
		case n == 1:
		case strides[d] == 0:
			s.repeat = append(s.repeat, d)
		default:
			dims = append(dims, d)
		}
	}
	slices.SortStableFunc(dims, func(a, b int) int { return cmp.Compare(strides[b], strides[a]) })
	plain = len(s.repeat) == 0 && slices.IsSorted(dims)
	for i, d := range dims {
		size := shape[d]
		if i > 0 {
			outer := strides[dims[i-1]]
			size = outer / strides[d]
			if outer%strides[d] != 0 || size < shape[d] {
				return nil, false, false
			}
		}
		plain = plain && size == shape[d]
		s.frame, s.from = append(s.frame, size), append(s.from, d)
	}
	if n := len(dims); n > 0 && strides[dims[n-1]] > 1 {
		plain = false
		s.frame, s.from = append(s.frame, strides[dims[n-1]]), append(s.from, -1)
	}
	return s, plain, true
}

// frameRanges turns ranges of the tensor's dims into ranges of the frame's dims.
func (s *strided) frameRanges(shape []int, ranges [][][2]int) [][][2]int {
	out := make([][][2]int, len(s.frame))
	for i, d := range s.from {
		switch {
		case d < 0:
			out[i] = [][2]int{{0, 1}}
		case ranges[d] == nil:
			out[i] = [][2]int{{0, shape[d]}}
		default:
			out[i] = ranges[d]
		}
	}
	return out
}

// scatter puts elements that come in the order of the file into their places in the
// destination. It is nil where both have the same order. Counts and strides are in
// elements of the block.
type scatter struct {
	dims    [][2]int // count and stride of each dim, in the order of the file
	repeats [][2]int // count and stride of each repeated dim
}

// scatterTo makes the scatter for a block of the local shape.
func (s *strided) scatterTo(local []int) *scatter {
	strides := make([]int, len(local))
	for d, n := len(local)-1, 1; d >= 0; d-- {
		strides[d] = n
		n *= local[d]
	}
	p := &scatter{}
	last, ordered := -1, true
	for _, d := range s.from {
		if d < 0 {
			continue
		}
		ordered = ordered && d > last
		last = d
		p.dims = append(p.dims, [2]int{local[d], strides[d]})
	}
	for _, d := range s.repeat {
		if local[d] > 1 {
			p.repeats = append(p.repeats, [2]int{local[d], strides[d]})
		}
	}
	if ordered && len(p.repeats) == 0 {
		return nil
	}
	return p
}

// putElements copies the elements of src into dst. rank is the number of elements of the
// block that come before src in the order of the file, and size is the bytes of one.
func (p *scatter) putElements(dst, src []byte, rank int64, size int) {
	for len(src) > 0 {
		off, run, stride := p.placeOf(rank)
		n := min(run, len(src)/size)
		p.putRepeated(dst, src[:n*size], off, stride, size, p.repeats)
		src, rank = src[n*size:], rank+int64(n)
	}
}

// placeOf gives the place of an element in the destination, and the number of elements
// from it on whose places are stride apart.
func (p *scatter) placeOf(rank int64) (off, run, stride int) {
	run, stride = 1, 1
	for i := len(p.dims) - 1; i >= 0; i-- {
		count := int64(p.dims[i][0])
		k := int(rank % count)
		rank /= count
		off += k * p.dims[i][1]
		if i == len(p.dims)-1 {
			run, stride = int(count)-k, p.dims[i][1]
		}
	}
	return off, run, stride
}

// putRepeated copies a run once for every index of the repeated dims.
func (p *scatter) putRepeated(dst, src []byte, off, stride, size int, repeats [][2]int) {
	if len(repeats) > 0 {
		for i := range repeats[0][0] {
			p.putRepeated(dst, src, off+i*repeats[0][1], stride, size, repeats[1:])
		}
		return
	}
	dst, step := dst[off*size:], stride*size
	le := binary.LittleEndian
	for i := 0; len(src) >= size && len(src) > 0; i += step {
		switch size {
		case 2:
			le.PutUint16(dst[i:], le.Uint16(src))
		case 4:
			le.PutUint32(dst[i:], le.Uint32(src))
		default:
			copy(dst[i:i+size], src)
		}
		src = src[size:]
	}
}

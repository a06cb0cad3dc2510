package interp

import (
	"encoding/binary"
	"math"

	"weft/dtype"
	"weft/tensor"
)

// Array is the part of a value that one device holds, row-major. The slice of its
// element type has the elements. An array that is a value of a program does not change.
type Array struct {
	DType dtype.DType
	Shape []int
	F     []float32 // F32; BF16, F16 and the 8-bit floats, whose values are all float32s
	D     []float64 // F64
	I     []int64   // integers and Bool; a U64 is the int64 of the same bits
}

// NewArray makes an array of zeros.
func NewArray(d dtype.DType, shape ...int) *Array {
	a := &Array{DType: d, Shape: append([]int{}, shape...)}
	n := tensor.Elements(shape)
	switch {
	case d == dtype.F64:
		a.D = make([]float64, n)
	case d.IsFloat():
		a.F = make([]float32, n)
	default:
		a.I = make([]int64, n)
	}
	return a
}

// Len is the number of elements.
func (a *Array) Len() int { return len(a.F) + len(a.D) + len(a.I) }

// Bytes is the size that the array has on a device, not the one that it has here.
func (a *Array) Bytes() int64 { return int64(a.Len()) * int64(a.DType.Size()) }

// At is element i in row-major order, as a float64.
func (a *Array) At(i int) float64 {
	switch {
	case a.D != nil:
		return a.D[i]
	case a.F != nil:
		return float64(a.F[i])
	}
	return intToFloat(a.DType, a.I[i])
}

// Set rounds v to the type and puts it at element i.
func (a *Array) Set(i int, v float64) {
	switch {
	case a.D != nil:
		a.D[i] = v
	case a.F != nil:
		a.F[i] = roundTo(a.DType, v)
	default:
		a.I[i] = floatToInt(a.DType, v)
	}
}

// FromTensor decodes a tensor of host memory.
func FromTensor(t *tensor.Tensor) *Array {
	a := NewArray(t.DType, t.Shape...)
	size, le := t.DType.Size(), binary.LittleEndian
	for i := range a.Len() {
		b := t.Data[i*size:]
		switch t.DType {
		case dtype.F64:
			a.D[i] = math.Float64frombits(le.Uint64(b))
		case dtype.F32:
			a.F[i] = math.Float32frombits(le.Uint32(b))
		case dtype.BF16:
			a.F[i] = math.Float32frombits(uint32(le.Uint16(b)) << 16)
		case dtype.F16:
			a.F[i] = float32(narrowFormats[t.DType].decodeBits(le.Uint16(b)))
		case dtype.F8E4M3, dtype.F8E5M2:
			a.F[i] = float32(narrowFormats[t.DType].decodeBits(uint16(b[0])))
		default:
			a.I[i] = wrapInt(t.DType, littleEndianInt(b[:size]))
		}
	}
	return a
}

func littleEndianInt(b []byte) int64 {
	v := uint64(0)
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	return int64(v)
}

// Tensor encodes the array as a tensor of host memory.
func (a *Array) Tensor() *tensor.Tensor {
	t := tensor.New(a.DType, a.Shape...)
	size, le := a.DType.Size(), binary.LittleEndian
	for i := range a.Len() {
		b := t.Data[i*size:]
		switch a.DType {
		case dtype.F64:
			le.PutUint64(b, math.Float64bits(a.D[i]))
		case dtype.F32:
			le.PutUint32(b, math.Float32bits(a.F[i]))
		case dtype.BF16, dtype.F16:
			le.PutUint16(b, narrowFormats[a.DType].encodeBits(float64(a.F[i])))
		case dtype.F8E4M3, dtype.F8E5M2:
			b[0] = byte(narrowFormats[a.DType].encodeBits(float64(a.F[i])))
		default:
			for k := range size {
				b[k] = byte(a.I[i] >> (8 * k))
			}
		}
	}
	return t
}

// rowMajorStrides is, for each dim, the distance between neighbouring elements.
func rowMajorStrides(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for d := len(shape) - 1; d >= 0; d-- {
		s[d] = n
		n *= shape[d]
	}
	return s
}

// copyStrided copies, for every index of shape, the element at offset + sum of
// index*steps. By the choice of steps that is a slice, a transpose or a broadcast.
func (a *Array) copyStrided(shape, steps []int, offset int) *Array {
	out := NewArray(a.DType, shape...)
	gatherRows(out.F, a.F, shape, steps, offset)
	gatherRows(out.D, a.D, shape, steps, offset)
	gatherRows(out.I, a.I, shape, steps, offset)
	return out
}

func gatherRows[T any](dst, src []T, shape, steps []int, offset int) {
	if len(dst) == 0 {
		return
	}
	visitRows(shape, steps, offset, func(at, from, n, step int) {
		switch step {
		case 1:
			copy(dst[at:at+n], src[from:])
		case 0:
			for i := range n {
				dst[at+i] = src[from]
			}
		default:
			for i := range n {
				dst[at+i] = src[from+i*step]
			}
		}
	})
}

// putAt copies src into a, in place. The first element of src goes to index at.
func (a *Array) putAt(src *Array, at []int) {
	steps := rowMajorStrides(a.Shape)
	offset := 0
	for d, i := range at {
		offset += i * steps[d]
	}
	scatterRows(a.F, src.F, src.Shape, steps, offset)
	scatterRows(a.D, src.D, src.Shape, steps, offset)
	scatterRows(a.I, src.I, src.Shape, steps, offset)
}

func scatterRows[T any](dst, src []T, shape, steps []int, offset int) {
	if len(src) == 0 {
		return
	}
	visitRows(shape, steps, offset, func(from, at, n, _ int) { copy(dst[at:at+n], src[from:from+n]) })
}

// visitRows visits the rows along the last dim of shape. A row starts at packed in
// row-major order and at strided by steps; it has n elements, which are step apart.
func visitRows(shape, steps []int, offset int, visit func(packed, strided, n, step int)) {
	last := len(shape) - 1
	if last < 0 {
		visit(0, offset, 1, 1)
		return
	}
	index := make([]int, last)
	n, packed := shape[last], 0
	for {
		visit(packed, offset, n, steps[last])
		packed += n
		d := last - 1
		for ; d >= 0; d-- {
			index[d]++
			offset += steps[d]
			if index[d] < shape[d] {
				break
			}
			offset -= index[d] * steps[d]
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// transposeDims makes dim i of a's dim perm[i]. It returns a itself when nothing moves.
func (a *Array) transposeDims(perm []int) *Array {
	shape, steps := make([]int, len(perm)), make([]int, len(perm))
	own := rowMajorStrides(a.Shape)
	same := true
	for i, d := range perm {
		shape[i], steps[i] = a.Shape[d], own[d]
		same = same && i == d
	}
	if same {
		return a
	}
	return a.copyStrided(shape, steps, 0)
}

// reshapeTo is a under another shape. It shares the elements.
func (a *Array) reshapeTo(shape []int) *Array {
	out := *a
	out.Shape = append([]int{}, shape...)
	return &out
}

// sliceDim keeps n elements of dim from lo.
func (a *Array) sliceDim(dim, lo, n int) *Array {
	shape := append([]int{}, a.Shape...)
	shape[dim] = n
	steps := rowMajorStrides(a.Shape)
	return a.copyStrided(shape, steps, lo*steps[dim])
}

// takeFrom takes the places of dim that ids lists, under the shape of the result.
func (a *Array) takeFrom(dim int, ids *Array, shape []int) *Array {
	out := NewArray(a.DType, append(append(append([]int{}, a.Shape[:dim]...), len(ids.I)), a.Shape[dim+1:]...)...)
	at := make([]int, len(a.Shape))
	for i, place := range ids.I {
		at[dim] = i
		out.putAt(a.sliceDim(dim, int(min(max(place, 0), int64(a.Shape[dim]-1))), 1), at)
	}
	return out.reshapeTo(shape)
}

// concatArrays joins arrays along dim.
func concatArrays(dim int, parts []*Array) *Array {
	shape := append([]int{}, parts[0].Shape...)
	shape[dim] = 0
	for _, p := range parts {
		shape[dim] += p.Shape[dim]
	}
	out := NewArray(parts[0].DType, shape...)
	at := make([]int, len(shape))
	for _, p := range parts {
		out.putAt(p, at)
		at[dim] += p.Shape[dim]
	}
	return out
}

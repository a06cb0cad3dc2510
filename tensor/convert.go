package tensor

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"

	"weft/dtype"
)

// BF16 rounds to the nearest bfloat16, ties to even. It adds 0x7fff, and one more where the
// last bit that stays is odd, and drops the lower half. A carry runs into the exponent, and
// from the largest number into infinity, as rounding requires. A NaN keeps its sign and
// its upper payload, and becomes quiet.
func BF16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + (u>>16)&1) >> 16)
}

// FromBF16 widens a bfloat16 exactly.
func FromBF16(u uint16) float32 { return math.Float32frombits(uint32(u) << 16) }

// As returns t in another floating-point type, or t itself where it has that type already.
// Narrowing rounds to nearest even.
func (t *Tensor) As(d dtype.DType) (*Tensor, error) {
	if t.DType == d {
		return t, nil
	}
	fs, err := t.Float32s()
	if err != nil {
		return nil, err
	}
	return FromFloat32s(d, fs, t.Shape...)
}

// Float32s returns the elements as f32. It narrows F64; integers are an error.
func (t *Tensor) Float32s() ([]float32, error) {
	n := t.Elements()
	out := make([]float32, n)
	le := binary.LittleEndian
	switch t.DType {
	case dtype.F32:
		for i := range out {
			out[i] = math.Float32frombits(le.Uint32(t.Data[4*i:]))
		}
	case dtype.BF16:
		for i := range out {
			out[i] = FromBF16(le.Uint16(t.Data[2*i:]))
		}
	case dtype.F16:
		for i := range out {
			out[i] = float16.Frombits(le.Uint16(t.Data[2*i:])).Float32()
		}
	case dtype.F64:
		for i := range out {
			out[i] = float32(math.Float64frombits(le.Uint64(t.Data[8*i:])))
		}
	default:
		return nil, fmt.Errorf("%v is not f64, f32, f16 or bf16", t)
	}
	return out, nil
}

// Int64s returns the elements of a tensor of integers or Bool. A U64 above the largest
// int64 comes out negative.
func (t *Tensor) Int64s() ([]int64, error) {
	out := make([]int64, t.Elements())
	le := binary.LittleEndian
	read := map[dtype.DType]func(b []byte) int64{
		dtype.Bool: func(b []byte) int64 { return int64(b[0]) }, dtype.U8: func(b []byte) int64 { return int64(b[0]) },
		dtype.I8:  func(b []byte) int64 { return int64(int8(b[0])) },
		dtype.U16: func(b []byte) int64 { return int64(le.Uint16(b)) }, dtype.I16: func(b []byte) int64 { return int64(int16(le.Uint16(b))) },
		dtype.U32: func(b []byte) int64 { return int64(le.Uint32(b)) }, dtype.I32: func(b []byte) int64 { return int64(int32(le.Uint32(b))) },
		dtype.U64: func(b []byte) int64 { return int64(le.Uint64(b)) }, dtype.I64: func(b []byte) int64 { return int64(le.Uint64(b)) },
	}[t.DType]
	if read == nil {
		return nil, fmt.Errorf("%v is not of integers", t)
	}
	size := t.DType.Size()
	for i := range out {
		out[i] = read(t.Data[i*size:])
	}
	return out, nil
}

// FromFloat32s makes a tensor of type d from f32 elements. A number of elements that is not
// the shape's, and a type that is not floating-point, are errors.
func FromFloat32s(d dtype.DType, fs []float32, shape ...int) (*Tensor, error) {
	t := New(d, shape...)
	if t.Elements() != len(fs) {
		return nil, fmt.Errorf("%d elements do not make %v", len(fs), t)
	}
	le := binary.LittleEndian
	switch d {
	case dtype.F32:
		for i, f := range fs {
			le.PutUint32(t.Data[4*i:], math.Float32bits(f))
		}
	case dtype.BF16:
		for i, f := range fs {
			le.PutUint16(t.Data[2*i:], BF16(f))
		}
	case dtype.F16:
		for i, f := range fs {
			le.PutUint16(t.Data[2*i:], float16.Fromfloat32(f).Bits())
		}
	case dtype.F64:
		for i, f := range fs {
			le.PutUint64(t.Data[8*i:], math.Float64bits(float64(f)))
		}
	default:
		return nil, fmt.Errorf("cannot make %v of f32 elements", d)
	}
	return t, nil
}

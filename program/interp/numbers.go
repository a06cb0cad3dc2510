package interp

import (
	"math"

	"weft/dtype"
	"weft/tensor"
)

// floatFormat describes a binary floating-point format narrower than 32 bits.
type floatFormat struct {
	precision int     // bits of the significand, with the hidden one
	least     int     // exponent of the least normal number
	most      float64 // largest finite number
	infinity  bool    // the format has infinities
	width     int     // bits in all
}

var narrowFormats = map[dtype.DType]floatFormat{
	dtype.F16:    {11, -14, 65504, true, 16},
	dtype.BF16:   {8, -126, 0x1.FEp127, true, 16},
	dtype.F8E5M2: {3, -14, 57344, true, 8},
	dtype.F8E4M3: {4, -6, 448, false, 8},
}

// round gives the nearest number of the format, ties to even. A number that is too large
// becomes infinite, or NaN in a format without infinities.
func (f floatFormat) round(v float64) float64 {
	if v == 0 || math.IsNaN(v) {
		return v
	}
	if !math.IsInf(v, 0) {
		ulp := f.ulp(v)
		v = math.RoundToEven(v/ulp) * ulp
	}
	switch {
	case math.Abs(v) <= f.most:
		return v
	case f.infinity:
		return math.Copysign(math.Inf(1), v)
	}
	return math.NaN()
}

func (f floatFormat) ulp(v float64) float64 {
	return math.Ldexp(1, max(math.Ilogb(v), f.least)-f.precision+1)
}

// encodeBits gives the bits of a number that round gave.
func (f floatFormat) encodeBits(v float64) uint16 {
	var sign uint16
	if math.Signbit(v) {
		sign = 1 << (f.width - 1)
	}
	fraction := f.precision - 1
	top := uint16(1)<<(f.width-1) - 1 // all ones but the sign
	switch {
	case v == 0:
		return sign
	case math.IsNaN(v):
		if f.infinity { // the quiet NaN; in a format without infinities all ones is the only NaN
			top = top >> (fraction - 1) << (fraction - 1)
		}
		return sign | top
	case math.IsInf(v, 0):
		return sign | top>>fraction<<fraction
	}
	m := uint16(math.Abs(v) / f.ulp(v))
	if m < 1<<fraction { // below the least normal number: exponent field 0
		return sign | m
	}
	return sign | uint16(math.Ilogb(v)-f.least+1)<<fraction | m&(1<<fraction-1)
}

// decodeBits gives the number that has the bits.
func (f floatFormat) decodeBits(b uint16) float64 {
	fraction := f.precision - 1
	m := float64(b & (1<<fraction - 1))
	top := uint16(1)<<(f.width-1) - 1
	exponent := int(b & top >> fraction)
	v := math.Ldexp(m, f.least-fraction)
	switch {
	case f.infinity && exponent == int(top>>fraction):
		v = math.Inf(1)
		if m != 0 {
			v = math.NaN()
		}
	case !f.infinity && b&top == top:
		v = math.NaN()
	case exponent > 0:
		v = math.Ldexp(m+math.Ldexp(1, fraction), exponent-1+f.least-fraction)
	}
	if b>>(f.width-1) != 0 {
		return math.Copysign(v, -1)
	}
	return v
}

// roundAllTo rounds numbers to a type, in place.
func roundAllTo(d dtype.DType, xs []float32) {
	switch d {
	case dtype.F32:
	case dtype.BF16: // by bits, which is faster: most values are bf16
		for i, x := range xs {
			xs[i] = roundBF16(x)
		}
	default:
		f := narrowFormats[d]
		for i, x := range xs {
			xs[i] = float32(f.round(float64(x)))
		}
	}
}

func roundBF16(x float32) float32 {
	if x != x {
		return x
	}
	return tensor.FromBF16(tensor.BF16(x))
}

// roundTo rounds a sum or a constant to a type whose values are float32s.
func roundTo(d dtype.DType, v float64) float32 {
	if d == dtype.F32 {
		return float32(v)
	}
	return float32(narrowFormats[d].round(v))
}

// wrapInt keeps as many low bits of an integer as its type has. A U64 is held as the
// int64 of the same bits; values of every other type are held as they are.
func wrapInt(d dtype.DType, v int64) int64 {
	switch d {
	case dtype.I32:
		return int64(int32(v))
	case dtype.I16:
		return int64(int16(v))
	case dtype.I8:
		return int64(int8(v))
	case dtype.U32:
		return int64(uint32(v))
	case dtype.U16:
		return int64(uint16(v))
	case dtype.U8:
		return int64(uint8(v))
	case dtype.Bool:
		return boolToInt(v != 0)
	}
	return v
}

func boolToInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// intLimits are the ends of an integer type's range.
func intLimits(d dtype.DType) (lo, hi int64) {
	bits := 8 * d.Size()
	switch {
	case d == dtype.Bool:
		return 0, 1
	case d == dtype.U64: // as bits: all ones
		return 0, -1
	case isUnsigned(d):
		return 0, 1<<bits - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

func isUnsigned(d dtype.DType) bool { return d >= dtype.U64 && d <= dtype.U8 }

// floatToInt rounds a float towards zero and stops at the ends of the type's range. NaN
// becomes 0.
func floatToInt(d dtype.DType, v float64) int64 {
	lo, hi := intLimits(d)
	v = math.Trunc(v)
	switch {
	case d == dtype.Bool:
		return boolToInt(v != 0)
	case math.IsNaN(v):
		return 0
	case d == dtype.U64:
		if v >= 0x1p64 {
			return hi
		}
		return int64(uint64(max(v, 0)))
	case v <= float64(lo):
		return lo
	case v >= float64(hi):
		return hi
	}
	return int64(v)
}

// intToFloat is the value of an integer of a type.
func intToFloat(d dtype.DType, v int64) float64 {
	if d == dtype.U64 {
		return float64(uint64(v))
	}
	return float64(v)
}

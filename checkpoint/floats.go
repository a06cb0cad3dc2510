package checkpoint

import (
	"encoding/binary"
	"math"

	"weft/dtype"

	"weft/tensor"
)

// The formats, by bits:
//
//	f32   1 sign   8 exponent  23 fraction
//	bf16  1        8           7            the upper half of an f32
//	f16   1        5           10
//
// bf16FromF32 rounds once: see tensor.BF16.
func bf16FromF32(u uint32) uint16 { return tensor.BF16(math.Float32frombits(u)) }

// f16FromF32 rounds once, into subnormals as well.
func f16FromF32(u uint32) uint16 {
	sign := uint16(u >> 16 & 0x8000)
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		return sign | 0x7e00 | uint16(u>>13&0x1ff)
	case u >= 0x477ff000: // 65520, halfway between the largest number and what would follow
		return sign | 0x7c00
	case u < 0x38800000: // 2^-14, the smallest normal number
		// Adding 0.5 makes the last place of the sum 2^-24, the subnormal step, and
		// the addition rounds to nearest even.
		return sign | uint16(math.Float32bits(math.Float32frombits(u)+0.5)-0x3f000000)
	}
	return sign | uint16((u+0xfff+u>>13&1)>>13-112<<10)
}

// f32FromF16 is exact.
func f32FromF16(h uint16) uint32 {
	sign := uint32(h&0x8000) << 16
	u := uint32(h&0x7fff) << 13
	if u >= 0x7c00<<13 {
		return sign | u | 0x7f800000
	}
	// Times 2^112, the difference of the exponents' biases; the product normalizes subnormals.
	return sign | math.Float32bits(math.Float32frombits(u)*math.Float32frombits(239<<23))
}

// roundToOddF32 gives v as a float32 if that is exact, else the one of the two nearest
// float32 whose last bit is 1. To round the result once more, to at most 22 bits, then
// gives the same as to round v directly.
func roundToOddF32(v float64) uint32 {
	f := float32(v)
	u := math.Float32bits(f)
	if float64(f) == v || v != v {
		return u
	}
	if math.Abs(float64(f)) > math.Abs(v) {
		u--
	}
	return u | 1
}

// loadFloat gives the function that reads element i; every float is exact in float64.
func loadFloat(d dtype.DType) func(b []byte, i int) float64 {
	le := binary.LittleEndian
	switch d {
	case dtype.F64:
		return func(b []byte, i int) float64 { return math.Float64frombits(le.Uint64(b[8*i:])) }
	case dtype.F32:
		return func(b []byte, i int) float64 { return float64(math.Float32frombits(le.Uint32(b[4*i:]))) }
	case dtype.F16:
		return func(b []byte, i int) float64 { return float64(math.Float32frombits(f32FromF16(le.Uint16(b[2*i:])))) }
	}
	return func(b []byte, i int) float64 {
		return float64(math.Float32frombits(uint32(le.Uint16(b[2*i:])) << 16))
	}
}

// storeFloat gives the function that rounds v and writes element i.
func storeFloat(d dtype.DType) func(b []byte, i int, v float64) {
	le := binary.LittleEndian
	switch d {
	case dtype.F64:
		return func(b []byte, i int, v float64) { le.PutUint64(b[8*i:], math.Float64bits(v)) }
	case dtype.F32:
		return func(b []byte, i int, v float64) { le.PutUint32(b[4*i:], math.Float32bits(float32(v))) }
	case dtype.F16:
		return func(b []byte, i int, v float64) { le.PutUint16(b[2*i:], f16FromF32(roundToOddF32(v))) }
	}
	return func(b []byte, i int, v float64) { le.PutUint16(b[2*i:], bf16FromF32(roundToOddF32(v))) }
}

// floatConverter picks a loop written for the two dtypes if there is one, as there is
// for those that weights have, else it goes by float64.
func floatConverter(from, to dtype.DType) convertFunc {
	switch [2]dtype.DType{from, to} {
	case [2]dtype.DType{dtype.BF16, dtype.F32}:
		return widenBF16
	case [2]dtype.DType{dtype.F32, dtype.BF16}:
		return narrowBF16
	case [2]dtype.DType{dtype.F16, dtype.F32}:
		return widenF16
	case [2]dtype.DType{dtype.F32, dtype.F16}:
		return narrowF16
	case [2]dtype.DType{dtype.F16, dtype.BF16}:
		return bf16FromF16
	case [2]dtype.DType{dtype.BF16, dtype.F16}:
		return f16FromBF16
	}
	load, store := loadFloat(from), storeFloat(to)
	size := to.Size()
	return func(dst, src []byte) error {
		for i := range len(dst) / size {
			store(dst, i, load(src, i))
		}
		return nil
	}
}

func bf16FromF16(dst, src []byte) error {
	for len(dst) >= 2 && len(src) >= 2 {
		binary.LittleEndian.PutUint16(dst, bf16FromF32(f32FromF16(binary.LittleEndian.Uint16(src))))
		dst, src = dst[2:], src[2:]
	}
	return nil
}

func f16FromBF16(dst, src []byte) error {
	for len(dst) >= 2 && len(src) >= 2 {
		binary.LittleEndian.PutUint16(dst, f16FromF32(uint32(binary.LittleEndian.Uint16(src))<<16))
		dst, src = dst[2:], src[2:]
	}
	return nil
}

func widenF16(dst, src []byte) error {
	for len(dst) >= 4 && len(src) >= 2 {
		binary.LittleEndian.PutUint32(dst, f32FromF16(binary.LittleEndian.Uint16(src)))
		dst, src = dst[4:], src[2:]
	}
	return nil
}

func narrowF16(dst, src []byte) error {
	for len(dst) >= 2 && len(src) >= 4 {
		binary.LittleEndian.PutUint16(dst, f16FromF32(binary.LittleEndian.Uint32(src)))
		dst, src = dst[2:], src[4:]
	}
	return nil
}

// widenBF16 turns four bf16 in one word into two words of f32 at a time.
func widenBF16(dst, src []byte) error {
	le := binary.LittleEndian
	for len(src) >= 8 && len(dst) >= 16 {
		v := le.Uint64(src)
		le.PutUint64(dst, v<<16&0xffff0000|v>>16<<48)
		le.PutUint64(dst[8:], v>>16&0xffff0000|v>>48<<48)
		dst, src = dst[16:], src[8:]
	}
	for len(src) >= 2 && len(dst) >= 4 {
		le.PutUint32(dst, uint32(le.Uint16(src))<<16)
		dst, src = dst[4:], src[2:]
	}
	return nil
}

// narrowBF16 rounds four f32 at a time into one word.
func narrowBF16(dst, src []byte) error {
	le := binary.LittleEndian
	for len(src) >= 16 && len(dst) >= 8 {
		a, b := le.Uint64(src), le.Uint64(src[8:])
		le.PutUint64(dst, uint64(bf16FromF32(uint32(a)))|uint64(bf16FromF32(uint32(a>>32)))<<16|
			uint64(bf16FromF32(uint32(b)))<<32|uint64(bf16FromF32(uint32(b>>32)))<<48)
		dst, src = dst[8:], src[16:]
	}
	for len(src) >= 4 && len(dst) >= 2 {
		le.PutUint16(dst, bf16FromF32(le.Uint32(src)))
		dst, src = dst[2:], src[4:]
	}
	return nil
}

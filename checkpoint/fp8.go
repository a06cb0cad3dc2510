package checkpoint

import (
	"encoding/binary"
	"math"

	"weft/dtype"
)

// fp8Value decodes one fp8 number. E4M3 (the finite form) has bias 7, no infinity,
// and NaN where all lower bits are set; E5M2 is the upper half of an f16.
func fp8Value(d dtype.DType, b byte) float64 {
	if d == dtype.F8E5M2 {
		return float64(math.Float32frombits(f32FromF16(uint16(b) << 8)))
	}
	sign := 1 - 2*float64(b>>7)
	exponent, fraction := int(b>>3&15), float64(b&7)
	switch {
	case b&0x7f == 0x7f:
		return math.NaN()
	case exponent == 0:
		return math.Copysign(math.Ldexp(fraction, -9), sign)
	}
	return sign * math.Ldexp(8+fraction, exponent-10)
}

// fp8Converter makes a table of the products of all 256 values with the scale and looks
// each element up in it. A product of 4 bits and 24 bits is exact in a float64, so each
// result is rounded only once.
func fp8Converter(from, to dtype.DType, scale float32) convertFunc {
	var table [256]uint64
	var cell [8]byte
	store := storeFloat(to)
	for b := range table {
		store(cell[:], 0, fp8Value(from, byte(b))*float64(scale))
		table[b] = binary.LittleEndian.Uint64(cell[:])
	}
	switch to.Size() {
	case 2:
		return func(dst, src []byte) error {
			for i, b := range src {
				binary.LittleEndian.PutUint16(dst[2*i:], uint16(table[b]))
			}
			return nil
		}
	case 4:
		return func(dst, src []byte) error {
			for i, b := range src {
				binary.LittleEndian.PutUint32(dst[4*i:], uint32(table[b]))
			}
			return nil
		}
	}
	return func(dst, src []byte) error {
		for i, b := range src {
			binary.LittleEndian.PutUint64(dst[8*i:], table[b])
		}
		return nil
	}
}

package checkpoint

import (
	"encoding/binary"
	"math"
	"strconv"

	"weft/dtype"
	"weft/fault"
)

// convertFunc turns whole elements of src into as many of dst.
type convertFunc func(dst, src []byte) error

// chooseConverter gives the conversion between two dtypes; nil means a plain copy.
//
//   - Float to float is exact, or rounded once to nearest, ties to even. NaN stays
//     NaN, and what is too large becomes infinite.
//   - fp8 to float applies the scale, in one rounding.
//   - Integer or bool to float is exact or rounded once; to integer, exact or ErrRange.
//   - Float to integer, and anything to fp8 or bool, is an error: no weight needs it.
func chooseConverter(tensor string, from, to dtype.DType, scale float32) (convertFunc, error) {
	switch {
	case from == to:
		return nil, nil
	case isFP8(from) && to.IsFloat() && !isFP8(to):
		return fp8Converter(from, to, scale), nil
	case from.IsFloat() && !isFP8(from) && to.IsFloat() && !isFP8(to):
		return floatConverter(from, to), nil
	case !from.IsFloat() && to.IsFloat() && !isFP8(to):
		return intToFloat(from, to), nil
	case !from.IsFloat() && !to.IsFloat() && to != dtype.Bool && to != dtype.Invalid:
		return intToInt(tensor, from, to), nil
	}
	return nil, fault.New(ErrConversion, Conversion{tensor, from.String(), to.String()},
		"tensor %s: %s cannot be read as %s", tensor, from, to)
}

// integer holds a value of any integer dtype, as a sign and a magnitude.
type integer struct {
	negative  bool
	magnitude uint64
}

func (v integer) String() string {
	text := strconv.FormatUint(v.magnitude, 10)
	if v.negative {
		return "-" + text
	}
	return text
}

func integerFromInt64(v int64) integer {
	if v < 0 {
		return integer{true, -uint64(v)}
	}
	return integer{false, uint64(v)}
}

// loadInt gives the function that reads element i. A bool is 0 or 1.
func loadInt(d dtype.DType) func(b []byte, i int) integer {
	le := binary.LittleEndian
	switch d {
	case dtype.I64:
		return func(b []byte, i int) integer { return integerFromInt64(int64(le.Uint64(b[8*i:]))) }
	case dtype.I32:
		return func(b []byte, i int) integer { return integerFromInt64(int64(int32(le.Uint32(b[4*i:])))) }
	case dtype.I16:
		return func(b []byte, i int) integer { return integerFromInt64(int64(int16(le.Uint16(b[2*i:])))) }
	case dtype.I8:
		return func(b []byte, i int) integer { return integerFromInt64(int64(int8(b[i]))) }
	case dtype.U64:
		return func(b []byte, i int) integer { return integer{false, le.Uint64(b[8*i:])} }
	case dtype.U32:
		return func(b []byte, i int) integer { return integer{false, uint64(le.Uint32(b[4*i:]))} }
	case dtype.U16:
		return func(b []byte, i int) integer { return integer{false, uint64(le.Uint16(b[2*i:]))} }
	case dtype.Bool:
		return func(b []byte, i int) integer { return integer{false, uint64(min(b[i], 1))} }
	}
	return func(b []byte, i int) integer { return integer{false, uint64(b[i])} }
}

// intLimits gives the largest magnitudes of negative and positive values.
func intLimits(d dtype.DType) (negative, positive uint64) {
	bits := uint(d.Size() * 8)
	switch d {
	case dtype.I64, dtype.I32, dtype.I16, dtype.I8:
		return 1 << (bits - 1), 1<<(bits-1) - 1
	}
	return 0, math.MaxUint64 >> (64 - bits)
}

func intToInt(tensor string, from, to dtype.DType) convertFunc {
	load := loadInt(from)
	negative, positive := intLimits(to)
	size := to.Size()
	return func(dst, src []byte) error {
		for i := range len(dst) / size {
			v := load(src, i)
			bits := v.magnitude
			if v.negative {
				bits = -bits
			}
			if v.negative && v.magnitude > negative || !v.negative && v.magnitude > positive {
				return fault.New(ErrRange, OutOfRange{tensor, v.String(), to.String()},
					"tensor %s: %v does not fit %s", tensor, v, to)
			}
			for k := range size {
				dst[i*size+k] = byte(bits >> (8 * k))
			}
		}
		return nil
	}
}

func intToFloat(from, to dtype.DType) convertFunc {
	load, store := loadInt(from), storeFloat(to)
	size := to.Size()
	return func(dst, src []byte) error {
		for i := range len(dst) / size {
			v := load(src, i)
			var f float64
			if to == dtype.F64 {
				f = float64(v.magnitude)
			} else {
				f = float64(roundToOdd53(v.magnitude))
			}
			if v.negative {
				f = -f
			}
			store(dst, i, f)
		}
		return nil
	}
}

// roundToOdd53 clears the last 11 bits of a value of more than 53 bits and sets the bit
// before them if one of them was set. A float64 then holds the result exactly, and to
// round it once more to a narrower float gives the same as to round v directly.
func roundToOdd53(v uint64) uint64 {
	const below = 1<<11 - 1
	if v>>53 == 0 || v&below == 0 {
		return v
	}
	return v&^below | 1<<11
}

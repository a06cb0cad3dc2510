package tensor

import (
	"encoding/binary"

	"weft/dtype"
)

// NonFinite counts the elements that are NaN or infinite and gives the place of
// the first of them in memory's order, -1 for none. Types that have no such values
// have none.
func (t *Tensor) NonFinite() (count, first int) {
	first = -1
	found := func(i int) {
		if count++; first < 0 {
			first = i
		}
	}
	b := t.Data
	switch t.DType {
	case dtype.F32:
		// Both kinds have an exponent of ones. Two at a time: most files have none.
		const ones = 0x7f800000
		i := 0
		for ; i+8 <= len(b); i += 8 {
			u := binary.LittleEndian.Uint64(b[i:])
			if u&ones == ones {
				found(i / 4)
			}
			if u>>32&ones == ones {
				found(i/4 + 1)
			}
		}
		if i < len(b) && binary.LittleEndian.Uint32(b[i:])&ones == ones {
			found(i / 4)
		}
	case dtype.F64:
		const ones = 0x7ff0000000000000
		for i := 0; i < len(b); i += 8 {
			if binary.LittleEndian.Uint64(b[i:])&ones == ones {
				found(i / 8)
			}
		}
	case dtype.BF16, dtype.F16:
		ones := uint16(0x7c00)
		if t.DType == dtype.BF16 {
			ones = 0x7f80
		}
		for i := 0; i < len(b); i += 2 {
			if binary.LittleEndian.Uint16(b[i:])&ones == ones {
				found(i / 2)
			}
		}
	case dtype.F8E4M3: // NaN alone, all ones
		for i, v := range b {
			if v&0x7f == 0x7f {
				found(i)
			}
		}
	case dtype.F8E5M2:
		for i, v := range b {
			if v&0x7c == 0x7c {
				found(i)
			}
		}
	}
	return count, first
}

// Index is where an element is, in dims, given its place in memory's order.
func (t *Tensor) Index(place int) []int {
	at := make([]int, len(t.Shape))
	for d := len(at) - 1; d >= 0; d-- {
		at[d], place = place%t.Shape[d], place/t.Shape[d]
	}
	return at
}

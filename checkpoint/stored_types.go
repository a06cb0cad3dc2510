package checkpoint

import (
	"weft/dtype"
	"weft/internal/numbers"
)

// storedTypes are the dtypes of the safetensors format that weft can size and
// list but not read: dtype has no name for them. Values are bits per element.
var storedTypes = map[string]int64{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8,
	"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "C64": 64,
}

// storedType looks up a dtype by its name in a header. The DType is Invalid for
// a type that can be sized but not read.
func storedType(name string) (d dtype.DType, bits int64, ok bool) {
	if d, ok := dtype.FromSafetensors(name); ok {
		return d, int64(d.Size()) * 8, true
	}
	bits, ok = storedTypes[name]
	return dtype.Invalid, bits, ok
}

// storedBytes gives the size in bytes of a shape at bits per element. whole is false when
// the bits do not fill the last byte, and fits is false when the size overflows.
func storedBytes(shape []int, bits int64) (bytes int64, whole, fits bool) {
	n := bits
	for _, s := range shape {
		var ok bool
		if n, ok = numbers.MulChecked(n, int64(s)); !ok {
			return 0, true, false
		}
	}
	return n / 8, n%8 == 0, true
}

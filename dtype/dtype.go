// Package dtype names the element types that cross weft's packages, with their
// sizes and their names in safetensors headers and in StableHLO text.
package dtype

import "fmt"

// DType is an element type. The zero value is Invalid.
type DType uint8

// The element types. F8E4M3 is the finite-only form (no infinity), as in PyTorch's float8_e4m3fn.
const (
	Invalid DType = iota
	F64
	F32
	F16
	BF16
	F8E4M3
	F8E5M2
	I64
	I32
	I16
	I8
	U64
	U32
	U16
	U8
	Bool
)

// info has an element type's size in bytes and its names in safetensors and in StableHLO.
type info struct {
	size       int
	safe, mlir string
}

var infos = map[DType]info{
	F64: {8, "F64", "f64"}, F32: {4, "F32", "f32"}, F16: {2, "F16", "f16"}, BF16: {2, "BF16", "bf16"},
	F8E4M3: {1, "F8_E4M3", "f8E4M3FN"}, F8E5M2: {1, "F8_E5M2", "f8E5M2"},
	I64: {8, "I64", "i64"}, I32: {4, "I32", "i32"}, I16: {2, "I16", "i16"}, I8: {1, "I8", "i8"},
	U64: {8, "U64", "ui64"}, U32: {4, "U32", "ui32"}, U16: {2, "U16", "ui16"}, U8: {1, "U8", "ui8"},
	Bool: {1, "BOOL", "i1"},
}

// Size is the bytes of one element on the host; 0 for Invalid.
func (d DType) Size() int { return infos[d].size }

// String returns the StableHLO name: "bf16", "i32".
func (d DType) String() string {
	if i, ok := infos[d]; ok {
		return i.mlir
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Safetensors returns the name in a safetensors header: "BF16", "F8_E4M3".
func (d DType) Safetensors() string { return infos[d].safe }

// IsFloat reports whether d is a floating-point type.
func (d DType) IsFloat() bool { return d >= F64 && d <= F8E5M2 }

// FromSafetensors reads a name of a safetensors header; false for a name that it does not know.
func FromSafetensors(name string) (DType, bool) {
	for d, i := range infos {
		if i.safe == name {
			return d, true
		}
	}
	return Invalid, false
}

// Parse reads the short names that flags take: "f32", "bf16", "f16", "f64", "i32", ...
func Parse(name string) (DType, error) {
	for d, i := range infos {
		if i.mlir == name {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("unknown element type %q; known: f64 f32 f16 bf16 i64 i32 i16 i8 ui8 i1", name)
}

package cpukernel

import (
	"math"
	"unsafe"
)

// floatsOf reads memory as f32.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// halves reads n numbers of bf16.
func halves(p unsafe.Pointer, n int) []uint16 { return unsafe.Slice((*uint16)(p), n) }

// widen writes bf16 as f32.
func widen(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = math.Float32frombits(uint32(x) << 16)
	}
}

// roundToBF16 rounds to nearest, ties to even; NaN stays NaN.
func roundToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

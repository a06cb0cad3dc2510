package asm

import (
	"fmt"
	"math"
)

// offsets in softmaxArgs
const (
	smScores = 8 * iota
	smLds
	smRows
	smVectors
	smMax
	smSum
	smFactor
	smScale
)

// exponent is a polynomial for 2^x, -1/2 <= x <= 1/2, lowest power first.
type exponent []float64

// fitExponent interpolates 2^x at the zeros of a Chebyshev polynomial, which comes close to
// the least possible relative error: 7e-8 for degree 5, 8e-5 for degree 3.
func fitExponent(degree int) exponent {
	n := degree + 1
	x, diff := make([]float64, n), make([]float64, n)
	for i := range n {
		x[i] = 0.5 * math.Cos(math.Pi*(float64(i)+0.5)/float64(n))
		diff[i] = math.Exp2(x[i])
	}
	for step := 1; step < n; step++ { // Newton's divided differences
		for i := n - 1; i >= step; i-- {
			diff[i] = (diff[i] - diff[i-1]) / (x[i] - x[i-step])
		}
	}
	c := make(exponent, n)
	for i := n - 1; i >= 0; i-- { // c = c (X - x_i) + diff_i
		for j := n - 1; j > 0; j-- {
			c[j] = c[j-1] - c[j]*x[i]
		}
		c[0] = diff[i] - c[0]*x[i]
	}
	return c
}

// softmaxRegs are the registers of softmax that keep their meaning.
type softmaxRegs struct {
	power       []int // coefficients of the polynomial
	least       int   // below it 2^x is taken as 2^least
	scale       int
	max, sum    int
	x, whole, p int
}

// softmax writes the running softmax of rows of scores: with new the larger of the maximum so far
// and the row's scores times scale,
//
//	factor = 2^(max - new), p = 2^(scale s - new), sum = factor sum + sum of p, max = new
//
// and p takes the scores' place, or, in bf16, the first half of it. Powers are of 2, so scale has log2(e).
func softmax(o *writer, w width, pairs bool) {
	name, degree := "softmax"+w.name, 5
	if pairs {
		name, degree = name+"BF16", 3
	}
	o.begin(name, "The running softmax of rows of scores, which become powers of 2.")
	// VEX instructions on single numbers know the lower sixteen registers alone.
	r := softmaxRegs{least: w.count - 1, scale: w.count - 2, max: 5, sum: 6, x: 0, whole: 1, p: 2}
	for i := range degree + 1 {
		n := w.count - 3 - i
		r.power = append(r.power, n)
		o.line("VBROADCASTSS", powerName(degree, i), w.r(n))
	}
	o.line("VBROADCASTSS", "least"+w.name+"<>(SB)", w.r(r.least))
	o.line("VBROADCASTSS", at(smScale, "DI"), w.r(r.scale))
	for _, x := range []struct {
		at  int
		reg string
	}{{smScores, "SI"}, {smLds, "R8"}, {smRows, "R9"}, {smMax, "R10"}, {smSum, "R11"}, {smFactor, "R12"}} {
		o.line("MOVQ", at(x.at, "DI"), x.reg)
	}
	row, most, powers := o.label("row"), o.label("most"), o.label("powers")
	o.place(row)

	// The row's maximum.
	o.line("MOVQ", "SI", "AX")
	o.line("MOVQ", at(smVectors, "DI"), "CX")
	for i := range 2 {
		o.line("VMOVUPS", at(i*w.bytes, "AX"), w.r(i))
	}
	o.place(most)
	for i := range 2 {
		o.line("VMAXPS", at(i*w.bytes, "AX"), w.r(i), w.r(i))
	}
	o.line("ADDQ", imm(2*w.bytes), "AX")
	o.line("SUBQ", "$2", "CX")
	o.line("JNZ", most)
	o.line("VMAXPS", w.r(1), w.r(0), w.r(0))
	acrossLanes(o, w, "VMAXPS", 0, 1)
	o.line("VBROADCASTSS", "X0", w.r(0))
	o.line("VMULPS", w.r(r.scale), w.r(0), w.r(0))
	o.line("VBROADCASTSS", "(R10)", w.r(3))
	o.line("VMAXPS", w.r(0), w.r(3), w.r(r.max))
	o.line("VSUBPS", w.r(r.max), w.r(3), w.r(r.x))
	o.line("VMOVSS", fmt.Sprintf("X%d", r.max), "(R10)")
	powerOfTwo(o, w, r)
	o.line("VMOVSS", fmt.Sprintf("X%d", r.p), "(R12)")
	o.line("VMULSS", "(R11)", fmt.Sprintf("X%d", r.p), "X4") // X4 up to the row's end
	zeroRegister(o, w, r.sum)

	// The powers and their sum.
	o.line("MOVQ", "SI", "AX")
	o.line("MOVQ", "SI", "BX")
	o.line("MOVQ", at(smVectors, "DI"), "CX")
	o.place(powers)
	for i := range 2 {
		o.line("VMOVUPS", at(i*w.bytes, "AX"), w.r(r.x))
		o.line("VFMSUB213PS", w.r(r.max), w.r(r.scale), w.r(r.x))
		powerOfTwo(o, w, r)
		o.line("VADDPS", w.r(r.p), w.r(r.sum), w.r(r.sum))
		if pairs {
			o.roundBF16(r.p, r.p)
			o.line("VMOVDQU", fmt.Sprintf("Y%d", r.p), at(i*w.bytes/2, "BX"))
		} else {
			o.line("VMOVUPS", w.r(r.p), at(i*w.bytes, "AX"))
		}
	}
	o.line("ADDQ", imm(2*w.bytes), "AX")
	o.line("ADDQ", imm(w.bytes), "BX")
	o.line("SUBQ", "$2", "CX")
	o.line("JNZ", powers)
	acrossLanes(o, w, "VADDPS", r.sum, 0)
	o.line("VADDSS", fmt.Sprintf("X%d", r.sum), "X4", "X4")
	o.line("VMOVSS", "X4", "(R11)")
	o.line("ADDQ", "$4", "R10")
	o.line("ADDQ", "$4", "R11")
	o.line("ADDQ", "$4", "R12")
	o.line("ADDQ", "R8", "SI")
	o.line("DECQ", "R9")
	o.line("JNZ", row)
	o.end()
}

func powerName(degree, i int) string { return fmt.Sprintf("powers%d<>+%d(SB)", degree, 4*i) }

// powerOfTwo computes p = 2^x for x <= 0; NaN stays NaN.
func powerOfTwo(o *writer, w width, r softmaxRegs) {
	x, n, p := w.r(r.x), w.r(r.whole), w.r(r.p)
	o.line("VMAXPS", x, w.r(r.least), x) // of NaN and a number the instruction gives its second source, x
	top := len(r.power) - 1
	if w.count == 16 {
		o.line("VROUNDPS", "$0", x, n)
	} else {
		o.line("VRNDSCALEPS", "$0", x, n)
	}
	o.line("VSUBPS", n, x, x)
	o.line("VMOVAPS", w.r(r.power[top]), p)
	for i := top - 1; i >= 0; i-- {
		o.line("VFMADD213PS", w.r(r.power[i]), x, p)
	}
	if w.count == 16 { // whole numbers go into the exponent's bits
		o.line("VCVTPS2DQ", n, n)
		o.line("VPSLLD", "$23", n, n)
		o.line("VPADDD", n, p, p)
		return
	}
	o.line("VSCALEFPS", n, p, p)
}

// acrossLanes joins all lanes of register n into its first, by way of register t.
func acrossLanes(o *writer, w width, op string, n, t int) {
	x, tmp := fmt.Sprintf("X%d", n), fmt.Sprintf("X%d", t)
	if w.count == 32 {
		y, ty := fmt.Sprintf("Y%d", n), fmt.Sprintf("Y%d", t)
		o.line("VEXTRACTF64X4", "$1", w.r(n), ty)
		o.line(op, ty, y, y)
	}
	o.line("VEXTRACTF128", "$1", fmt.Sprintf("Y%d", n), tmp)
	o.line(op, tmp, x, x)
	o.line("VPERMILPS", "$0x4e", x, tmp)
	o.line(op, tmp, x, x)
	o.line("VPERMILPS", "$0xb1", x, tmp)
	o.line(op, tmp, x, x)
}

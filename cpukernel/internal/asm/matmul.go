package asm

import "fmt"

// rowGroup is how many rows of a result are in registers at a time.
const rowGroup = 6

// wideColumns is how many registers hold a row's columns of a panel at most.
func wideColumns(w width) int {
	if w.count == 16 {
		return 2
	}
	return 4
}

// offsets in matmulArgs
const (
	mmC = 8 * iota
	mmLdc
	mmA
	mmLda
	mmB
	mmSteps
	mmGroups
	mmFactor
	mmPanels
	mmBStep
	mmCStep
)

// product writes the routine of a product of matrices, C = A B or C = factor C + A B. In f32 a
// step is one number of a row of A and one row of B's panel; with pairs, two of each in bf16. nv is how many
// registers hold a row's columns.
func product(o *writer, w width, nv int, pairs bool) {
	name := "matmul" + w.name
	if nv < wideColumns(w) {
		name = fmt.Sprintf("matmul%dx%s", nv*w.lanes(), w.name)
	}
	what := "C = A B, or by rows C = factor C + A B, in f32"
	multiply := func(acc, a, b int) { o.line("VFMADD231PS", w.r(b), w.r(a), w.r(acc)) }
	broadcast, unroll := "VBROADCASTSS", 2
	if w.count == 16 {
		unroll = 4
	}
	if pairs {
		name += "BF16"
		what = "C = A B, or by rows C = factor C + A B: A and B in pairs of bf16, C in f32"
		multiply, broadcast = o.dotBF16, "VPBROADCASTD"
	}
	acc := func(r, v int) int { return r*nv + v }
	b := rowGroup * nv                      // the registers of B's row
	temps := min(4, w.count-rowGroup*nv-nv) // registers of A's numbers
	o.begin(name, fmt.Sprintf("%s: %d rows by %d columns at a time.", what, rowGroup, nv*w.lanes()))
	o.line("MOVQ", at(mmC, "DI"), "R8")
	o.line("MOVQ", at(mmLdc, "DI"), "R9")
	o.line("MOVQ", at(mmLda, "DI"), "R10")
	o.line("MOVQ", at(mmB, "DI"), "R11")
	o.line("MOVQ", at(mmPanels, "DI"), "R12")
	panel, group, zero, steps, step := o.label("panel"), o.label("group"), o.label("zero"), o.label("steps"), o.label("step")
	o.place(panel)
	o.line("MOVQ", at(mmA, "DI"), "SI")
	o.line("MOVQ", at(mmGroups, "DI"), "R13")
	o.line("MOVQ", at(mmFactor, "DI"), "CX")
	o.line("MOVQ", "R8", "DX")
	o.place(group)
	o.line("TESTQ", "CX", "CX")
	o.line("JZ", zero)
	o.line("MOVQ", "DX", "R14")
	for r := range rowGroup {
		o.line("VBROADCASTSS", at(4*r, "CX"), w.r(b))
		for v := range nv {
			o.line("VMULPS", at(v*w.bytes, "R14"), w.r(b), w.r(acc(r, v)))
		}
		o.line("ADDQ", "R9", "R14")
	}
	o.line("ADDQ", imm(4*rowGroup), "CX")
	o.line("JMP", steps)
	o.place(zero)
	for i := range rowGroup * nv {
		zeroRegister(o, w, i)
	}
	o.place(steps)
	o.line("MOVQ", "SI", "AX")
	o.line("LEAQ", indexed(0, "R10", "R10", 2), "BX")
	o.line("ADDQ", "SI", "BX") // the group's fourth row
	o.line("MOVQ", "R11", "R14")
	o.line("MOVQ", at(mmSteps, "DI"), "R15")
	o.place(step)
	for u := range unroll {
		for v := range nv {
			o.line("VMOVUPS", at((u*nv+v)*w.bytes, "R14"), w.r(b+v))
		}
		for r := range rowGroup {
			t := b + nv + r%temps
			o.line(broadcast, rowOperand(4*u, r), w.r(t))
			for v := range nv {
				multiply(acc(r, v), t, b+v)
			}
		}
	}
	o.line("ADDQ", imm(4*unroll), "AX")
	o.line("ADDQ", imm(4*unroll), "BX")
	o.line("ADDQ", imm(unroll*nv*w.bytes), "R14")
	o.line("SUBQ", imm(unroll), "R15")
	o.line("JNZ", step)
	for r := range rowGroup {
		for v := range nv {
			o.line("VMOVUPS", w.r(acc(r, v)), at(v*w.bytes, "DX"))
		}
		o.line("ADDQ", "R9", "DX")
	}
	o.line("LEAQ", indexed(0, "R10", "R10", 1), "AX")
	o.line("LEAQ", indexed(0, "AX", "R10", 4), "AX") // six rows
	o.line("ADDQ", "AX", "SI")
	o.line("DECQ", "R13")
	o.line("JNZ", group)
	o.line("ADDQ", at(mmBStep, "DI"), "R11")
	o.line("ADDQ", at(mmCStep, "DI"), "R8")
	o.line("DECQ", "R12")
	o.line("JNZ", panel)
	o.end()
}

// rowOperand is the memory operand of a group's row r: AX is at the first, BX at the fourth, and R10
// the distance of two.
func rowOperand(disp, r int) string {
	base := "AX"
	if r > 2 {
		base, r = "BX", r-3
	}
	if r == 0 {
		return at(disp, base)
	}
	return indexed(disp, base, "R10", r)
}

func zeroRegister(o *writer, w width, n int) {
	if w.count == 16 {
		o.line("VXORPS", w.r(n), w.r(n), w.r(n))
		return
	}
	o.line("VPXORD", w.r(n), w.r(n), w.r(n))
}

package asm

import "fmt"

// tileBlock is how many rows and columns of a result the tiles hold at a time: two by two
// tiles of 16 x 16.
const tileBlock = 32

// tileProduct writes C = A B, or C = C + A B where factor is not nil, by tiles: A and B in pairs
// of bf16. A panel of B has tileBlock columns.
func tileProduct(o *writer) {
	o.begin("matmulAMX", fmt.Sprintf("C = A B, or C = C + A B where there is a factor, by tiles: A and B in pairs of bf16, C in f32,\n%d rows by %d columns at a time.", tileBlock, tileBlock))
	o.line("LEAQ", "tiles<>(SB)", "AX")
	o.tileConfig("AX")
	o.line("MOVQ", at(mmC, "DI"), "R8")
	o.line("MOVQ", at(mmLdc, "DI"), "R9")
	o.line("MOVQ", at(mmLda, "DI"), "R10")
	o.line("MOVQ", at(mmB, "DI"), "R11")
	o.line("MOVQ", at(mmPanels, "DI"), "R12")
	o.line("MOVQ", imm(tileBlock*4), "BX") // a row of pairs of B's panel
	panel, group, zero, steps, step := o.label("panel"), o.label("group"), o.label("zero"), o.label("steps"), o.label("step")
	o.place(panel)
	o.line("MOVQ", at(mmA, "DI"), "SI")
	o.line("MOVQ", at(mmGroups, "DI"), "R13")
	o.line("MOVQ", "R8", "DX")
	o.place(group)
	o.line("MOVQ", "R9", "CX")
	o.line("SHLQ", "$4", "CX")
	o.line("ADDQ", "DX", "CX") // C's row 16
	o.line("CMPQ", at(mmFactor, "DI"), "$0")
	o.line("JEQ", zero)
	o.tileLoad(0, "DX", "R9", 0)
	o.tileLoad(1, "DX", "R9", 64)
	o.tileLoad(2, "CX", "R9", 0)
	o.tileLoad(3, "CX", "R9", 64)
	o.line("JMP", steps)
	o.place(zero)
	for t := range 4 {
		o.tileZero(t)
	}
	o.place(steps)
	o.line("MOVQ", "R10", "AX")
	o.line("SHLQ", "$4", "AX")
	o.line("ADDQ", "SI", "AX") // A's row 16
	o.line("MOVQ", "R11", "R14")
	o.line("MOVQ", at(mmSteps, "DI"), "R15")
	o.place(step)
	o.tileLoad(6, "R14", "BX", 0)
	o.tileLoad(4, "SI", "R10", 0)
	o.tileDot(0, 4, 6)
	o.tileLoad(5, "AX", "R10", 0)
	o.tileDot(2, 5, 6)
	o.tileLoad(7, "R14", "BX", 64)
	o.tileDot(1, 4, 7)
	o.tileDot(3, 5, 7)
	o.line("ADDQ", "$64", "SI")
	o.line("ADDQ", "$64", "AX")
	o.line("ADDQ", imm(16*tileBlock*4), "R14")
	o.line("SUBQ", "$16", "R15")
	o.line("JNZ", step)
	o.tileStore(0, "DX", "R9", 0)
	o.tileStore(1, "DX", "R9", 64)
	o.tileStore(2, "CX", "R9", 0)
	o.tileStore(3, "CX", "R9", 64)
	o.line("MOVQ", "R9", "CX")
	o.line("SHLQ", "$4", "CX")
	o.line("LEAQ", indexed(0, "DX", "CX", 2), "DX")
	o.line("MOVQ", "R10", "CX")
	o.line("SHLQ", "$4", "CX")
	o.line("LEAQ", indexed(0, "AX", "CX", 1), "SI") // AX is at row 16, and as far along it as there are steps
	o.line("MOVQ", at(mmSteps, "DI"), "CX")
	o.line("SHLQ", "$2", "CX")
	o.line("SUBQ", "CX", "SI")
	o.line("DECQ", "R13")
	o.line("JNZ", group)
	o.line("ADDQ", at(mmBStep, "DI"), "R11")
	o.line("ADDQ", at(mmCStep, "DI"), "R8")
	o.line("DECQ", "R12")
	o.line("JNZ", panel)
	o.tileRelease()
	o.line("RET")
}

// tileShape is the configuration of the tiles: eight of 16 rows of 64 bytes.
func tileShape() []uint32 {
	config := make([]uint32, 16)
	config[0] = 1 // palette 1
	for t := range 8 {
		config[4+t/2] |= 64 << (16 * (t % 2)) // bytes a row, 16 bits each from byte 16
		config[12+t/4] |= 16 << (8 * (t % 4)) // rows, 8 bits each from byte 48
	}
	return config
}

package asm

// offsets in rowsArgs: rows of f32 that are changed, or written elsewhere
const (
	rwFrom = 8 * iota
	rwFromStride
	rwTo
	rwToStride
	rwRows
	rwVectors
	rwFactor // of each row, or of all
	rwBias   // of each column
)

// loadRows puts the fields of rowsArgs that row by row routines share into registers: SI from, R8 its
// stride, DX to, R9 its stride, R10 rows, R11 factor.
func loadRows(o *writer) {
	for _, x := range []struct {
		at  int
		reg string
	}{{rwFrom, "SI"}, {rwFromStride, "R8"}, {rwTo, "DX"}, {rwToStride, "R9"}, {rwRows, "R10"}, {rwFactor, "R11"}} {
		o.line("MOVQ", at(x.at, "DI"), x.reg)
	}
}

// nextRow moves to the next row.
func nextRow(o *writer, row string) {
	o.line("ADDQ", "R8", "SI")
	o.line("ADDQ", "R9", "DX")
	o.line("DECQ", "R10")
	o.line("JNZ", row)
}

// scaleRows writes to = factor from, each row with its own factor; in bf16 where rounded says so.
func scaleRows(o *writer, w width, rounded bool) {
	name := "scaleRows" + w.name
	if rounded {
		name += "BF16"
	}
	o.begin(name, "to = from times a factor for each row.")
	loadRows(o)
	row, vector := o.label("row"), o.label("vector")
	o.place(row)
	o.line("VBROADCASTSS", "(R11)", w.r(1))
	o.line("MOVQ", "SI", "AX")
	o.line("MOVQ", "DX", "BX")
	o.line("MOVQ", at(rwVectors, "DI"), "CX")
	o.place(vector)
	o.line("VMULPS", "(AX)", w.r(1), w.r(0))
	if rounded {
		o.roundBF16(0, 0)
		o.line("VMOVDQU", "Y0", "(BX)")
		o.line("ADDQ", imm(w.bytes/2), "BX")
	} else {
		o.line("VMOVUPS", w.r(0), "(BX)")
		o.line("ADDQ", imm(w.bytes), "BX")
	}
	o.line("ADDQ", imm(w.bytes), "AX")
	o.line("DECQ", "CX")
	o.line("JNZ", vector)
	o.line("ADDQ", "$4", "R11")
	nextRow(o, row)
	o.end()
}

// addBias writes to = factor from + bias: one factor, and a bias for each column.
func addBias(o *writer, w width) {
	o.begin("addBias"+w.name, "to = from times one factor, and a bias for each column.")
	loadRows(o)
	o.line("VBROADCASTSS", "(R11)", w.r(1))
	row, vector := o.label("row"), o.label("vector")
	o.place(row)
	o.line("MOVQ", "SI", "AX")
	o.line("MOVQ", "DX", "BX")
	o.line("MOVQ", at(rwBias, "DI"), "R12")
	o.line("MOVQ", at(rwVectors, "DI"), "CX")
	o.place(vector)
	o.line("VMOVUPS", "(AX)", w.r(0))
	o.line("VFMADD213PS", "(R12)", w.r(1), w.r(0))
	o.line("VMOVUPS", w.r(0), "(BX)")
	for _, p := range []string{"AX", "BX", "R12"} {
		o.line("ADDQ", imm(w.bytes), p)
	}
	o.line("DECQ", "CX")
	o.line("JNZ", vector)
	nextRow(o, row)
	o.end()
}

// transpose writes sixteen rows of dwords as columns: dword j of row i goes to row j, column i.
// vectors is how many dwords of each row there are.
func transpose(o *writer) {
	o.begin("transposeAVX512", "Sixteen rows of dwords become sixteen columns.")
	loadRows(o)
	o.line("VPBROADCASTD", "R8", "Z1")
	o.line("VPMULLD", "counting<>(SB)", "Z1", "Z1") // where each row begins
	o.line("MOVQ", at(rwVectors, "DI"), "CX")
	dword := o.label("dword")
	o.place(dword)
	o.line("KXNORW", "K1", "K1", "K1")
	o.line("VPGATHERDD", "(SI)(Z1*1)", "K1", "Z0")
	o.line("VMOVDQU32", "Z0", "(DX)")
	o.line("ADDQ", "$4", "SI")
	o.line("ADDQ", "R9", "DX")
	o.line("DECQ", "CX")
	o.line("JNZ", dword)
	o.end()
}

// pairRows writes pairs of rows of bf16 as one row of pairs: from has the first of each pair of
// rows, fromStride bytes before the second.
func pairRows(o *writer) {
	o.begin("pairRowsAVX512", "Two rows of bf16 after another become one row of pairs.")
	loadRows(o)
	row, vector := o.label("row"), o.label("vector")
	o.place(row)
	o.line("LEAQ", indexed(0, "SI", "R8", 1), "AX")
	o.line("MOVQ", "SI", "BX")
	o.line("MOVQ", "DX", "R12")
	o.line("MOVQ", at(rwVectors, "DI"), "CX")
	o.place(vector)
	o.line("VPMOVZXWD", "(BX)", "Z0")
	o.line("VPMOVZXWD", "(AX)", "Z1")
	o.line("VPSLLD", "$16", "Z1", "Z1")
	o.line("VPORD", "Z0", "Z1", "Z0")
	o.line("VMOVDQU32", "Z0", "(R12)")
	o.line("ADDQ", "$32", "BX")
	o.line("ADDQ", "$32", "AX")
	o.line("ADDQ", "$64", "R12")
	o.line("DECQ", "CX")
	o.line("JNZ", vector)
	o.line("ADDQ", "R8", "SI") // two rows on, with nextRow's
	nextRow(o, row)
	o.end()
}

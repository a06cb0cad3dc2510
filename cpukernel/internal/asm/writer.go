// Package asm writes the assembly of package cpukernel: one routine for each step of the
// kernel and each level of vector instructions. The routines of two levels differ in the
// width of a register, in how many there are and in the instruction that multiplies, so
// they are written by one function each.
//
// Every routine takes one pointer, to a structure of package cpukernel, so that its
// stack frame is the same everywhere. Fields are read at the offsets that stand beside the
// structure's fields.
package asm

import (
	"fmt"
	"math"
	"strings"
)

// width is a kind of vector registers.
type width struct {
	name  string // of the level in names of routines
	reg   string // the letter of a register: Y or Z
	bytes int
	count int // registers
}

var (
	ymm = width{"AVX2", "Y", 32, 16}
	zmm = width{"AVX512", "Z", 64, 32}
)

// lanes is how many f32 a register holds.
func (w width) lanes() int { return w.bytes / 4 }

// r names a register.
func (w width) r(n int) string { return fmt.Sprintf("%s%d", w.reg, n) }

// writer collects lines.
type writer struct {
	strings.Builder
	labels int
}

// line writes an instruction: its operands stand as Go's assembler wants them, sources first.
func (w *writer) line(op string, args ...string) {
	if len(args) == 0 {
		fmt.Fprintf(w, "\t%s\n", op)
		return
	}
	fmt.Fprintf(w, "\t%s %s\n", op, strings.Join(args, ", "))
}

// label makes a label that occurs once in the file.
func (w *writer) label(name string) string {
	w.labels++
	return fmt.Sprintf("%s%d", name, w.labels)
}

func (w *writer) place(label string) { fmt.Fprintf(w, "%s:\n", label) }

// begin opens a routine whose argument, a pointer to a structure, is in DI afterwards.
func (w *writer) begin(name, comment string) {
	fmt.Fprintf(w, "\n// %s\n// func %s(a *%s)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", strings.ReplaceAll(comment, "\n", "\n// "), name, argsOf(name), name)
	w.line("MOVQ", "a+0(FP)", "DI")
}

// argsOf is the structure that a routine takes: the beginning of its name, without a number of columns, and Args.
func argsOf(name string) string {
	for _, level := range []string{"AVX512BF16", "AVX512", "AVX2", "AMX"} {
		if kind, ok := strings.CutSuffix(name, level); ok {
			return strings.TrimRight(kind, "0123456789x") + "Args"
		}
	}
	panic("asm: no level in " + name)
}

// end closes a routine that used wide registers.
func (w *writer) end() {
	w.line("VZEROUPPER")
	w.line("RET")
}

// at is a memory operand.
func at(disp int, base string) string {
	if disp == 0 {
		return "(" + base + ")"
	}
	return fmt.Sprintf("%d(%s)", disp, base)
}

// indexed is a memory operand with an index.
func indexed(disp int, base, index string, scale int) string {
	return fmt.Sprintf("%d(%s)(%s*%d)", disp, base, index, scale)
}

func imm(n int) string { return fmt.Sprintf("$%d", n) }

// data writes a read-only constant of dwords.
func (w *writer) data(name string, dwords ...uint32) {
	for i, d := range dwords {
		fmt.Fprintf(w, "DATA %s<>+%d(SB)/4, $0x%08x\n", name, 4*i, d)
	}
	fmt.Fprintf(w, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", name, 4*len(dwords))
}

func bits(f float64) uint32 { return math.Float32bits(float32(f)) }

// numbers of general registers, as instructions encode them.
var numberOf = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SI": 6, "DI": 7, "R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12, "R13": 13, "R14": 14, "R15": 15}

// encoded writes an instruction that Go's assembler does not know.
func (w *writer) encoded(comment string, bytes ...int) {
	var all []string
	for _, b := range bytes {
		all = append(all, fmt.Sprintf("BYTE $0x%02x", b&0xff))
	}
	fmt.Fprintf(w, "\t%s // %s\n", strings.Join(all, "; "), comment)
}

// mandatory prefixes, as VEX and EVEX encode them.
const (
	noPrefix = 0
	prefixF3 = 2
	prefixF2 = 3
)

// evex writes an instruction of map 0F38 on 512-bit registers: dst = op(src1, src2).
func (w *writer) evex(name string, prefix, opcode, dst, src1, src2 int) {
	not := func(n, bit int) int { return 1 - n>>bit&1 }
	p0 := not(dst, 3)<<7 | not(src2, 4)<<6 | not(src2, 3)<<5 | not(dst, 4)<<4 | 2
	p1 := (^src1&15)<<3 | 1<<2 | prefix
	p2 := 2<<5 | not(src1, 4)<<3
	w.encoded(fmt.Sprintf("%s Z%d, Z%d, Z%d", name, src2, src1, dst), 0x62, p0, p1, p2, opcode, 0xc0|dst&7<<3|src2&7)
}

// dotBF16 adds to each f32 of dst the two products of the pairs of bf16 in a and b.
func (w *writer) dotBF16(dst, a, b int) { w.evex("VDPBF16PS", prefixF3, 0x52, dst, a, b) }

// roundBF16 rounds the f32 of src to bf16, in the lower half of dst.
func (w *writer) roundBF16(dst, src int) { w.evex("VCVTNEPS2BF16", prefixF3, 0x72, dst, 0, src) }

// The tile instructions. A tile is loaded from rows that are stride bytes apart.

func (w *writer) tileConfig(base string) {
	n := numberOf[base]
	w.encoded("LDTILECFG ("+base+")", 0xc4, 0xc2|(1-n>>3)<<5, 0x78, 0x49, n&7)
}

func (w *writer) tileRelease() { w.encoded("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0) }

func (w *writer) tileZero(t int) {
	w.encoded(fmt.Sprintf("TILEZERO TMM%d", t), 0xc4, 0xe2, 0x7b, 0x49, 0xc0|t<<3)
}

func (w *writer) tileLoad(t int, base, stride string, disp int) {
	w.tileMove("TILELOADD", prefixF2, t, base, stride, disp)
}

func (w *writer) tileStore(t int, base, stride string, disp int) {
	w.tileMove("TILESTORED", prefixF3, t, base, stride, disp)
}

func (w *writer) tileMove(name string, prefix, t int, base, stride string, disp int) {
	b, x := numberOf[base], numberOf[stride]
	w.encoded(fmt.Sprintf("%s TMM%d, %d(%s)(%s*1)", name, t, disp, base, stride),
		0xc4, 0x82|(1-x>>3)<<6|(1-b>>3)<<5, 0x78|prefix, 0x4b, 0x84|t<<3, x&7<<3|b&7, disp, disp>>8, disp>>16, disp>>24)
}

// tileDot adds to tile c the products of a, rows of pairs of bf16, and b, pairs of rows.
func (w *writer) tileDot(c, a, b int) {
	w.encoded(fmt.Sprintf("TDPBF16PS TMM%d, TMM%d, TMM%d", c, a, b), 0xc4, 0xe2, (15-b)<<3|prefixF3, 0x5c, 0xc0|c<<3|a)
}

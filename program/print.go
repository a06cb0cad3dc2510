package program

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"weft/dtype"
)

// String is the listing that Print writes.
func (p *Program) String() string {
	var s strings.Builder
	_ = p.Print(&s) // a strings.Builder does not fail
	return s.String()
}

// Print lists the program for people, a line for each instruction: its operands, its
// attributes and the type of its result on one device; for a collective also the axes
// and the reason. The listing depends on the program alone.
func (p *Program) Print(w io.Writer) error {
	l := &programListing{p: p}
	l.list()
	_, err := io.WriteString(w, l.text.String())
	return err
}

// Line is where an instruction begins in the listing that Print writes.
type Line struct {
	Number int    // from 1
	Text   string // without the indentation
}

// Lines gives the line of each instruction, of loops and of what is in them too.
func (p *Program) Lines() map[*Instr]Line {
	lines := map[*Instr]Line{}
	l := &programListing{p: p, note: func(in *Instr, line Line) { lines[in] = line }}
	l.list()
	return lines
}

// String is "f32[4,8]"; a scalar is "f32[]".
func (t Type) String() string {
	parts := make([]string, len(t.Shape))
	for i, n := range t.Shape {
		parts[i] = strconv.Itoa(n)
	}
	return t.DType.String() + "[" + strings.Join(parts, ",") + "]"
}

type programListing struct {
	p       *Program
	text    strings.Builder
	written int // lines
	// note, where it is not nil, hears of each instruction with the line that begins it.
	note func(in *Instr, line Line)
}

func (l *programListing) writeLine(format string, args ...any) {
	fmt.Fprintf(&l.text, format, args...)
	l.text.WriteByte('\n')
	l.written++
}

// writeInstr writes the line that begins an instruction.
func (l *programListing) writeInstr(in *Instr, indent, text string) {
	l.writeLine("%s%s", indent, text)
	if l.note != nil {
		l.note(in, Line{l.written, text})
	}
}

// list writes the whole program.
func (l *programListing) list() {
	l.writeLine("%s", strings.TrimSpace(fmt.Sprintf("program %s on %d devices %s", l.p.Name, l.p.Mesh.NumDevices(), l.p.Mesh)))
	for _, in := range l.p.Inputs {
		l.writeLine("  in  %s %s : %s", valueName(in.Value), in.Name, l.p.Values[in.Value])
	}
	l.listBody(l.p.Body, "  ")
	for _, out := range l.p.Outputs {
		donor := ""
		if out.Donor >= 0 {
			donor = ", in the memory of " + l.p.Inputs[out.Donor].Name
		}
		l.writeLine("  out %s %s : %s%s", valueName(out.Value), out.Name, l.p.Values[out.Value], donor)
	}
}

func (l *programListing) listBody(body []Instr, indent string) {
	for i := range body {
		in := &body[i]
		if in.Op == OpLoop {
			l.listLoop(in, indent)
			continue
		}
		text := fmt.Sprintf("%s = %s", valueNames(in.Out), in.Op)
		if len(in.Args) > 0 {
			text += " " + valueNames(in.Args)
		}
		if d := attributeText(in, l.p.Values[in.Out[0]].DType); d != "" {
			text += " " + d
		}
		text += " : " + l.p.Values[in.Out[0]].String()
		if in.IsCollective() {
			text += fmt.Sprintf(" over %s", strings.Join(in.Axes, "+"))
		}
		if in.Reason != "" {
			text += "  # " + OneLine(in.Reason)
		}
		l.writeInstr(in, indent, text)
	}
}

func (l *programListing) listLoop(in *Instr, indent string) {
	lp := in.Loop
	binds := make([]string, len(lp.Params))
	for i, param := range lp.Params {
		binds[i] = fmt.Sprintf("%s = %s : %s", valueName(param), valueName(in.Args[i]), l.p.Values[param])
	}
	left := ""
	if len(in.Out) > 0 {
		left = valueNames(in.Out) + " = "
	}
	l.writeInstr(in, indent, fmt.Sprintf("%sloop %s < %d (%s) {", left, valueName(lp.Index), lp.Trips, strings.Join(binds, ", ")))
	l.listBody(lp.Body, indent+"  ")
	l.writeLine("%s  next %s", indent, valueNames(lp.Results))
	l.writeLine("%s}", indent)
}

// attributeText lists what an instruction says beside its operands.
func attributeText(in *Instr, out dtype.DType) string { return in.Op.Facts().attributes(in, out) }

// The attributes of each operation, as opTable names them.

func noAttributes(*Instr, dtype.DType) string { return "" }

func valueText(in *Instr, out dtype.DType) string { return numberText(out, in.Value) }

func axisText(in *Instr, _ dtype.DType) string { return in.Axes[0] }

func comparisonText(in *Instr, _ dtype.DType) string { return in.Cmp }

func dimsText(in *Instr, _ dtype.DType) string { return "dims " + IntsText(in.Dims) }

func oneDimText(in *Instr, _ dtype.DType) string { return fmt.Sprintf("dim %d", in.Dims[0]) }

func rangeText(in *Instr, _ dtype.DType) string { return "[" + RangesText(in.Lo, in.Hi) + "]" }

func padText(in *Instr, out dtype.DType) string {
	return fmt.Sprintf("%s before, %s after, with %s", IntsText(in.Lo), IntsText(in.Hi), numberText(out, in.Value))
}

func dynSliceText(in *Instr, _ dtype.DType) string {
	return fmt.Sprintf("dim %d, %d long", in.Dims[0], in.Hi[0])
}

func reductionText(in *Instr, _ dtype.DType) string { return string(in.Reduction) }

func reduceText(in *Instr, _ dtype.DType) string {
	return fmt.Sprintf("%s dims %s", in.Reduction, IntsText(in.Dims))
}

func dotText(in *Instr, _ dtype.DType) string {
	d := in.Dot
	s := fmt.Sprintf("contract %s x %s", IntsText(d.LeftContract), IntsText(d.RightContract))
	if len(d.LeftBatch) > 0 {
		s = fmt.Sprintf("batch %s x %s, ", IntsText(d.LeftBatch), IntsText(d.RightBatch)) + s
	}
	return s
}

func convText(in *Instr, _ dtype.DType) string {
	s := fmt.Sprintf("%s zeros before, %s after", IntsText(in.Lo), IntsText(in.Hi))
	if in.Strides != nil {
		s += ", strides " + IntsText(in.Strides)
	}
	return s
}

func kernelText(in *Instr, _ dtype.DType) string {
	return fmt.Sprintf("%s by %s on %s", in.Kernel.Name, in.Kernel.Call, in.Kernel.Platform)
}

func allToAllText(in *Instr, _ dtype.DType) string {
	return fmt.Sprintf("split %d, concat %d", in.Dims[0], in.Dims[1])
}

func pairsText(in *Instr, _ dtype.DType) string {
	parts := make([]string, len(in.Pairs))
	for i, pair := range in.Pairs {
		parts[i] = fmt.Sprintf("%d>%d", pair[0], pair[1])
	}
	return strings.Join(parts, " ")
}

func numberText(d dtype.DType, v float64) string {
	if d == dtype.Bool {
		return strconv.FormatBool(v != 0)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func valueName(id ID) string { return "%" + strconv.Itoa(int(id)) }

func valueNames(ids []ID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = valueName(id)
	}
	return strings.Join(parts, ", ")
}

// OneLine puts a text on one line, with single spaces between its words.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// IntsText is "[1, 2, 3]".
func IntsText(ns []int) string {
	parts := make([]string, len(ns))
	for i, n := range ns {
		parts[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// RangesText is "0:4, 2:3", the ranges [lo, hi).
func RangesText(lo, hi []int) string {
	parts := make([]string, len(lo))
	for i := range lo {
		parts[i] = fmt.Sprintf("%d:%d", lo[i], hi[i])
	}
	return strings.Join(parts, ", ")
}

package spmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"weft/dtype"
)

// String is Print's listing.
func (p *Program) String() string {
	var s strings.Builder
	_ = p.Print(&s) // a strings.Builder does not fail
	return s.String()
}

// Print lists the program for people: a line for an instruction, with the type
// that one device holds of its result, and on a collective the axes it runs
// along and why it is there. The listing depends on the program alone.
func (p *Program) Print(w io.Writer) error {
	l := &listing{p: p}
	l.line("%s", strings.TrimSpace(fmt.Sprintf("program %s on %d devices %s", p.Name, p.Mesh.NumDevices(), p.Mesh)))
	for _, in := range p.Inputs {
		l.line("  in  %s %s : %s", ref(in.Value), in.Name, p.Values[in.Value])
	}
	l.body(p.Body, "  ")
	for _, out := range p.Outputs {
		donor := ""
		if out.Donor >= 0 {
			donor = ", in the memory of " + p.Inputs[out.Donor].Name
		}
		l.line("  out %s %s : %s%s", ref(out.Value), out.Name, p.Values[out.Value], donor)
	}
	_, err := io.WriteString(w, l.text.String())
	return err
}

// String is "f32[4,8]"; a scalar is "f32[]".
func (t Type) String() string {
	parts := make([]string, len(t.Shape))
	for i, n := range t.Shape {
		parts[i] = strconv.Itoa(n)
	}
	return t.DType.String() + "[" + strings.Join(parts, ",") + "]"
}

type listing struct {
	p    *Program
	text strings.Builder
}

func (l *listing) line(format string, args ...any) {
	fmt.Fprintf(&l.text, format, args...)
	l.text.WriteByte('\n')
}

func (l *listing) body(body []Instr, indent string) {
	for i := range body {
		in := &body[i]
		if in.Op == OpLoop {
			l.loop(in, indent)
			continue
		}
		text := fmt.Sprintf("%s%s = %s", indent, refs(in.Out), in.Op)
		if len(in.Args) > 0 {
			text += " " + refs(in.Args)
		}
		if d := details(in, l.p.Values[in.Out[0]].DType); d != "" {
			text += " " + d
		}
		text += " : " + l.p.Values[in.Out[0]].String()
		if in.IsCollective() {
			text += fmt.Sprintf(" over %s", strings.Join(in.Axes, "+"))
		}
		if in.Reason != "" {
			text += "  # " + comment(in.Reason)
		}
		l.line("%s", text)
	}
}

func (l *listing) loop(in *Instr, indent string) {
	lp := in.Loop
	binds := make([]string, len(lp.Params))
	for i, param := range lp.Params {
		binds[i] = fmt.Sprintf("%s = %s : %s", ref(param), ref(in.Args[i]), l.p.Values[param])
	}
	left := ""
	if len(in.Out) > 0 {
		left = refs(in.Out) + " = "
	}
	l.line("%s%sloop %s < %d (%s) {", indent, left, ref(lp.Index), lp.Trips, strings.Join(binds, ", "))
	l.body(lp.Body, indent+"  ")
	l.line("%s  next %s", indent, refs(lp.Results))
	l.line("%s}", indent)
}

// details are an instruction's attributes.
func details(in *Instr, out dtype.DType) string {
	switch in.Op {
	case OpConst:
		return number(out, in.Value)
	case OpAxisIndex:
		return in.Axes[0]
	case OpCompare:
		return in.Cmp
	case OpIota, OpBroadcast, OpTranspose, OpConcat, OpAllGather, OpReduceScatter:
		return "dims " + intsText(in.Dims)
	case OpReduce:
		return fmt.Sprintf("%s dims %s", in.Reduction, intsText(in.Dims))
	case OpAllReduce:
		return string(in.Reduction)
	case OpAllToAll:
		return fmt.Sprintf("split %d, concat %d", in.Dims[0], in.Dims[1])
	case OpSlice:
		return "[" + rangesText(in.Lo, in.Hi) + "]"
	case OpPad:
		return fmt.Sprintf("%s before, %s after, with %s", intsText(in.Lo), intsText(in.Hi), number(out, in.Value))
	case OpKernel:
		return fmt.Sprintf("%s by %s on %s", in.Kernel.Name, in.Kernel.Call, in.Kernel.Platform)
	case OpConv:
		return fmt.Sprintf("%s zeros before, %s after", intsText(in.Lo), intsText(in.Hi))
	case OpDynSlice:
		return fmt.Sprintf("dim %d, %d long", in.Dims[0], in.Hi[0])
	case OpDynUpdate, OpTake:
		return fmt.Sprintf("dim %d", in.Dims[0])
	case OpPermute:
		parts := make([]string, len(in.Pairs))
		for i, pair := range in.Pairs {
			parts[i] = fmt.Sprintf("%d>%d", pair[0], pair[1])
		}
		return strings.Join(parts, " ")
	case OpDot:
		d := in.Dot
		s := fmt.Sprintf("contract %s x %s", intsText(d.LeftContract), intsText(d.RightContract))
		if len(d.LeftBatch) > 0 {
			s = fmt.Sprintf("batch %s x %s, ", intsText(d.LeftBatch), intsText(d.RightBatch)) + s
		}
		return s
	}
	return ""
}

func number(d dtype.DType, v float64) string {
	if d == dtype.Bool {
		return strconv.FormatBool(v != 0)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func ref(id ID) string { return "%" + strconv.Itoa(int(id)) }

func refs(ids []ID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = ref(id)
	}
	return strings.Join(parts, ", ")
}

package spmdtest

import (
	"math"

	"weft/dtype"
	"weft/program"
)

// errorSpan bounds a value: no element is larger than most, and two engines that round
// each operation by themselves differ by no more than apart.
type errorSpan struct{ most, apart float64 }

// Bounds says, for each output, how far two correct engines may lie apart on a program
// that Random made. It follows the errors through the program, and through loops round by
// round: each operation multiplies the errors of its operands by its slope and adds a
// rounding. Engines choose where they round bf16, so a rounding counts as a whole last
// digit, and a function as four.
func Bounds(p *program.Program) []float64 {
	s := make([]errorSpan, len(p.Values))
	for _, in := range p.Inputs {
		s[in.Value] = errorSpan{4, 0}
	}
	b := boundFollower{p, s}
	b.followBody(p.Body)
	out := make([]float64, len(p.Outputs))
	for i, o := range p.Outputs {
		out[i] = s[o.Value].apart
	}
	return out
}

type boundFollower struct {
	p *program.Program
	s []errorSpan
}

// lastDigit is the distance of two neighbouring numbers at 1.
func lastDigit(d dtype.DType) float64 {
	switch d {
	case dtype.F32:
		return 0x1p-23
	case dtype.BF16:
		return 0x1p-7
	}
	return 0
}

func (b boundFollower) followBody(body []program.Instr) {
	for i := range body {
		in := &body[i]
		if in.Loop == nil {
			v := b.followInstr(in)
			b.s[in.Out[0]] = v
			continue
		}
		l := in.Loop
		carried := b.spansOf(in.Args)
		for range l.Trips {
			b.s[l.Index] = errorSpan{float64(l.Trips), 0}
			for k, id := range l.Params {
				b.s[id] = carried[k]
			}
			b.followBody(l.Body)
			carried = b.spansOf(l.Results)
		}
		for k, id := range in.Out {
			b.s[id] = carried[k]
		}
	}
}

func (b boundFollower) spansOf(ids []program.ID) []errorSpan {
	out := make([]errorSpan, len(ids))
	for i, id := range ids {
		out[i] = b.s[id]
	}
	return out
}

func (b boundFollower) followInstr(in *program.Instr) errorSpan {
	a := b.spansOf(in.Args)
	u := lastDigit(b.p.Values[in.Out[0]].DType)
	x, y := errorSpan{}, errorSpan{}
	if len(a) > 0 {
		x = a[0]
	}
	if len(a) > 1 {
		y = a[1]
	}
	rounded := func(most, apart float64) errorSpan { return errorSpan{most + apart, apart + u*most} }
	function := func(most, slope float64) errorSpan { return errorSpan{most, slope*x.apart + 4*u*most} }
	worst := func(from []errorSpan) errorSpan {
		w := errorSpan{}
		for _, v := range from {
			w = errorSpan{max(w.most, v.most), max(w.apart, v.apart)}
		}
		return w
	}
	sum := func(n int) errorSpan { return rounded(float64(n)*x.most, float64(n)*(x.apart+2*0x1p-23*x.most)) }
	switch in.Op {
	case program.OpConst:
		return rounded(math.Abs(in.Value), 0)
	case program.OpIota, program.OpAxisIndex:
		return errorSpan{8, 0}
	case program.OpAdd, program.OpSub:
		return rounded(x.most+y.most, x.apart+y.apart)
	case program.OpMul:
		return rounded(x.most*y.most, x.most*y.apart+y.most*x.apart)
	case program.OpDiv: // floats by at least 1
		return rounded(x.most, x.apart+x.most*y.apart)
	case program.OpRem: // integers
		return errorSpan{min(x.most, y.most), 0}
	case program.OpAnd, program.OpOr, program.OpNot:
		return errorSpan{2 * (x.most + y.most + 1), 0}
	case program.OpExp:
		e := math.Exp(x.most)
		return function(e, e)
	case program.OpLog, program.OpSqrt: // of at least 1
		return function(x.most, 1)
	case program.OpRsqrt, program.OpTanh, program.OpSigmoid, program.OpSin, program.OpCos:
		return function(1, 1)
	case program.OpConvert:
		return rounded(x.most, x.apart)
	case program.OpReduce:
		if in.Reduction == program.Sum {
			return sum(b.p.Values[in.Args[0]].Elements() / max(1, b.p.Values[in.Out[0]].Elements()))
		}
	case program.OpAllReduce, program.OpReduceScatter:
		if in.Reduction != program.Maximum { // partial sums may be rounded to the type on the way
			n := len(in.Groups[0])
			v := sum(n)
			return errorSpan{v.most, v.apart + float64(n)*u*v.most}
		}
	case program.OpDot, program.OpConv:
		k := float64(in.Op.Facts().Summed(in, b.p.Values[in.Args[0]], b.p.Values[in.Args[1]]))
		most := k * x.most * y.most
		return rounded(most, k*(x.most*y.apart+y.most*x.apart)+2*0x1p-23*k*most)
	case program.OpSelect:
		return worst(a[1:])
	case program.OpPad:
		return worst([]errorSpan{x, {math.Abs(in.Value), 0}})
	case program.OpDynSlice, program.OpTake:
		return x
	case program.OpCompare:
		return errorSpan{1, 0}
	}
	return worst(a)
}

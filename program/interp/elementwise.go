package interp

import (
	"math"

	"weft/dtype"
	"weft/program"
)

// floatFunctions are the operations on one float. They run in float64 for every type, so
// that the only error is the rounding of the result.
var floatFunctions = map[program.Op]func(float64) float64{
	program.OpNeg:     func(x float64) float64 { return -x },
	program.OpAbs:     math.Abs,
	program.OpExp:     math.Exp,
	program.OpLog:     math.Log,
	program.OpSqrt:    math.Sqrt,
	program.OpRsqrt:   func(x float64) float64 { return 1 / math.Sqrt(x) },
	program.OpTanh:    math.Tanh,
	program.OpSigmoid: func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	program.OpSin:     math.Sin,
	program.OpCos:     math.Cos,
}

func applyUnary(op program.Op, x *Array) *Array {
	out := NewArray(x.DType, x.Shape...)
	if x.I != nil {
		for i, v := range x.I {
			out.I[i] = wrapInt(x.DType, applyUnaryInt(op, x.DType, v))
		}
		return out
	}
	f := floatFunctions[op]
	for i, v := range x.D {
		out.D[i] = f(v)
	}
	for i, v := range x.F {
		out.F[i] = float32(f(float64(v)))
	}
	roundAllTo(x.DType, out.F)
	return out
}

func applyUnaryInt(op program.Op, d dtype.DType, v int64) int64 {
	switch {
	case op == program.OpNeg || op == program.OpAbs && v < 0 && !isUnsigned(d):
		return -v
	case op == program.OpNot && d == dtype.Bool:
		return 1 - v
	case op == program.OpNot:
		return ^v
	}
	return v
}

func applyBinary(op program.Op, x, y *Array) *Array {
	out := NewArray(x.DType, x.Shape...)
	applyBinaryFloats(op, out.D, x.D, y.D)
	applyBinaryFloats(op, out.F, x.F, y.F)
	roundAllTo(x.DType, out.F)
	for i, v := range x.I {
		out.I[i] = wrapInt(x.DType, applyBinaryInt(op, x.DType, v, y.I[i]))
	}
	return out
}

// applyBinaryFloats computes in the operands' own precision. max and min give NaN where
// one operand is NaN, as XLA does.
func applyBinaryFloats[T float32 | float64](op program.Op, dst, x, y []T) {
	y = y[:len(x)]
	switch op {
	case program.OpAdd:
		for i, v := range x {
			dst[i] = v + y[i]
		}
	case program.OpSub:
		for i, v := range x {
			dst[i] = v - y[i]
		}
	case program.OpMul:
		for i, v := range x {
			dst[i] = v * y[i]
		}
	case program.OpDiv:
		for i, v := range x {
			dst[i] = v / y[i]
		}
	case program.OpMax:
		for i, v := range x {
			dst[i] = max(v, y[i])
		}
	case program.OpMin:
		for i, v := range x {
			dst[i] = min(v, y[i])
		}
	case program.OpRem:
		for i, v := range x {
			dst[i] = T(math.Mod(float64(v), float64(y[i])))
		}
	}
}

func applyBinaryInt(op program.Op, d dtype.DType, x, y int64) int64 {
	switch op {
	case program.OpAdd:
		return x + y
	case program.OpSub:
		return x - y
	case program.OpMul:
		return x * y
	case program.OpAnd:
		return x & y
	case program.OpOr:
		return x | y
	case program.OpDiv, program.OpRem:
		return divideInts(op, d, x, y)
	}
	if lessInt(d, x, y) == (op == program.OpMin) {
		return x
	}
	return y
}

// divideInts rounds towards zero. Division by zero gives what XLA gives: all ones as the
// quotient, the dividend as the remainder.
func divideInts(op program.Op, d dtype.DType, x, y int64) int64 {
	quotient := op == program.OpDiv
	switch {
	case y == 0 && quotient:
		return -1
	case y == 0:
		return x
	case d == dtype.U64 && quotient:
		return int64(uint64(x) / uint64(y))
	case d == dtype.U64:
		return int64(uint64(x) % uint64(y))
	case quotient:
		return x / y
	}
	return x % y
}

func lessInt(d dtype.DType, x, y int64) bool {
	if d == dtype.U64 {
		return uint64(x) < uint64(y)
	}
	return x < y
}

func compareArrays(cmp string, x, y *Array) *Array {
	out := NewArray(dtype.Bool, x.Shape...)
	for i := range out.I {
		var lt, eq bool
		switch {
		case x.I != nil:
			lt, eq = lessInt(x.DType, x.I[i], y.I[i]), x.I[i] == y.I[i]
		default:
			a, b := x.At(i), y.At(i)
			if a != a || b != b { // NaN differs from everything, and is neither less nor more
				out.I[i] = boolToInt(cmp == "NE")
				continue
			}
			lt, eq = a < b, a == b
		}
		out.I[i] = boolToInt(comparisonHolds(cmp, lt, eq))
	}
	return out
}

func comparisonHolds(cmp string, lt, eq bool) bool {
	switch cmp {
	case "EQ":
		return eq
	case "NE":
		return !eq
	case "LT":
		return lt
	case "LE":
		return lt || eq
	case "GT":
		return !lt && !eq
	}
	return !lt // GE
}

func selectArrays(pred, x, y *Array) *Array {
	out := NewArray(x.DType, x.Shape...)
	selectElements(out.F, pred.I, x.F, y.F)
	selectElements(out.D, pred.I, x.D, y.D)
	selectElements(out.I, pred.I, x.I, y.I)
	return out
}

func selectElements[T any](dst []T, pred []int64, x, y []T) {
	for i := range dst {
		if pred[i] != 0 {
			dst[i] = x[i]
		} else {
			dst[i] = y[i]
		}
	}
}

func convertArray(x *Array, d dtype.DType) *Array {
	out := NewArray(d, x.Shape...)
	switch {
	case x.I != nil && out.I != nil:
		for i, v := range x.I {
			out.I[i] = wrapInt(d, v)
		}
	case x.I != nil && d == dtype.F32 && x.DType != dtype.U64: // by way of float64 it would be rounded twice
		for i, v := range x.I {
			out.F[i] = float32(v)
		}
	case x.DType == dtype.F32 && d == dtype.BF16 || x.F != nil && d == dtype.F32:
		copy(out.F, x.F)
		roundAllTo(d, out.F)
	default:
		for i := range out.Len() {
			v := x.At(i)
			if d == dtype.Bool {
				out.I[i] = boolToInt(v != 0)
			} else {
				out.Set(i, v)
			}
		}
	}
	return out
}

// filledArray has v in every element.
func filledArray(t program.Type, v float64) *Array {
	out := NewArray(t.DType, t.Shape...)
	if out.Len() == 0 {
		return out
	}
	out.Set(0, v)
	repeatFirst(out.F)
	repeatFirst(out.D)
	repeatFirst(out.I)
	return out
}

func repeatFirst[T any](s []T) {
	for n := 1; n < len(s); n *= 2 {
		copy(s[n:], s[:n])
	}
}

func iotaArray(t program.Type, dim int) *Array {
	line := NewArray(t.DType, t.Shape[dim])
	for i := range line.Len() {
		if line.I != nil {
			line.I[i] = wrapInt(t.DType, int64(i))
		} else {
			line.Set(i, float64(i))
		}
	}
	steps := make([]int, len(t.Shape))
	steps[dim] = 1
	return line.copyStrided(t.Shape, steps, 0)
}

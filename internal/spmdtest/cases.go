// Package spmdtest has programs with known results and makes random ones, for the tests of
// all packages that read or run programs.
package spmdtest

import (
	"fmt"
	"math"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// Case is a program with its inputs and the results that are right.
type Case struct {
	Name   string
	Axes   []mesh.Axis
	Inputs [][]*interp.Array // by device, then input; one row serves all devices
	Body   func(b *spmd.Builder, in []spmd.Local) []spmd.Local
	Want   [][]*interp.Array // by device, then output; one row serves all devices
}

// Row makes an f32 vector.
func Row(vals ...float64) *interp.Array { return meshtest.Arr(dtype.F32, []int{len(vals)}, vals...) }

// Count makes an f32 array of 0, 1, 2, ...
func Count(shape ...int) *interp.Array {
	a := interp.NewArray(dtype.F32, shape...)
	for i := range a.Len() {
		a.Set(i, float64(i))
	}
	return a
}

// One makes the single row of arrays that serves all devices.
func One(as ...*interp.Array) [][]*interp.Array { return [][]*interp.Array{as} }

// Mesh is the case's mesh.
func (c Case) Mesh() *mesh.Mesh {
	m, err := mesh.Local(c.Axes...)
	if err != nil {
		panic(err)
	}
	return m
}

// PerDevice gives the rows of n devices, of which a single row is repeated.
func PerDevice(rows [][]*interp.Array, n int) [][]*interp.Array {
	if len(rows) == n {
		return rows
	}
	out := make([][]*interp.Array, n)
	for i := range out {
		out[i] = rows[0]
	}
	return out
}

// Program builds the case's program. Ports are named x0, x1, ... and y0, y1, ...
func (c Case) Program() (*program.Program, error) {
	return spmd.Build(c.Name, c.Mesh(), func(b *spmd.Builder) {
		ins := make([]spmd.Local, len(c.Inputs[0]))
		for i, a := range c.Inputs[0] {
			ins[i] = b.Local(b.Input(fmt.Sprintf("x%d", i), a.DType, a.Shape, sharding.Whole(len(a.Shape))))
		}
		for i, y := range c.Body(b, ins) {
			b.Output(fmt.Sprintf("y%d", i), b.Global(y, y.Shape, sharding.Whole(y.Rank())), "")
		}
	})
}

// Differ says where two arrays differ by more than tolerance, relative to the
// larger of the wanted value and 1; "" when nowhere. Equal infinities do not differ.
func Differ(got, want *interp.Array, tolerance float64) string {
	if got.DType != want.DType || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Sprintf("%v%v, want %v%v", got.DType, got.Shape, want.DType, want.Shape)
	}
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		if !(math.Abs(g-w) <= tolerance*max(1, math.Abs(w))) {
			return fmt.Sprintf("element %d is %v, want %v", i, g, w)
		}
	}
	return ""
}

func unaryCase(op program.Op, d dtype.DType, x, want []float64) Case {
	return Case{
		Name: fmt.Sprintf("%s_%s", op, d), Inputs: One(meshtest.Arr(d, []int{len(x)}, x...)), Want: One(meshtest.Arr(d, []int{len(x)}, want...)),
		Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local { return []spmd.Local{b.LUnary(op, in[0])} },
	}
}

func binaryCase(op program.Op, d dtype.DType, x, y, want []float64) Case {
	return Case{
		Name:   fmt.Sprintf("%s_%s", op, d),
		Inputs: One(meshtest.Arr(d, []int{len(x)}, x...), meshtest.Arr(d, []int{len(y)}, y...)), Want: One(meshtest.Arr(d, []int{len(x)}, want...)),
		Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local { return []spmd.Local{b.LBinary(op, in[0], in[1])} },
	}
}

func convertCase(from, to dtype.DType, x, want []float64) Case {
	return Case{
		Name: fmt.Sprintf("convert_%s_%s", from, to), Inputs: One(meshtest.Arr(from, []int{len(x)}, x...)), Want: One(meshtest.Arr(to, []int{len(x)}, want...)),
		Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local { return []spmd.Local{b.LConvert(in[0], to)} },
	}
}

func compareCase(cmp string, d dtype.DType, x, y, want []float64) Case {
	return Case{
		Name:   fmt.Sprintf("compare_%s_%s", cmp, d),
		Inputs: One(meshtest.Arr(d, []int{len(x)}, x...), meshtest.Arr(d, []int{len(y)}, y...)), Want: One(meshtest.Arr(dtype.Bool, []int{len(x)}, want...)),
		Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
			return []spmd.Local{b.LCompare(cmp, in[0], in[1])}
		},
	}
}

// Cases has at least one program for every operation.
func Cases() []Case {
	var all []Case
	all = append(all, elementwiseCases()...)
	all = append(all, shapeCases()...)
	all = append(all, contractionCases()...)
	all = append(all, convolutionCases()...)
	all = append(all, loopCases()...)
	return append(all, collectiveCases()...)
}

// No case takes the larger or smaller of a number and NaN, because the options of XLA's
// CPU engine let it give either.
func elementwiseCases() []Case {
	nan, inf := math.NaN(), math.Inf(1)
	type v = []float64
	f32, bf16, f16, f64 := dtype.F32, dtype.BF16, dtype.F16, dtype.F64
	return []Case{
		unaryCase(program.OpNeg, f32, v{1, -2, 0}, v{-1, 2, 0}),
		unaryCase(program.OpNeg, dtype.I32, v{1, -2147483648}, v{-1, -2147483648}),
		unaryCase(program.OpAbs, f32, v{1, -2.5, -inf}, v{1, 2.5, inf}),
		unaryCase(program.OpAbs, dtype.I32, v{-7, 7}, v{7, 7}),
		unaryCase(program.OpExp, f32, v{0, 1, -inf, 100}, v{1, math.E, 0, inf}),
		unaryCase(program.OpExp, f64, v{0, 1, -2}, v{1, math.E, math.Exp(-2)}),
		unaryCase(program.OpLog, f32, v{1, math.E, 0, -1}, v{0, 1, -inf, nan}),
		unaryCase(program.OpSqrt, f32, v{4, 2, 0}, v{2, math.Sqrt2, 0}),
		unaryCase(program.OpSqrt, bf16, v{4, 2, 0}, v{2, 1.4140625, 0}),
		unaryCase(program.OpRsqrt, f32, v{4, 0.25}, v{0.5, 2}),
		unaryCase(program.OpTanh, f32, v{0, 0.5, 20}, v{0, math.Tanh(0.5), 1}),
		unaryCase(program.OpSigmoid, f32, v{0, 2, -2}, v{0.5, 1 / (1 + math.Exp(-2)), 1 / (1 + math.Exp(2))}),
		unaryCase(program.OpSin, f32, v{0, 1}, v{0, math.Sin(1)}),
		unaryCase(program.OpCos, f32, v{0, 1}, v{1, math.Cos(1)}),
		unaryCase(program.OpNot, dtype.I32, v{0, 5, -1}, v{-1, -6, 0}),
		unaryCase(program.OpNot, dtype.Bool, v{0, 1}, v{1, 0}),
		unaryCase(program.OpNot, dtype.U8, v{0, 5}, v{255, 250}),
		binaryCase(program.OpAdd, f32, v{1, 2, 1e8}, v{0.5, -2, 1}, v{1.5, 0, 1e8}),
		binaryCase(program.OpAdd, bf16, v{1, 256, 1}, v{0.00390625, 1, 0.01171875}, v{1, 256, 1.015625}),
		binaryCase(program.OpAdd, f16, v{1, 2048, 60000}, v{0.5, 1, 60000}, v{1.5, 2048, inf}),
		binaryCase(program.OpAdd, f64, v{1, 1e16}, v{1e-10, 2}, v{1 + 1e-10, 1e16 + 2}),
		binaryCase(program.OpAdd, dtype.I32, v{2147483647, 1}, v{1, 2}, v{-2147483648, 3}),
		binaryCase(program.OpAdd, dtype.U8, v{250, 1}, v{10, 2}, v{4, 3}),
		binaryCase(program.OpSub, f32, v{1, 2}, v{3, -4}, v{-2, 6}),
		binaryCase(program.OpSub, dtype.U32, v{1, 2}, v{2, 2}, v{4294967295, 0}),
		binaryCase(program.OpMul, f32, v{1.5, -2}, v{2, 4}, v{3, -8}),
		binaryCase(program.OpMul, dtype.I64, v{3037000500, -7}, v{2, 6}, v{6074001000, -42}),
		binaryCase(program.OpDiv, f32, v{1, 1, 0}, v{4, 0, 0}, v{0.25, inf, nan}),
		binaryCase(program.OpDiv, dtype.I32, v{7, -7, 5}, v{2, 2, 0}, v{3, -3, -1}),
		binaryCase(program.OpDiv, dtype.U32, v{7, 4294967295}, v{2, 2}, v{3, 2147483647}),
		binaryCase(program.OpMax, f32, v{1, -2, -inf}, v{0, 5, 1}, v{1, 5, 1}),
		binaryCase(program.OpMin, f32, v{1, -2, 3}, v{0, 5, inf}, v{0, -2, 3}),
		binaryCase(program.OpMax, dtype.I32, v{1, -2}, v{0, 5}, v{1, 5}),
		binaryCase(program.OpMin, dtype.U8, v{1, 200}, v{0, 5}, v{0, 5}),
		binaryCase(program.OpMax, dtype.Bool, v{0, 0, 1}, v{0, 1, 1}, v{0, 1, 1}),
		binaryCase(program.OpRem, f32, v{7, -7, 5.5}, v{3, 3, 2}, v{1, -1, 1.5}),
		binaryCase(program.OpRem, dtype.I32, v{7, -7, 5}, v{3, 3, 0}, v{1, -1, 5}),
		binaryCase(program.OpAnd, dtype.I32, v{12, -1}, v{10, 7}, v{8, 7}),
		binaryCase(program.OpAnd, dtype.Bool, v{0, 0, 1, 1}, v{0, 1, 0, 1}, v{0, 0, 0, 1}),
		binaryCase(program.OpOr, dtype.I32, v{12, 0}, v{10, 7}, v{14, 7}),
		binaryCase(program.OpOr, dtype.Bool, v{0, 0, 1, 1}, v{0, 1, 0, 1}, v{0, 1, 1, 1}),
		compareCase("EQ", f32, v{1, 2, nan}, v{1, 3, nan}, v{1, 0, 0}),
		compareCase("NE", f32, v{1, 2, nan}, v{1, 3, nan}, v{0, 1, 1}),
		compareCase("LT", f32, v{1, 2, nan}, v{1, 3, 1}, v{0, 1, 0}),
		compareCase("LE", f32, v{1, 4, nan}, v{1, 3, 1}, v{1, 0, 0}),
		compareCase("GT", dtype.I32, v{1, 4, -1}, v{1, 3, 0}, v{0, 1, 0}),
		compareCase("GE", dtype.I32, v{1, 4, -1}, v{1, 3, 0}, v{1, 1, 0}),
		compareCase("LT", dtype.U8, v{1, 200}, v{2, 5}, v{1, 0}),
		compareCase("EQ", dtype.Bool, v{0, 1}, v{1, 1}, v{0, 1}),
		convertCase(f32, bf16, v{1, 1.00390625, 1.01171875, 3.4e38}, v{1, 1, 1.015625, 3.4e38}),
		convertCase(f32, f16, v{1, 65504, 65520, 1e-7, -2049}, v{1, 65504, inf, 1.1920929e-07, -2048}),
		convertCase(bf16, f32, v{1.5, -2}, v{1.5, -2}),
		convertCase(f32, dtype.I32, v{1.9, -1.9, 0}, v{1, -1, 0}),
		convertCase(f32, dtype.Bool, v{0, 0.5, -1}, v{0, 1, 1}),
		convertCase(f32, f64, v{0.5, -3}, v{0.5, -3}),
		convertCase(f64, f32, v{0.1, 1e300}, v{0.1, inf}),
		convertCase(dtype.I32, f32, v{16777217, -5}, v{16777216, -5}),
		convertCase(dtype.I32, dtype.U8, v{1, 256, -1}, v{1, 0, 255}),
		convertCase(dtype.I32, dtype.I64, v{-3, 9}, v{-3, 9}),
		convertCase(dtype.Bool, f32, v{0, 1}, v{0, 1}),
		convertCase(dtype.Bool, dtype.I32, v{0, 1}, v{0, 1}),
		{
			Name: "select", Inputs: One(meshtest.Arr(dtype.Bool, []int{3}, 1, 0, 1), Row(1, 2, 3), Row(4, 5, 6)), Want: One(Row(1, 5, 3)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LSelect(in[0], in[1], in[2])}
			},
		},
		{
			Name: "sources", Inputs: One(Row(0)),
			Body: func(b *spmd.Builder, _ []spmd.Local) []spmd.Local {
				return []spmd.Local{
					b.LConst(f32, math.Inf(-1)), b.LConst(f32, 0.1, 2), b.LConst(bf16, spmd.NegInf), b.LConst(dtype.I32, -7, 1, 2),
					b.LConst(dtype.Bool, 1, 2), b.LConst(dtype.U8, 255), b.LConst(f16, -1.5), b.LConst(f64, 1e-300), b.LConst(f32, nan),
					b.LIota(f32, 1, 2, 3), b.LIota(dtype.I32, 0, 2, 2), b.LIota(bf16, 0, 3),
				}
			},
			Want: One(meshtest.Arr(f32, nil, -inf), Row(0.1, 0.1), meshtest.Arr(bf16, nil, -1e30), meshtest.Arr(dtype.I32, []int{1, 2}, -7, -7),
				meshtest.Arr(dtype.Bool, []int{2}, 1, 1), meshtest.Arr(dtype.U8, nil, 255), meshtest.Arr(f16, nil, -1.5),
				meshtest.Arr(f64, nil, 1e-300), meshtest.Arr(f32, nil, nan),
				meshtest.Arr(f32, []int{2, 3}, 0, 1, 2, 0, 1, 2), meshtest.Arr(dtype.I32, []int{2, 2}, 0, 0, 1, 1), meshtest.Arr(bf16, []int{3}, 0, 1, 2)),
		},
	}
}

func shapeCases() []Case {
	i32 := func(vs float64) *interp.Array { return meshtest.Arr(dtype.I32, nil, vs) }
	x23 := Count(2, 3)
	f32 := dtype.F32
	return []Case{
		{
			Name: "broadcast", Inputs: One(Row(1, 2), meshtest.Arr(f32, []int{2, 1}, 5, 6), meshtest.Arr(f32, nil, 9)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LBroadcast(in[0], 3, 2), b.LBroadcast(in[1], 2, 2), b.LBroadcast(in[2], 2)}
			},
			Want: One(meshtest.Arr(f32, []int{3, 2}, 1, 2, 1, 2, 1, 2), meshtest.Arr(f32, []int{2, 2}, 5, 5, 6, 6), Row(9, 9)),
		},
		{
			Name: "reshape", Inputs: One(x23),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LReshape(in[0], 3, 2), b.LReshape(in[0], 6)}
			},
			Want: One(Count(3, 2), Count(6)),
		},
		{
			Name: "transpose", Inputs: One(x23, Count(1, 2, 2)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LTranspose(in[0], 1, 0), b.LTranspose(in[1], 2, 0, 1)}
			},
			Want: One(meshtest.Arr(f32, []int{3, 2}, 0, 3, 1, 4, 2, 5), meshtest.Arr(f32, []int{2, 1, 2}, 0, 2, 1, 3)),
		},
		{
			Name: "slice", Inputs: One(x23),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LSlice(in[0], 1, 1, 3), b.LSlice(in[0], 0, 1, 1)}
			},
			Want: One(meshtest.Arr(f32, []int{2, 2}, 1, 2, 4, 5), meshtest.Arr(f32, []int{0, 3})),
		},
		{
			Name: "pad", Inputs: One(Row(1, 2), meshtest.Arr(dtype.I32, []int{1, 1}, 4)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LPad(in[0], 0, 1, 2, -3), b.LPad(in[1], 0, 0, 1, 7)}
			},
			Want: One(Row(-3, 1, 2, -3, -3), meshtest.Arr(dtype.I32, []int{2, 1}, 4, 7)),
		},
		{
			Name: "concat", Inputs: One(meshtest.Arr(f32, []int{2, 1}, 1, 2), meshtest.Arr(f32, []int{2, 2}, 3, 4, 5, 6)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LConcat(1, in[0], in[1], in[0])}
			},
			Want: One(meshtest.Arr(f32, []int{2, 4}, 1, 3, 4, 1, 2, 5, 6, 2)),
		},
		{
			Name: "dyn-slice", Inputs: One(Row(0, 1, 2, 3), i32(1), i32(3), i32(-5), x23),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LDynSlice(in[0], 0, in[1], 2), b.LDynSlice(in[0], 0, in[2], 2), b.LDynSlice(in[0], 0, in[3], 2), b.LDynSlice(in[4], 1, in[1], 1)}
			},
			Want: One(Row(1, 2), Row(2, 3), Row(0, 1), meshtest.Arr(f32, []int{2, 1}, 1, 4)),
		},
		{
			Name: "dyn-update", Inputs: One(Row(0, 1, 2, 3), Row(8, 9), i32(1), i32(3), x23, meshtest.Arr(f32, []int{2, 1}, 7, 8)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LDynUpdate(in[0], in[1], 0, in[2]), b.LDynUpdate(in[0], in[1], 0, in[3]), b.LDynUpdate(in[4], in[5], 1, in[2])}
			},
			Want: One(Row(0, 8, 9, 3), Row(0, 1, 8, 9), meshtest.Arr(f32, []int{2, 3}, 0, 7, 2, 3, 8, 5)),
		},
		{
			Name: "take", Inputs: One(x23, Row(5, 6, 7), meshtest.Arr(dtype.I32, []int{2, 2}, 1, 0, 7, -3), i32(2), interp.NewArray(dtype.I32, 0)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LTake(in[0], 0, in[2]), b.LTake(in[0], 1, in[2]), b.LTake(in[1], 0, in[2]), b.LTake(in[0], 1, in[3]), b.LTake(in[0], 0, in[4])}
			},
			Want: One(meshtest.Arr(f32, []int{2, 2, 3}, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2), meshtest.Arr(f32, []int{2, 2, 2}, 1, 0, 2, 0, 4, 3, 5, 3),
				meshtest.Arr(f32, []int{2, 2}, 6, 5, 7, 5), Row(2, 5), interp.NewArray(f32, 0, 3)),
		},
	}
}

func contractionCases() []Case {
	f32, bf16, i32 := dtype.F32, dtype.BF16, dtype.I32
	x23 := Count(2, 3)
	return []Case{
		{
			Name: "reduce", Inputs: One(x23, meshtest.Arr(bf16, []int{4}, 256, 1, 1, 1), meshtest.Arr(i32, []int{2, 2}, 4, -3, 2, 9),
				meshtest.Arr(dtype.Bool, []int{2}, 0, 1), interp.NewArray(f32, 2, 0)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{
					b.LReduce(program.Sum, in[0], 1), b.LReduce(program.Sum, in[0], 0), b.LReduce(program.Maximum, in[0], 0, 1), b.LReduceKeep(program.Sum, in[0], 1),
					b.LReduce(program.Sum, in[1], 0), b.LReduce(program.Maximum, in[1], 0), b.LReduce(program.Sum, in[2], 0), b.LReduce(program.Maximum, in[2], 1),
					b.LReduce(program.Maximum, in[3], 0), b.LReduce(program.Sum, in[4], 1), b.LReduce(program.Maximum, in[4], 1),
				}
			},
			Want: One(Row(3, 12), Row(3, 5, 7), meshtest.Arr(f32, nil, 5), meshtest.Arr(f32, []int{2, 1}, 3, 12),
				meshtest.Arr(bf16, nil, 260), meshtest.Arr(bf16, nil, 256), meshtest.Arr(i32, []int{2}, 6, 6), meshtest.Arr(i32, []int{2}, 4, 9),
				meshtest.Arr(dtype.Bool, nil, 1), Row(0, 0), Row(math.Inf(-1), math.Inf(-1))),
		},
		{
			Name: "dot", Inputs: One(x23, meshtest.Arr(f32, []int{2, 3}, 1, 0, 2, 0, 1, 0), Count(2, 2, 1), Count(1, 2, 2)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				linear := program.DotDims{LeftContract: []int{1}, RightContract: []int{1}}
				return []spmd.Local{
					b.LDot(in[0], in[1], linear, f32),
					b.LDot(in[0], in[1], program.DotDims{LeftContract: []int{0, 1}, RightContract: []int{0, 1}}, f32),
					b.LDot(in[2], in[3], program.DotDims{LeftBatch: []int{0}, RightBatch: []int{1}, LeftContract: []int{2}, RightContract: []int{0}}, f32),
					b.LDot(b.LReduce(program.Sum, in[0], 1), b.LReduce(program.Sum, in[1], 1), program.DotDims{}, f32),
					b.LDot(in[0], in[1], linear, bf16),
				}
			},
			Want: One(meshtest.Arr(f32, []int{2, 2}, 4, 1, 13, 4), meshtest.Arr(f32, nil, 0+4+0+4), meshtest.Arr(f32, []int{2, 2, 2}, 0, 0, 0, 1, 4, 6, 6, 9),
				meshtest.Arr(f32, []int{2, 2}, 9, 3, 36, 12), meshtest.Arr(bf16, []int{2, 2}, 4, 1, 13, 4)),
		},
		{
			// 256 + 1 + 1 + 1: a sum held in bf16 would stay at 256.
			Name: "dot_bf16", Inputs: One(meshtest.Arr(bf16, []int{1, 4}, 256, 1, 1, 1), meshtest.Arr(bf16, []int{1, 4}, 1, 1, 1, 1),
				meshtest.Arr(i32, []int{2}, 3, -4), meshtest.Arr(i32, []int{2}, 5, 6)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				linear := program.DotDims{LeftContract: []int{1}, RightContract: []int{1}}
				return []spmd.Local{b.LDot(in[0], in[1], linear, f32), b.LDot(in[0], in[1], linear, bf16),
					b.LDot(in[2], in[3], program.DotDims{LeftContract: []int{0}, RightContract: []int{0}}, i32)}
			},
			Want: One(meshtest.Arr(f32, []int{1, 1}, 259), meshtest.Arr(bf16, []int{1, 1}, 260), meshtest.Arr(i32, nil, -9)),
		},
	}
}

// convolutionCases have their numbers worked out by hand: a kernel of [1 2 4] over [1 2 3]
// reads, with a zero on either side, 0 1 2, 1 2 3 and 2 3 0.
func convolutionCases() []Case {
	f32, bf16 := dtype.F32, dtype.BF16
	none, one := []int{0}, []int{1}
	return []Case{
		{
			Name: "conv", Inputs: One(meshtest.Arr(f32, []int{1, 3, 1}, 1, 2, 3), meshtest.Arr(f32, []int{1, 1, 3}, 1, 2, 4), Count(1, 2, 3, 2),
				meshtest.Arr(f32, []int{2, 2, 2, 2}, 1, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 3, 0)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{
					b.LConv(in[0], in[1], one, one, f32), b.LConv(in[0], in[1], none, none, f32), b.LConv(in[0], in[1], []int{2}, none, f32),
					b.LConv(in[2], in[3], []int{0, 0}, []int{0, 0}, f32),
					b.LConv(in[2], in[3], []int{1, 0}, []int{0, 1}, f32),
				}
			},
			// The 2 x 3 picture has channels (0 1)(2 3)(4 5) over (6 7)(8 9)(10 11). Output 0 is channel 0 at the
			// kernel's first place plus channel 1 at its last; output 1 twice channel 0 at the
			// second place plus three times channel 1 at the third.
			Want: One(meshtest.Arr(f32, []int{1, 3, 1}, 2+8, 1+4+12, 2+6), meshtest.Arr(f32, []int{1, 1, 1}, 17), meshtest.Arr(f32, []int{1, 3, 1}, 4, 2+8, 17),
				meshtest.Arr(f32, []int{1, 1, 2, 2}, 0+9, 4+21, 2+11, 8+27),
				meshtest.Arr(f32, []int{1, 2, 3, 2}, 3, 3, 5, 9, 0, 15, 0+9, 4+21, 2+11, 8+27, 4+0, 0+33)),
		},
		{
			// A kernel of [1 2 4] over [1 2 3 4 5] in steps of 2, then with a zero on either side;
			// over a picture of 3 x 4, in steps of 2 and 3, with a zero after the columns.
			Name: "conv_strided", Inputs: One(meshtest.Arr(f32, []int{1, 5, 1}, 1, 2, 3, 4, 5), meshtest.Arr(f32, []int{1, 1, 3}, 1, 2, 4), Count(1, 3, 4, 1),
				meshtest.Arr(f32, []int{1, 1, 2, 2}, 1, 2, 3, 5)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{
					b.LConvStrided(in[0], in[1], none, none, []int{2}, f32), b.LConvStrided(in[0], in[1], one, one, []int{2}, f32),
					b.LConvStrided(in[2], in[3], []int{0, 0}, []int{0, 1}, []int{2, 3}, f32),
				}
			},
			// Of the picture's rows 0 1 2 3 and 4 5 6 7 the kernel's second place has columns 3 and a zero.
			Want: One(meshtest.Arr(f32, []int{1, 2, 1}, 1+4+12, 3+8+20), meshtest.Arr(f32, []int{1, 3, 1}, 2+8, 2+6+16, 4+10),
				meshtest.Arr(f32, []int{1, 1, 2, 1}, 0+2+12+25, 3+0+21+0)),
		},
		{
			// 256 + 1 + 1 + 1, which a sum held in bf16 would leave at 256.
			Name: "conv_bf16", Inputs: One(meshtest.Arr(bf16, []int{1, 2, 2}, 256, 1, 1, 1), meshtest.Arr(bf16, []int{1, 2, 2}, 1, 1, 1, 1)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LConv(in[0], in[1], none, none, f32), b.LConv(in[0], in[1], none, none, bf16)}
			},
			Want: One(meshtest.Arr(f32, []int{1, 1, 1}, 259), meshtest.Arr(bf16, []int{1, 1, 1}, 260)),
		},
	}
}

func loopCases() []Case {
	f32, i32 := dtype.F32, dtype.I32
	return []Case{
		{
			// Carries a value and its square, reads x and a constant from outside.
			Name: "loop", Inputs: One(Row(1, 2), meshtest.Arr(f32, nil, 10)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				half := b.LConst(f32, 0.5, 2)
				return b.LLoop(3, []spmd.Local{in[0], b.LConst(f32, 0)}, func(i spmd.Local, c []spmd.Local) []spmd.Local {
					x := b.LAdd(b.LMul(c[0], half), in[0])
					return []spmd.Local{x, b.LAdd(c[1], b.LMul(b.LConvert(i, f32), in[1]))}
				})
			},
			// x: 1 -> 1.5 -> 1.75 -> 1.875
			Want: One(Row(1.875, 3.75), meshtest.Arr(f32, nil, 30)),
		},
		{
			// Swaps its values each round, and passes a third through.
			Name: "loop_swap", Inputs: One(Row(1), Row(2), Row(3)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return b.LLoop(3, in, func(_ spmd.Local, c []spmd.Local) []spmd.Local { return []spmd.Local{c[1], c[0], c[2]} })
			},
			Want: One(Row(2), Row(1), Row(3)),
		},
		{
			// A round returns a value from outside, and reads the value that the loop starts from.
			Name: "loop_outside", Inputs: One(Row(1), Row(5)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				out := b.LLoop(2, []spmd.Local{in[0], in[0]}, func(_ spmd.Local, c []spmd.Local) []spmd.Local {
					return []spmd.Local{in[1], b.LAdd(c[0], in[0])}
				})
				return append(out, b.LAdd(out[0], in[0]))
			},
			Want: One(Row(5), Row(6), Row(6)),
		},
		{
			Name: "loop_nested", Inputs: One(interp.NewArray(f32, 2, 3), meshtest.Arr(i32, nil, 100)),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				ten := b.LConst(i32, 10)
				return b.LLoop(2, in[:1], func(i spmd.Local, c []spmd.Local) []spmd.Local {
					base := b.LAdd(b.LMul(i, ten), in[1])
					row := b.LLoop(3, []spmd.Local{b.LConst(f32, 0, 1, 3)}, func(j spmd.Local, r []spmd.Local) []spmd.Local {
						v := b.LReshape(b.LConvert(b.LAdd(b.LAdd(base, j), b.LMul(ten, ten)), f32), 1, 1)
						return []spmd.Local{b.LDynUpdate(r[0], v, 1, j)}
					})
					return []spmd.Local{b.LDynUpdate(c[0], row[0], 0, i)}
				})
			},
			Want: One(meshtest.Arr(f32, []int{2, 3}, 200, 201, 202, 210, 211, 212)),
		},
	}
}

// eachDevice makes one array for each device.
func eachDevice(n int, f func(pos int) *interp.Array) [][]*interp.Array {
	out := make([][]*interp.Array, n)
	for pos := range out {
		out[pos] = []*interp.Array{f(pos)}
	}
	return out
}

func collectiveCases() []Case {
	two := func(dp, tp int) []mesh.Axis { return []mesh.Axis{{Name: mesh.DP, Size: dp}, {Name: mesh.TP, Size: tp}} }
	id := func(pos int) *interp.Array { return Row(float64(pos), float64(10*pos)) }
	one := func(f func(b *spmd.Builder, x spmd.Local) spmd.Local) func(*spmd.Builder, []spmd.Local) []spmd.Local {
		return func(b *spmd.Builder, in []spmd.Local) []spmd.Local { return []spmd.Local{f(b, in[0])} }
	}
	tp := []string{mesh.TP}
	return []Case{
		{
			Name: "all-reduce", Axes: two(2, 2), Inputs: eachDevice(4, id),
			Body: one(func(b *spmd.Builder, x spmd.Local) spmd.Local {
				return b.LAllReduce(program.Sum, x, tp, "partial sums")
			}),
			Want: eachDevice(4, func(p int) *interp.Array { s := float64(1 + 4*(p/2)); return Row(s, 10*s) }),
		},
		{
			Name: "all-reduce_max_dp", Axes: two(2, 2), Inputs: eachDevice(4, id),
			Body: one(func(b *spmd.Builder, x spmd.Local) spmd.Local {
				return b.LAllReduce(program.Maximum, x, []string{mesh.DP}, "row maximum")
			}),
			Want: eachDevice(4, func(p int) *interp.Array { return id(2 + p%2) }),
		},
		{
			Name: "all-gather", Axes: two(2, 2), Inputs: eachDevice(4, id),
			Body: one(func(b *spmd.Builder, x spmd.Local) spmd.Local {
				return b.LAllGather(b.LReshape(x, 1, 2), 1, tp, "whole rows")
			}),
			Want: eachDevice(4, func(p int) *interp.Array {
				q := float64(p / 2 * 2)
				return meshtest.Arr(dtype.F32, []int{1, 4}, q, 10*q, q+1, 10*q+10)
			}),
		},
		{
			Name: "all-gather_tp_dp", Axes: two(2, 2), Inputs: eachDevice(4, func(p int) *interp.Array { return Row(float64(p)) }),
			Body: one(func(b *spmd.Builder, x spmd.Local) spmd.Local {
				return b.LAllGather(x, 0, []string{mesh.TP, mesh.DP}, "tp is the major axis")
			}),
			Want: One(Row(0, 2, 1, 3)),
		},
		{
			Name: "reduce-scatter", Axes: two(1, 2), Inputs: eachDevice(2, id),
			Body: one(func(b *spmd.Builder, x spmd.Local) spmd.Local { return b.LReduceScatter(x, 0, tp, "sum and split") }),
			Want: eachDevice(2, func(p int) *interp.Array { return Row([]float64{1, 10}[p]) }),
		},
		{
			Name: "all-to-all", Axes: two(1, 2), Inputs: eachDevice(2, func(p int) *interp.Array {
				x := Count(2, 2)
				for i := range x.F {
					x.F[i] += float32(10 * p)
				}
				return x
			}),
			Body: one(func(b *spmd.Builder, x spmd.Local) spmd.Local { return b.LAllToAll(x, 0, 1, tp, "rows to columns") }),
			Want: eachDevice(2, func(p int) *interp.Array {
				q := float64(2 * p)
				return meshtest.Arr(dtype.F32, []int{1, 4}, q, q+1, q+10, q+11)
			}),
		},
		{
			Name: "all-to-all_same_dim", Axes: two(1, 2), Inputs: eachDevice(2, func(p int) *interp.Array { q := float64(10 * p); return Row(q, q+1, q+2, q+3) }),
			Body: one(func(b *spmd.Builder, x spmd.Local) spmd.Local { return b.LAllToAll(x, 0, 0, tp, "regroup") }),
			Want: eachDevice(2, func(p int) *interp.Array { q := float64(2 * p); return Row(q, q+1, q+10, q+11) }),
		},
		{
			Name: "permute", Axes: two(1, 4), Inputs: eachDevice(4, func(p int) *interp.Array { return Row(float64(p)) }),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				return []spmd.Local{
					b.LPermute(in[0], b.Mesh().Pairs(mesh.TP, 1, true), tp, "next block of keys"),
					b.LPermute(in[0], b.Mesh().Pairs(mesh.TP, 1, false), tp, "to the next stage"),
				}
			},
			Want: [][]*interp.Array{{Row(3), Row(0)}, {Row(0), Row(0)}, {Row(1), Row(1)}, {Row(2), Row(2)}},
		},
		{
			Name: "axis-index", Axes: []mesh.Axis{{Name: "a", Size: 2}, {Name: "b", Size: 3}, {Name: "c", Size: 1}}, Inputs: One(Row(0)),
			Body: func(b *spmd.Builder, _ []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LAxisIndex("a"), b.LAxisIndex("b"), b.LAxisIndex("c"), b.LAxisIndex("b", "a")}
			},
			Want: func() [][]*interp.Array {
				out := make([][]*interp.Array, 6)
				for p := range out {
					for _, v := range []int{p / 3, p % 3, 0, p%3*2 + p/3} {
						out[p] = append(out[p], meshtest.Arr(dtype.I32, nil, float64(v)))
					}
				}
				return out
			}(),
		},
		{
			// A ring: what a device holds goes round, and each adds what comes by.
			Name: "loop_ring", Axes: two(1, 4), Inputs: eachDevice(4, func(p int) *interp.Array { return Row(float64(p + 1)) }),
			Body: func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
				pairs := b.Mesh().Pairs(mesh.TP, 1, true)
				out := b.LLoop(4, []spmd.Local{in[0], b.LConst(dtype.F32, 0, 1)}, func(_ spmd.Local, c []spmd.Local) []spmd.Local {
					return []spmd.Local{b.LPermute(c[0], pairs, tp, "ring"), b.LAdd(c[1], c[0])}
				})
				return out[1:]
			},
			Want: One(Row(10)),
		},
	}
}

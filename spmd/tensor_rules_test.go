package spmd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// axesOf reads a layout: "a,b|c" is dim 0 over a and b, dim 1 over c; "+p" at
// the end is partial over p.
func layoutOf(text string) sharding.Spec {
	text, partial, _ := strings.Cut(text, "+")
	s := sharding.Spec{}
	if text != "" {
		for d, axes := range strings.Split(text, "|") {
			if axes != "" && axes != "-" {
				s = s.WithDim(d, strings.Split(axes, ",")...)
			}
		}
	}
	if partial != "" {
		s = s.WithPartial(strings.Split(partial, ",")...)
	}
	return s
}

// counted is the f32 tensor 0, 1, 2, ... less its middle: small integers.
func counted(shape ...int) *interp.Array {
	return meshtest.Fill(dtype.F32, func(i int) float64 { return float64(i%7 - 3) }, shape...)
}

// maxAlong takes the largest element along dim, which stays with size 1, as a model
// would write it in local code. Where the dim is sharded, an all-reduce joins the devices'
// results: a layout can be partial under sums, not under maxima.
func maxAlong(b *spmd.Builder, x spmd.Tensor, dim int) spmd.Tensor {
	x = b.Reduced(x, "max needs whole sums")
	if dim < 0 {
		dim += x.Rank()
	}
	shape := slices.Clone(x.Shape)
	shape[dim] = 1
	v := b.LReduceKeep(program.Maximum, b.Local(x), dim)
	return b.Global(b.LAllReduce(program.Maximum, v, x.Spec.Dim(dim), "maximum over a sharded dim"), shape, x.Spec.WithDim(dim))
}

// Each rule by its least example: the collectives it takes, their elements, and
// the layout that results. a and b have size 2.
func TestTensorRules(t *testing.T) {
	const mesh = "a=2,b=2"
	type in map[string]spmd.Tensor
	linear := func(b *spmd.Builder, in in) spmd.Tensor { return b.Linear(in["x"], in["w"], dtype.F32) }
	add := func(b *spmd.Builder, in in) spmd.Tensor { return b.Add(in["x"], in["w"]) }
	mul := func(b *spmd.Builder, in in) spmd.Tensor { return b.Mul(in["x"], in["w"]) }
	// take looks up the rows of w that the first column of x names: 0, 8, 16 and 24, most of them past the end.
	take := func(b *spmd.Builder, in in) spmd.Tensor {
		return b.Take(in["w"], b.Convert(b.DropDim(b.Slice(in["x"], 1, 0, 1), 1), dtype.I32))
	}
	const ar, ag, rs, aa = program.OpAllReduce, program.OpAllGather, program.OpReduceScatter, program.OpAllToAll
	type moved struct {
		op       program.Op
		axis     string
		elements int64
	}
	for _, c := range []struct {
		what   string
		x, w   []int
		xs, ws string
		f      func(*spmd.Builder, in) spmd.Tensor
		out    string
		want   []moved
	}{
		{"linear 1: K split alike", []int{4, 8}, []int{6, 8}, "-|a", "-|a", linear, "-|-+a", nil},
		{"linear 1: over two axes", []int{4, 8}, []int{6, 8}, "-|a,b", "-|a,b", linear, "-|-+a,b", nil},
		{"linear 2: K of w", []int{4, 8}, []int{6, 8}, "", "-|a", linear, "-|-+a", nil},
		{"linear 2: K of x", []int{4, 8}, []int{6, 8}, "-|a", "", linear, "-|-+a", nil},
		{"linear 2: K over other axes", []int{4, 8}, []int{6, 8}, "-|b", "-|a", linear, "-|-+a", []moved{{program.OpPermute, "a+b", 16}}},
		{"linear 3: rows and N", []int{4, 8}, []int{6, 8}, "a", "a", linear, "-|a", []moved{{ag, "a", 16}}},
		{"linear 3: K and N", []int{4, 8}, []int{6, 8}, "-|a", "a", linear, "-|a", []moved{{ag, "a", 16}}},
		{"linear 3: rows and K", []int{4, 8}, []int{6, 8}, "a", "-|a", linear, "-|-+a", []moved{{aa, "a", 16}}},
		{"linear 3: minor of two row axes", []int{4, 8}, []int{6, 8}, "b,a", "a", linear, "b|a", []moved{{ag, "a", 8}}},
		{"linear 4: rows and columns", []int{4, 8}, []int{6, 8}, "a", "b", linear, "a|b", nil},
		{"linear 4: row-parallel with split rows", []int{4, 8}, []int{6, 8}, "a|b", "-|b", linear, "a|-+b", nil},
		{"linear 5: partial", []int{4, 8}, []int{6, 8}, "+a", "", linear, "", []moved{{ar, "a", 32}}},
		{"linear 5: partial, then split", []int{4, 8}, []int{6, 8}, "+a", "-|a", linear, "-|-+a", []moved{{rs, "a", 32}}},
		{"linear 5: partial weights", []int{4, 8}, []int{6, 8}, "", "+b", linear, "", []moved{{ar, "b", 48}}},

		{"add: alike", []int{4, 8}, []int{4, 8}, "a|b", "a|b", add, "a|b", nil},
		{"add: whole beside split", []int{4, 8}, []int{4, 8}, "", "a|b", add, "a|b", nil},
		{"add: the first operand's layout", []int{4, 8}, []int{4, 8}, "a", "-|a", add, "a", []moved{{aa, "a", 16}}},
		{"add: one dim each", []int{4, 8}, []int{4, 8}, "a", "-|b", add, "a|b", nil},
		{"add: broadcast", []int{4, 8}, []int{8}, "a|b", "", add, "a|b", nil},
		{"add: broadcast of a dim of 1", []int{4, 8}, []int{4, 1}, "-|a", "b", add, "b|a", nil},
		{"add: both partial", []int{4, 8}, []int{4, 8}, "+a", "+a", add, "+a", nil},
		{"add: both partial, over two axes", []int{4, 8}, []int{4, 8}, "+a,b", "+a,b", add, "+a,b", nil},
		{"add: both partial, split otherwise", []int{4, 8}, []int{4, 8}, "b+a", "-|b+a", add, "b+a", []moved{{aa, "b", 16}}},
		{"add: partial over other axes", []int{4, 8}, []int{4, 8}, "+a", "+b", add, "", []moved{{ar, "a", 32}, {ar, "b", 32}}},
		{"add: a whole term after the sum", []int{4, 8}, []int{8}, "+a", "", add, "", []moved{{ar, "a", 32}}},
		{"add: partial into split", []int{4, 8}, []int{4, 8}, "a", "+a", add, "a", []moved{{rs, "a", 32}}},
		{"mul: one partial", []int{4, 8}, []int{4, 8}, "+a", "", mul, "+a", nil},
		{"mul: partial by split over another", []int{4, 8}, []int{4, 8}, "+a", "b", mul, "b+a", nil},
		{"mul: partial by split over the same", []int{4, 8}, []int{4, 8}, "+a", "a", mul, "a", []moved{{rs, "a", 32}}},
		{"mul: both partial", []int{4, 8}, []int{4, 8}, "+a", "+a", mul, "", []moved{{ar, "a", 64}}},
		{"div: partial by whole", []int{4, 8}, nil, "+a", "", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Div(in["x"], b.Constant(dtype.F32, 2, 4, 8))
		}, "+a", nil},
		{"div: whole by partial", []int{4, 8}, nil, "+a", "", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Div(b.Constant(dtype.F32, 2, 4, 8), b.Shift(b.Mul(in["x"], in["x"]), 1))
		}, "", []moved{{ar, "a", 32}}},
		{"neg and scale keep sums", []int{4, 8}, nil, "b+a", "", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Unary(program.OpNeg, b.Scale(in["x"], 2))
		}, "b+a", nil},
		{"shift reduces", []int{4, 8}, nil, "b+a", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.Shift(in["x"], 1) }, "b", []moved{{ar, "a", 16}}},
		{"convert reduces", []int{4, 8}, nil, "+a", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.Convert(in["x"], dtype.BF16) }, "", []moved{{ar, "a", 32}}},
		{"a function reduces", []int{4, 8}, nil, "+a", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.Unary(program.OpAbs, in["x"]) }, "", []moved{{ar, "a", 32}}},
		{"select reduces", []int{4, 8}, []int{4, 8}, "+a", "b", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Select(b.Global(b.LCompare("GT", b.Local(in["w"]), b.LConst(dtype.F32, 0)), []int{4, 8}, in["w"].Spec), in["x"], in["w"])
		}, "b", []moved{{ar, "a", 16}}},

		{"take: rows split", []int{4, 8}, []int{6, 8}, "", "a", take, "-|-+a", nil},
		{"take: rows over two axes", []int{4, 8}, []int{8, 8}, "", "a,b", take, "-|-+a,b", nil},
		{"take: columns split", []int{4, 8}, []int{6, 8}, "", "-|a", take, "-|a", nil},
		{"take: ids split", []int{4, 8}, []int{6, 8}, "a", "", take, "a", nil},
		{"take: ids and columns", []int{4, 8}, []int{6, 8}, "a", "-|b", take, "a|b", nil},
		{"take: ids and rows over one axis", []int{4, 8}, []int{6, 8}, "a", "a", take, "-|-+a", []moved{{ag, "a", 2}}},
		{"take: ids and columns over one axis", []int{4, 8}, []int{6, 8}, "b,a", "-|a", take, "b|a", []moved{{ag, "a", 1}}},
		{"take: a partial table", []int{4, 8}, []int{6, 8}, "", "+b", take, "", []moved{{ar, "b", 48}}},

		{"sum over a split dim", []int{4, 8}, nil, "b|a", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.Sum(in["x"], -1) }, "b+a", nil},
		{"sum of sums", []int{4, 8}, nil, "b|a", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.Sum(b.Sum(in["x"], 1), 0) }, "+a,b", nil},
		{"max over a split dim", []int{4, 8}, nil, "b|a", "", func(b *spmd.Builder, in in) spmd.Tensor { return maxAlong(b, in["x"], -1) }, "b", []moved{{ar, "a", 2}}},

		{"split", []int{4, 8}, nil, "b|a", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.SplitDim(in["x"], 1, 2, 4) }, "b|a", nil},
		{"merge", []int{4, 2, 4}, nil, "-|a|b", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.MergeDims(in["x"], 1, 2) }, "-|a", []moved{{ag, "b", 8}}},
		{"transpose", []int{4, 2, 4}, nil, "a|-|b", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.Transpose(in["x"], 2, 0, 1) }, "b|a", nil},
		{"slice of a split dim", []int{4, 8}, nil, "b|a", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.Slice(in["x"], 1, 1, 7) }, "b", []moved{{ag, "a", 8}}},
		{"slice of a whole dim", []int{4, 8}, nil, "b|a", "", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Slice(b.Transpose(in["x"], 1, 0), 1, 0, 4)
		}, "a|b", nil},
		{"pad", []int{3, 8}, nil, "-|a+b", "", func(b *spmd.Builder, in in) spmd.Tensor { return b.PadTo(in["x"], 0, 4) }, "-|a+b", nil},
		{"concat", []int{4, 8}, []int{2, 8}, "-|a", "a", func(b *spmd.Builder, in in) spmd.Tensor { return b.Concat(0, in["x"], in["w"]) }, "-|a", []moved{{aa, "a", 8}}},
		{"reduced together", []int{4, 8}, []int{4, 2}, "b+a", "b+a", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Concat(1, b.ReducedTogether("both", in["x"], in["w"])...)
		}, "b", []moved{{ar, "a", 20}}},
		{"reduced apart: other rows", []int{4, 8}, []int{2, 8}, "+a", "+a", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Concat(0, b.ReducedTogether("each", in["x"], in["w"])...)
		}, "", []moved{{ar, "a", 48}}},
		{"reduced apart: other axes", []int{4, 8}, []int{4, 8}, "+a", "+b", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Concat(0, b.ReducedTogether("each", in["x"], in["w"])...)
		}, "", []moved{{ar, "a", 32}, {ar, "b", 32}}},
		{"reduced apart: the joined dim is split", []int{4, 8}, []int{4, 8}, "-|b+a", "-|b+a", func(b *spmd.Builder, in in) spmd.Tensor {
			return b.Add(b.ReducedTogether("each", in["x"], in["w"])[0], in["w"])
		}, "-|b", []moved{{ar, "a", 32}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			values := meshtest.Values{"x": counted(c.x...)}
			if c.w != nil {
				values["w"] = counted(c.w...)
			}
			build := func(on string) *program.Program {
				m := meshtest.Mesh(t, on)
				return meshtest.Build(t, m, func(b *spmd.Builder) {
					ts := in{"x": b.Input("x", dtype.F32, c.x, layoutOf(c.xs))}
					if c.w != nil {
						ts["w"] = b.Input("w", dtype.F32, c.w, layoutOf(c.ws))
					}
					b.Output("out", c.f(b, ts), "")
				})
			}
			p := build(mesh)
			if got, want := p.Outputs[0].Spec, layoutOf(c.out); !got.Equal(want) {
				t.Errorf("the result is held as %v, want %v", got, want)
			}
			var got []moved
			for _, x := range cost.Collectives(p) {
				got = append(got, moved{x.Op, x.Axis, x.Elements})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("moves %v, want %v\n%s", got, c.want, p)
			}
			sharded, one := meshtest.Interp(t, p, values)["out"], meshtest.Interp(t, build("a=1,b=1"), values)["out"]
			within(t, "result", sharded, one, 0) // small integers: exact
		})
	}
}

func TestTensorRefuses(t *testing.T) {
	for _, c := range []struct {
		what string
		f    func(b *spmd.Builder, x, y spmd.Tensor)
		kind error
		says string
	}{
		{"two types", func(b *spmd.Builder, x, y spmd.Tensor) { b.Add(x, b.Convert(y, dtype.BF16)) }, spmd.ErrType, "bf16"},
		{"no common shape", func(b *spmd.Builder, x, y spmd.Tensor) { b.Add(x, b.Slice(y, 1, 0, 3)) }, spmd.ErrShape, "[4 3]"},
		{"linear of other widths", func(b *spmd.Builder, x, y spmd.Tensor) { b.Linear(x, b.Slice(y, 1, 0, 3), dtype.F32) }, spmd.ErrShape, "meets"},
		{"linear by a cube", func(b *spmd.Builder, x, y spmd.Tensor) { b.Linear(x, b.ExpandDim(y, 0), dtype.F32) }, spmd.ErrShape, "[1 4 8]"},
		{"linear of two types", func(b *spmd.Builder, x, y spmd.Tensor) { b.Linear(x, b.Convert(y, dtype.BF16), dtype.F32) }, spmd.ErrType, "bf16"},
		{"take by floats", func(b *spmd.Builder, x, y spmd.Tensor) { b.Take(x, y) }, spmd.ErrType, "i32 ids"},
		{"take from no rows", func(b *spmd.Builder, x, y spmd.Tensor) {
			b.Take(b.Slice(y, 0, 1, 1), b.Convert(y, dtype.I32))
		}, spmd.ErrShape, "[0 8]"},
		{"split that leaves some", func(b *spmd.Builder, x, y spmd.Tensor) { b.SplitDim(x, 1, 3, 2) }, spmd.ErrShape, "[3 2]"},
		{"split into heads that the axis cuts", func(b *spmd.Builder, x, y spmd.Tensor) { b.SplitDim(x, 1, 1, 8) }, spmd.ErrSpec, "tp"},
		{"split of nothing", func(b *spmd.Builder, x, y spmd.Tensor) { b.SplitDim(x, 1) }, spmd.ErrShape, ""},
		{"merge past the end", func(b *spmd.Builder, x, y spmd.Tensor) { b.MergeDims(x, 1, 2) }, spmd.ErrShape, ""},
		{"no such dim", func(b *spmd.Builder, x, y spmd.Tensor) { b.Sum(x, 2) }, spmd.ErrShape, "dim 2"},
		{"no such dim from the end", func(b *spmd.Builder, x, y spmd.Tensor) { b.Sum(x, -3) }, spmd.ErrShape, "-3"},
		{"transpose twice the same", func(b *spmd.Builder, x, y spmd.Tensor) { b.Transpose(x, 0, 0) }, spmd.ErrShape, ""},
		{"transpose of too few", func(b *spmd.Builder, x, y spmd.Tensor) { b.Transpose(x) }, spmd.ErrShape, ""},
		{"slice backwards", func(b *spmd.Builder, x, y spmd.Tensor) { b.Slice(x, 0, 3, 2) }, spmd.ErrShape, "[3,2)"},
		{"slice past the end", func(b *spmd.Builder, x, y spmd.Tensor) { b.Slice(x, 0, 0, 5) }, spmd.ErrShape, "[0,5)"},
		{"padding to less", func(b *spmd.Builder, x, y spmd.Tensor) { b.PadTo(x, 0, 3) }, spmd.ErrShape, "drop"},
		{"concat of nothing", func(b *spmd.Builder, x, y spmd.Tensor) { b.Concat(0) }, spmd.ErrShape, ""},
		{"drop of a dim", func(b *spmd.Builder, x, y spmd.Tensor) { b.DropDim(x, 0) }, spmd.ErrShape, "not 1"},
		{"expand nowhere", func(b *spmd.Builder, x, y spmd.Tensor) { b.ExpandDim(x, 3) }, spmd.ErrShape, "3"},
		{"an axis twice", func(b *spmd.Builder, x, y spmd.Tensor) { b.Reshard(x, layoutOf("tp|tp"), "why") }, spmd.ErrSpec, "tp"},
		{"an axis that is not there", func(b *spmd.Builder, x, y spmd.Tensor) { b.Reshard(x, layoutOf("model"), "why") }, spmd.ErrSpec, "model"},
		{"to partial", func(b *spmd.Builder, x, y spmd.Tensor) { b.Reshard(y, layoutOf("+tp"), "why") }, sharding.ErrToPartial, "tp"},
		{"uneven", func(b *spmd.Builder, x, y spmd.Tensor) {
			b.Reshard(b.Slice(y, 0, 0, 3), layoutOf("tp"), "why")
		}, sharding.ErrUneven, "3"},
		{"a wrong claim", func(b *spmd.Builder, x, y spmd.Tensor) { b.Global(b.Local(x), []int{4, 8}, layoutOf("tp")) }, spmd.ErrShape, "[4 4]"},
		{"a name twice", func(b *spmd.Builder, x, y spmd.Tensor) { b.Input("x", dtype.F32, []int{1}, layoutOf("")) }, spmd.ErrName, "x"},
	} {
		_, err := spmd.Build("p", meshtest.Mesh(t, "tp=2"), func(b *spmd.Builder) {
			c.f(b, b.Input("x", dtype.F32, []int{4, 8}, layoutOf("-|tp")), b.Input("y", dtype.F32, []int{4, 8}, layoutOf("")))
		})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %q", c.what, err, c.kind, c.says)
		}
	}
}

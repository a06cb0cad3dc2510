package attention

import (
	"cmp"
	"math"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// ErrOperands: the shapes, element types or options of a call do not belong together.
var ErrOperands = fault.NewKind("attention-operands")

// Default block sizes of the blocked form, in tokens. They were the fastest of those that
// package bench tried through the CPU plugin.
const (
	DefaultBlockQ = 256
	DefaultBlockK = 512
)

// typeOf returns the element type and the global shape of a tensor.
func typeOf(x spmd.Tensor) program.Type { return program.Type{DType: x.DType, Shape: x.Shape} }

// checkStream checks one of two streams alone: keys of its keys are real, or all for 0.
func checkStream(b *spmd.Builder, q, k, v spmd.Tensor, keys int) {
	checkOperands(b, typeOf(q), typeOf(k), typeOf(v), Options{Keys: keys})
}

// checkOperands fails the build for operands, given by their global shapes, that do not belong
// together. It returns the options with defaults in place of zeros.
func checkOperands(b *spmd.Builder, q, k, v program.Type, o Options) Options {
	bad := func(format string, args ...any) {
		b.Fail(fault.New(ErrOperands, nil, "attention of q %v%v, k %v%v, v %v%v: "+format,
			append([]any{q.DType, q.Shape, k.DType, k.Shape, v.DType, v.Shape}, args...)...))
	}
	if len(q.Shape) != 4 || len(k.Shape) != 4 || len(v.Shape) != 4 {
		bad("want (batch, tokens, heads, head dim) each")
	}
	batch, queries, heads, headDim := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3]
	if !slices.Equal(k.Shape, v.Shape) || batch != k.Shape[0] || headDim != k.Shape[3] {
		bad("batch and head dim are shared, k and v have one shape")
	}
	if q.DType != k.DType || k.DType != v.DType {
		bad("one element type")
	}
	if slices.Min(q.Shape) < 1 || k.Shape[1] < 1 || o.Keys < 0 || o.Keys > k.Shape[1] {
		bad("at least one query and one key; %d real keys of %d", o.Keys, k.Shape[1])
	}
	if _, _, err := sharding.KVHeads(heads, k.Shape[2], 1); err != nil {
		b.Fail(err)
	}
	keys := cmp.Or(o.Keys, k.Shape[1])
	for _, x := range []struct {
		what string
		t    *spmd.Tensor
		d    dtype.DType
	}{{"bias", o.Bias, dtype.F32}, {"mask", o.Mask, dtype.Bool}} {
		if x.t == nil {
			continue
		}
		ok := x.t.Rank() == 4 && x.t.Shape[3] == keys && x.t.DType == x.d
		for d, n := range []int{batch, heads, queries} {
			ok = ok && (x.t.Shape[d] == 1 || x.t.Shape[d] == n)
		}
		if !ok {
			bad("%s %v%v must be %v (batch|1, heads|1, queries|1, %d)", x.what, x.t.DType, x.t.Shape, x.d, keys)
		}
	}
	if o.Causal && queries < keys {
		bad("causal, with fewer queries than the %d keys", keys)
	}
	if r := o.Relative; r != nil && (r.Table.Rank() != 2 || r.Table.DType != dtype.F32 || r.Table.Shape[0] < 1 || r.Table.Shape[1] != heads) {
		bad("bias by distance %v%v must be f32 (buckets, %d heads)", r.Table.DType, r.Table.Shape, heads)
	}
	if !(o.Scale >= 0) || math.IsInf(o.Scale, 0) {
		bad("scale %g must be a positive number, or 0 for 1/sqrt(head dim)", o.Scale)
	}
	if o.Scale == 0 {
		o.Scale = 1 / math.Sqrt(float64(headDim))
	}
	t := b.Target()
	o.BlockQ = firstPositive(o.BlockQ, t.QueryBlock, DefaultBlockQ)
	o.BlockK = firstPositive(o.BlockK, t.KeyBlock, DefaultBlockK)
	o.HeadBlock = firstPositive(o.HeadBlock, t.HeadBlock)
	return o
}

// firstPositive returns the first number above 0, or 0.
func firstPositive(ns ...int) int {
	for _, n := range ns {
		if n > 0 {
			return n
		}
	}
	return 0
}

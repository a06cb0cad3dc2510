package step

import (
	"fmt"
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// ProgramBuilder is a spmd.Builder that knows a step's weights and values by name.
type ProgramBuilder struct {
	*spmd.Builder
	Step   *Step
	prefix string                 // before the names of weights: "blocks.0." in a block
	inputs map[string]spmd.Tensor // the inputs declared so far, so that none is declared twice
}

// Build defines a program. prefix is put before the names that Weight is given. A program
// that all layers share is defined with the first layer's prefix.
func (s *Step) Build(name, prefix string, define func(p *ProgramBuilder)) error {
	prog, err := spmd.Build(name, s.Mesh, func(b *spmd.Builder) { define(&ProgramBuilder{b, s, prefix, map[string]spmd.Tensor{}}) }, spmd.WithTarget(s.Request.Target))
	if err != nil {
		return fmt.Errorf("program %s: %w", name, err)
	}
	s.Graph.Programs[name+s.suffix] = prog
	return nil
}

// Define runs functions that define programs, in order, and stops at the first error.
func Define(programs ...func() error) error {
	for _, define := range programs {
		if err := define(); err != nil {
			return err
		}
	}
	return nil
}

// Has says whether there is a weight of this name.
func (p *ProgramBuilder) Has(name string) bool { return p.Step.Has(p.prefix + name) }

// Weight declares the parameter prefix+name as the input "name". If fsdp shards it at rest
// it is gathered here, just before its use.
func (p *ProgramBuilder) Weight(name string) spmd.Tensor {
	at, ok := p.Step.weightIndex[p.prefix+name]
	if !ok {
		panic("step: no parameter " + p.prefix + name)
	}
	w := &p.Step.Graph.Weights[at]
	t := p.declareInput(name, w.DType, w.Shape, w.Spec)
	return p.Reshard(t, p.Step.specs[w.Name].Spec, "fsdp: gathered just in time")
}

// Value declares a value of the step as an input of the program.
func (p *ProgramBuilder) Value(name string) spmd.Tensor {
	v, ok := p.Step.values[name]
	if !ok {
		panic("step: no value " + name)
	}
	return p.declareInput(name, v.DType, v.Shape, v.Spec)
}

// declareInput declares an input, or returns the one that was declared under this name
// before.
func (p *ProgramBuilder) declareInput(name string, d dtype.DType, shape []int, spec sharding.Spec) spmd.Tensor {
	t, ok := p.inputs[name]
	if !ok {
		t = p.Input(name, d, shape, spec)
		p.inputs[name] = t
	}
	return t
}

// Compute rounds x to the compute type, in which matmuls run.
func (p *ProgramBuilder) Compute(x spmd.Tensor) spmd.Tensor {
	return p.Convert(x, p.Step.Request.DType)
}

// Linear is x W^T + b in f32; b is added if the model has one. x is in the compute type. The
// partial sums of a row-parallel weight are reduced in the compute type, to the spec to,
// before the bias is added.
func (p *ProgramBuilder) Linear(name string, x spmd.Tensor, to sharding.Spec) spmd.Tensor {
	w := p.Weight(name + ".weight")
	return p.addBias(name, p.reducePartial(name, p.Builder.Linear(x, w, x.DType), to))
}

// reducePartial reduces y to the spec to if it is a partial sum, and converts it to f32.
func (p *ProgramBuilder) reducePartial(name string, y spmd.Tensor, to sharding.Spec) spmd.Tensor {
	if len(y.Spec.Partial()) > 0 {
		y = p.Reshard(y, to, "sum of the row-parallel "+name)
	}
	return p.Convert(y, dtype.F32)
}

// addBias adds the bias name.bias to y, if the model has one.
func (p *ProgramBuilder) addBias(name string, y spmd.Tensor) spmd.Tensor {
	if p.Has(name + ".bias") {
		y = p.Add(y, p.Weight(name+".bias"))
	}
	return y
}

// Unstack splits the result of Linear for matrices that are stacked in one weight into the
// results of each. sizes are their numbers of rows, in order. Each device holds a part of
// every matrix: the rule of the weight says so, by a layout.
func (p *ProgramBuilder) Unstack(x spmd.Tensor, sizes ...int) []spmd.Tensor {
	return p.UnstackDim(x, x.Rank()-1, sizes...)
}

// UnstackDim does the same along any dim; x may also be a weight.
func (p *ProgramBuilder) UnstackDim(x spmd.Tensor, dim int, sizes ...int) []spmd.Tensor {
	all := p.Local(x)
	n := x.Dim(dim) / all.Shape[dim]
	out, at := make([]spmd.Tensor, len(sizes)), 0
	for i, size := range sizes {
		shape := slices.Clone(x.Shape)
		shape[dim] = size
		out[i] = p.Global(p.LSlice(all, dim, at, at+size/n), shape, x.Spec)
		at += size / n
	}
	return out
}

// Precise is Linear for few rows, accurate to f32 whatever the type of the weights. With
// bf16 weights, x is written as the sum of three bf16 terms, which is accurate to f32 and
// whose products with the weights are exact. That is cheaper than converting the weights to
// f32.
func (p *ProgramBuilder) Precise(name string, x spmd.Tensor, to sharding.Spec) spmd.Tensor {
	w := p.Weight(name + ".weight")
	if w.DType == dtype.F32 {
		return p.addBias(name, p.reducePartial(name, p.Builder.Linear(x, w, dtype.F32), to))
	}
	var sum *spmd.Tensor
	for range 3 {
		term := p.Convert(x, w.DType)
		x = p.Sub(x, p.Convert(term, dtype.F32))
		y := p.Builder.Linear(term, w, dtype.F32)
		if sum != nil {
			y = p.Add(*sum, y)
		}
		sum = &y
	}
	return p.addBias(name, p.reducePartial(name, *sum, to))
}

// FFN applies the linear layer up, act in f32, and the linear layer down. If the target cuts
// matmuls into blocks of rows, the wide hidden layer exists for one block at a time only. x
// (B, S, in) is in the compute type, the result (B, S, out) in f32.
func (p *ProgramBuilder) FFN(up, down string, x spmd.Tensor, to sharding.Spec, act func(spmd.Tensor) spmd.Tensor) spmd.Tensor {
	return p.feedForward([]string{up}, down, x, to, func(h []spmd.Tensor) spmd.Tensor { return act(h[0]) })
}

// GatedFFN is FFN with two layers in place of up: the result of gate goes through act and is
// multiplied by that of up.
func (p *ProgramBuilder) GatedFFN(gate, up, down string, x spmd.Tensor, to sharding.Spec, act func(spmd.Tensor) spmd.Tensor) spmd.Tensor {
	return p.feedForward([]string{gate, up}, down, x, to, func(h []spmd.Tensor) spmd.Tensor { return p.Mul(act(h[0]), h[1]) })
}

// feedForward is FFN with any number of layers ups, whose results middle combines to the
// hidden layer.
func (p *ProgramBuilder) feedForward(ups []string, down string, x spmd.Tensor, to sharding.Spec, middle func([]spmd.Tensor) spmd.Tensor) spmd.Tensor {
	for _, up := range ups { // declared before the loop over blocks of rows
		p.Weight(up + ".weight")
		if p.Has(up + ".bias") {
			p.Weight(up + ".bias")
		}
	}
	w := p.Weight(down + ".weight")
	r := p.Step.Request
	y := p.MapRows(x, 1, p.Target().RowTile/max(1, r.Batch), func(x spmd.Tensor) spmd.Tensor {
		h := make([]spmd.Tensor, len(ups))
		for i, up := range ups {
			h[i] = p.addBias(up, p.Convert(p.Builder.Linear(x, p.Weight(up+".weight"), x.DType), dtype.F32))
		}
		return p.Builder.Linear(p.Compute(middle(h)), w, r.DType)
	})
	return p.addBias(down, p.reducePartial(down, y, to))
}

// RopePairs rotates pairs of neighbouring channels of x (B, S, H d) by tables (S, d) and
// views the result as (B, S, H, d): out[2i] = x[2i] cos_i - x[2i+1] sin_i, out[2i+1] =
// x[2i+1] cos_i + x[2i] sin_i. The tables are as RotaryPairs makes them.
func (p *ProgramBuilder) RopePairs(x, cos, sin spmd.Tensor, heads, headDim int) spmd.Tensor {
	return p.rotateChannels(x, p.SwapPairs(x), cos, sin, heads, headDim)
}

// rotateChannels is x cos + swapped sin in the compute type, viewed as (B, S, H, d).
func (p *ProgramBuilder) rotateChannels(x, swapped, cos, sin spmd.Tensor, heads, headDim int) spmd.Tensor {
	if p.Target().Chip != "" {
		// XLA writes a table that is broadcast over heads and then flattened twice, first in
		// another layout: 173 MB of temporaries more at 32,768 tokens and 10 heads. A
		// concatenation is written once.
		tile := func(t spmd.Tensor) spmd.Tensor {
			of := make([]spmd.Local, p.Local(x).Shape[2]/headDim)
			for i := range of {
				of[i] = p.Local(t)
			}
			return p.Global(p.LConcat(1, of...), []int{t.Dim(0), x.Dim(2)}, t.Spec.WithDim(1, x.Spec.Dim(2)...))
		}
		y := p.Compute(p.Add(p.Mul(x, tile(cos)), p.Mul(swapped, tile(sin))))
		return p.SplitDim(y, 2, heads, headDim)
	}
	view := func(x spmd.Tensor) spmd.Tensor { return p.SplitDim(x, 2, heads, headDim) }
	cos, sin = p.ExpandDim(cos, 1), p.ExpandDim(sin, 1) // S 1 d
	return p.Compute(p.Add(p.Mul(view(x), cos), p.Mul(view(swapped), sin)))
}

// RotatedNorms applies the linear layers names to x, normalises each result over its whole
// width with the weights of norms, and rotates it as RopePairs does: (B, S, H, d) in the
// compute type. Neighbouring channels are swapped right behind the projection, in the
// compute type and before the bias; the norm's factor and the swapped bias and weight are
// applied to them afterwards. The swapped copy is then half as large as one made after the
// norm. That one took 1 GB at once in a layer of Wan2.1-14B on v4, with 32,768 tokens over
// tp=4.
func (p *ProgramBuilder) RotatedNorms(x, cos, sin spmd.Tensor, names, norms []string, heads, headDim int, eps float64) []spmd.Tensor {
	type projection struct{ y, bias, weight spmd.Tensor }
	ps, fs := make([]projection, len(names)), make([]spmd.Tensor, len(names))
	for i, name := range names {
		y := p.Builder.Linear(x, p.Weight(name+".weight"), x.DType)
		ps[i] = projection{y: y, bias: p.Weight(name + ".bias"), weight: p.Weight(norms[i] + ".weight")}
		fs[i] = p.Add(p.Convert(y, dtype.F32), ps[i].bias)
	}
	out := make([]spmd.Tensor, len(names))
	for i, r := range p.RMSFactors(eps, fs...) {
		q := ps[i]
		normed := func(x, weight spmd.Tensor) spmd.Tensor { return p.Mul(p.Mul(x, r), weight) }
		swapped := p.Add(p.Convert(p.SwapPairs(q.y), dtype.F32), p.SwapPairs(q.bias))
		out[i] = p.rotateChannels(normed(fs[i], q.weight), normed(swapped, p.SwapPairs(q.weight)), cos, sin, heads, headDim)
	}
	return out
}

// SwapPairs exchanges each two neighbouring channels in the last dim of x. It selects
// between two copies whose channels are shifted by one either way. Each device shifts its
// own channels: their number is even, so the one that wraps around is never selected.
func (p *ProgramBuilder) SwapPairs(x spmd.Tensor) spmd.Tensor {
	local := p.Local(x)
	last := len(local.Shape) - 1
	n := local.Shape[last]
	left := p.LConcat(last, p.LSlice(local, last, 1, n), p.LSlice(local, last, 0, 1))
	right := p.LConcat(last, p.LSlice(local, last, n-1, n), p.LSlice(local, last, 0, n-1))
	parity := p.LBinary(program.OpRem, p.LIota(dtype.I32, 0, n), p.LConst(dtype.I32, 2))
	even := p.LCompare("EQ", parity, p.LConst(dtype.I32, 0))
	return p.Global(p.LSelect(even, left, right), x.Shape, x.Spec)
}

// Norm is a LayerNorm over the last dim with the weight name.weight and the bias name.bias.
func (p *ProgramBuilder) Norm(name string, x spmd.Tensor, eps float64) spmd.Tensor {
	return p.Add(p.Mul(p.LayerNorm(x, eps), p.Weight(name+".weight")), p.Weight(name+".bias"))
}

// Tokens traces output 0 of a call under a name. shape is the shape of the value without
// padding.
func Tokens(name string, shape ...int) map[int]graph.Traced {
	return map[int]graph.Traced{0: {Name: name, Shape: shape}}
}

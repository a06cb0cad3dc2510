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

// Program is a spmd.Builder with a step's weights and values at hand.
type Program struct {
	*spmd.Builder
	Step   *Step
	prefix string                 // of weights: "blocks.0." for a block
	inputs map[string]spmd.Tensor // declared so far: what is used twice is one input
}

// Build defines a program. Its weights' names are prefix and what Weight is
// given: the first layer's stand for every layer's.
func (s *Step) Build(name, prefix string, define func(p *Program)) error {
	prog, err := spmd.Build(name, s.Mesh, func(b *spmd.Builder) { define(&Program{b, s, prefix, map[string]spmd.Tensor{}}) }, spmd.WithTarget(s.Request.Target))
	if err != nil {
		return fmt.Errorf("program %s: %w", name, err)
	}
	s.Graph.Programs[name+s.suffix] = prog
	return nil
}

// Define runs the definitions of programs in order, up to the first that fails.
func Define(programs ...func() error) error {
	for _, define := range programs {
		if err := define(); err != nil {
			return err
		}
	}
	return nil
}

// Has says whether there is a weight of this name.
func (p *Program) Has(name string) bool { return p.Step.Has(p.prefix + name) }

// Weight declares the parameter prefix+name as the input "name". What fsdp keeps
// in shares is gathered here, just before its use.
func (p *Program) Weight(name string) spmd.Tensor {
	at, ok := p.Step.weightIndex[p.prefix+name]
	if !ok {
		panic("step: no parameter " + p.prefix + name)
	}
	w := &p.Step.Graph.Weights[at]
	t := p.declareInput(name, w.DType, w.Shape, w.Spec)
	return p.Reshard(t, p.Step.specs[w.Name].Spec, "fsdp: gathered just in time")
}

// Value declares a value that was declared to the step.
func (p *Program) Value(name string) spmd.Tensor {
	v, ok := p.Step.values[name]
	if !ok {
		panic("step: no value " + name)
	}
	return p.declareInput(name, v.DType, v.Shape, v.Spec)
}

func (p *Program) declareInput(name string, d dtype.DType, shape []int, spec sharding.Spec) spmd.Tensor {
	t, ok := p.inputs[name]
	if !ok {
		t = p.Input(name, d, shape, spec)
		p.inputs[name] = t
	}
	return t
}

// Compute rounds to the type matmuls run in.
func (p *Program) Compute(x spmd.Tensor) spmd.Tensor { return p.Convert(x, p.Step.Request.DType) }

// Linear is x W^T + b in f32, b where the model has one; x is in the compute
// type. A row-parallel sum is reduced into the layout to, in the compute type,
// before its bias.
func (p *Program) Linear(name string, x spmd.Tensor, to sharding.Spec) spmd.Tensor {
	w := p.Weight(name + ".weight")
	return p.addBias(name, p.reducePartial(name, p.Builder.Linear(x, w, x.DType), to))
}

func (p *Program) reducePartial(name string, y spmd.Tensor, to sharding.Spec) spmd.Tensor {
	if len(y.Spec.Partial()) > 0 {
		y = p.Reshard(y, to, "sum of the row-parallel "+name)
	}
	return p.Convert(y, dtype.F32)
}

func (p *Program) addBias(name string, y spmd.Tensor) spmd.Tensor {
	if p.Has(name + ".bias") {
		y = p.Add(y, p.Weight(name+".bias"))
	}
	return y
}

// Unstack takes the results of matrices that are stacked in one, of these sizes
// in order, out of what Linear gives for all: of each a device holds its part. The
// weight's rule says so, by a layout.
func (p *Program) Unstack(x spmd.Tensor, sizes ...int) []spmd.Tensor {
	return p.UnstackDim(x, x.Rank()-1, sizes...)
}

// UnstackDim does the same along a dim, of weights as well.
func (p *Program) UnstackDim(x spmd.Tensor, dim int, sizes ...int) []spmd.Tensor {
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

// Precise is Linear for few rows, in f32 accuracy whatever the weights' type.
// With bf16 weights x is cut into three bf16 terms whose sum is x to f32
// accuracy and whose products are exact: cheaper than widening the weights.
func (p *Program) Precise(name string, x spmd.Tensor, to sharding.Spec) spmd.Tensor {
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

// FFN is act between the linear layers up and down, the middle in f32 before
// act. Where the target cuts matmuls the wide middle exists for a block of rows
// only. x (B, S, in) is in the compute type, the result (B, S, out) in f32.
func (p *Program) FFN(up, down string, x spmd.Tensor, to sharding.Spec, act func(spmd.Tensor) spmd.Tensor) spmd.Tensor {
	return p.feedForward([]string{up}, down, x, to, func(h []spmd.Tensor) spmd.Tensor { return act(h[0]) })
}

// GatedFFN is FFN with two layers up whose results are multiplied, act over that of gate.
func (p *Program) GatedFFN(gate, up, down string, x spmd.Tensor, to sharding.Spec, act func(spmd.Tensor) spmd.Tensor) spmd.Tensor {
	return p.feedForward([]string{gate, up}, down, x, to, func(h []spmd.Tensor) spmd.Tensor { return p.Mul(act(h[0]), h[1]) })
}

// feedForward makes one middle of what the layers ups give.
func (p *Program) feedForward(ups []string, down string, x spmd.Tensor, to sharding.Spec, middle func([]spmd.Tensor) spmd.Tensor) spmd.Tensor {
	for _, up := range ups { // declared outside of the blocks of rows
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

// RopePairs rotates pairs of neighbouring channels of x (B, S, H d) by tables
// (S, d) and views the result as (B, S, H, d): out[2i] = x[2i] cos_i - x[2i+1]
// sin_i, out[2i+1] = x[2i+1] cos_i + x[2i] sin_i. The tables have each angle
// twice, the sine with the sign of its place.
func (p *Program) RopePairs(x, cos, sin spmd.Tensor, heads, headDim int) spmd.Tensor {
	return p.rotateChannels(x, p.SwapPairs(x), cos, sin, heads, headDim)
}

// rotateChannels is x cos + swapped sin in the compute type, viewed as (B, S, H, d).
func (p *Program) rotateChannels(x, swapped, cos, sin spmd.Tensor, heads, headDim int) spmd.Tensor {
	if p.Target().Chip != "" {
		// A table that is broadcast over heads and flattened is written twice, in another
		// layout first: 173 MB of temporaries more at 32,768 tokens and 10 heads. Laid end
		// to end it is written once.
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

// RotatedNorms projects x by the linear layers names, normalises each over its
// whole width by the weight of norms, and rotates it as RopePairs does: (B, S, H, d)
// in the compute type. Channels change places as the projection gives them, in the
// compute type and before their bias, and the norm's factor, the bias's and the weight's
// channels follow: what is moved is then half as large as after the norm, where
// one layer of Wan2.1-14B on v4, 32,768 tokens over tp=4, held 1 GB of it at once.
func (p *Program) RotatedNorms(x, cos, sin spmd.Tensor, names, norms []string, heads, headDim int, eps float64) []spmd.Tensor {
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

// SwapPairs exchanges each two neighbouring channels, the last dim of x. They are
// fetched by rotating the channels one place either way, which crosses a
// device's part, of an even number of channels, only where it is not used.
func (p *Program) SwapPairs(x spmd.Tensor) spmd.Tensor {
	local := p.Local(x)
	last := len(local.Shape) - 1
	n := local.Shape[last]
	left := p.LConcat(last, p.LSlice(local, last, 1, n), p.LSlice(local, last, 0, 1))
	right := p.LConcat(last, p.LSlice(local, last, n-1, n), p.LSlice(local, last, 0, n-1))
	parity := p.LBinary(program.OpRem, p.LIota(dtype.I32, 0, n), p.LConst(dtype.I32, 2))
	even := p.LCompare("EQ", parity, p.LConst(dtype.I32, 0))
	return p.Global(p.LSelect(even, left, right), x.Shape, x.Spec)
}

// Norm is a LayerNorm over the last dim with the weights name.weight and name.bias.
func (p *Program) Norm(name string, x spmd.Tensor, eps float64) spmd.Tensor {
	return p.Add(p.Mul(p.LayerNorm(x, eps), p.Weight(name+".weight")), p.Weight(name+".bias"))
}

// Tokens traces output 0 of a call under a name; shape is the value's own
// without padding.
func Tokens(name string, shape ...int) map[int]graph.Traced {
	return map[int]graph.Traced{0: {Name: name, Shape: shape}}
}

package decoder

import (
	"fmt"
	"math"

	"weft/attention"
	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/sharding"
	"weft/spmd"
)

// build is one graph under construction.
//
// Shapes: B batch, L tokens, Lp the same padded for the split, D width, H query
// heads, Hkv key heads, d head width, N layers that are run.
type build struct {
	*step.Step
	m      *Model
	layout models.TextLayout
	layers int // N
}

// run is how many layers a request runs: those behind the one that is taken are not.
func (m *Model) run(r models.Request) int { return r.Run(m.c.Layers - m.c.SkipLayers) }

// Graph builds an encoding: the tokens' rows, every layer's block, and what is
// taken of their results.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	if err := m.Check(on, r); err != nil {
		return nil, err
	}
	r.Layers = m.run(r)
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, m: m, layout: r.TextLayout(on, m.defaultText()), layers: r.Layers}
	s.Padded("tokens", s.layout.Tokens, s.layout.Padded)
	s.values()
	if err := s.Stages(s.layers, s.stage); err != nil {
		return nil, err
	}
	return s.Finish("out")
}

func (s *build) values() {
	c, l, b := s.m.c, s.layout, s.Request.Batch
	s.Input(graph.Input{Name: "ids", DType: dtype.I32, Shape: []int{b, l.Padded}, Spec: l.Gathered, Step: true})
	for _, table := range []string{"rope_cos", "rope_sin"} {
		s.Input(graph.Input{Name: table, DType: dtype.F32, Shape: []int{l.Padded, c.HeadDim}, Spec: sharding.NewSpec([]string{"sp"})})
	}
	stream := step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim}, Spec: l.Stream}
	for i := range s.layers - 1 { // as the last call reads them, all at once
		s.Value(fmt.Sprintf("normal.%d", i), stream)
	}
	stream.Kind = step.PerLayer
	s.Value("normal", stream)
	stream.Kind = step.Stream
	s.Value("tokens", stream)
}

// stage builds the programs of one pipeline stage and their calls.
func (s *build) stage(first, last bool, layers sharding.Range) error {
	tokens := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.Request.Batch, s.layout.Tokens, s.m.c.Dim)
	}
	define := []func() error{s.block}
	if first {
		define = append(define, s.embed)
	}
	if s.all() {
		define = append(define, s.normal)
	}
	if last {
		define = append(define, s.post)
	}
	for _, d := range define {
		if err := d(); err != nil {
			return err
		}
	}
	if first {
		s.Call(graph.Call{Name: "embed", Program: "embed", Trace: tokens("embed")}, "", 0)
	}
	for i := layers.Lo; i < layers.Hi; i++ {
		s.Call(graph.Call{Name: fmt.Sprintf("block %d", i), Program: "block", Trace: tokens(fmt.Sprintf("block_%d", i))}, s.m.block(i), i)
		if s.all() && i < s.layers-1 {
			s.Call(graph.Call{Name: fmt.Sprintf("normal %d", i), Program: "normal"}, "", i)
		}
	}
	if last {
		s.Call(graph.Call{Name: "post", Program: "post"}, "", layers.Hi)
	}
	return nil
}

// all says whether every layer's result is taken.
func (s *build) all() bool { return s.m.c.SkipLayers == 0 }

// embed looks the tokens' rows up: (B, Lp) to (B, Lp, D).
func (s *build) embed() error {
	return s.Build("embed", "", func(p *step.Program) {
		p.Output("tokens", p.Rows(s.m.prefix()+"embed_tokens", p.Value("ids"), s.layout.Stream), "")
	})
}

// block is one layer: causal self-attention and gated FFN, each behind an RMS
// norm. The stream stays f32.
func (s *build) block() error {
	c, l := s.m.c, s.layout
	return s.Build("block", s.m.block(0), func(p *step.Program) {
		x := p.Value("tokens")
		norm := func(name string) spmd.Tensor {
			return p.Reshard(p.Compute(p.RMSNorm(name, x, c.Eps)), l.Gathered, "split stream gathered for column-parallel matmuls")
		}
		h := norm("input_layernorm")
		part := func(name string) spmd.Tensor { // as many heads as there are, copies among them
			x := p.Linear("self_attn."+name, h, l.Gathered)
			return p.SplitDim(x, 2, x.Dim(2)/c.HeadDim, c.HeadDim)
		}
		cos, sin := p.Value("rope_cos"), p.Value("rope_sin")
		q, k := p.RopeHalves(part("q_proj"), cos, sin), p.RopeHalves(part("k_proj"), cos, sin)
		y := attention.Attend(p.Builder, q, k, p.Compute(part("v_proj")), attention.Options{Keys: l.Tokens, Causal: true})
		x = p.Add(x, p.Linear("self_attn.o_proj", p.MergeDims(y, 2, 2), l.Stream))
		x = p.Add(x, p.GatedFFN("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", norm("post_attention_layernorm"), l.Stream, p.Silu))
		p.Output("tokens", x, "tokens")
	})
}

// standard is (x - mean) / (std + 1e-8) over the last dim.
func standard(p *step.Program, x spmd.Tensor) spmd.Tensor {
	mean := func(x spmd.Tensor) spmd.Tensor { return p.Scale(p.Sum(x, -1), 1/float64(x.Dim(-1))) }
	x = p.Sub(x, mean(x))
	return p.Div(x, p.Shift(p.Unary(spmd.OpSqrt, mean(p.Mul(x, x))), 1e-8))
}

// normal is a layer's result as it is taken.
func (s *build) normal() error {
	return s.Build("normal", "", func(p *step.Program) { p.Output("normal", standard(p, p.Value("tokens")), "") })
}

// post is the result: the last layer's that is run (B, L, D), or all of them, the
// last behind the norm at the end (B, L, N D).
func (s *build) post() error {
	return s.Build("post", "", func(p *step.Program) {
		x := p.Value("tokens")
		if s.all() {
			parts := []spmd.Tensor{}
			for i := range s.layers - 1 {
				parts = append(parts, p.Value(fmt.Sprintf("normal.%d", i)))
			}
			x = p.Concat(2, append(parts, standard(p, p.RMSNorm(s.m.prefix()+"norm", x, s.m.c.Eps)))...)
		}
		x = p.Reshard(x, sharding.NewSpec([]string{"dp"}), "tokens gathered for the result")
		p.Output("out", p.Slice(x, 1, 0, s.layout.Tokens), "")
	})
}

// angles are those of L tokens (L, d/2): place times theta^(-2i/d).
func (c Config) angles(tokens int) [][]float64 {
	out := make([][]float64, tokens)
	for s := range out {
		for i := range c.HeadDim / 2 {
			out[s] = append(out[s], float64(s)*math.Pow(c.Theta, -2*float64(i)/float64(c.HeadDim)))
		}
	}
	return out
}

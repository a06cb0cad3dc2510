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
	"weft/program"
	"weft/spmd"
	"weft/strategy"
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

// layersToRun returns the number of layers that a request runs. The layers behind the
// one whose hidden state is the result are not run.
func (m *Model) layersToRun(r models.Request) int { return r.Run(m.c.Layers - m.c.SkipLayers) }

// Graph builds an encoding: the lookup of the tokens' rows, every layer's block, and
// the result, which is made of one layer's hidden state or of all of them.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	r.Layers = m.layersToRun(r)
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, m: m, layout: r.TextLayout(on, m.defaultText()), layers: r.Layers}
	s.Padded("tokens", s.layout.Tokens, s.layout.Padded)
	s.declareValues()
	if r.TextRows { // the table stays in its file
		base.DropWeight(m.namePrefix() + "embed_tokens.weight")
	}
	return step.Assemble(base, s.layers, step.PlainProgram, s.listCalls(), "out")
}

// declareValues declares the inputs that the host provides and the values that one
// call passes to another, with their shapes and shardings.
func (s *build) declareValues() {
	c, l, b := s.m.c, s.layout, s.Request.Batch
	if s.Request.TextRows {
		s.Input(graph.Input{Name: "rows", DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim}, Spec: l.Gathered, Step: true})
	} else {
		s.Input(graph.Input{Name: "ids", DType: dtype.I32, Shape: []int{b, l.Padded}, Spec: l.Gathered, Step: true})
	}
	if s.Request.Masked {
		s.Input(graph.Input{Name: "mask", DType: dtype.Bool, Shape: []int{b, l.Tokens}, Spec: strategy.SpecOf(strategy.Batch), Step: true})
	}
	for _, first := range c.firstOfEachType(0, s.layers) {
		for _, table := range []string{"rope_cos", "rope_sin"} {
			_, dim := c.keyHeads(c.isGlobal(first))
			s.Input(graph.Input{Name: table + typeSuffix(c.isGlobal(first)), DType: dtype.F32, Shape: []int{l.Padded, dim}, Spec: strategy.SpecOf(strategy.Tokens)})
		}
	}
	stream := step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim}, Spec: l.Stream}
	for i := range s.resultsBeforeLastLayer() { // one name each, because the last call reads all of them
		s.Value(fmt.Sprintf("normal.%d", i), stream)
	}
	stream.Kind = step.PerLayer
	s.Value("normal", stream)
	stream.Kind = step.Stream
	s.Value("tokens", stream)
}

// listCalls lists the calls of an encoding in the order in which they run, with their programs.
func (s *build) listCalls() []step.Parts[*step.ProgramBuilder] {
	type part = step.Part[*step.ProgramBuilder]
	tokens := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.Request.Batch, s.layout.Tokens, s.m.c.Dim)
	}
	return []step.Parts[*step.ProgramBuilder]{
		step.First(
			part{Program: "embed", Trace: tokens("embed"), Define: s.buildEmbed},
			step.PartIf(s.resultsBeforeFirstLayer() > 0, part{Program: "normal", Call: "normal of the rows", Define: s.buildNormal}),
		),
		step.EachLayer(func(i int) []part {
			global := s.m.c.isGlobal(i)
			return []part{
				{Program: "block" + typeSuffix(global), Call: fmt.Sprintf("block %d", i), Prefix: s.m.blockPrefix(i), Trace: tokens(fmt.Sprintf("block_%d", i)),
					Define: func(p *step.ProgramBuilder) { s.buildBlock(p, global) }},
				step.PartIf(s.takesEveryLayer() && i < s.layers-1, part{Program: "normal", Layer: i + s.resultsBeforeFirstLayer(), Define: s.buildNormal}),
			}
		}),
		step.Last(part{Program: "post", Define: s.buildPost}),
	}
}

// takesEveryLayer says whether the result has the hidden states of every layer.
func (s *build) takesEveryLayer() bool { return s.m.c.SkipLayers == 0 }

// resultsBeforeFirstLayer returns how many hidden states in front of the first layer
// belong to the result: for Gemma the tokens' rows, otherwise none.
func (s *build) resultsBeforeFirstLayer() int {
	if s.m.c.ModelType == gemma {
		return 1
	}
	return 0
}

// resultsBeforeLastLayer returns how many hidden states stand before the last layer's
// in a result of every layer.
func (s *build) resultsBeforeLastLayer() int { return s.layers - 1 + s.resultsBeforeFirstLayer() }

// buildEmbed builds the program that looks up the tokens' rows: (B, Lp) to (B, Lp, D).
// Gemma multiplies them by the square root of D, rounded to the compute type as in
// training.
func (s *build) buildEmbed(p *step.ProgramBuilder) {
	var x spmd.Tensor
	if s.Request.TextRows {
		x = p.Reshard(p.Value("rows"), s.layout.Stream, "rows of tokens as the stream has them")
	} else {
		x = p.Rows(s.m.namePrefix()+"embed_tokens", p.Value("ids"), s.layout.Stream)
	}
	if s.m.c.ModelType == gemma {
		root := p.Compute(p.Constant(dtype.F32, math.Sqrt(float64(s.m.c.Dim))))
		x = p.Mul(x, p.Convert(root, dtype.F32))
	}
	p.Output("tokens", x, "")
}

// typeSuffix returns the end of the names of a program or table that belongs to one
// type of layers.
func typeSuffix(global bool) string {
	if global {
		return "_global"
	}
	return ""
}

// buildBlock builds the program of one layer: causal self-attention and gated FFN,
// each behind an RMS norm. The residual stream stays f32. Gemma also normalises both
// results and every head of queries, keys and values, the values without a weight.
// It does not scale the attention's scores, but it scales the result of the layer.
func (s *build) buildBlock(p *step.ProgramBuilder, global bool) {
	c, l := s.m.c, s.layout
	sandwich := c.ModelType == gemma
	_, dim := c.keyHeads(global)
	x := p.Value("tokens")
	norm := func(name string) spmd.Tensor {
		return p.GatherStream(p.RMSNorm(name, x, c.Eps), l.Gathered)
	}
	h := norm("input_layernorm")
	part := func(name string) spmd.Tensor { // the width decides how many heads there are, because heads may be copied
		x := p.Linear("self_attn."+name, h, l.Gathered)
		return p.SplitDim(x, 2, x.Dim(2)/dim, dim)
	}
	add := func(y spmd.Tensor, norm string) {
		if sandwich {
			y = p.RMSNorm(norm, y, c.Eps)
		}
		x = p.Add(x, y)
	}
	o := attention.Options{Keys: l.Tokens, Causal: true}
	if s.Request.Masked {
		mask := p.ExpandDim(p.ExpandDim(p.Value("mask"), 1), 1) // B 1 1 L
		o.Mask = &mask
	}
	before, act := "post_attention_layernorm", p.Silu
	q, k := part("q_proj"), part("k_proj")
	v := k
	if !global {
		v = part("v_proj")
	}
	if sandwich {
		before, act, o.Scale = "pre_feedforward_layernorm", p.GeluTanh, 1
		q, k = p.RMSNorm("self_attn.q_norm", q, c.Eps), p.RMSNorm("self_attn.k_norm", k, c.Eps)
		v = normalizeRMS(p, v, c.Eps)
	}
	cos, sin := p.Value("rope_cos"+typeSuffix(global)), p.Value("rope_sin"+typeSuffix(global))
	y := attention.Attend(p.Builder, p.RopeHalves(q, cos, sin), p.RopeHalves(k, cos, sin), p.Compute(v), o)
	add(p.Linear("self_attn.o_proj", p.MergeDims(y, 2, 2), l.Stream), "post_attention_layernorm")
	add(p.GatedFFN("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", norm(before), l.Stream, act), "post_feedforward_layernorm")
	if sandwich {
		x = p.Mul(x, p.Weight("layer_scalar"))
	}
	p.Output("tokens", x, "tokens")
}

// normByMeanAndStd computes (x - mean) / (std + 1e-8) over the last dim.
func normByMeanAndStd(p *step.ProgramBuilder, x spmd.Tensor) spmd.Tensor {
	mean := func(x spmd.Tensor) spmd.Tensor { return p.Scale(p.Sum(x, -1), 1/float64(x.Dim(-1))) }
	x = p.Sub(x, mean(x))
	return p.Div(x, p.Shift(p.Unary(program.OpSqrt, mean(p.Mul(x, x))), 1e-8))
}

// normalizeRMS computes x / sqrt(mean(x^2) + eps) over the last dim.
func normalizeRMS(p *step.ProgramBuilder, x spmd.Tensor, eps float64) spmd.Tensor {
	return p.Mul(x, p.RMSFactors(eps, x)[0])
}

// normResult normalises a layer's hidden state over its width, as it goes into a
// result of every layer.
func (s *build) normResult(p *step.ProgramBuilder, x spmd.Tensor) spmd.Tensor {
	if s.m.c.ModelType == gemma {
		return normalizeRMS(p, x, 1e-6) // LTX-2.5's epsilon, whatever the decoder's is
	}
	return normByMeanAndStd(p, x)
}

// buildNormal builds the program that applies normResult to a layer's hidden state.
func (s *build) buildNormal(p *step.ProgramBuilder) {
	p.Output("normal", s.normResult(p, p.Value("tokens")), "")
}

// joinResults joins the hidden states (B, Lp, D) of N layers. It concatenates them,
// (B, Lp, N D), but for Gemma interleaves them channel by channel, (B, Lp, D N).
func (s *build) joinResults(p *step.ProgramBuilder, parts []spmd.Tensor) spmd.Tensor {
	if s.m.c.ModelType != gemma {
		return p.Concat(2, parts...)
	}
	for i := range parts {
		parts[i] = p.ExpandDim(parts[i], 3)
	}
	return p.MergeDims(p.Concat(3, parts...), 2, 2)
}

// buildPost builds the program that makes the result: the hidden state of the last
// layer that is run, (B, L, D), or those of all layers joined, the last one behind the
// final norm. Where a mask marks padding, the result is zero.
func (s *build) buildPost(p *step.ProgramBuilder) {
	x := p.Value("tokens")
	if s.takesEveryLayer() {
		parts := []spmd.Tensor{}
		for i := range s.resultsBeforeLastLayer() {
			parts = append(parts, p.Value(fmt.Sprintf("normal.%d", i)))
		}
		x = s.joinResults(p, append(parts, s.normResult(p, p.RMSNorm(s.m.namePrefix()+"norm", x, s.m.c.Eps))))
	}
	x = p.Reshard(x, strategy.SpecOf(strategy.Batch), "tokens gathered for the result")
	x = p.Slice(x, 1, 0, s.layout.Tokens)
	if s.Request.Masked && s.m.c.ModelType == gemma { // whose reader takes no mask
		x = p.Select(p.ExpandDim(p.Value("mask"), 2), x, p.Constant(dtype.F32, 0))
	}
	p.Output("out", x, "")
}

// rotaryAngles returns the rotary angles of L tokens (L, d/2): the position times
// theta^(-2i/d). In a full layer the channels that do not rotate have the angle 0.
func (c Config) rotaryAngles(tokens int, global bool) [][]float64 {
	_, dim := c.keyHeads(global)
	theta, turning := c.Theta, dim/2
	if global {
		theta, turning = c.GlobalTheta, int(c.Partial*float64(dim)/2)
	}
	out := make([][]float64, tokens)
	for s := range out {
		out[s] = make([]float64, dim/2)
		for i := range turning {
			out[s][i] = float64(s) * math.Pow(theta, -2*float64(i)/float64(dim))
		}
	}
	return out
}

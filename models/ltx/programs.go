package ltx

import (
	"fmt"
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/sharding"
	"weft/spmd"
	"weft/strategy"
)

// build is one graph under construction.
type build struct {
	*step.Step
	c      Config
	r      models.Request
	layout layout
}

// layout says how the tensors of a request are sharded over a mesh.
type layout struct {
	step.Layout     // of patches of one token: N, Np
	text        int // L
	// times are the dims of modulations before D: (B), (B, Np) or (B, Times).
	// modulation is their spec.
	times      []int
	modulation sharding.Spec
	positions  int // B, or 1 where all videos have the same positions
}

func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) layout {
	l := layout{Layout: step.LayoutOf(on, r, [3]int{1, 1, 1}), text: r.Text, positions: 1}
	if l.text == 0 {
		l.text = textLen
	}
	l.times, l.modulation = step.TimeRows(r, l.Layout)
	if r.OwnPositions {
		l.positions = r.Batch
	}
	return l
}

// Graph builds a step: the text's embedding, which runs once per request, the embedding of
// time and tokens, the block of every layer, and the head.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, c: m.c, r: r, layout: m.layOutRequest(on, r)}
	s.Padded("tokens", s.layout.Tokens, s.layout.Padded)
	if m.c.Second {
		s.Note("the video half of LTX-2.5: its audio half is not run")
	}
	s.declareValues()
	return step.Assemble(base, r.Run(m.c.Layers), s.newProgram, s.listCalls(), "out")
}

// listCalls lists the calls of a step in the order in which they run, with their programs. The
// text's keys and values are computed once per request, unless the noise level modulates the
// text: then each layer computes them in every step.
func (s *build) listCalls() []step.Parts[*programBuilder] {
	type part = step.Part[*programBuilder]
	tokens := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.r.Batch, s.layout.Tokens, s.c.Dim())
	}
	prefix := func(i int) string { return fmt.Sprintf("transformer_blocks.%d.", i) }
	textKV := func(i int) part {
		return part{Program: "text_kv", Prefix: prefix(i), Request: !s.c.CrossAdaLN, Define: s.buildTextKV}
	}
	return []step.Parts[*programBuilder]{
		step.First(step.PartIf(s.c.CaptionChannels > 0, part{Program: "text", Request: true, Trace: step.Tokens("context_embed"), Define: s.buildText})),
		step.EachLayer(func(i int) []part { return []part{step.PartIf(!s.c.CrossAdaLN, textKV(i))} }),
		step.First(
			part{Program: "time", Trace: s.TraceTimes(s.layout.Layout, "time_mod", s.c.modulationCount(), s.c.Dim()), Define: s.buildTime},
			step.PartIf(s.c.CrossAdaLN, part{Program: "prompt", Define: s.buildPrompt}),
			part{Program: "pre", Trace: tokens("patch_embed"), Define: s.buildPre},
		),
		step.EachLayer(func(i int) []part {
			return []part{
				step.PartIf(s.c.CrossAdaLN, textKV(i)),
				{Program: "block", Prefix: prefix(i), Trace: tokens(fmt.Sprintf("block_%d", i)), Define: s.buildBlock},
			}
		}),
		step.Last(part{Program: "post", Define: s.buildPost}),
	}
}

func (s *build) newProgram(p *step.ProgramBuilder) *programBuilder {
	c, l := s.c, s.layout
	return &programBuilder{ProgramBuilder: p, heads: c.Heads, headDim: c.HeadDim, eps: c.Eps, qkEps: c.qkEps(), gated: c.Gated, halves: c.Second, stream: l.Stream, gathered: l.Gathered}
}

// declareValues declares the graph's inputs and the values that calls pass to each other.
func (s *build) declareValues() {
	c, l, b, d := s.c, s.layout, s.r.Batch, s.c.Dim()
	s.Input(graph.Input{Name: "x", DType: dtype.F32, Shape: []int{b, l.Tokens, c.InChannels}, Spec: l.Batch, Step: true})
	s.TimeInputs(l.Layout, timeDim)
	for _, name := range []string{"rope_cos", "rope_sin"} {
		of := strategy.None
		if l.positions > 1 {
			of = strategy.Batch
		}
		s.Input(graph.Input{Name: name, DType: dtype.F32, Shape: []int{l.positions, l.Padded, d}, Spec: strategy.SpecOf(of, strategy.Tokens, strategy.Heads)})
	}
	s.Input(graph.Input{Name: "text_bias", DType: dtype.F32, Shape: []int{b, 1, 1, l.text}, Spec: l.Batch})
	if c.CaptionChannels > 0 {
		s.Input(graph.Input{Name: "context", DType: s.r.DType, Shape: []int{b, l.text, c.CaptionChannels}, Spec: l.Batch})
		s.Value("text", step.Value{DType: s.r.DType, Shape: []int{b, l.text, d}, Spec: l.Batch})
	} else {
		s.Input(graph.Input{Name: "text", DType: s.r.DType, Shape: []int{b, l.text, d}, Spec: l.Batch})
	}
	if c.CrossAdaLN {
		s.Input(graph.Input{Name: "sigma", DType: dtype.F32, Shape: []int{b, timeDim}, Spec: l.Batch, Step: true})
		s.Value("prompt", step.Value{DType: dtype.F32, Shape: []int{b, 2, d}, Spec: l.Batch})
	}
	if c.Keyframes {
		s.Input(graph.Input{Name: "keyframes", DType: dtype.F32, Shape: []int{b, l.Padded, 1}, Spec: l.Stream})
	}
	s.Value("tokens", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, d}, Spec: l.Stream, Kind: step.Stream})
	s.Value("e", step.Value{DType: dtype.F32, Shape: append(slices.Clone(l.times), d), Spec: l.modulation})
	s.Value("e0", step.Value{DType: dtype.F32, Shape: append(slices.Clone(l.times), c.modulationCount(), d), Spec: l.modulation})
	for _, v := range []string{"text_k", "text_v"} {
		s.Value(v, step.Value{DType: s.r.DType, Shape: []int{b, l.text, c.Heads, c.HeadDim}, Spec: strategy.SpecOf(strategy.Batch, strategy.None, strategy.Heads), Kind: step.PerLayer})
	}
}

// embedTimestep applies an AdaLN to the sinusoidal embedding of a timestep, in f32. It gives
// the timestep's embedding e (..., D) and the parts of the modulation that a linear layer
// makes from it (..., parts, D), both with the spec to.
func (p *programBuilder) embedTimestep(name string, time spmd.Tensor, parts int, to sharding.Spec) (e, mod spmd.Tensor) {
	rows := time.Spec
	e = p.PreciseMLP(name+".emb.timestep_embedder.linear_1", name+".emb.timestep_embedder.linear_2", time, rows)
	mod = p.Precise(name+".linear", p.Silu(e), rows)
	mod = p.Reshard(mod, to, "modulation gathered: every device modulates whole tokens")
	last := mod.Rank() - 1
	return p.Reshard(e, to, "held as the stream is"), p.SplitDim(mod, last, parts, mod.Dim(last)/parts)
}

// buildTime embeds the timestep, e, and makes the modulations of the layers from it, e0.
func (s *build) buildTime(p *programBuilder) {
	e, e0 := p.embedTimestep("adaln_single", p.Value("time"), s.c.modulationCount(), s.layout.modulation)
	p.Output("e", e, "")
	p.Output("e0", e0, "")
}

// buildPrompt makes the modulation of the text's rows (B, 2, D) from the noise level.
func (s *build) buildPrompt(p *programBuilder) {
	_, mod := p.embedTimestep("prompt_adaln_single", p.Value("sigma"), 2, s.layout.Batch)
	p.Output("prompt", mod, "")
}

// buildText embeds the context: (B, L, caption_channels) to (B, L, D).
func (s *build) buildText(p *programBuilder) {
	x := p.GeluTanh(p.Linear("caption_projection.linear_1", p.Value("context"), s.layout.Batch))
	p.Output("text", p.Compute(p.Linear("caption_projection.linear_2", p.Compute(x), s.layout.Batch)), "")
}

// buildTextKV builds a layer's keys and values of the text (B, L, H, d).
func (s *build) buildTextKV(p *programBuilder) {
	p.gathered = s.layout.Batch
	x := p.Value("text")
	if s.c.CrossAdaLN {
		mod := p.Add(p.Value("prompt"), p.Weight("prompt_scale_shift_table"))
		x = p.Compute(p.Modulate(p.Convert(x, dtype.F32), p.Slice(mod, 1, 0, 1), p.Slice(mod, 1, 1, 2)))
	}
	p.Output("text_k", p.splitHeads(p.Compute(p.projectNormed("attn2", x, "k")[0])), "")
	p.Output("text_v", p.splitHeads(p.Compute(p.Linear("attn2.to_v", x, s.layout.Batch))), "")
}

// buildPre embeds the tokens: (B, Np, D).
func (s *build) buildPre(p *programBuilder) {
	x := p.Reshard(p.PadTo(p.Value("x"), 1, s.layout.Padded), s.layout.Stream, "tokens cut over the mesh")
	x = p.Linear("patchify_proj", p.Compute(x), s.layout.Stream)
	if s.c.Keyframes {
		x = p.Add(x, p.Mul(p.Value("keyframes"), p.Weight("keyframes_abs_pos_embedding")))
	}
	p.Output("tokens", x, "")
}

// buildBlock builds a layer: self-attention, cross-attention to the text, FFN. The residual
// stream stays f32.
func (s *build) buildBlock(p *programBuilder) {
	x, e0, table := p.Value("tokens"), p.Value("e0"), p.Weight("scale_shift_table")
	part := func(i int) spmd.Tensor {
		learned := p.Slice(table, 0, i, i+1) // (1, D)
		if s.r.TokenTimes {
			return p.Add(p.OfTokens(p.DropDim(p.Slice(e0, 2, i, i+1), 2)), learned)
		}
		return p.Add(p.Slice(e0, 1, i, i+1), learned)
	}
	h := p.gatherStream(p.Modulate(p.normalizeRMS(x), part(0), part(1)))
	x = p.Add(x, p.Mul(p.selfAttention("attn1", h, s.layout.Tokens), part(2)))

	cross := func(h spmd.Tensor) spmd.Tensor {
		return p.crossAttention("attn2", p.gatherStream(h), p.Value("text_k"), p.Value("text_v"), p.Value("text_bias"))
	}
	switch {
	case s.c.CrossAdaLN:
		x = p.Add(x, p.Mul(cross(p.Modulate(p.normalizeRMS(x), part(6), part(7))), part(8)))
	case s.c.Second:
		x = p.Add(x, cross(p.normalizeRMS(x)))
	default:
		x = p.Add(x, cross(x))
	}

	h = p.gatherStream(p.Modulate(p.normalizeRMS(x), part(3), part(4)))
	x = p.Add(x, p.Mul(p.feedForward(h), part(5)))
	p.Output("tokens", x, "tokens")
}

// buildPost builds the head: the last norm and the projection to tokens of latents
// (B, N, C).
func (s *build) buildPost(p *programBuilder) {
	x, e, table := p.Value("tokens"), p.Value("e"), p.Weight("scale_shift_table")
	if s.r.TokenTimes {
		e = p.OfTokens(e)
	} else {
		e = p.ExpandDim(e, 1)
	}
	part := func(i int) spmd.Tensor { return p.Add(e, p.Slice(table, 0, i, i+1)) }
	h := p.Modulate(p.LayerNorm(x, s.c.Eps), part(0), part(1))
	y := p.Linear("proj_out", p.Compute(h), s.layout.Stream)
	y = p.Reshard(y, s.layout.Batch, "tokens gathered for the latents")
	p.Output("out", p.Slice(y, 1, 0, s.layout.Tokens), "")
}

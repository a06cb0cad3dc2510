package cosmos25

import (
	"fmt"

	"weft/attention"
	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/spmd"
	"weft/strategy"
)

// build is one graph under construction.
//
// Shapes: B batch, S tokens in (frame, row, column) order, Sp the same padded
// for the split, T timesteps of a video (one, or one a frame), D width, H heads,
// d head width, L text rows, C context width, r LoRA width.
type build struct {
	*step.Step
	c      Config
	r      models.Request
	layout layout
}

// layout says how a request is sharded over a mesh, and with which padded sizes.
type layout struct {
	step.Layout
	times int // T
}

// batch is the sharding of values that all devices of a video replicate: over dp alone.
var batch = strategy.SpecOf(strategy.Batch)

// layOutRequest computes the layout of a request on a mesh.
func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) layout {
	l := layout{step.LayoutOf(on, r, m.c.Patch()), 1}
	if r.TokenTimes {
		l.times = l.Grid.Frames
	}
	return l
}

// Graph builds the step: the text and its keys and values once a request, the
// time embedding and the patches, every layer's block, and the final layer.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, c: m.c, r: r, layout: m.layOutRequest(on, r)}
	s.Padded("tokens", s.layout.Tokens, s.layout.Padded)
	s.declareValues()
	return step.Assemble(base, r.Run(m.c.Layers), s.newProgram, s.listCalls(), "out")
}

// listCalls lists the calls of a step in the order in which they run, with their programs.
func (s *build) listCalls() []step.Parts[*programBuilder] {
	type part = step.Part[*programBuilder]
	tokens := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.r.Batch, s.layout.Tokens, s.c.Width)
	}
	return []step.Parts[*programBuilder]{
		step.First(part{Program: "text", Request: true, Trace: step.Tokens("context_embed"), Define: s.buildText}),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "text_kv", Prefix: fmt.Sprintf("blocks.%d.cross_attn.", i), Request: true, Define: s.buildTextKV}}
		}),
		step.First(
			part{Program: "time", Trace: map[int]graph.Traced{0: {Name: "time_embed"}, 1: {Name: "adaln_lora"}}, Define: s.buildTime},
			part{Program: "pre", Trace: tokens("patch_embed"), Define: s.buildPre},
		),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "block", Prefix: fmt.Sprintf("blocks.%d.", i), Trace: tokens(fmt.Sprintf("block_%d", i)), Define: s.buildBlock}}
		}),
		step.Last(part{Program: "post", Define: s.buildPost}),
	}
}

// declareValues declares the inputs that the host provides and the values that one
// call passes to another, with their shapes and shardings.
func (s *build) declareValues() {
	c, l, b := s.c, s.layout, s.r.Batch
	heads := strategy.SpecOf(strategy.Batch, strategy.None, strategy.Heads)
	latent := append([]int{b}, s.r.Latent...)
	s.Input(graph.Input{Name: "x", DType: dtype.F32, Shape: latent, Spec: batch, Step: true})
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: []int{b, l.times, c.Width}, Spec: batch, Step: true})
	// The text's projection is row-parallel: a device reads only the columns of the
	// context that its rows of the weight multiply.
	s.Input(graph.Input{Name: "context", DType: s.r.DType, Shape: []int{b, TextLen, c.TextDim},
		Spec: batch.WithDim(2, s.Spec("crossattn_proj.0.weight").Dim(1)...)})
	s.Input(graph.Input{Name: "masks", DType: dtype.F32, Shape: append([]int{b, masks}, s.r.Latent[1:]...), Spec: batch})
	s.RotaryTables(l.Layout, c.HeadDim())
	s.Value("tokens", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Width}, Spec: l.Stream, Kind: step.Stream})
	s.Value("emb", step.Value{DType: dtype.F32, Shape: []int{b, l.times, c.Width}, Spec: batch})
	s.Value("lora", step.Value{DType: dtype.F32, Shape: []int{b, l.times, 3 * c.Width}, Spec: batch})
	s.Value("text", step.Value{DType: s.r.DType, Shape: []int{b, TextLen, c.ContextDim}, Spec: batch})
	for _, kv := range []string{"text_k", "text_v"} {
		s.Value(kv, step.Value{DType: s.r.DType, Shape: []int{b, TextLen, c.Heads, c.HeadDim()}, Spec: heads, Kind: step.PerLayer})
	}
}

// programBuilder is one program under construction.
type programBuilder struct {
	*step.ProgramBuilder
	s *build
}

func (s *build) newProgram(p *step.ProgramBuilder) *programBuilder { return &programBuilder{p, s} }

// buildText builds the program that projects the context: (B, L, text_dim) to (B, L, C).
func (s *build) buildText(p *programBuilder) {
	p.Output("text", p.Compute(p.Gelu(p.Linear("crossattn_proj.0", p.Value("context"), batch))), "")
}

// buildTextKV builds the program that projects a layer's keys and values of the text,
// (B, L, H, d).
func (s *build) buildTextKV(p *programBuilder) {
	x := p.Value("text")
	p.Output("text_k", p.Compute(p.RMSNorm("k_norm", p.splitHeads(p.Linear("k_proj", x, batch)), eps)), "")
	p.Output("text_v", p.Compute(p.splitHeads(p.Linear("v_proj", x, batch))), "")
}

// splitHeads views (B, S, D) as (B, S, H, d).
func (p *programBuilder) splitHeads(x spmd.Tensor) spmd.Tensor {
	return p.SplitDim(x, 2, p.s.c.Heads, p.s.c.HeadDim())
}

// buildTime builds the program that reads the timesteps' sinusoids (B, T, D). It makes
// "emb", their norm, which every modulation reads, and "lora" (B, T, 3D), which is
// added to every modulation.
func (s *build) buildTime(p *programBuilder) {
	x := p.Value("time")
	p.Output("emb", p.RMSNorm("t_embedding_norm", x, eps), "")
	h := p.Silu(p.Precise("t_embedder.1.linear_1", x, batch))
	p.Output("lora", p.Precise("t_embedder.1.linear_2", h, batch), "")
}

// buildPre builds the program that cuts latents and their masks into patches and
// embeds them as tokens (B, Sp, D).
func (s *build) buildPre(p *programBuilder) {
	l := s.layout
	x := p.Patches(p.Concat(1, p.Value("x"), p.Value("masks")), s.c.Patch(), "ctyx")
	x = p.Reshard(p.PadTo(x, 1, l.Padded), l.Stream, "tokens cut over the mesh")
	p.Output("tokens", p.Linear("x_embedder.proj.1", p.Compute(x), l.Stream), "")
}

// computeModulations computes the modulations of sublayers, each (B, T, n D): it
// applies the two narrow layers of each name to silu(emb), adds the first n D channels
// of "lora", which all sublayers share, and gathers the results in one collective.
// The function that it returns gives one part of a sublayer's modulation for every
// token.
func (p *programBuilder) computeModulations(n int, names ...string) func(name string, part int) spmd.Tensor {
	d := p.s.c.Width
	emb, lora := p.Silu(p.Value("emb")), p.ExpandDim(p.Slice(p.Value("lora"), 2, 0, n*d), 2)
	all := make([]spmd.Tensor, len(names))
	at := map[string]int{}
	for i, name := range names {
		at[name] = i
		all[i] = p.ExpandDim(p.Precise(name+".2", p.Precise(name+".1", emb, batch), batch), 2)
	}
	joined := p.Reshard(p.Add(p.Concat(2, all...), lora), batch, "modulations gathered: every device modulates whole tokens")
	return func(name string, part int) spmd.Tensor {
		y := p.Slice(p.Slice(joined, 2, at[name], at[name]+1), 3, part*d, (part+1)*d)
		return p.EveryToken(p.DropDim(y, 2), p.s.layout.Grid, p.s.layout.Padded, p.s.layout.Stream)
	}
}

// normAndModulate computes norm(x) (1 + scale) + shift in the compute type. Where the
// residual stream is sharded over tp, it gathers the result.
func (p *programBuilder) normAndModulate(x spmd.Tensor, shift, scale spmd.Tensor) spmd.Tensor {
	return p.GatherStream(p.Modulate(p.LayerNorm(x, eps), shift, scale), p.s.layout.Gathered)
}

// buildBlock builds the program of one layer: self-attention, cross-attention to the
// text, and MLP, each with a modulation of its own. The residual stream stays f32.
func (s *build) buildBlock(p *programBuilder) {
	l := s.layout
	x := p.Value("tokens")
	cos, sin := p.Value("rope_cos"), p.Value("rope_sin")
	const self, cross, mlp = "adaln_modulation_self_attn", "adaln_modulation_cross_attn", "adaln_modulation_mlp"
	part := p.computeModulations(3, self, cross, mlp) // shift, scale, gate
	qk := func(name string, h spmd.Tensor) spmd.Tensor {
		return p.RMSNorm(name+"_norm", p.splitHeads(p.Linear(name+"_proj", h, l.Gathered)), eps)
	}

	h := p.normAndModulate(x, part(self, 0), part(self, 1))
	q, k := p.RopeHalves(qk("self_attn.q", h), cos, sin), p.RopeHalves(qk("self_attn.k", h), cos, sin)
	v := p.Compute(p.splitHeads(p.Linear("self_attn.v_proj", h, l.Gathered)))
	y := attention.Attend(p.Builder, q, k, v, attention.Options{Keys: l.Tokens})
	x = p.Add(x, p.Mul(p.Linear("self_attn.output_proj", p.MergeDims(y, 2, 2), l.Stream), part(self, 2)))

	h = p.normAndModulate(x, part(cross, 0), part(cross, 1))
	y = attention.Attend(p.Builder, p.Compute(qk("cross_attn.q", h)), p.Value("text_k"), p.Value("text_v"), attention.Options{})
	x = p.Add(x, p.Mul(p.Linear("cross_attn.output_proj", p.MergeDims(y, 2, 2), l.Stream), part(cross, 2)))

	h = p.normAndModulate(x, part(mlp, 0), part(mlp, 1))
	x = p.Add(x, p.Mul(p.FFN("mlp.layer1", "mlp.layer2", h, l.Stream, p.Gelu), part(mlp, 2)))
	p.Output("tokens", x, "tokens")
}

// buildPost builds the program of the final layer, which turns tokens back into
// latents. In its patches the channels are innermost, whereas they are outermost in
// the patches that the model reads.
func (s *build) buildPost(p *programBuilder) {
	l := s.layout
	const name = "final_layer.adaln_modulation"
	part := p.computeModulations(2, name)
	x := p.Value("tokens")
	h := p.Add(p.Mul(p.LayerNorm(x, eps), p.Shift(part(name, 1), 1)), part(name, 0))
	y := p.Linear("final_layer.linear", p.Compute(h), l.Stream)
	p.Output("out", p.Latents(y, l.Grid, s.c.Patch(), "yxtc"), "")
}

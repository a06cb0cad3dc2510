package cogvideox

import (
	"fmt"

	"weft/attention"
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
//
// Shapes: B batch, S video tokens in (frame, row, column) order, Sp the same
// padded for the split, T text tokens, D width, H heads, d head width.
type build struct {
	*step.Step
	c      Config
	r      models.Request
	layout layout
}

// layout says how a request is sharded over a mesh, and with which padded sizes.
type layout = step.Layout

// layOutRequest computes the layout of a request on a mesh.
func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) layout {
	return step.LayoutOf(on, r, m.c.patchShape())
}

// Graph builds the step: the text's embedding, which runs once a request, the time
// embedding and the patches, every layer's block, and the projection to latents.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, c: m.c, r: r, layout: m.layOutRequest(on, r)}
	s.Padded("video tokens", s.layout.Tokens, s.layout.Padded)
	if n := r.Latent[1]; m.c.PatchT > 1 {
		s.Note("latent frames come in groups of %d: a video with fewer than these %d gets more in front, which are cut off again before it is decoded", m.c.PatchT, n)
	}
	s.declareValues()
	return step.Assemble(base, r.Run(m.c.Layers), s.newProgram, s.listCalls(), "out")
}

// listCalls lists the calls of a step in the order in which they run, with their programs.
func (s *build) listCalls() []step.Parts[*programBuilder] {
	type part = step.Part[*programBuilder]
	video := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.r.Batch, s.layout.Tokens, s.c.Dim())
	}
	return []step.Parts[*programBuilder]{
		step.First(
			part{Program: "text", Request: true, Trace: step.Tokens("text_embed"), Define: s.buildText},
			part{Program: "time", Trace: step.Tokens("time_embed"), Define: s.buildTime},
			part{Program: "pre", Trace: video("visual_embed"), Define: s.buildPre},
		),
		step.EachLayer(func(i int) []part {
			trace := video(fmt.Sprintf("block_%d", i))
			trace[1] = graph.Traced{Name: fmt.Sprintf("block_%d_text", i)}
			return []part{{Program: "block", Prefix: fmt.Sprintf("transformer_blocks.%d.", i), Trace: trace, Define: s.buildBlock}}
		}),
		step.Last(part{Program: "post", Define: s.buildPost}),
	}
}

// declareValues declares the inputs that the host provides and the values that one
// call passes to another, with their shapes and shardings.
func (s *build) declareValues() {
	c, l, b := s.c, s.layout, s.r.Batch
	f, h, w := s.r.Latent[1], s.r.Latent[2], s.r.Latent[3]
	s.Input(graph.Input{Name: "x", DType: dtype.F32, Shape: []int{b, f, c.OutChannels, h, w}, Spec: l.Batch, Step: true})
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: []int{b, c.Dim()}, Spec: l.Batch, Step: true})
	s.Input(graph.Input{Name: "context", DType: s.r.DType, Shape: []int{b, c.TextLen, c.TextEmbedDim}, Spec: l.Batch})
	if n := c.conditionDim(); n > 0 {
		s.Input(graph.Input{Name: "y", DType: dtype.F32, Shape: []int{b, f, n, h, w}, Spec: l.Batch})
	}
	if c.OfsEmbedDim > 0 {
		s.Input(graph.Input{Name: "ofs", DType: dtype.F32, Shape: []int{b, c.OfsEmbedDim}, Spec: l.Batch})
	}
	for _, t := range s.positionTables() {
		s.Input(graph.Input{Name: t.name, DType: dtype.F32, Shape: []int{l.Padded, t.width}, Spec: sharding.NewSpec(t.axes)})
	}
	s.Value("emb", step.Value{DType: dtype.F32, Shape: []int{b, c.TimeEmbedDim}, Spec: l.Batch})
	s.Value("video", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim()}, Spec: l.Stream, Kind: step.Stream})
	s.Value("text", step.Value{DType: dtype.F32, Shape: []int{b, c.TextLen, c.Dim()}, Spec: l.Batch, Kind: step.Stream})
}

// positionTable is an input of positions (Sp, width).
type positionTable struct {
	name  string
	width int
	axes  []string // mesh axes over which its tokens are sharded
}

// positionTables returns the tables of positions that the model reads: a head's
// rotary tables, sharded as queries are, or the positions that are added to the
// tokens at the beginning, sharded as the video's residual stream is.
func (s *build) positionTables() []positionTable {
	if s.c.Rotary {
		sp := s.layout.Gathered.Dim(1)
		return []positionTable{{"rope_cos", s.c.HeadDim, sp}, {"rope_sin", s.c.HeadDim, sp}}
	}
	return []positionTable{{"positions", s.c.Dim(), s.layout.Stream.Dim(1)}}
}

// programBuilder is one program under construction.
type programBuilder struct {
	*step.ProgramBuilder
	s *build
}

func (s *build) newProgram(p *step.ProgramBuilder) *programBuilder { return &programBuilder{p, s} }

// buildText builds the program that embeds the context (B, T, text_embed_dim) as the
// text's residual stream (B, T, D).
func (s *build) buildText(p *programBuilder) {
	x := p.Linear("patch_embed.text_proj", p.Value("context"), s.layout.Batch)
	if s.c.Learned {
		x = p.Add(x, p.learnedPositions(0, s.c.TextLen))
	}
	p.Output("text", p.Reshard(x, s.layout.Batch, "text's stream gathered: a norm over its whole width follows"), "")
}

// learnedPositions returns rows lo to hi of the learned positions, (1, rows, D),
// sharded along D.
func (p *programBuilder) learnedPositions(lo, hi int) spmd.Tensor {
	return p.Convert(p.Slice(p.Weight(positions), 1, lo, hi), dtype.F32)
}

// buildTime builds the program that embeds the timestep and the offset and adds
// them: (B, time_embed_dim), in f32.
func (s *build) buildTime(p *programBuilder) {
	embed := func(name, table string) spmd.Tensor {
		return p.PreciseMLP(name+".linear_1", name+".linear_2", p.Value(table), s.layout.Batch)
	}
	e := embed("time_embedding", "time")
	if s.c.OfsEmbedDim > 0 {
		e = p.Add(e, embed("ofs_embedding", "ofs"))
	}
	p.Output("emb", e, "")
}

// buildPre builds the program that cuts latents into patches and embeds them as the
// video's residual stream (B, Sp, D).
func (s *build) buildPre(p *programBuilder) {
	c, l := s.c, s.layout
	x := p.Value("x") // B F C H W
	if c.conditionDim() > 0 {
		x = p.Concat(2, x, p.Value("y"))
	}
	x = p.Patches(p.Transpose(x, 0, 2, 1, 3, 4), c.patchShape(), "ctyx")
	x = p.PadTo(x, 1, l.Padded)
	if c.Learned {
		// Tokens and positions are both sharded along D, so that they can be added
		// before they are gathered and the large table never is.
		x = p.Reshard(x, l.Gathered, "tokens cut over the mesh")
		x = p.Linear("patch_embed.proj", p.Compute(x), l.Gathered)
		at := p.PadTo(p.learnedPositions(c.TextLen, c.TextLen+l.Tokens), 1, l.Padded)
		x = p.Add(x, p.Reshard(at, strategy.SpecOf(strategy.None, strategy.Tokens, strategy.Width), "positions cut as the tokens are"))
		x = p.Reshard(x, l.Stream, "video's stream gathered: a norm over its whole width follows")
	} else {
		x = p.Reshard(x, l.Stream, "tokens cut over the mesh")
		x = p.Linear("patch_embed.proj", p.Compute(x), l.Stream)
	}
	if !c.Rotary {
		x = p.Add(x, p.Value("positions"))
	}
	p.Output("video", x, "")
}

// modulateNorm computes norm(x) (1 + scale) + shift.
func (p *programBuilder) modulateNorm(norm string, x, shift, scale spmd.Tensor) spmd.Tensor {
	return p.Modulate(p.Norm(norm, x, p.s.c.Eps), shift, scale)
}

// normAndModulateBoth normalises and modulates both streams by AdaLN k of mod, in the
// compute type. Where the video's residual stream is sharded over tp, it gathers the
// result, because every device of tp multiplies whole rows by its own columns.
func (p *programBuilder) normAndModulateBoth(norm string, k int, mod func(k, i int) spmd.Tensor, video, text spmd.Tensor) (v, t spmd.Tensor) {
	v = p.Compute(p.modulateNorm(norm, video, mod(k, 0), mod(k, 1)))
	t = p.Compute(p.modulateNorm(norm, text, mod(k, 3), mod(k, 4)))
	return p.Reshard(v, p.s.layout.Gathered, "split stream gathered for column-parallel matmuls"), t
}

// qkEps is the epsilon of the norms of queries and keys in every release.
const qkEps = 1e-6

// projectQKV returns a stream's queries, keys and values (B, S, H, d). It normalises
// queries and keys head by head, and rotates them where rotated is set.
func (p *programBuilder) projectQKV(x spmd.Tensor, rotated bool) attention.Parts {
	c := p.s.c
	head := func(name string) spmd.Tensor {
		return p.SplitDim(p.Linear("attn1.to_"+name, x, p.s.layout.Gathered), 2, c.Heads, c.HeadDim)
	}
	normed := func(name string) spmd.Tensor {
		y := p.Norm("attn1.norm_"+name, head(name), qkEps)
		if !rotated {
			return p.Compute(y)
		}
		return p.RopePairs(p.MergeDims(y, 2, 2), p.Value("rope_cos"), p.Value("rope_sin"), c.Heads, c.HeadDim)
	}
	return attention.Parts{Q: normed("q"), K: normed("k"), V: p.Compute(head("v"))}
}

// buildBlock builds the program of one layer: attention over text and video together,
// then an FFN, with a modulation of its own for each stream. Both residual streams
// stay f32.
func (s *build) buildBlock(p *programBuilder) {
	l := s.layout
	video, text := p.Value("video"), p.Value("text")
	mod := p.Modulations(p.Value("emb"), s.c.Dim(), l.Batch, "norm1.linear", "norm2.linear")

	v, t := p.normAndModulateBoth("norm1.norm", 0, mod, video, text)
	ta, va := attention.Joint(p.Builder, p.projectQKV(t, false), p.projectQKV(v, s.c.Rotary), l.Tokens, true, attention.Options{})
	video = p.Add(video, p.Mul(mod(0, 2), p.Linear("attn1.to_out.0", p.MergeDims(va, 2, 2), l.Stream)))
	text = p.Add(text, p.Mul(mod(0, 5), p.Linear("attn1.to_out.0", p.MergeDims(ta, 2, 2), l.Batch)))

	v, t = p.normAndModulateBoth("norm2.norm", 1, mod, video, text)
	video = p.Add(video, p.Mul(mod(1, 2), p.FFN("ff.net.0.proj", "ff.net.2", v, l.Stream, p.GeluTanh)))
	text = p.Add(text, p.Mul(mod(1, 5), p.FFN("ff.net.0.proj", "ff.net.2", t, l.Batch, p.GeluTanh)))
	p.Output("video", video, "video")
	p.Output("text", text, "") // not donated: the first text stream is made once a request and read in every step
}

// buildPost builds the program of the last norms and the projection, which turns
// tokens back into latents.
func (s *build) buildPost(p *programBuilder) {
	c, l := s.c, s.layout
	mod := p.Modulations(p.Value("emb"), s.c.Dim(), l.Batch, "norm_out.linear")
	x := p.Norm("norm_final", p.Value("video"), c.Eps)
	x = p.Linear("proj_out", p.Compute(p.modulateNorm("norm_out.norm", x, mod(0, 0), mod(0, 1))), l.Stream)
	x = p.Latents(x, l.Grid, c.patchShape(), "ctyx")
	p.Output("out", p.Transpose(x, 0, 2, 1, 3, 4), "")
}

package wan

import (
	"cmp"
	"fmt"
	"slices"

	"weft/attention"
	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
	"weft/strategy"
)

// build is one graph under construction.
//
// Shapes: B batch, S tokens in (frame, row, column) order, Sp the same padded
// for the split, D width, H heads, d head width, L text rows, Li image rows.
type build struct {
	*step.Step
	c      Config
	r      models.Request
	layout layout
}

// layout says how a request is sharded over a mesh, and with which padded sizes.
type layout struct {
	step.Layout
	text, image int // L, Li
	// modulation is the sharding of e and e0, which modulate the residual stream's
	// rows. They are (B, D) and (B, 6, D); with a timestep for every token (B, Sp, D)
	// and (B, Sp, 6, D), sharded as the tokens are; and where the tokens have few
	// different timesteps (B, Times, D) and (B, Times, 6, D).
	modulation sharding.Spec
	times      []int // the dims of e in front of D
}

// layOutRequest computes the layout of a request on a mesh. The text and the
// image's features have their full lengths where the request does not state them.
func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) layout {
	l := layout{Layout: step.LayoutOf(on, r, m.c.PatchSize), text: m.c.TextLen}
	if l.text == 0 {
		l.text = r.Text
	}
	l.times, l.modulation = step.TimeRows(r, l.Layout)
	if m.c.ImageDim > 0 {
		l.image = r.Image
		if l.image == 0 {
			l.image = cmp.Or(m.c.ImageRows, clipRows)
		}
	}
	return l
}

// Graph builds the step: the text's embedding, which runs once a request, the time
// embedding and the patches, every layer's block, and the head.
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

// listCalls lists the calls of a step in the order in which they run, with their programs. The
// residual stream gets a new name from every call: "tokens.0" from the patches, "tokens.3"
// from the third layer.
func (s *build) listCalls() []step.Parts[*programBuilder] {
	type part = step.Part[*programBuilder]
	tokens := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.r.Batch, s.layout.Tokens, s.c.Dim)
	}
	return []step.Parts[*programBuilder]{
		step.First(
			part{Program: "text", Request: true, Trace: step.Tokens("context_embed"), Define: s.buildText},
			step.PartIf(s.c.ImageDim > 0, part{Program: "image", Request: true, Trace: step.Tokens("img_embed"), Define: s.buildImage}),
		),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "text_kv", Prefix: fmt.Sprintf("blocks.%d.cross_attn.", i), Request: true, Define: s.buildTextKV}, s.controlTextKV(i)}
		}),
		step.First(
			part{Program: "time", Trace: s.TraceTimes(s.layout.Layout, "time_proj", 6, s.c.Dim), Define: s.buildTime},
			part{Program: "pre", Trace: tokens("patch_embed"), Define: s.buildPre},
			step.PartIf(s.c.ModelType == vace, part{Program: "vace_pre", Trace: tokens("vace_patch_embed"), Define: s.buildControlPre}),
		),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "block", Prefix: fmt.Sprintf("blocks.%d.", i), Trace: tokens(fmt.Sprintf("block_%d", i)), Define: s.buildBlock}, s.controlBlock(i)}
		}),
		step.Last(part{Program: "post", Define: s.buildPost}),
	}
}

// declareValues declares the inputs that the host provides and the values that one
// call passes to another, with their shapes and shardings.
func (s *build) declareValues() {
	c, l, b := s.c, s.layout, s.r.Batch
	batch, heads := strategy.SpecOf(strategy.Batch), strategy.SpecOf(strategy.Batch, strategy.None, strategy.Heads)
	latent := append([]int{b}, s.r.Latent...)
	s.Input(graph.Input{Name: "x", DType: dtype.F32, Shape: latent, Spec: batch, Step: true})
	s.TimeInputs(l.Layout, c.FreqDim)
	s.Input(graph.Input{Name: "context", DType: s.r.DType, Shape: []int{b, l.text, c.TextDim}, Spec: batch})
	s.RotaryTables(l.Layout, c.HeadDim())
	if c.ConditionDim() > 0 {
		s.Input(graph.Input{Name: "y", DType: dtype.F32, Shape: append([]int{b, c.ConditionDim()}, s.r.Latent[1:]...), Spec: batch})
	}
	if c.ImageDim > 0 {
		s.Input(graph.Input{Name: "clip_fea", DType: dtype.F32, Shape: []int{b, l.image, c.ImageDim}, Spec: batch})
	}
	s.declareControl()
	s.Value("tokens", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim}, Spec: l.Stream, Kind: step.Stream})
	s.Value("e", step.Value{DType: dtype.F32, Shape: append(slices.Clone(l.times), c.Dim), Spec: l.modulation})
	s.Value("e0", step.Value{DType: dtype.F32, Shape: append(slices.Clone(l.times), 6, c.Dim), Spec: l.modulation})
	for _, v := range []struct {
		name string
		rows int
	}{{"text", l.text}, {"image", l.image}, {"vace_text", l.text}} {
		s.Value(v.name, step.Value{DType: s.r.DType, Shape: []int{b, v.rows, c.Dim}, Spec: batch})
		for _, part := range []string{"_k", "_v"} {
			s.Value(v.name+part, step.Value{DType: s.r.DType, Shape: []int{b, v.rows, c.Dim}, Spec: heads, Kind: step.PerLayer})
		}
	}
}

// programBuilder is one program under construction.
type programBuilder struct {
	*step.ProgramBuilder
	s *build
}

func (s *build) newProgram(p *step.ProgramBuilder) *programBuilder { return &programBuilder{p, s} }

// buildText builds the program that embeds the context: (B, L, text_dim) to (B, L, D).
func (s *build) buildText(p *programBuilder) {
	batch := strategy.SpecOf(strategy.Batch)
	x := p.Value("context")
	x = p.Compute(p.GeluTanh(p.Linear("text_embedding.0", x, batch)))
	x = p.Linear("text_embedding.2", x, batch)
	p.Output("text", p.Compute(x), "")
}

// clipEps is the epsilon of the image branch's norms, which is PyTorch's default.
const clipEps = 1e-5

// buildImage builds the program that embeds the image's features: (B, Li, image_dim)
// to (B, Li, D).
func (s *build) buildImage(p *programBuilder) {
	batch := strategy.SpecOf(strategy.Batch)
	x := p.Value("clip_fea")
	if s.c.ImageRows > 0 {
		x = p.Add(x, p.Weight("img_emb.emb_pos"))
	}
	x = p.Norm("img_emb.proj.0", x, clipEps)
	x = p.Gelu(p.Linear("img_emb.proj.1", p.Compute(x), batch))
	x = p.Linear("img_emb.proj.3", p.Compute(x), batch)
	x = p.Reshard(x, batch, "image embedding gathered: a norm over its whole width follows")
	p.Output("image", p.Compute(p.Norm("img_emb.proj.4", x, clipEps)), "")
}

// buildTextKV builds the program that projects a layer's keys and values of the text
// (B, L, D) and, with an image branch, of the image (B, Li, D). They are sharded by
// heads but keep the flat width D: if the last dim of a program's input were a head,
// a TPU would store it in another order than the attention kernel reads. The norms
// of both keys reduce their sums of squares in one all-reduce.
func (s *build) buildTextKV(p *programBuilder) {
	if s.c.ImageDim == 0 {
		s.buildTextKeys(p, "")
		return
	}
	batch := strategy.SpecOf(strategy.Batch)
	x := p.Value("text")
	ks, ws := []spmd.Tensor{p.Linear("k", x, batch)}, []spmd.Tensor{p.Weight("norm_k.weight")}
	image := p.Value("image")
	ks, ws = append(ks, p.Linear("k_img", image, batch)), append(ws, p.Weight("norm_k_img.weight"))
	ks = p.normKeysTogether(ks, ws)
	p.Output("text_k", p.Compute(ks[0]), "")
	p.Output("text_v", p.Compute(p.Linear("v", x, batch)), "")
	p.Output("image_k", p.Compute(ks[1]), "")
	p.Output("image_v", p.Compute(p.Linear("v_img", image, batch)), "")
}

// buildTextKeys builds the program that projects keys and values of the text alone, under names
// that begin with prefix.
func (s *build) buildTextKeys(p *programBuilder, prefix string) {
	batch := strategy.SpecOf(strategy.Batch)
	x := p.Value("text")
	ks, ws := []spmd.Tensor{p.Linear("k", x, batch)}, []spmd.Tensor{p.Weight("norm_k.weight")}
	p.Output(prefix+"text_k", p.Compute(p.RMSNorms(s.c.Eps, ks, ws)[0]), "")
	p.Output(prefix+"text_v", p.Compute(p.Linear("v", x, batch)), "")
}

// normKeysTogether normalises tensors (B, rows, D) with different numbers of rows by
// their RMS and multiplies them by the weights ws. It concatenates their sums of
// squares (B, 1, rows), so that one all-reduce serves all of them.
func (p *programBuilder) normKeysTogether(xs, ws []spmd.Tensor) []spmd.Tensor {
	sums := make([]spmd.Tensor, len(xs))
	for i, x := range xs {
		sums[i] = p.Transpose(p.Sum(p.Mul(x, x), -1), 0, 2, 1)
	}
	sums = p.ReducedTogether("sums of squares of norms over a split dim", sums...)
	out := make([]spmd.Tensor, len(xs))
	for i, x := range xs {
		r := p.Unary(program.OpRsqrt, p.Shift(p.Scale(sums[i], 1/float64(x.Dim(-1))), p.s.c.Eps))
		out[i] = p.Mul(p.Mul(x, p.Transpose(r, 0, 2, 1)), ws[i])
	}
	return out
}

// splitHeads views (B, S, D) as (B, S, H, d).
func (p *programBuilder) splitHeads(x spmd.Tensor) spmd.Tensor {
	return p.SplitDim(x, 2, p.s.c.Heads, p.s.c.HeadDim())
}

// buildTime builds the program that embeds the timestep as e (B, D) and computes the
// six modulations e0 (B, 6, D), in f32, as the released models require. With a
// timestep for every token they are (B, Sp, D) and (B, Sp, 6, D), the largest values
// of a step; they are sharded as the tokens are, so no device holds them whole.
// Where tokens share a few timesteps, each timestep is embedded once and a token
// reads the row of its own.
func (s *build) buildTime(p *programBuilder) {
	time := p.Value("time")
	rows := time.Spec
	e := p.PreciseMLP("time_embedding.0", "time_embedding.2", time, rows)
	e0 := p.Precise("time_projection.1", p.Silu(e), rows)
	e0 = p.Reshard(e0, s.layout.modulation, "modulation gathered: every device modulates whole tokens")
	p.Output("e", p.Reshard(e, s.layout.modulation, "held as the stream is"), "")
	p.Output("e0", p.SplitDim(e0, len(s.layout.times), 6, s.c.Dim), "")
}

// buildPre builds the program that cuts latents into patches and embeds them as
// tokens (B, Sp, D).
func (s *build) buildPre(p *programBuilder) {
	x := p.Value("x") // B C F H W
	if s.c.ConditionDim() > 0 {
		x = p.Concat(1, x, p.Value("y"))
	}
	p.Output("tokens", p.embedPatches("patch_embedding", x), "")
}

// embedPatches cuts latents x (B, C, F, H, W) into patches and embeds them with the linear layer
// name: (B, Sp, D).
func (p *programBuilder) embedPatches(name string, x spmd.Tensor) spmd.Tensor {
	l := p.s.layout
	x = p.Patches(x, p.s.c.PatchSize, "ctyx")
	x = p.PadTo(x, 1, l.Padded)
	x = p.Reshard(x, l.Stream, "tokens cut over the mesh")
	return p.Linear(name, p.Compute(x), l.Stream)
}

// normAndModulate computes norm(x) (1 + scale) + shift in the compute type. Where
// the residual stream is sharded over tp, it gathers the result.
func (p *programBuilder) normAndModulate(x, shift, scale spmd.Tensor) spmd.Tensor {
	return p.GatherStream(p.Modulate(p.LayerNorm(x, p.s.c.Eps), shift, scale), p.s.layout.Gathered)
}

// modulationParts returns a function that adds row i of a learned table (1, n, D) to
// part i of the time's modulation. The sum is (B, 1, D), or (B, Sp, D) with a
// timestep for every token. at returns part i of the time's modulation.
func (p *programBuilder) modulationParts(table spmd.Tensor, at func(i int) spmd.Tensor) func(int) spmd.Tensor {
	return func(i int) spmd.Tensor { return p.Add(at(i), p.Slice(table, 1, i, i+1)) }
}

// buildBlock builds the program of one layer: self-attention, cross-attention to the
// text and the image, and FFN. The residual stream stays f32.
func (s *build) buildBlock(p *programBuilder) {
	p.Output("tokens", s.transformTokens(p, p.Value("tokens"), "text_k", "text_v"), "tokens")
}

// transformTokens computes a block of tokens x (B, Sp, D), with the keys and values of the text
// under their names.
func (s *build) transformTokens(p *programBuilder, x spmd.Tensor, textK, textV string) spmd.Tensor {
	c, l := s.c, s.layout
	e0 := p.Value("e0")
	cos, sin := p.Value("rope_cos"), p.Value("rope_sin")
	part := p.modulationParts(p.Weight("modulation"), func(i int) spmd.Tensor {
		if s.r.TokenTimes {
			return p.OfTokens(p.DropDim(p.Slice(e0, 2, i, i+1), 2))
		}
		return p.Slice(e0, 1, i, i+1)
	})

	h := p.normAndModulate(x, part(0), part(1))
	qk := p.RotatedNorms(h, cos, sin, []string{"self_attn.q", "self_attn.k"}, []string{"self_attn.norm_q", "self_attn.norm_k"}, c.Heads, c.HeadDim(), c.Eps)
	q, k := qk[0], qk[1]
	v := p.splitHeads(p.Compute(p.Linear("self_attn.v", h, l.Gathered)))
	y := attention.Attend(p.Builder, q, k, v, attention.Options{Keys: l.Tokens})
	o := p.Linear("self_attn.o", p.MergeDims(y, 2, 2), l.Stream)
	x = p.Add(x, p.Mul(o, part(2)))

	h = p.Norm("norm3", x, c.Eps)
	h = p.GatherStream(h, l.Gathered)
	q = p.Linear("cross_attn.q", h, l.Gathered)
	q = p.RMSNorms(c.Eps, []spmd.Tensor{q}, []spmd.Tensor{p.Weight("cross_attn.norm_q.weight")})[0]
	q = p.splitHeads(p.Compute(q))
	y = attention.Attend(p.Builder, q, p.splitHeads(p.Value(textK)), p.splitHeads(p.Value(textV)), attention.Options{})
	if c.ImageDim > 0 { // the image's keys have a softmax of their own
		y = p.Add(y, attention.Attend(p.Builder, q, p.splitHeads(p.Value("image_k")), p.splitHeads(p.Value("image_v")), attention.Options{}))
	}
	x = p.Add(x, p.Linear("cross_attn.o", p.MergeDims(y, 2, 2), l.Stream))

	h = p.normAndModulate(x, part(3), part(4))
	return p.Add(x, p.Mul(p.FFN("ffn.0", "ffn.2", h, l.Stream, p.GeluTanh), part(5)))
}

// buildPost builds the program of the head, which turns tokens back into latents.
func (s *build) buildPost(p *programBuilder) {
	c, l := s.c, s.layout
	x, e := p.Value("tokens"), p.Value("e")
	if s.r.TokenTimes {
		e = p.OfTokens(e)
	} else {
		e = p.ExpandDim(e, 1)
	}
	part := p.modulationParts(p.Weight("head.modulation"), func(int) spmd.Tensor { return e })
	h := p.Add(p.Mul(p.LayerNorm(x, c.Eps), p.Shift(part(1), 1)), part(0))
	y := p.Linear("head.head", p.Compute(h), l.Stream)
	p.Output("out", p.Latents(y, l.Grid, c.PatchSize, "tyxc"), "")
}

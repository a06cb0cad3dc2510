package hunyuan

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
)

// build is one graph under construction.
//
// Shapes: B batch, S video tokens in (frame, row, column) order, Sp the same padded so that
// the sharded dim divides, T text tokens, TT all rows of the text's stream (in 1.5 V of the
// image and G of byT5 come before the T), D width, H heads, d head width, F the FFN's hidden
// width.
type build struct {
	*step.Step
	c      Config
	r      models.Request
	layout layout
	// replaced says that the tokens of given frames have a timestep of their own.
	replaced bool
}

// layout says how the tensors of a request are sharded over a mesh.
type layout struct {
	step.Layout
	text int // TT
}

func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) layout {
	return layout{step.LayoutOf(on, r, m.c.Patch), r.Image + r.SecondText + r.Text}
}

// Graph builds a step. The parts of the text's embedding that depend on the text alone run
// once per request; the embedding of time, guidance and pooled text, the refiner, the patch
// embedding, the blocks and the head run in every step.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	if r.Text == 0 {
		r.Text = m.c.textRows()
		if m.c.Glyphs && r.SecondText == 0 {
			r.SecondText = glyphRows
		}
		if m.c.Glyphs && m.c.Task == taskImage && r.Image == 0 {
			r.Image = imageRows
		}
	}
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, c: m.c, r: r, layout: m.layOutRequest(on, r), replaced: m.replacesTokens(r)}
	s.Padded("video tokens", s.layout.Tokens, s.layout.Padded)
	s.declareValues()
	double, single := m.countLayers(r.Layers)
	return step.Assemble(base, double+single, s.newProgram, s.listCalls(double), "out")
}

// listCalls lists the calls of a step in the order in which they run, with their programs. Of
// all layers the first double are double layers, the others single ones.
func (s *build) listCalls(double int) []step.Parts[*programBuilder] {
	type part = step.Part[*programBuilder]
	b, d := s.r.Batch, s.c.Dim
	trace := func(video, text string) map[int]graph.Traced {
		return map[int]graph.Traced{0: {Name: video, Shape: []int{b, s.layout.Tokens, d}}, 1: {Name: text}}
	}
	refiner := []part{
		{Program: "refine", Define: s.buildRefine},
		{Program: "refiner_0", Call: "refiner 0", Prefix: refinerPrefix(0), Define: s.buildRefiner("embedded")},
	}
	for i := 1; i < refiners; i++ {
		refiner = append(refiner, part{Program: "refiner", Call: fmt.Sprintf("refiner %d", i), Prefix: refinerPrefix(i), Layer: i, Define: s.buildRefiner(s.refinedName())})
	}
	refiner[len(refiner)-1].Trace = step.Tokens("text_refined")
	return []step.Parts[*programBuilder]{
		step.First(
			part{Program: "text", Request: true, Define: s.buildText},
			part{Program: "vec", Trace: step.Tokens("vec"), Define: s.buildVec},
		),
		step.First(refiner...),
		step.First(
			step.PartIf(s.r.SecondText > 0, part{Program: "byt5", Request: true, Define: s.buildGlyphs}),
			step.PartIf(s.c.Glyphs && s.r.Image > 0, part{Program: "vision", Request: true, Define: s.buildImage}),
			step.PartIf(s.c.Glyphs, part{Program: "join", Define: s.buildJoin}),
			part{Program: "pre", Trace: step.Tokens("patch_embed", b, s.layout.Tokens, d), Define: s.buildPre},
		),
		step.EachLayer(func(i int) []part {
			if n := i - double; n >= 0 {
				return []part{{Program: "single", Call: fmt.Sprintf("single %d", n), Prefix: fmt.Sprintf("single_blocks.%d.", n),
					Trace: trace(fmt.Sprintf("single_%d_img", n), fmt.Sprintf("single_%d_txt", n)), Define: s.buildSingle}}
			}
			return []part{{Program: "double", Prefix: fmt.Sprintf("double_blocks.%d.", i),
				Trace: trace(fmt.Sprintf("double_%d_img", i), fmt.Sprintf("double_%d_txt", i)), Define: s.buildDouble}}
		}),
		step.Last(part{Program: "post", Prefix: "final_layer.", Define: s.buildPost}),
	}
}

// declareValues declares the graph's inputs and the values that calls pass to each other.
func (s *build) declareValues() {
	c, l, b := s.c, s.layout, s.r.Batch
	t := s.r.Text
	s.Input(graph.Input{Name: "x", DType: dtype.F32, Shape: append([]int{b}, s.r.Latent...), Spec: l.Batch, Step: true})
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: []int{b, timeWidth}, Spec: l.Batch, Step: true})
	s.Input(graph.Input{Name: "context", DType: s.r.DType, Shape: []int{b, t, c.TextDim}, Spec: l.Batch})
	// Which rows of the text are keys, and each row's weight in their mean.
	s.Input(graph.Input{Name: "text_mask", DType: dtype.Bool, Shape: []int{b, 1, 1, t}, Spec: l.Batch})
	s.Input(graph.Input{Name: "text_share", DType: dtype.F32, Shape: []int{b, t, 1}, Spec: l.Batch})
	s.Input(graph.Input{Name: "key_mask", DType: dtype.Bool, Shape: []int{b, 1, 1, l.Tokens + l.text}, Spec: l.Batch})
	if c.Glyphs {
		s.declareGlyphsAndImage()
	} else {
		s.Input(graph.Input{Name: "pooled", DType: dtype.F32, Shape: []int{b, c.PooledDim}, Spec: l.Batch})
	}
	if c.Guidance {
		s.Input(graph.Input{Name: "guidance", DType: dtype.F32, Shape: []int{b, timeWidth}, Spec: l.Batch})
	}
	if c.ImageCondition == latentConcat {
		s.declareImageLatents()
	}
	if s.replaced {
		s.declareGivenFrames()
	}
	s.RotaryTables(l.Layout, c.HeadDim())
	s.Value("mean", step.Value{DType: dtype.F32, Shape: []int{b, c.Dim}, Spec: l.Batch})
	s.Value("embedded", step.Value{DType: dtype.F32, Shape: []int{b, t, c.Dim}, Spec: l.Batch})
	s.Value("refine", step.Value{DType: dtype.F32, Shape: []int{b, c.Dim}, Spec: l.Batch})
	s.Value("vec", step.Value{DType: dtype.F32, Shape: []int{b, c.Dim}, Spec: l.Batch})
	s.Value("video", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim}, Spec: l.Stream, Kind: step.Stream})
	s.Value("text", step.Value{DType: dtype.F32, Shape: []int{b, l.text, c.Dim}, Spec: l.Batch, Kind: step.Stream})
}

// programBuilder is one program under construction.
type programBuilder struct {
	*step.ProgramBuilder
	s *build
}

func (s *build) newProgram(p *step.ProgramBuilder) *programBuilder { return &programBuilder{p, s} }

// eps is the epsilon of every norm.
const eps = 1e-6

// embedSines embeds the sinusoidal table (B, timeWidth) of a timestep or of a guidance
// scale: (B, D).
func (p *programBuilder) embedSines(name string, table spmd.Tensor) spmd.Tensor {
	return p.PreciseMLP(name+".mlp.0", name+".mlp.2", table, p.s.layout.Batch)
}

// buildText projects the text's rows to (B, T, D), and embeds the mean of the real rows
// (B, D).
func (s *build) buildText(p *programBuilder) {
	batch := s.layout.Batch
	x := p.Value("context")
	mean := p.DropDim(p.Sum(p.Mul(p.Convert(x, dtype.F32), p.Value("text_share")), 1), 1)
	p.Output("mean", p.PreciseMLP("txt_in.c_embedder.linear_1", "txt_in.c_embedder.linear_2", mean, batch), "")
	x = p.Reshard(p.Linear("txt_in.input_embedder", x, batch), batch, "text's stream gathered: a norm over its whole width follows")
	p.Output("embedded", x, "")
}

// buildVec embeds what modulates the blocks and adds it up: the time, the pooled text and
// the guidance scale.
func (s *build) buildVec(p *programBuilder) {
	e := p.embedSines("time_in", p.Value("time"))
	if !s.c.Glyphs {
		pooled := p.PreciseMLP("vector_in.in_layer", "vector_in.out_layer", p.Value("pooled"), s.layout.Batch)
		if e = p.Add(e, pooled); s.replaced {
			s.buildGivenVec(p, pooled)
		}
	}
	if s.c.Guidance {
		e = p.Add(e, p.embedSines("guidance_in", p.Value("guidance")))
	}
	p.Output("vec", e, "")
}

// splitHeads views (B, S, D) as (B, S, H, d).
func (p *programBuilder) splitHeads(x spmd.Tensor) spmd.Tensor {
	return p.SplitDim(x, 2, p.s.c.Heads, p.s.c.HeadDim())
}

// buildRefine makes the vector (B, D) that the gates of the refiner's sublayers read. They
// depend on the time and on the text's mean, so the text is refined anew in every step.
func (s *build) buildRefine(p *programBuilder) {
	p.Output("refine", p.Add(p.embedSines("txt_in.t_embedder", p.Value("time")), p.Value("mean")), "")
}

// buildRefiner returns what builds a refiner layer, which attends over the value text alone;
// keys that are padding are masked.
func (s *build) buildRefiner(text string) func(p *programBuilder) {
	l := s.layout
	return func(p *programBuilder) {
		x := p.Value(text)
		gate := p.Modulations(p.Value("refine"), s.c.Dim, l.Batch, "adaLN_modulation.1")
		h := p.Compute(p.Norm("norm1", x, eps))
		qkv := p.Unstack(p.Compute(p.Linear("self_attn_qkv", h, l.Batch)), s.c.Dim, s.c.Dim, s.c.Dim)
		mask := p.Value("text_mask")
		y := attention.Attend(p.Builder, p.splitHeads(qkv[0]), p.splitHeads(qkv[1]), p.splitHeads(qkv[2]), attention.Options{Mask: &mask})
		x = p.Add(x, p.Mul(p.Linear("self_attn_proj", p.MergeDims(y, 2, 2), l.Batch), gate(0, 0)))
		h = p.Compute(p.Norm("norm2", x, eps))
		p.Output(s.refinedName(), p.Add(x, p.Mul(p.FFN("mlp.fc1", "mlp.fc2", h, l.Batch, p.Silu), gate(0, 1))), "")
	}
}

// buildPre cuts the latents into patches and embeds them: the residual stream of the video
// (B, Sp, D).
func (s *build) buildPre(p *programBuilder) {
	l := s.layout
	x := p.Patches(p.Value("x"), s.c.Patch, "ctyx")
	if s.r.Image > 0 || s.c.ImageCondition == latentConcat {
		x = p.Concat(2, x, p.Patches(p.Value("y"), s.c.Patch, "ctyx"))
	}
	x = p.Compute(p.Reshard(p.PadTo(x, 1, l.Padded), l.Stream, "tokens cut over the mesh"))
	// Without an image its channels would be zero, so their weights are left out.
	w := p.Slice(p.Weight("img_in.proj.weight"), 1, 0, x.Dim(2))
	y := p.Convert(p.Builder.Linear(x, w, x.DType), dtype.F32)
	p.Output("video", p.Add(y, p.Weight("img_in.proj.bias")), "")
}

// normAndModulate is norm(x) (1 + scale) + shift in the compute type. If the video's stream
// is sharded over tp it is gathered, because column-parallel matmuls follow.
func (p *programBuilder) normAndModulate(x, shift, scale spmd.Tensor, to sharding.Spec) spmd.Tensor {
	return p.GatherStream(p.Modulate(p.LayerNorm(x, eps), shift, scale), to)
}

// attentionParts makes attention's operands from the projected q, k and v of a stream: q and
// k are normed head by head, and rotated if they are the video's.
func (p *programBuilder) attentionParts(q, k, v spmd.Tensor, norms string, video bool) attention.Parts {
	c := p.s.c
	normed := func(x spmd.Tensor, name string) spmd.Tensor {
		y := p.RMSNorm(norms+name, p.splitHeads(x), eps)
		if !video {
			return p.Compute(y)
		}
		return p.RopePairs(p.MergeDims(y, 2, 2), p.Value("rope_cos"), p.Value("rope_sin"), c.Heads, c.HeadDim())
	}
	return attention.Parts{Q: normed(q, "q_norm"), K: normed(k, "k_norm"), V: p.Compute(p.splitHeads(v))}
}

// attendJointly attends over [video; text]. Keys of the text that are padding are masked.
func (p *programBuilder) attendJointly(video, text attention.Parts) (v, t spmd.Tensor) {
	mask := p.Value("key_mask")
	t, v = attention.Joint(p.Builder, text, video, p.s.layout.Tokens, false, attention.Options{Mask: &mask})
	return p.MergeDims(v, 2, 2), p.MergeDims(t, 2, 2)
}

// projectQKV projects h to q, k and v (B, S, D). The three weights are stacked in one
// matrix; in 1.5 they are separate.
func (p *programBuilder) projectQKV(name string, h spmd.Tensor) []spmd.Tensor {
	d, to := p.s.c.Dim, p.s.layout.Gathered
	if !p.s.c.Glyphs {
		return p.Unstack(p.Linear(name+"_qkv", h, to), d, d, d)
	}
	return []spmd.Tensor{p.Linear(name+"_q", h, to), p.Linear(name+"_k", h, to), p.Linear(name+"_v", h, to)}
}

// buildDouble builds a double layer, in which each stream has weights of its own. Both
// residual streams stay f32.
func (s *build) buildDouble(p *programBuilder) {
	l := s.layout
	video, text := p.Value("video"), p.Value("text")
	mod := p.Modulations(p.Value("vec"), s.c.Dim, l.Batch, "img_mod.linear", "txt_mod.linear")
	stacked := func(h spmd.Tensor, stream string, video bool) attention.Parts {
		qkv := p.projectQKV(stream+"_attn", h)
		return p.attentionParts(qkv[0], qkv[1], qkv[2], stream+"_attn_", video)
	}
	own := p.videoModulations(mod, "img_mod.linear")
	va, ta := p.attendJointly(stacked(p.normAndModulate(video, own(0), own(1), l.Gathered), "img", true),
		stacked(p.normAndModulate(text, mod(1, 0), mod(1, 1), l.Batch), "txt", false))
	video = p.Add(video, p.Mul(own(2), p.Linear("img_attn_proj", va, l.Stream)))
	text = p.Add(text, p.Mul(mod(1, 2), p.Linear("txt_attn_proj", ta, l.Batch)))

	v, t := p.normAndModulate(video, own(3), own(4), l.Gathered), p.normAndModulate(text, mod(1, 3), mod(1, 4), l.Batch)
	p.Output("video", p.Add(video, p.Mul(own(5), p.FFN("img_mlp.fc1", "img_mlp.fc2", v, l.Stream, p.GeluTanh))), "video")
	p.Output("text", p.Add(text, p.Mul(mod(1, 5), p.FFN("txt_mlp.fc1", "txt_mlp.fc2", t, l.Batch, p.GeluTanh))), "text")
}

// buildSingle builds a single layer, in which both streams share their weights. linear1
// stacks q, k, v and the first layer of the FFN; linear2 takes attention's result and the
// FFN's hidden layer side by side. Each part is a matmul of its own here, so that the wide
// hidden layer exists for a block of rows at a time only. The two partial sums of linear2
// are added before one reduction.
func (s *build) buildSingle(p *programBuilder) {
	c, l := s.c, s.layout
	video, text := p.Value("video"), p.Value("text")
	mod := p.Modulations(p.Value("vec"), s.c.Dim, l.Batch, "modulation.linear")
	w, b := p.Weight("linear1.weight"), p.Weight("linear1.bias")
	up := p.UnstackDim(w, 0, 3*c.Dim, c.FFNDim())
	upBias := p.UnstackDim(b, 0, 3*c.Dim, c.FFNDim())
	down := p.UnstackDim(p.Weight("linear2.weight"), 1, c.Dim, c.FFNDim())

	own := p.videoModulations(mod, "modulation.linear")
	v, t := p.normAndModulate(video, own(0), own(1), l.Gathered), p.normAndModulate(text, mod(0, 0), mod(0, 1), l.Batch)
	stacked := func(h spmd.Tensor, video bool) attention.Parts {
		y := p.Add(p.Convert(p.Builder.Linear(h, up[0], h.DType), dtype.F32), upBias[0])
		qkv := p.Unstack(y, c.Dim, c.Dim, c.Dim)
		return p.attentionParts(qkv[0], qkv[1], qkv[2], "", video)
	}
	va, ta := p.attendJointly(stacked(v, true), stacked(t, false))
	back := func(x, h, attended spmd.Tensor, mod func(i int) spmd.Tensor, to sharding.Spec) spmd.Tensor {
		y := p.MapRows(h, 1, p.Target().RowTile/s.r.Batch, func(h spmd.Tensor) spmd.Tensor {
			h = p.Add(p.Convert(p.Builder.Linear(h, up[1], h.DType), dtype.F32), upBias[1])
			return p.Builder.Linear(p.Compute(p.GeluTanh(h)), down[1], s.r.DType)
		})
		y = p.Add(p.Builder.Linear(attended, down[0], s.r.DType), y)
		if len(y.Spec.Partial()) > 0 {
			y = p.Reshard(y, to, "sum of the row-parallel linear2")
		}
		return p.Add(x, p.Mul(mod(2), p.Add(p.Convert(y, dtype.F32), p.Weight("linear2.bias"))))
	}
	p.Output("video", back(video, v, va, own, l.Stream), "video")
	p.Output("text", back(text, t, ta, func(i int) spmd.Tensor { return mod(0, i) }, l.Batch), "text")
}

// buildPost builds the head: the last norm, the projection, and the way back from tokens to
// latents.
func (s *build) buildPost(p *programBuilder) {
	l := s.layout
	mod := p.Modulations(p.Value("vec"), s.c.Dim, l.Batch, "adaLN_modulation.1")
	h := p.Add(p.Mul(p.LayerNorm(p.Value("video"), eps), p.Shift(mod(0, 1), 1)), mod(0, 0))
	x := p.Linear("linear", p.Compute(h), l.Stream)
	p.Output("out", p.Latents(x, l.Grid, s.c.Patch, "ctyx"), "")
}

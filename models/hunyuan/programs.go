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
// Shapes: B batch, S video tokens in (frame, row, column) order, Sp the same
// padded for the split, T text tokens (of 1.5 with V of the image and G of the
// text's letters before them: TT), D width, H heads, d head width, F the FFN's width.
type build struct {
	*step.Step
	c      Config
	r      models.Request
	layout layout
}

// layout is how a request lies on a mesh.
type layout struct {
	step.Layout
	text int // TT
}

func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) layout {
	return layout{step.LayoutOf(on, r, m.c.Patch), r.Image + r.SecondText + r.Text}
}

// Graph builds the step: what of the text depends on it alone once a request,
// the embedding of time, guidance and pooled text, the text's refiner, the
// patches, the blocks of either kind, and the head.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	if err := m.Check(on, r); err != nil {
		return nil, err
	}
	if r.Text == 0 {
		r.Text = m.c.textRows()
		if m.c.Glyphs && r.SecondText == 0 {
			r.SecondText = glyphRows
		}
	}
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, c: m.c, r: r, layout: m.layOutRequest(on, r)}
	s.Padded("video tokens", s.layout.Tokens, s.layout.Padded)
	s.declareValues()
	double, single := m.countLayers(r.Layers)
	err = s.Stages(double+single, func(first, last bool, layers sharding.Range) error { return s.buildStage(first, last, double, layers) })
	if err != nil {
		return nil, err
	}
	return s.Finish("out")
}

// buildStage builds the programs of one pipeline stage and their calls: of the layers,
// the first double are of the first kind.
func (s *build) buildStage(first, last bool, double int, layers sharding.Range) error {
	define := []func() error{}
	if first {
		define = append(define, s.buildText, s.buildVec, s.buildRefiner, s.buildPre)
		if s.c.Glyphs {
			define = append(define, s.buildGlyphsAndImage)
		}
	}
	if layers.Lo < double {
		define = append(define, s.buildDouble)
	}
	if layers.Hi > double {
		define = append(define, s.buildSingle)
	}
	if last {
		define = append(define, s.buildPost)
	}
	if err := step.Define(define...); err != nil {
		return err
	}
	s.addCalls(first, last, double, layers)
	return nil
}

// declareValues declares what the host provides and what calls hand on.
func (s *build) declareValues() {
	c, l, b := s.c, s.layout, s.r.Batch
	t := s.r.Text
	s.Input(graph.Input{Name: "x", DType: dtype.F32, Shape: append([]int{b}, s.r.Latent...), Spec: l.Batch, Step: true})
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: []int{b, timeWidth}, Spec: l.Batch, Step: true})
	s.Input(graph.Input{Name: "context", DType: s.r.DType, Shape: []int{b, t, c.TextDim}, Spec: l.Batch})
	// The text's rows as keys, and how much each counts in their mean.
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
	for _, table := range []string{"rope_cos", "rope_sin"} {
		s.Input(graph.Input{Name: table, DType: dtype.F32, Shape: []int{l.Padded, c.HeadDim()}, Spec: sharding.NewSpec([]string{mesh.SP})})
	}
	s.Value("mean", step.Value{DType: dtype.F32, Shape: []int{b, c.Dim}, Spec: l.Batch})
	s.Value("embedded", step.Value{DType: dtype.F32, Shape: []int{b, t, c.Dim}, Spec: l.Batch})
	s.Value("vec", step.Value{DType: dtype.F32, Shape: []int{b, c.Dim}, Spec: l.Batch})
	s.Value("video", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim}, Spec: l.Stream, Kind: step.Stream})
	s.Value("text", step.Value{DType: dtype.F32, Shape: []int{b, l.text, c.Dim}, Spec: l.Batch, Kind: step.Stream})
}

// programBuilder is one program under construction.
type programBuilder struct {
	*step.Program
	s *build
}

func (s *build) buildProgram(name, prefix string, define func(p *programBuilder)) error {
	return s.Build(name, prefix, func(p *step.Program) { define(&programBuilder{p, s}) })
}

// eps is that of every norm.
const eps = 1e-6

// embedThroughSilu are two linear layers with SiLU between, in f32: x (B, n) to (B, D).
func (p *programBuilder) embedThroughSilu(first, second string, x spmd.Tensor) spmd.Tensor {
	return p.Precise(second, p.Silu(p.Precise(first, x, p.s.layout.Batch)), p.s.layout.Batch)
}

func (p *programBuilder) embedSines(name string, table spmd.Tensor) spmd.Tensor {
	return p.embedThroughSilu(name+".mlp.0", name+".mlp.2", table)
}

// buildText embeds the text's rows (B, T, D) and the mean of the real ones (B, D).
func (s *build) buildText() error {
	batch := s.layout.Batch
	return s.buildProgram("text", "", func(p *programBuilder) {
		x := p.Value("context")
		mean := p.DropDim(p.Sum(p.Mul(p.Convert(x, dtype.F32), p.Value("text_share")), 1), 1)
		p.Output("mean", p.embedThroughSilu("txt_in.c_embedder.linear_1", "txt_in.c_embedder.linear_2", mean), "")
		x = p.Reshard(p.Linear("txt_in.input_embedder", x, batch), batch, "text's stream gathered: a norm over its whole width follows")
		p.Output("embedded", x, "")
	})
}

// buildVec embeds what modulates the blocks: the time, the pooled text, the guidance.
func (s *build) buildVec() error {
	return s.buildProgram("vec", "", func(p *programBuilder) {
		e := p.embedSines("time_in", p.Value("time"))
		if !s.c.Glyphs {
			e = p.Add(e, p.embedThroughSilu("vector_in.in_layer", "vector_in.out_layer", p.Value("pooled")))
		}
		if s.c.Guidance {
			e = p.Add(e, p.embedSines("guidance_in", p.Value("guidance")))
		}
		p.Output("vec", e, "")
	})
}

// computeModulations are the parts (B, 1, D) of linear layers on a vector e (B, D): part i of
// layer k. They are gathered together.
func (p *programBuilder) computeModulations(e spmd.Tensor, names ...string) func(k, i int) spmd.Tensor {
	e, d := p.Silu(e), p.s.c.Dim
	all := make([]spmd.Tensor, len(names))
	for i, n := range names {
		all[i] = p.ExpandDim(p.Precise(n, e, p.s.layout.Batch), 1)
	}
	joined := p.Reshard(p.Concat(1, all...), p.s.layout.Batch, "modulations gathered: every device modulates whole tokens")
	return func(k, i int) spmd.Tensor { return p.Slice(p.Slice(joined, 1, k, k+1), 2, i*d, (i+1)*d) }
}

// splitHeads views (B, S, D) as (B, S, H, d).
func (p *programBuilder) splitHeads(x spmd.Tensor) spmd.Tensor {
	return p.SplitDim(x, 2, p.s.c.Heads, p.s.c.HeadDim())
}

// buildRefiner is one layer over the text alone, of whose rows those of padding are no
// keys. The time and the text's mean decide how much each sublayer adds, so the
// text is refined anew in every step.
func (s *build) buildRefiner() error {
	l := s.layout
	define := func(name string, first bool) error {
		return s.buildProgram(name, refinerPrefix(0), func(p *programBuilder) {
			var x spmd.Tensor
			if first {
				x = p.Value("embedded")
			} else {
				x = p.Value(s.refinedName())
			}
			gate := p.computeModulations(p.Value("refine"), "adaLN_modulation.1")
			h := p.Compute(p.Norm("norm1", x, eps))
			qkv := p.Unstack(p.Compute(p.Linear("self_attn_qkv", h, l.Batch)), s.c.Dim, s.c.Dim, s.c.Dim)
			mask := p.Value("text_mask")
			y := attention.Attend(p.Builder, p.splitHeads(qkv[0]), p.splitHeads(qkv[1]), p.splitHeads(qkv[2]), attention.Options{Mask: &mask})
			x = p.Add(x, p.Mul(p.Linear("self_attn_proj", p.MergeDims(y, 2, 2), l.Batch), gate(0, 0)))
			h = p.Compute(p.Norm("norm2", x, eps))
			p.Output(s.refinedName(), p.Add(x, p.Mul(p.FFN("mlp.fc1", "mlp.fc2", h, l.Batch, p.Silu), gate(0, 1))), "")
		})
	}
	s.Value("refine", step.Value{DType: dtype.F32, Shape: []int{s.r.Batch, s.c.Dim}, Spec: l.Batch})
	err := s.buildProgram("refine", "", func(p *programBuilder) {
		p.Output("refine", p.Add(p.embedSines("txt_in.t_embedder", p.Value("time")), p.Value("mean")), "")
	})
	if err != nil {
		return err
	}
	if err := define("refiner_0", true); err != nil {
		return err
	}
	return define("refiner", false)
}

// buildPre cuts latents into patches and embeds them: the video's stream (B, Sp, D).
func (s *build) buildPre() error {
	l := s.layout
	return s.buildProgram("pre", "", func(p *programBuilder) {
		x := p.Patches(p.Value("x"), s.c.Patch, "ctyx")
		if s.r.Image > 0 {
			x = p.Concat(2, x, p.Patches(p.Value("y"), s.c.Patch, "ctyx"))
		}
		x = p.Compute(p.Reshard(p.PadTo(x, 1, l.Padded), l.Stream, "tokens cut over the mesh"))
		// Without an image its channels are zero: their weights have no part.
		w := p.Slice(p.Weight("img_in.proj.weight"), 1, 0, x.Dim(2))
		y := p.Convert(p.Builder.Linear(x, w, x.DType), dtype.F32)
		p.Output("video", p.Add(y, p.Weight("img_in.proj.bias")), "")
	})
}

// normAndModulate is norm(x) (1 + scale) + shift in the compute type, the video's
// gathered over tp where its stream is split over it.
func (p *programBuilder) normAndModulate(x, shift, scale spmd.Tensor, to sharding.Spec) spmd.Tensor {
	y := p.Compute(p.Add(p.Mul(p.LayerNorm(x, eps), p.Shift(scale, 1)), shift))
	return p.Reshard(y, to, "split stream gathered for column-parallel matmuls")
}

// attentionParts are queries, keys and values of what a stream's stacked projection gave:
// queries and keys normed head by head and, of the video, rotated.
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

// attendJointly attends over [video; text], of whose keys the text's padding is none.
func (p *programBuilder) attendJointly(video, text attention.Parts) (v, t spmd.Tensor) {
	mask := p.Value("key_mask")
	t, v = attention.Joint(p.Builder, text, video, p.s.layout.Tokens, false, attention.Options{Mask: &mask})
	return p.MergeDims(v, 2, 2), p.MergeDims(t, 2, 2)
}

// projectQKV are queries, keys and values (B, S, D) of layers that are stacked or, in 1.5, apart.
func (p *programBuilder) projectQKV(name string, h spmd.Tensor) []spmd.Tensor {
	d, to := p.s.c.Dim, p.s.layout.Gathered
	if !p.s.c.Glyphs {
		return p.Unstack(p.Linear(name+"_qkv", h, to), d, d, d)
	}
	return []spmd.Tensor{p.Linear(name+"_q", h, to), p.Linear(name+"_k", h, to), p.Linear(name+"_v", h, to)}
}

// buildDouble is a layer whose streams have weights of their own. Both stay f32.
func (s *build) buildDouble() error {
	l := s.layout
	return s.buildProgram("double", "double_blocks.0.", func(p *programBuilder) {
		video, text := p.Value("video"), p.Value("text")
		mod := p.computeModulations(p.Value("vec"), "img_mod.linear", "txt_mod.linear")
		stacked := func(h spmd.Tensor, stream string, video bool) attention.Parts {
			qkv := p.projectQKV(stream+"_attn", h)
			return p.attentionParts(qkv[0], qkv[1], qkv[2], stream+"_attn_", video)
		}
		va, ta := p.attendJointly(stacked(p.normAndModulate(video, mod(0, 0), mod(0, 1), l.Gathered), "img", true),
			stacked(p.normAndModulate(text, mod(1, 0), mod(1, 1), l.Batch), "txt", false))
		video = p.Add(video, p.Mul(mod(0, 2), p.Linear("img_attn_proj", va, l.Stream)))
		text = p.Add(text, p.Mul(mod(1, 2), p.Linear("txt_attn_proj", ta, l.Batch)))

		v, t := p.normAndModulate(video, mod(0, 3), mod(0, 4), l.Gathered), p.normAndModulate(text, mod(1, 3), mod(1, 4), l.Batch)
		p.Output("video", p.Add(video, p.Mul(mod(0, 5), p.FFN("img_mlp.fc1", "img_mlp.fc2", v, l.Stream, p.GeluTanh))), "video")
		p.Output("text", p.Add(text, p.Mul(mod(1, 5), p.FFN("txt_mlp.fc1", "txt_mlp.fc2", t, l.Batch, p.GeluTanh))), "text")
	})
}

// buildSingle is a layer in which both streams share their weights. Its first matrix
// stacks q, k, v and the FFN's first layer, its second takes attention's result
// and the FFN's middle side by side: each part is a matmul of its own, so that
// the wide middle exists for a block of rows only, and both sums are reduced as one.
func (s *build) buildSingle() error {
	c, l := s.c, s.layout
	return s.buildProgram("single", "single_blocks.0.", func(p *programBuilder) {
		video, text := p.Value("video"), p.Value("text")
		mod := p.computeModulations(p.Value("vec"), "modulation.linear")
		w, b := p.Weight("linear1.weight"), p.Weight("linear1.bias")
		up := p.UnstackDim(w, 0, 3*c.Dim, c.FFNDim())
		upBias := p.UnstackDim(b, 0, 3*c.Dim, c.FFNDim())
		down := p.UnstackDim(p.Weight("linear2.weight"), 1, c.Dim, c.FFNDim())

		v, t := p.normAndModulate(video, mod(0, 0), mod(0, 1), l.Gathered), p.normAndModulate(text, mod(0, 0), mod(0, 1), l.Batch)
		stacked := func(h spmd.Tensor, video bool) attention.Parts {
			y := p.Add(p.Convert(p.Builder.Linear(h, up[0], h.DType), dtype.F32), upBias[0])
			qkv := p.Unstack(y, c.Dim, c.Dim, c.Dim)
			return p.attentionParts(qkv[0], qkv[1], qkv[2], "", video)
		}
		va, ta := p.attendJointly(stacked(v, true), stacked(t, false))
		back := func(x, h, attended spmd.Tensor, to sharding.Spec) spmd.Tensor {
			y := p.MapRows(h, 1, p.Target().RowTile/s.r.Batch, func(h spmd.Tensor) spmd.Tensor {
				h = p.Add(p.Convert(p.Builder.Linear(h, up[1], h.DType), dtype.F32), upBias[1])
				return p.Builder.Linear(p.Compute(p.GeluTanh(h)), down[1], s.r.DType)
			})
			y = p.Add(p.Builder.Linear(attended, down[0], s.r.DType), y)
			if len(y.Spec.Partial()) > 0 {
				y = p.Reshard(y, to, "sum of the row-parallel linear2")
			}
			return p.Add(x, p.Mul(mod(0, 2), p.Add(p.Convert(y, dtype.F32), p.Weight("linear2.bias"))))
		}
		p.Output("video", back(video, v, va, l.Stream), "video")
		p.Output("text", back(text, t, ta, l.Batch), "text")
	})
}

// post: the last norm and the projection, then tokens back to latents.
func (s *build) buildPost() error {
	l := s.layout
	return s.buildProgram("post", "final_layer.", func(p *programBuilder) {
		mod := p.computeModulations(p.Value("vec"), "adaLN_modulation.1")
		h := p.Add(p.Mul(p.LayerNorm(p.Value("video"), eps), p.Shift(mod(0, 1), 1)), mod(0, 0))
		x := p.Linear("linear", p.Compute(h), l.Stream)
		p.Output("out", p.Latents(x, l.Grid, s.c.Patch, "ctyx"), "")
	})
}

// addCalls strings a stage's programs together.
func (s *build) addCalls(first, last bool, double int, layers sharding.Range) {
	b, d := s.r.Batch, s.c.Dim
	trace := func(video, text string) map[int]graph.Traced {
		return map[int]graph.Traced{0: {Name: video, Shape: []int{b, s.layout.Tokens, d}}, 1: {Name: text}}
	}
	if first {
		s.Call(graph.Call{Name: "text", Program: "text", Request: true}, "", 0)
		s.Call(graph.Call{Name: "vec", Program: "vec", Trace: map[int]graph.Traced{0: {Name: "vec"}}}, "", 0)
		s.Call(graph.Call{Name: "refine", Program: "refine"}, "", 0)
		s.Call(graph.Call{Name: "refiner 0", Program: "refiner_0"}, refinerPrefix(0), 0)
		for i := 1; i < refiners; i++ {
			c := graph.Call{Name: fmt.Sprintf("refiner %d", i), Program: "refiner"}
			if i == refiners-1 {
				c.Trace = map[int]graph.Traced{0: {Name: "text_refined"}}
			}
			s.Call(c, refinerPrefix(i), i)
		}
		if s.c.Glyphs {
			s.addGlyphAndImageCalls()
		}
		s.Call(graph.Call{Name: "pre", Program: "pre", Trace: step.Tokens("patch_embed", b, s.layout.Tokens, d)}, "", 0)
	}
	for i := layers.Lo; i < layers.Hi; i++ {
		if i < double {
			s.Call(graph.Call{Name: fmt.Sprintf("double %d", i), Program: "double", Trace: trace(fmt.Sprintf("double_%d_img", i), fmt.Sprintf("double_%d_txt", i))},
				fmt.Sprintf("double_blocks.%d.", i), i)
			continue
		}
		n := i - double
		s.Call(graph.Call{Name: fmt.Sprintf("single %d", n), Program: "single", Trace: trace(fmt.Sprintf("single_%d_img", n), fmt.Sprintf("single_%d_txt", n))},
			fmt.Sprintf("single_blocks.%d.", n), i)
	}
	if last {
		s.Call(graph.Call{Name: "post", Program: "post"}, "final_layer.", layers.Hi)
	}
}

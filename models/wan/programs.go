package wan

import (
	"fmt"
	"slices"

	"weft/attention"
	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
	"weft/spmd"
	"weft/strategy"
)

// step is one graph under construction.
//
// Shapes: B batch, S tokens in (frame, row, column) order, Sp the same padded
// for the split, D width, H heads, d head width, L text rows, Li image rows.
type step struct {
	c      Config
	m      *mesh.Mesh
	r      models.Request
	layout layout
	g      *graph.Graph
	specs  map[string]sharding.Assigned
	params map[string]models.Param
	rest   map[string]graph.Weight // as kept between uses
	// The stage under construction: its number and what its programs' names end in.
	at     int
	suffix string
}

// layout is how a request lies on a mesh.
type layout struct {
	frames, rows, cols int // of patches
	tokens, padded     int // S, Sp
	text, image        int // L, Li
	// stream is how the residual stream (B, Sp, D) is held between blocks,
	// gathered how a matmul's operand is: over sp alone.
	stream, gathered sharding.Spec
	// modulation is how what is added to the stream's rows is held: e (B, D) and
	// e0 (B, 6, D), or with a timestep for every token (B, Sp, D) and (B, Sp, 6, D),
	// split as the tokens are.
	modulation sharding.Spec
	times      []int // (B) or (B, Sp): what e has in front of D
}

func (m *Model) layout(on *mesh.Mesh, r models.Request) layout {
	var l layout
	l.frames, l.rows, l.cols = m.patches(r)
	l.tokens = l.frames * l.rows * l.cols
	axes := []string{"sp"}
	if r.SplitResidual {
		axes = append(axes, "tp")
	}
	l.padded = sharding.RoundUp(l.tokens, on.Size(axes...)*max(1, r.TokenMultiple))
	l.text = m.c.TextLen
	if l.text == 0 {
		l.text = r.Text
	}
	l.gathered = sharding.NewSpec([]string{"dp"}, []string{"sp"}, nil)
	l.stream = sharding.NewSpec([]string{"dp"}, axes, nil)
	l.modulation, l.times = sharding.NewSpec([]string{"dp"}), []int{r.Batch}
	if r.TokenTimes {
		l.modulation, l.times = sharding.NewSpec([]string{"dp"}, axes), []int{r.Batch, l.padded}
	}
	if m.c.ImageDim > 0 {
		l.image = r.Image
		if l.image == 0 {
			l.image = clipRows
		}
	}
	return l
}

// Graph builds the step: text once a request, the time embedding and the
// patches, every layer's block, and the head.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	if err := m.Check(on, r); err != nil {
		return nil, err
	}
	layers := m.c.Layers
	if r.Layers > 0 {
		layers = min(r.Layers, layers)
	}
	assigned, err := models.Specs(m, on, layers)
	if err != nil {
		return nil, err
	}
	s := &step{c: m.c, m: on, r: r, layout: m.layout(on, r),
		g:     &graph.Graph{Mesh: on, Programs: map[string]*spmd.Program{}},
		specs: map[string]sharding.Assigned{}, params: map[string]models.Param{}}
	for _, a := range assigned {
		s.specs[a.Name] = a
	}
	for _, p := range m.Params(layers) {
		s.params[p.Name] = p
		s.g.Weights = append(s.g.Weights, s.weight(p))
	}
	notes, err := models.Share(on, s.g.Weights, models.FSDPAxes(on, r))
	if err != nil {
		return nil, err
	}
	s.g.Notes = append(s.g.Notes, notes...)
	s.rest = map[string]graph.Weight{}
	for _, w := range s.g.Weights {
		s.rest[w.Name] = w
	}
	if l := s.layout; l.padded > l.tokens {
		s.g.Notes = append(s.g.Notes, fmt.Sprintf("%d tokens padded by %d to %d, so that %s devices hold equally many; padding is masked and cut off again",
			l.tokens, l.padded-l.tokens, l.padded, on))
	}
	s.inputs()
	stages, err := strategy.Even(layers, on.Size("pp"))
	if err != nil {
		return nil, err
	}
	for i, layers := range stages.Ranges() {
		if err := s.stage(i, stages.Len(), layers); err != nil {
			return nil, err
		}
	}
	if stages.Len() > 1 {
		s.g.Notes = append(s.g.Notes, fmt.Sprintf("pipeline of %d stages with layers %v", stages.Len(), stages.Ranges()))
	}
	s.g.Outputs = []graph.Output{{Name: "out", Value: "out"}}
	return s.g, s.g.Check()
}

// stage builds the programs of one pipeline stage on its own devices, and their
// calls: the first has the text, the time and the patches, the last the head.
func (s *step) stage(i, of int, layers sharding.Range) error {
	s.suffix = ""
	if of > 1 {
		sub, err := s.g.Mesh.Sub("pp", i)
		if err != nil {
			return err
		}
		s.m, s.at, s.suffix = sub, i, fmt.Sprintf("@%d", i)
	}
	define := []func() error{}
	if i == 0 {
		define = append(define, s.text, s.time, s.pre)
		if s.c.ImageDim > 0 {
			define = append(define, s.image)
		}
	}
	define = append(define, s.textKV, s.block)
	if i == of-1 {
		define = append(define, s.post)
	}
	for _, d := range define {
		if err := d(); err != nil {
			return err
		}
	}
	s.calls(i == 0, i == of-1, layers)
	return nil
}

func (s *step) weight(p models.Param) graph.Weight {
	w := graph.Weight{Name: p.Name, File: p.Shape, Shape: p.Shape, DType: dtype.F32, Spec: s.specs[p.Name].Spec, Rule: s.specs[p.Name].Rule}
	if p.View != nil {
		w.Shape = p.View
	}
	if p.Matmul {
		w.DType = s.r.DType
	}
	return w
}

func (s *step) inputs() {
	c, l, b := s.c, s.layout, s.r.Batch
	batch := []string{"dp"}
	latent := append([]int{b}, s.r.Latent...)
	s.g.Inputs = []graph.Input{
		{Name: "x", DType: dtype.F32, Shape: latent, Spec: sharding.NewSpec(batch), Step: true},
		{Name: "time", DType: dtype.F32, Shape: append(slices.Clone(l.times), c.FreqDim), Spec: l.timeRows(), Step: true},
		{Name: "context", DType: s.r.DType, Shape: []int{b, l.text, c.TextDim}, Spec: sharding.NewSpec(batch)},
		{Name: "rope_cos", DType: dtype.F32, Shape: []int{l.padded, c.HeadDim()}, Spec: sharding.NewSpec([]string{"sp"})},
		{Name: "rope_sin", DType: dtype.F32, Shape: []int{l.padded, c.HeadDim()}, Spec: sharding.NewSpec([]string{"sp"})},
	}
	if c.ConditionDim() > 0 {
		s.g.Inputs = append(s.g.Inputs, graph.Input{Name: "y", DType: dtype.F32, Shape: append([]int{b, c.ConditionDim()}, s.r.Latent[1:]...), Spec: sharding.NewSpec(batch)})
	}
	if c.ImageDim > 0 {
		s.g.Inputs = append(s.g.Inputs, graph.Input{Name: "clip_fea", DType: dtype.F32, Shape: []int{b, l.image, c.ImageDim}, Spec: sharding.NewSpec(batch)})
	}
}

// timeRows is how the time path's matmuls take their rows: over dp and, with a
// timestep for every token, sp.
func (l layout) timeRows() sharding.Spec {
	if len(l.times) == 1 {
		return sharding.NewSpec([]string{"dp"})
	}
	return l.gathered
}

// program is a spmd.Builder with a step's weights at hand. args collects what
// the inputs are bound to, in order, with layer-free names for blocks.
type program struct {
	*spmd.Builder
	s      *step
	prefix string // of weights: "blocks.0." for a block
}

func (s *step) build(name, prefix string, define func(p *program)) error {
	prog, err := spmd.Build(name, s.m, func(b *spmd.Builder) { define(&program{b, s, prefix}) }, spmd.WithTarget(s.r.Target))
	if err != nil {
		return fmt.Errorf("program %s: %w", name, err)
	}
	s.g.Programs[name+s.suffix] = prog
	return nil
}

// weight declares the parameter prefix+name as the input "name". What fsdp keeps
// in shares is gathered here, just before its use.
func (p *program) weight(name string) spmd.Tensor {
	w := p.s.rest[p.prefix+name]
	t := p.Input(name, w.DType, w.Shape, w.Spec)
	return p.Reshard(t, p.s.specs[w.Name].Spec, "fsdp: gathered just in time")
}

// value declares a carried value.
func (p *program) value(name string) spmd.Tensor {
	s, l := p.s, p.s.layout
	b, h, d := s.r.Batch, s.c.Heads, s.c.HeadDim()
	batch := []string{"dp"}
	switch name {
	case "tokens":
		return p.Input(name, dtype.F32, []int{b, l.padded, s.c.Dim}, l.stream)
	case "e":
		return p.Input(name, dtype.F32, append(slices.Clone(l.times), s.c.Dim), l.modulation)
	case "e0":
		return p.Input(name, dtype.F32, append(slices.Clone(l.times), 6, s.c.Dim), l.modulation)
	case "image":
		return p.Input(name, s.r.DType, []int{b, l.image, s.c.Dim}, sharding.NewSpec(batch))
	case "image_k", "image_v":
		return p.Input(name, s.r.DType, []int{b, l.image, h, d}, sharding.NewSpec(batch, nil, []string{"tp"}))
	case "text":
		return p.Input(name, s.r.DType, []int{b, l.text, s.c.Dim}, sharding.NewSpec(batch))
	case "text_k", "text_v":
		return p.Input(name, s.r.DType, []int{b, l.text, h, d}, sharding.NewSpec(batch, nil, []string{"tp"}))
	}
	for _, in := range s.g.Inputs {
		if in.Name == name {
			return p.Input(name, in.DType, in.Shape, in.Spec)
		}
	}
	panic("wan: no value " + name)
}

// linear is x W^T + b in f32; x is in the compute type. A row-parallel sum is
// reduced into the layout to, in the compute type, before its bias.
func (p *program) linear(name string, x spmd.Tensor, to sharding.Spec) spmd.Tensor {
	w, bias := p.weight(name+".weight"), p.weight(name+".bias")
	y := p.Linear(x, w, x.DType)
	if len(y.Spec.Partial()) > 0 {
		y = p.Reshard(y, to, "sum of the row-parallel "+name)
	}
	return p.Add(p.Convert(y, dtype.F32), bias)
}

// compute rounds to the type matmuls run in.
func (p *program) compute(x spmd.Tensor) spmd.Tensor { return p.Convert(x, p.s.r.DType) }

// text embeds the context: (B, L, text_dim) to (B, L, D).
func (s *step) text() error {
	batch := sharding.NewSpec([]string{"dp"})
	return s.build("text", "", func(p *program) {
		x := p.value("context")
		x = p.compute(p.GeluTanh(p.linear("text_embedding.0", x, batch)))
		x = p.linear("text_embedding.2", x, batch)
		p.Output("text", p.compute(x), "")
	})
}

// clipEps is that of the image branch's norms, PyTorch's default.
const clipEps = 1e-5

// image embeds the image's features: (B, Li, image_dim) to (B, Li, D).
func (s *step) image() error {
	batch := sharding.NewSpec([]string{"dp"})
	return s.build("image", "", func(p *program) {
		norm := func(name string, x spmd.Tensor) spmd.Tensor {
			return p.Add(p.Mul(p.LayerNorm(x, clipEps), p.weight(name+".weight")), p.weight(name+".bias"))
		}
		x := norm("img_emb.proj.0", p.value("clip_fea"))
		x = p.Gelu(p.linear("img_emb.proj.1", p.compute(x), batch))
		x = p.linear("img_emb.proj.3", p.compute(x), batch)
		x = p.Reshard(x, batch, "image embedding gathered: a norm over its whole width follows")
		p.Output("image", p.compute(norm("img_emb.proj.4", x)), "")
	})
}

// textKV makes a layer's keys and values of the text (B, L, H, d) and, with an
// image branch, of the image (B, Li, H, d). The sums of squares of both keys'
// norms travel together.
func (s *step) textKV() error {
	batch := sharding.NewSpec([]string{"dp"})
	return s.build("text_kv", "blocks.0.cross_attn.", func(p *program) {
		x := p.value("text")
		ks, ws := []spmd.Tensor{p.linear("k", x, batch)}, []spmd.Tensor{p.weight("norm_k.weight")}
		if s.c.ImageDim == 0 {
			p.Output("text_k", p.compute(p.heads(p.RMSNorms(s.c.Eps, ks, ws)[0])), "")
			p.Output("text_v", p.compute(p.heads(p.linear("v", x, batch))), "")
			return
		}
		image := p.value("image")
		ks, ws = append(ks, p.linear("k_img", image, batch)), append(ws, p.weight("norm_k_img.weight"))
		ks = p.normsOfRows(ks, ws)
		p.Output("text_k", p.compute(p.heads(ks[0])), "")
		p.Output("text_v", p.compute(p.heads(p.linear("v", x, batch))), "")
		p.Output("image_k", p.compute(p.heads(ks[1])), "")
		p.Output("image_v", p.compute(p.heads(p.linear("v_img", image, batch))), "")
	})
}

// normsOfRows is RMSNorms for tensors of different numbers of rows (B, rows, D),
// whose sums (B, 1, rows) are laid end to end to travel in one reduction.
func (p *program) normsOfRows(xs, ws []spmd.Tensor) []spmd.Tensor {
	sums := make([]spmd.Tensor, len(xs))
	for i, x := range xs {
		sums[i] = p.Transpose(p.Sum(p.Mul(x, x), -1), 0, 2, 1)
	}
	sums = p.ReducedTogether("sums of squares of norms over a split dim", sums...)
	out := make([]spmd.Tensor, len(xs))
	for i, x := range xs {
		r := p.Unary(spmd.OpRsqrt, p.Shift(p.Scale(sums[i], 1/float64(x.Dim(-1))), p.s.c.Eps))
		out[i] = p.Mul(p.Mul(x, p.Transpose(r, 0, 2, 1)), ws[i])
	}
	return out
}

// heads views (B, S, D) as (B, S, H, d).
func (p *program) heads(x spmd.Tensor) spmd.Tensor {
	return p.SplitDim(x, 2, p.s.c.Heads, p.s.c.HeadDim())
}

// time makes of the timestep its embedding e (B, D) and the six modulations e0
// (B, 6, D), in f32, as the released models require. With a timestep for every
// token they are (B, Sp, D) and (B, Sp, 6, D), the largest values of a step, and
// never whole on a device where the tokens are split.
func (s *step) time() error {
	rows := s.layout.timeRows()
	return s.build("time", "", func(p *program) {
		e := p.precise("time_embedding.0", p.value("time"), rows)
		e = p.precise("time_embedding.2", p.Silu(e), rows)
		e0 := p.precise("time_projection.1", p.Silu(e), rows)
		e0 = p.Reshard(e0, s.layout.modulation, "modulation gathered: every device modulates whole tokens")
		p.Output("e", p.Reshard(e, s.layout.modulation, "held as the stream is"), "")
		p.Output("e0", p.SplitDim(e0, len(s.layout.times), 6, s.c.Dim), "")
	})
}

// pre cuts latents into patches and embeds them: tokens (B, Sp, D).
func (s *step) pre() error {
	c, l := s.c, s.layout
	return s.build("pre", "", func(p *program) {
		pt, ph, pw := c.PatchSize[0], c.PatchSize[1], c.PatchSize[2]
		x := p.value("x") // B C F H W
		if c.ConditionDim() > 0 {
			x = p.Concat(1, x, p.value("y"))
		}
		x = p.SplitDim(x, 4, l.cols, pw)
		x = p.SplitDim(x, 3, l.rows, ph)
		x = p.SplitDim(x, 2, l.frames, pt) // B C f pt h ph w pw
		x = p.Transpose(x, 0, 2, 4, 6, 1, 3, 5, 7)
		x = p.MergeDims(x, 4, 4)
		x = p.MergeDims(x, 1, 3)
		x = p.PadTo(x, 1, l.padded)
		x = p.Reshard(x, l.stream, "tokens cut over the mesh")
		p.Output("tokens", p.linear("patch_embedding", p.compute(x), l.stream), "")
	})
}

// precise is a linear layer of few rows in f32 accuracy whatever the weights'
// type. With bf16 weights x is cut into three bf16 terms whose sum is x to f32
// accuracy and whose products are exact: cheaper than widening the weights.
func (p *program) precise(name string, x spmd.Tensor, to sharding.Spec) spmd.Tensor {
	w, bias := p.weight(name+".weight"), p.weight(name+".bias")
	if w.DType == dtype.F32 {
		y := p.Linear(x, w, dtype.F32)
		if len(y.Spec.Partial()) > 0 {
			y = p.Reshard(y, to, "sum of the row-parallel "+name)
		}
		return p.Add(y, bias)
	}
	var sum *spmd.Tensor
	for range 3 {
		term := p.Convert(x, w.DType)
		x = p.Sub(x, p.Convert(term, dtype.F32))
		y := p.Linear(term, w, dtype.F32)
		if sum != nil {
			y = p.Add(*sum, y)
		}
		sum = &y
	}
	y := *sum
	if len(y.Spec.Partial()) > 0 {
		y = p.Reshard(y, to, "sum of the row-parallel "+name)
	}
	return p.Add(y, bias)
}

// modulate is norm(x) (1 + scale) + shift, in the compute type, gathered over
// tp where the stream is split over it.
func (p *program) modulate(x, shift, scale spmd.Tensor) spmd.Tensor {
	y := p.Add(p.Mul(p.LayerNorm(x, p.s.c.Eps), p.Shift(scale, 1)), shift)
	return p.gather(p.compute(y))
}

func (p *program) gather(x spmd.Tensor) spmd.Tensor {
	return p.Reshard(x, p.s.layout.gathered, "split stream gathered for column-parallel matmuls")
}

// modulations gives part i of the modulation e and a learned table (1, n, D),
// added, as it goes onto the stream's rows: (B, 1, D), or (B, Sp, D) with a
// timestep for every token. at makes part i of e (B, 1|Sp, D).
func (p *program) modulations(table spmd.Tensor, at func(i int) spmd.Tensor) func(int) spmd.Tensor {
	return func(i int) spmd.Tensor { return p.Add(at(i), p.Slice(table, 1, i, i+1)) }
}

// block is one layer: self-attention, cross-attention to the text and the image,
// FFN. The stream stays f32.
func (s *step) block() error {
	c, l := s.c, s.layout
	return s.build("block", "blocks.0.", func(p *program) {
		x, e0 := p.value("tokens"), p.value("e0")
		cos, sin := p.value("rope_cos"), p.value("rope_sin")
		part := p.modulations(p.weight("modulation"), func(i int) spmd.Tensor {
			if s.r.TokenTimes {
				return p.DropDim(p.Slice(e0, 2, i, i+1), 2)
			}
			return p.Slice(e0, 1, i, i+1)
		})

		h := p.modulate(x, part(0), part(1))
		q, k := p.linear("self_attn.q", h, l.gathered), p.linear("self_attn.k", h, l.gathered)
		qk := p.RMSNorms(c.Eps, []spmd.Tensor{q, k}, []spmd.Tensor{p.weight("self_attn.norm_q.weight"), p.weight("self_attn.norm_k.weight")})
		q, k = p.rope(qk[0], cos, sin), p.rope(qk[1], cos, sin)
		v := p.heads(p.compute(p.linear("self_attn.v", h, l.gathered)))
		y := attention.Attend(p.Builder, q, k, v, attention.Options{Keys: l.tokens})
		o := p.linear("self_attn.o", p.MergeDims(y, 2, 2), l.stream)
		x = p.Add(x, p.Mul(o, part(2)))

		h = p.Add(p.Mul(p.LayerNorm(x, c.Eps), p.weight("norm3.weight")), p.weight("norm3.bias"))
		h = p.gather(p.compute(h))
		q = p.linear("cross_attn.q", h, l.gathered)
		q = p.RMSNorms(c.Eps, []spmd.Tensor{q}, []spmd.Tensor{p.weight("cross_attn.norm_q.weight")})[0]
		q = p.heads(p.compute(q))
		y = attention.Attend(p.Builder, q, p.value("text_k"), p.value("text_v"), attention.Options{})
		if c.ImageDim > 0 { // a softmax of its own
			y = p.Add(y, attention.Attend(p.Builder, q, p.value("image_k"), p.value("image_v"), attention.Options{}))
		}
		x = p.Add(x, p.linear("cross_attn.o", p.MergeDims(y, 2, 2), l.stream))

		h = p.modulate(x, part(3), part(4))
		x = p.Add(x, p.Mul(p.ffn(h), part(5)))
		p.Output("tokens", x, "tokens")
	})
}

// ffn is GELU between two linear layers. Where the target cuts matmuls the wide
// middle exists for a block of rows only.
func (p *program) ffn(h spmd.Tensor) spmd.Tensor {
	up, upBias, down, downBias := p.weight("ffn.0.weight"), p.weight("ffn.0.bias"), p.weight("ffn.2.weight"), p.weight("ffn.2.bias")
	y := p.MapRows(h, 1, p.Target().RowTile/p.s.r.Batch, func(h spmd.Tensor) spmd.Tensor {
		h = p.Add(p.Convert(p.Linear(h, up, h.DType), dtype.F32), upBias)
		return p.Linear(p.compute(p.GeluTanh(h)), down, p.s.r.DType)
	})
	if len(y.Spec.Partial()) > 0 {
		y = p.Reshard(y, p.s.layout.stream, "sum of the row-parallel ffn.2")
	}
	return p.Add(p.Convert(y, dtype.F32), downBias)
}

// rope rotates pairs of neighbouring channels: out[2i] = x[2i] cos_i - x[2i+1] sin_i,
// out[2i+1] = x[2i+1] cos_i + x[2i] sin_i. The tables (Sp, d) have each angle
// twice, the sine with the sign of its place. Neighbours are fetched by rotating
// the channels one place either way, which crosses heads only where it is not used.
func (p *program) rope(x, cos, sin spmd.Tensor) spmd.Tensor {
	c := p.s.c
	local := p.Local(x) // B Sp D/tp
	n := local.Shape[2]
	left := p.LConcat(2, p.LSlice(local, 2, 1, n), p.LSlice(local, 2, 0, 1))
	right := p.LConcat(2, p.LSlice(local, 2, n-1, n), p.LSlice(local, 2, 0, n-1))
	parity := p.LBinary(spmd.OpRem, p.LIota(dtype.I32, 0, n), p.LConst(dtype.I32, 2))
	even := p.LCompare("EQ", parity, p.LConst(dtype.I32, 0))
	swapped := p.heads(p.Global(p.LSelect(even, left, right), x.Shape, x.Spec))
	cos, sin = p.ExpandDim(cos, 1), p.ExpandDim(sin, 1) // Sp 1 d
	y := p.Add(p.Mul(p.SplitDim(x, 2, c.Heads, c.HeadDim()), cos), p.Mul(swapped, sin))
	return p.compute(y)
}

// post: the head, then tokens back to latents.
func (s *step) post() error {
	c, l := s.c, s.layout
	return s.build("post", "", func(p *program) {
		x, e := p.value("tokens"), p.value("e")
		if !s.r.TokenTimes {
			e = p.ExpandDim(e, 1)
		}
		part := p.modulations(p.weight("head.modulation"), func(int) spmd.Tensor { return e })
		h := p.Add(p.Mul(p.LayerNorm(x, c.Eps), p.Shift(part(1), 1)), part(0))
		y := p.linear("head.head", p.compute(h), l.stream)
		y = p.Reshard(y, sharding.NewSpec([]string{"dp"}, nil, nil), "tokens gathered for the latents")
		y = p.Slice(y, 1, 0, l.tokens)
		y = p.SplitDim(y, 2, c.PatchSize[0], c.PatchSize[1], c.PatchSize[2], c.OutDim)
		y = p.SplitDim(y, 1, l.frames, l.rows, l.cols) // B f h w pt ph pw C
		y = p.Transpose(y, 0, 7, 1, 4, 2, 5, 3, 6)
		y = p.MergeDims(y, 6, 2)
		y = p.MergeDims(y, 4, 2)
		y = p.MergeDims(y, 2, 2)
		p.Output("out", y, "")
	})
}

// calls strings a stage's programs together. The stream has a new name after
// every call: "tokens.0" from the patches, "tokens.3" from the third layer.
func (s *step) calls(first, last bool, layers sharding.Range) {
	tokens := func(name string) map[int]graph.Traced {
		return map[int]graph.Traced{0: {Name: name, Shape: []int{s.r.Batch, s.layout.tokens, s.c.Dim}}}
	}
	time := map[int]graph.Traced{0: {Name: "time_embed"}, 1: {Name: "time_proj"}}
	if s.r.TokenTimes {
		time[0] = tokens("time_embed")[0]
		time[1] = graph.Traced{Name: "time_proj", Shape: []int{s.r.Batch, s.layout.tokens, 6, s.c.Dim}}
	}
	if first {
		s.call(graph.Call{Name: "text", Program: "text", Request: true, Trace: map[int]graph.Traced{0: {Name: "context_embed"}}}, "", 0)
		if s.c.ImageDim > 0 {
			s.call(graph.Call{Name: "image", Program: "image", Request: true, Trace: map[int]graph.Traced{0: {Name: "img_embed"}}}, "", 0)
		}
	}
	for i := layers.Lo; i < layers.Hi; i++ {
		s.call(graph.Call{Name: fmt.Sprintf("text_kv %d", i), Program: "text_kv", Request: true}, fmt.Sprintf("blocks.%d.cross_attn.", i), i)
	}
	if first {
		s.call(graph.Call{Name: "time", Program: "time", Trace: time}, "", 0)
		s.call(graph.Call{Name: "pre", Program: "pre", Trace: tokens("patch_embed")}, "", -1)
	}
	for i := layers.Lo; i < layers.Hi; i++ {
		s.call(graph.Call{Name: fmt.Sprintf("block %d", i), Program: "block", Trace: tokens(fmt.Sprintf("block_%d", i))}, fmt.Sprintf("blocks.%d.", i), i)
	}
	if last {
		s.call(graph.Call{Name: "post", Program: "post"}, "", layers.Hi)
	}
}

// call binds a program of the stage: an input that names a parameter under
// prefix to that parameter, any other to the value of its name, which for the
// stream and the text's keys and values is the layer's own.
func (s *step) call(c graph.Call, prefix string, layer int) {
	c.Program += s.suffix
	c.Stage = s.at
	p := s.g.Programs[c.Program]
	value := func(name string, layer int) string {
		switch name {
		case "tokens", "text_k", "text_v", "image_k", "image_v":
			return fmt.Sprintf("%s.%d", name, layer)
		}
		return name
	}
	for _, in := range p.Inputs {
		if _, ok := s.params[prefix+in.Name]; ok {
			c.Args = append(c.Args, graph.Ref{Weight: true, Name: prefix + in.Name})
		} else {
			c.Args = append(c.Args, graph.Ref{Name: value(in.Name, layer)})
		}
	}
	for _, o := range p.Outputs {
		at := layer
		if o.Name == "tokens" {
			at++
		}
		c.Outs = append(c.Outs, value(o.Name, at))
	}
	s.g.Calls = append(s.g.Calls, c)
}

package cosmos3

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
// Shapes: B batch, L text ids, S video tokens in (frame, row, column) order, Sp
// the same padded for the split, F frames that may differ, D width, H heads, Hkv
// key and value heads, as many as tp at least, d head width.
type build struct {
	*step.Step
	c      Config
	r      models.Request
	layout layout
}

// layout says how a request is sharded over a mesh, and with which padded sizes.
type layout struct {
	step.Layout
	text int // L
	kv   int // Hkv
}

// batch is the sharding of values that all devices of a video replicate: over dp alone.
var batch = strategy.SpecOf(strategy.Batch)

// layOutRequest computes the layout of a request on a mesh.
func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) layout {
	l := layout{step.LayoutOf(on, r, m.c.patchShape()), r.Text, max(m.c.KVHeads, on.Size(strategy.Axes(strategy.Heads)...))}
	if l.text == 0 {
		l.text = textLen
	}
	return l
}

// Graph builds the step. The text stream reads neither the video nor the time, so it
// runs once a request, and the steps read the keys and values of its layers.
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
	rows := func(name string, n int) map[int]graph.Traced { return step.Tokens(name, s.r.Batch, n, s.c.Width) }
	prefix := func(i int) string { return fmt.Sprintf("layers.%d.", i) }
	return []step.Parts[*programBuilder]{
		step.First(part{Program: "embed", Request: true, Trace: rows("text_embed", s.layout.text), Define: s.buildEmbed}),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "und", Prefix: prefix(i), Request: true, Trace: rows(fmt.Sprintf("layer_%d_und", i), s.layout.text), Define: s.buildUnd}}
		}),
		step.First(part{Program: "pre", Trace: rows("patch_embed", s.layout.Tokens), Define: s.buildPre}),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "gen", Prefix: prefix(i), Trace: rows(fmt.Sprintf("layer_%d_gen", i), s.layout.Tokens), Define: s.buildGen}}
		}),
		step.Last(part{Program: "post", Define: s.buildPost}),
	}
}

// declareValues declares the inputs that the host provides and the values that one
// call passes to another, with their shapes and shardings.
func (s *build) declareValues() {
	c, l, b := s.c, s.layout, s.r.Batch
	s.Input(graph.Input{Name: "x", DType: dtype.F32, Shape: append([]int{b}, s.r.Latent...), Spec: batch, Step: true})
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: []int{b, 1, timeDim}, Spec: batch, Step: true})
	s.Input(graph.Input{Name: "ids", DType: dtype.I32, Shape: []int{b, l.text}, Spec: batch})
	if s.r.Masked {
		s.Input(graph.Input{Name: "mask", DType: dtype.Bool, Shape: []int{b, l.text}, Spec: batch})
	}
	if s.r.TokenTimes {
		s.Input(graph.Input{Name: "noisy", DType: dtype.F32, Shape: []int{b, l.Grid.Frames}, Spec: batch})
	}
	for _, f := range []string{"cos", "sin"} {
		s.Input(graph.Input{Name: "text_" + f, DType: dtype.F32, Shape: []int{b, l.text, c.HeadDim}, Spec: batch})
		s.Input(graph.Input{Name: "video_" + f, DType: dtype.F32, Shape: []int{b, l.Padded, c.HeadDim}, Spec: l.Gathered})
	}
	s.Value("tokens", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Width}, Spec: l.Stream, Kind: step.Stream})
	s.Value("text", step.Value{DType: dtype.F32, Shape: []int{b, l.text, c.Width}, Spec: batch, Kind: step.Stream})
	for _, kv := range []string{"text_k", "text_v"} {
		s.Value(kv, step.Value{DType: s.r.DType, Shape: []int{b, l.text, l.kv, c.HeadDim},
			Spec: strategy.SpecOf(strategy.Batch, strategy.None, strategy.Heads), Kind: step.PerLayer})
	}
}

// programBuilder is one program under construction.
type programBuilder struct {
	*step.ProgramBuilder
	s *build
}

func (s *build) newProgram(p *step.ProgramBuilder) *programBuilder { return &programBuilder{p, s} }

// buildEmbed builds the program that looks up the text's ids in the token table:
// (B, L) to (B, L, D).
func (s *build) buildEmbed(p *programBuilder) {
	p.Output("text", p.Rows("embed_tokens", p.Value("ids"), batch), "")
}

// buildPre builds the program that cuts latents into patches and embeds them as
// tokens (B, Sp, D). It adds the timestep's embedding to the tokens of every frame
// that is not given; the model reads the time nowhere else.
func (s *build) buildPre(p *programBuilder) {
	l := s.layout
	x := p.PadTo(p.Patches(p.Value("x"), s.c.patchShape(), "tyxc"), 1, l.Padded)
	x = p.Linear("proj_in", p.Compute(p.Reshard(x, l.Stream, "tokens cut over the mesh")), l.Stream)
	e := p.PreciseMLP("time_embedder.linear_1", "time_embedder.linear_2", p.Value("time"), batch) // B 1 D
	if s.r.TokenTimes {
		e = p.Mul(e, p.ExpandDim(p.Value("noisy"), 2)) // B F D
	}
	p.Output("tokens", p.Add(x, p.EveryToken(e, l.Grid, l.Padded, l.Stream)), "")
}

// projectQKV returns a stream's queries, keys and values of h (B, rows, D). It
// normalises queries and keys head by head where the model has such norms, and leaves
// them in f32 and unrotated. The values are in the compute type.
func (p *programBuilder) projectQKV(s stream, h spmd.Tensor, to sharding.Spec) (q, k, v spmd.Tensor) {
	heads := func(name string, n int) spmd.Tensor {
		return p.SplitDim(p.Linear("self_attn."+name, h, to), 2, n, p.s.c.HeadDim)
	}
	q, k, v = heads(s.q, p.s.c.Heads), heads(s.k, p.s.layout.kv), heads(s.v, p.s.layout.kv)
	if p.Has("self_attn." + s.qNorm + ".weight") {
		q, k = p.RMSNorm("self_attn."+s.qNorm, q, p.s.c.Eps), p.RMSNorm("self_attn."+s.kNorm, k, p.s.c.Eps)
	}
	return q, k, p.Compute(v)
}

// addAttentionAndFFN completes a layer of a stream behind its attention y
// (B, rows, H, d): it adds y's output projection and then the FFN to the residual
// stream x. stream and gathered are the shardings of x and of a matmul's operand.
func (p *programBuilder) addAttentionAndFFN(s stream, x, y spmd.Tensor, stream, gathered sharding.Spec) spmd.Tensor {
	x = p.Add(x, p.Linear("self_attn."+s.o, p.MergeDims(y, 2, 2), stream))
	h := p.normAndGather(s.norm2, x, gathered)
	if p.s.c.Act == silu {
		return p.Add(x, p.GatedFFN(s.mlp+".gate_proj", s.mlp+".up_proj", s.mlp+".down_proj", h, stream, p.Silu))
	}
	square := func(x spmd.Tensor) spmd.Tensor {
		x = p.Relu(x)
		return p.Mul(x, x)
	}
	return p.Add(x, p.FFN(s.mlp+".up_proj", s.mlp+".down_proj", h, stream, square))
}

// normAndGather normalises the residual stream x, in the compute type. Where the
// stream is sharded over tp, it gathers the result.
func (p *programBuilder) normAndGather(name string, x spmd.Tensor, gathered sharding.Spec) spmd.Tensor {
	return p.GatherStream(p.RMSNorm(name, x, p.s.c.Eps), gathered)
}

// buildUnd builds the program of one layer of the text stream ("und", understanding),
// which all devices of sp replicate. Its attention is causal and padding stands
// behind the text, so only padding attends to padding.
func (s *build) buildUnd(p *programBuilder) {
	x, cos, sin := p.Value("text"), p.Value("text_cos"), p.Value("text_sin")
	q, k, v := p.projectQKV(text, p.normAndGather(text.norm1, x, batch), batch)
	turned := p.RopeHalves(k, cos, sin)
	seen := turned
	if s.c.normsKeysForGen() {
		seen = p.RopeHalves(p.RMSNorm(kForGen, k, s.c.Eps), cos, sin)
	}
	y := attention.Attend(p.Builder, p.RopeHalves(q, cos, sin), turned, v, attention.Options{Causal: true})
	p.Output("text", p.addAttentionAndFFN(text, x, y, batch, batch), "text")
	p.Output("text_k", seen, "")
	p.Output("text_v", v, "")
}

// buildGen builds the program of one layer of the video stream ("gen", generation),
// which attends to the text and to itself.
func (s *build) buildGen(p *programBuilder) {
	l := s.layout
	x, cos, sin := p.Value("tokens"), p.Value("video_cos"), p.Value("video_sin")
	q, k, v := p.projectQKV(video, p.normAndGather(video.norm1, x, l.Gathered), l.Gathered)
	own := attention.Parts{Q: p.RopeHalves(q, cos, sin), K: p.RopeHalves(k, cos, sin), V: v}
	var o attention.Options
	if s.r.Masked {
		mask := p.ExpandDim(p.ExpandDim(p.Concat(1, p.Value("mask"), p.Constant(dtype.Bool, 1, s.r.Batch, l.Tokens)), 1), 1)
		o.Mask = &mask
	}
	y := attention.Prefixed(p.Builder, attention.Parts{K: p.Value("text_k"), V: p.Value("text_v")}, own, l.Tokens, o)
	p.Output("tokens", p.addAttentionAndFFN(video, x, y, l.Stream, l.Gathered), "tokens")
}

// buildPost builds the program of the final norm and projection, which turns tokens
// back into latents.
func (s *build) buildPost(p *programBuilder) {
	l := s.layout
	h := p.Compute(p.RMSNorm("norm_moe_gen", p.Value("tokens"), s.c.Eps))
	p.Output("out", p.Latents(p.Linear("proj_out", h, l.Stream), l.Grid, s.c.patchShape(), "tyxc"), "")
}

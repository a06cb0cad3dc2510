package wan

import (
	"fmt"
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/spmd"
	"weft/strategy"
	"weft/tensor"
)

// VACE (VaceWanModel) has a second stream of tokens, of a control video: c = before_proj(patches
// of the control) + patches of x. Its blocks are Wan's own, each with a projection: the n-th
// makes c = block(c), and after layer ControlLayers[n] of the model it adds scale after_proj(c) to
// the tokens. A control block reads nothing that the model's layers make, so it runs
// just before its result is added, and no results wait for their layers.

// The names of the inputs that a VACE model reads besides those of text to video.
const (
	nameOfControl = "vace_context" // (B, vace_in_dim, F, H, W), latents of the control video and its mask
	nameOfScale   = "vace_scale"   // (B, control blocks), by how much each block's result counts; 1 where it is not given
)

// controlParams lists the parameters of the control video's patches and blocks, those of the
// first so many layers.
func (c Config) controlParams(layers int) []models.Param {
	if c.ModelType != vace {
		return nil
	}
	pt, ph, pw := c.PatchSize[0], c.PatchSize[1], c.PatchSize[2]
	ps := []models.Param{
		{Name: "vace_patch_embedding.weight", Shape: []int{c.Dim, c.ControlDim, pt, ph, pw}, View: []int{c.Dim, c.ControlDim * pt * ph * pw}, Matmul: true},
		{Name: "vace_patch_embedding.bias", Shape: []int{c.Dim}},
	}
	for n, layer := range c.ControlLayers {
		if layer >= layers {
			break
		}
		b := controlPrefix(n)
		if n == 0 {
			ps = append(ps, models.LinearParams(b+"before_proj", c.Dim, c.Dim, true)...)
		}
		ps = append(ps, c.blockParams(b)...)
		ps = append(ps, models.LinearParams(b+"after_proj", c.Dim, c.Dim, true)...)
	}
	return ps
}

// controlPrefix is what the names of a control block's parameters begin with.
func controlPrefix(n int) string { return fmt.Sprintf("vace_blocks.%d.", n) }

// controlOf is the number of the control block whose result is added to a layer's.
func (c Config) controlOf(layer int) (n int, ok bool) {
	return slices.BinarySearch(c.ControlLayers, layer)
}

// declareControl declares the control video, the scales of its blocks and the stream of its tokens.
func (s *build) declareControl() {
	c, b := s.c, s.r.Batch
	if c.ModelType != vace {
		return
	}
	batch := strategy.SpecOf(strategy.Batch)
	s.Input(graph.Input{Name: nameOfControl, DType: dtype.F32, Shape: append([]int{b, c.ControlDim}, s.r.Latent[1:]...), Spec: batch})
	s.Value("scale", step.Value{DType: dtype.F32, Shape: []int{b, 1, 1}, Spec: batch, Kind: step.PerLayer})
	for _, layer := range c.ControlLayers {
		if layer < s.r.Run(c.Layers) {
			s.Input(graph.Input{Name: scaleOfLayer(layer), DType: dtype.F32, Shape: []int{b, 1, 1}, Spec: batch})
		}
	}
	s.Value("control", step.Value{DType: dtype.F32, Shape: []int{b, s.layout.Padded, c.Dim}, Spec: s.layout.Stream, Kind: step.Stream})
}

// scaleOfLayer is the graph's input with the scale of the control block that belongs to a layer.
func scaleOfLayer(layer int) string { return fmt.Sprintf("scale.%d", layer) }

// controlTextKV is the call that makes a control block's keys and values of the text, once a request.
func (s *build) controlTextKV(layer int) step.Part[*programBuilder] {
	n, ok := s.c.controlOf(layer)
	return step.PartIf(ok, step.Part[*programBuilder]{Program: "vace_text_kv", Prefix: controlPrefix(n) + "cross_attn.", Request: true,
		Define: func(p *programBuilder) { s.buildTextKeys(p, "vace_") }})
}

// controlBlock is the call of the control block whose result is added to a layer's.
func (s *build) controlBlock(layer int) step.Part[*programBuilder] {
	n, ok := s.c.controlOf(layer)
	return step.PartIf(ok, step.Part[*programBuilder]{Program: "vace_block", Prefix: controlPrefix(n), Define: s.buildControlBlock,
		Trace: step.Tokens(fmt.Sprintf("vace_block_%d", n), s.r.Batch, s.layout.Tokens, s.c.Dim)})
}

// buildControlPre builds the program that embeds the control video's patches and adds those of
// x: (B, Sp, D).
func (s *build) buildControlPre(p *programBuilder) {
	c := p.embedPatches("vace_patch_embedding", p.Value(nameOfControl))
	c = p.Add(p.project("vace_blocks.0.before_proj", c), p.Value("tokens"))
	p.Output("control", c, "")
}

// buildControlBlock builds the program of a control block, which adds its result to the tokens.
func (s *build) buildControlBlock(p *programBuilder) {
	c := s.transformTokens(p, p.Value("control"), "vace_text_k", "vace_text_v")
	p.Output("control", c, "control")
	hint := p.Mul(p.project("after_proj", c), p.Value("scale"))
	p.Output("tokens", p.Add(p.Value("tokens"), hint), "tokens")
}

// project applies a column-parallel linear layer to the stream's tokens, and gathers the
// result's channels in the compute type.
func (p *programBuilder) project(name string, x spmd.Tensor) spmd.Tensor {
	l := p.s.layout
	y := p.Linear(name, p.GatherStream(p.Compute(x), l.Gathered), l.Gathered)
	y = p.Reshard(p.Compute(y), l.Stream, "channels of a control projection gathered")
	return p.Convert(y, dtype.F32)
}

// feedControl makes the graph's inputs of the control video and of its blocks' scales.
func (m *Model) feedControl(g *graph.Graph, r models.Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	control, err := in[nameOfControl].As(dtype.F32)
	if err != nil {
		return nil, err
	}
	out := map[string]*tensor.Tensor{nameOfControl: control}
	scales := slices.Repeat([]float32{1}, r.Batch*len(m.c.ControlLayers))
	if given := in[nameOfScale]; given != nil {
		if given, err = given.As(dtype.F32); err == nil {
			scales, err = given.Float32s()
		}
		if err != nil {
			return nil, err
		}
	}
	for n, layer := range m.c.ControlLayers {
		if g.Input(scaleOfLayer(layer)) == nil {
			continue // of a layer that the request leaves out
		}
		one := tensor.New(dtype.F32, r.Batch, 1, 1)
		for b := range r.Batch {
			step.Put(one, b, float64(scales[b*len(m.c.ControlLayers)+n]))
		}
		out[scaleOfLayer(layer)] = one
	}
	return out, nil
}

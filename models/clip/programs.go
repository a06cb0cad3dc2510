package clip

import (
	"fmt"

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
// Shapes: B batch, L tokens, Lp the same padded for the split, D width, H heads,
// d head width.
type build struct {
	*step.Step
	m      *Model
	layout models.TextLayout
}

// Graph builds a tower: the tokens, every layer's block, and the result.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, m: m, layout: m.layOutRequest(on, r)}
	s.Padded("tokens", s.layout.Tokens, s.layout.Padded)
	b, l := r.Batch, s.layout
	batch := strategy.SpecOf(strategy.Batch)
	if m.c.Tower == vision {
		s.Input(graph.Input{Name: "x", DType: dtype.F32, Shape: []int{b, 3, m.c.ImageSize, m.c.ImageSize}, Spec: batch, Step: true})
	} else {
		s.Input(graph.Input{Name: "ids", DType: dtype.I32, Shape: []int{b, l.Padded}, Spec: l.Gathered, Step: true})
		s.Input(graph.Input{Name: "end", DType: dtype.F32, Shape: []int{b, l.Padded, 1}, Spec: l.Stream, Step: true})
	}
	s.Value("tokens", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, m.c.Dim}, Spec: l.Stream, Kind: step.Stream})
	outputs := []string{"out"}
	if m.c.Tower == text {
		outputs = append(outputs, "out_hidden")
	}
	return step.Assemble(base, r.Run(m.c.Layers), step.PlainProgram, s.listCalls(), outputs...)
}

// layOutRequest computes the layout of a text's or an image's tokens on a mesh.
func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) models.TextLayout {
	if m.c.Tower == vision {
		r.Text = m.c.Tokens()
	}
	return r.TextLayout(on, m.c.Places)
}

// listCalls lists the calls of a tower in the order in which they run, with their programs.
func (s *build) listCalls() []step.Parts[*step.ProgramBuilder] {
	type part = step.Part[*step.ProgramBuilder]
	embed, post := s.buildImageEmbed, s.buildImagePost
	if s.m.c.Tower == text {
		embed, post = s.buildTextEmbed, s.buildTextPost
	}
	tokens := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.Request.Batch, s.layout.Tokens, s.m.c.Dim)
	}
	return []step.Parts[*step.ProgramBuilder]{
		step.First(part{Program: "embed", Trace: tokens("embed"), Define: embed}),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "block", Prefix: s.m.blockPrefix(i), Trace: tokens(fmt.Sprintf("block_%d", i)), Define: s.buildBlock}}
		}),
		step.Last(part{Program: "post", Define: post}),
	}
}

// buildImageEmbed builds the program "embed" of the image tower, which makes tokens of
// an image (B, 3, H, W): the class token and then the patches. It adds their learned
// positions and normalises them.
func (s *build) buildImageEmbed(p *step.ProgramBuilder) {
	c, n := s.m.c, s.m.n
	batch := strategy.SpecOf(strategy.Batch)
	x := p.Value("x")
	if used := c.Grid() * c.PatchSize; used < c.ImageSize { // pixels beyond the last patch are not read
		x = p.Slice(p.Slice(x, 2, 0, used), 3, 0, used)
	}
	x = p.Patches(p.ExpandDim(x, 2), [3]int{1, c.PatchSize, c.PatchSize}, "ctyx")
	x = p.Linear(n.patch, p.Compute(x), batch)
	if c.Names == siglip {
		x = p.PadTo(p.Add(x, p.Weight(n.places)), 1, s.layout.Padded)
		p.Output("tokens", p.Reshard(x, s.layout.Stream, "tokens cut over the mesh"), "")
		return
	}
	class := p.Add(p.Constant(dtype.F32, 0, s.Request.Batch, 1, c.Dim), p.Weight(n.class))
	x = p.Concat(1, p.Reshard(class, batch, "one for each image"), x)
	x = p.Norm(n.first, p.Add(x, p.Weight(n.places)), c.Eps)
	x = p.PadTo(x, 1, s.layout.Padded)
	p.Output("tokens", p.Reshard(x, s.layout.Stream, "tokens cut over the mesh"), "")
}

// buildTextEmbed builds the program "embed" of the text tower, which looks up ids
// (B, Lp) in the token table and adds their learned positions.
func (s *build) buildTextEmbed(p *step.ProgramBuilder) {
	places := p.PadTo(p.Slice(p.Weight(s.m.n.places), 0, 0, s.layout.Tokens), 0, s.layout.Padded)
	p.Output("tokens", p.Add(p.Rows(s.m.n.tokens, p.Value("ids"), s.layout.Stream), places), "")
}

// buildBlock builds the program of one layer: self-attention and FFN, each behind a
// LayerNorm. The residual stream stays f32.
func (s *build) buildBlock(p *step.ProgramBuilder) {
	c, n, l := s.m.c, s.m.n, s.layout
	x := p.Value("tokens")
	norm := func(name string) spmd.Tensor {
		return p.GatherStream(p.Norm(name, x, c.Eps), l.Gathered)
	}
	h := norm(n.norm1)
	var qkv []spmd.Tensor
	if len(n.qkv) == 1 {
		qkv = p.Unstack(p.Compute(p.Linear(n.qkv[0], h, l.Gathered)), c.Dim, c.Dim, c.Dim)
	} else {
		for _, name := range n.qkv {
			qkv = append(qkv, p.Compute(p.Linear(name, h, l.Gathered)))
		}
	}
	for i := range qkv {
		qkv[i] = p.SplitDim(qkv[i], 2, c.Heads, c.HeadDim())
	}
	y := attention.Attend(p.Builder, qkv[0], qkv[1], qkv[2], attention.Options{Keys: l.Tokens, Causal: c.Tower == text})
	x = p.Add(x, p.Linear(n.proj, p.MergeDims(y, 2, 2), l.Stream))
	act := p.Gelu
	switch c.Act {
	case "gelu_pytorch_tanh":
		act = p.GeluTanh
	case "quick_gelu":
		act = func(x spmd.Tensor) spmd.Tensor { return p.Mul(x, p.Unary(program.OpSigmoid, p.Scale(x, 1.702))) }
	}
	p.Output("tokens", p.Add(x, p.FFN(n.up, n.down, norm(n.norm2), l.Stream, act)), "tokens")
}

// gatherTokens gathers tokens (B, Lp, D) on every device and cuts off the padding:
// (B, L, D).
func (s *build) gatherTokens(p *step.ProgramBuilder, x spmd.Tensor) spmd.Tensor {
	return p.Slice(p.Reshard(x, strategy.SpecOf(strategy.Batch), "tokens gathered for the result"), 1, 0, s.layout.Tokens)
}

// buildImagePost builds the program "post" of the image tower, which returns the
// tokens as they leave the last layer that is run. SigLIP's are normalised; LLaVA's two layers make
// rows of the patches.
func (s *build) buildImagePost(p *step.ProgramBuilder) {
	x := p.Value("tokens")
	if s.m.n.last != "" {
		x = p.Norm(s.m.n.last, x, s.m.c.Eps)
	}
	x = s.gatherTokens(p, x)
	if n := s.m.n; n.up2 != "" {
		x = p.Compute(p.Slice(x, 1, 1, s.layout.Tokens))
		x = p.FFN(n.up2, n.down2, x, strategy.SpecOf(strategy.Batch), p.Gelu)
	}
	p.Output("out", x, "")
}

// buildTextPost builds the program "post" of the text tower, which applies the final
// norm. It returns all tokens as out_hidden (B, L, D), and the token at the end of
// each text as out (B, D).
func (s *build) buildTextPost(p *step.ProgramBuilder) {
	x := p.Norm(s.m.n.last, p.Value("tokens"), s.m.c.Eps)
	at := p.Reduced(p.Sum(p.Mul(x, p.Value("end")), 1), "the text's end is on one device")
	p.Output("out", p.DropDim(at, 1), "")
	p.Output("out_hidden", s.gatherTokens(p, x), "")
}

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
	"weft/sharding"
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
	if err := m.Check(on, r); err != nil {
		return nil, err
	}
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
	if err := s.Stages(r.Run(m.c.Layers), s.buildStage); err != nil {
		return nil, err
	}
	if m.c.Tower == text {
		return s.Finish("out", "out_hidden")
	}
	return s.Finish("out")
}

// layOutRequest computes the layout of a text's or an image's tokens on a mesh.
func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) models.TextLayout {
	if m.c.Tower == vision {
		r.Text = m.c.Tokens()
	}
	return r.TextLayout(on, m.c.Places)
}

// buildStage builds the programs of one pipeline stage on its own devices, and adds
// their calls. The first stage also makes the tokens; the last stage also makes the
// result.
func (s *build) buildStage(first, last bool, layers sharding.Range) error {
	embed, post := s.buildImageEmbed, s.buildImagePost
	if s.m.c.Tower == text {
		embed, post = s.buildTextEmbed, s.buildTextPost
	}
	trace := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.Request.Batch, s.layout.Tokens, s.m.c.Dim)
	}
	if first {
		if err := embed(); err != nil {
			return err
		}
		s.Call(graph.Call{Name: "embed", Program: "embed", Trace: trace("embed")}, "", 0)
	}
	if err := s.buildBlock(); err != nil {
		return err
	}
	for i := layers.Lo; i < layers.Hi; i++ {
		s.Call(graph.Call{Name: fmt.Sprintf("block %d", i), Program: "block", Trace: trace(fmt.Sprintf("block_%d", i))}, s.m.blockPrefix(i), i)
	}
	if !last {
		return nil
	}
	if err := post(); err != nil {
		return err
	}
	s.Call(graph.Call{Name: "post", Program: "post"}, "", layers.Hi)
	return nil
}

// buildImageEmbed builds the program "embed" of the image tower, which makes tokens of
// an image (B, 3, H, W): the class token and then the patches. It adds their learned
// positions and normalises them.
func (s *build) buildImageEmbed() error {
	c, n := s.m.c, s.m.n
	batch := strategy.SpecOf(strategy.Batch)
	return s.Build("embed", "", func(p *step.ProgramBuilder) {
		x := p.Patches(p.ExpandDim(p.Value("x"), 2), [3]int{1, c.PatchSize, c.PatchSize}, "ctyx")
		x = p.Linear(n.patch, p.Compute(x), batch)
		class := p.Add(p.Constant(dtype.F32, 0, s.Request.Batch, 1, c.Dim), p.Weight(n.class))
		x = p.Concat(1, p.Reshard(class, batch, "one for each image"), x)
		x = p.Norm(n.first, p.Add(x, p.Weight(n.places)), c.Eps)
		x = p.PadTo(x, 1, s.layout.Padded)
		p.Output("tokens", p.Reshard(x, s.layout.Stream, "tokens cut over the mesh"), "")
	})
}

// buildTextEmbed builds the program "embed" of the text tower, which looks up ids
// (B, Lp) in the token table and adds their learned positions.
func (s *build) buildTextEmbed() error {
	return s.Build("embed", "", func(p *step.ProgramBuilder) {
		places := p.PadTo(p.Slice(p.Weight(s.m.n.places), 0, 0, s.layout.Tokens), 0, s.layout.Padded)
		p.Output("tokens", p.Add(p.Rows(s.m.n.tokens, p.Value("ids"), s.layout.Stream), places), "")
	})
}

// buildBlock builds the program of one layer: self-attention and FFN, each behind a
// LayerNorm. The residual stream stays f32.
func (s *build) buildBlock() error {
	c, n, l := s.m.c, s.m.n, s.layout
	return s.Build("block", s.m.blockPrefix(0), func(p *step.ProgramBuilder) {
		x := p.Value("tokens")
		norm := func(name string) spmd.Tensor {
			return p.Reshard(p.Compute(p.Norm(name, x, c.Eps)), l.Gathered, "split stream gathered for column-parallel matmuls")
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
		if c.Act == "quick_gelu" {
			act = func(x spmd.Tensor) spmd.Tensor { return p.Mul(x, p.Unary(program.OpSigmoid, p.Scale(x, 1.702))) }
		}
		p.Output("tokens", p.Add(x, p.FFN(n.up, n.down, norm(n.norm2), l.Stream, act)), "tokens")
	})
}

// gatherTokens gathers tokens (B, Lp, D) on every device and cuts off the padding:
// (B, L, D).
func (s *build) gatherTokens(p *step.ProgramBuilder, x spmd.Tensor) spmd.Tensor {
	return p.Slice(p.Reshard(x, strategy.SpecOf(strategy.Batch), "tokens gathered for the result"), 1, 0, s.layout.Tokens)
}

// buildImagePost builds the program "post" of the image tower, which returns the
// tokens as they leave the last layer that is run.
func (s *build) buildImagePost() error {
	return s.Build("post", "", func(p *step.ProgramBuilder) { p.Output("out", s.gatherTokens(p, p.Value("tokens")), "") })
}

// buildTextPost builds the program "post" of the text tower, which applies the final
// norm. It returns all tokens as out_hidden (B, L, D), and the token at the end of
// each text as out (B, D).
func (s *build) buildTextPost() error {
	return s.Build("post", "", func(p *step.ProgramBuilder) {
		x := p.Norm(s.m.n.last, p.Value("tokens"), s.m.c.Eps)
		at := p.Reduced(p.Sum(p.Mul(x, p.Value("end")), 1), "the text's end is on one device")
		p.Output("out", p.DropDim(at, 1), "")
		p.Output("out_hidden", s.gatherTokens(p, x), "")
	})
}

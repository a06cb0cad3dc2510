package ltx

import (
	"fmt"
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/spmd"
	"weft/strategy"
)

// connectorBuild is a connector's graph under construction.
type connectorBuild struct {
	*step.Step
	c      ConnectorConfig
	layout models.TextLayout
	batch  int
}

// Graph builds the connector: the registers, every layer's block, the last norm.
func (m *Connector) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &connectorBuild{Step: base, c: m.c, layout: r.TextLayout(on, m.defaultRows()), batch: r.Batch}
	s.Padded("rows of text", s.layout.Tokens, s.layout.Padded)
	s.declareValues()
	return step.Assemble(base, r.Run(m.c.Layers), s.newProgram, s.listCalls(), "out")
}

var perVideo = strategy.SpecOf(strategy.Batch)

func (s *connectorBuild) declareValues() {
	d, l := s.c.dim(), s.layout
	s.Input(graph.Input{Name: "context", DType: dtype.F32, Shape: []int{s.batch, l.Tokens, d}, Spec: perVideo, Step: true})
	s.Input(graph.Input{Name: "real", DType: dtype.F32, Shape: []int{s.batch, l.Tokens, 1}, Spec: perVideo, Step: true})
	for _, name := range []string{"rope_cos", "rope_sin"} {
		s.Input(graph.Input{Name: name, DType: dtype.F32, Shape: []int{1, l.Padded, d}, Spec: strategy.SpecOf(strategy.None, strategy.Tokens, strategy.Heads)})
	}
	s.Value("rows", step.Value{DType: dtype.F32, Shape: []int{s.batch, l.Padded, d}, Spec: l.Stream, Kind: step.Stream})
}

// listCalls lists the calls of a pass in the order in which they run, with their programs.
func (s *connectorBuild) listCalls() []step.Parts[*programBuilder] {
	type part = step.Part[*programBuilder]
	rows := func(name string) map[int]graph.Traced { return step.Tokens(name, s.batch, s.layout.Tokens, s.c.dim()) }
	return []step.Parts[*programBuilder]{
		step.First(part{Program: "pre", Prefix: connectorPrefix, Trace: rows("registered"), Define: s.buildPre}),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "block", Prefix: fmt.Sprintf("%stransformer_1d_blocks.%d.", connectorPrefix, i), Trace: rows(fmt.Sprintf("block_%d", i)), Define: s.buildBlock}}
		}),
		step.Last(part{Program: "post", Define: s.buildPost}),
	}
}

func (s *connectorBuild) newProgram(p *step.ProgramBuilder) *programBuilder {
	c := s.c
	return &programBuilder{ProgramBuilder: p, heads: c.Heads, headDim: c.HeadDim, eps: c.Eps, qkEps: c.Eps, gated: c.Gated, halves: true, stream: s.layout.Stream, gathered: s.layout.Gathered}
}

// buildPre replaces rows of padding: row i by register i modulo the number of registers.
func (s *connectorBuild) buildPre(p *programBuilder) {
	all := p.Concat(0, slices.Repeat([]spmd.Tensor{p.Weight("learnable_registers")}, s.layout.Tokens/s.c.Registers)...)
	real := p.Value("real")
	x := p.Add(p.Mul(p.Value("context"), real), p.Mul(all, p.Shift(p.Scale(real, -1), 1)))
	p.Output("rows", p.Reshard(p.PadTo(x, 1, s.layout.Padded), s.layout.Stream, "rows cut over the mesh"), "")
}

// buildBlock builds a layer: self-attention and an FFN, each of which reads the stream
// through a norm without weights.
func (s *connectorBuild) buildBlock(p *programBuilder) {
	x := p.Value("rows")
	x = p.Add(x, p.selfAttention("attn1", p.gatherStream(p.normalizeRMS(x)), s.layout.Tokens))
	x = p.Add(x, p.feedForward(p.gatherStream(p.normalizeRMS(x))))
	p.Output("rows", x, "rows")
}

func (s *connectorBuild) buildPost(p *programBuilder) {
	x := p.Reshard(p.normalizeRMS(p.Value("rows")), perVideo, "rows gathered")
	p.Output("out", p.Slice(x, 1, 0, s.layout.Tokens), "")
}

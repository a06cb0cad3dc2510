package t5

import (
	"fmt"
	"math"

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
// Shapes: B batch, L tokens, Lp the same padded so that the sharded dim divides, D width, H
// heads, d head width.
type build struct {
	*step.Step
	m      *Model
	layout models.TextLayout
}

// Graph builds an encoding: the lookup of the tokens' rows, the block of every layer, the
// last norm.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, m: m, layout: r.TextLayout(on, defaultText)}
	s.Padded("tokens", s.layout.Tokens, s.layout.Padded)
	s.declareValues()
	outputs := []string{"out"}
	if r.Masked {
		outputs = append(outputs, "out_zeroed_pads")
	}
	if r.TextRows { // the table stays in its file
		base.DropWeight(m.n.tokens + ".weight")
	}
	return step.Assemble(base, r.Run(m.c.Layers), step.PlainProgram, s.listCalls(), outputs...)
}

// listCalls lists the calls of an encoding in the order in which they run, with their programs.
func (s *build) listCalls() []step.Parts[*step.ProgramBuilder] {
	type part = step.Part[*step.ProgramBuilder]
	tokens := func(name string) map[int]graph.Traced {
		return step.Tokens(name, s.Request.Batch, s.layout.Tokens, s.m.c.Dim)
	}
	return []step.Parts[*step.ProgramBuilder]{
		step.First(part{Program: "embed", Trace: tokens("embed"), Define: s.buildEmbed}),
		step.EachLayer(func(i int) []part {
			return []part{{Program: "block", Prefix: s.m.blockPrefix(i), Trace: tokens(fmt.Sprintf("block_%d", i)), Define: s.buildBlock}}
		}),
		step.Last(part{Program: "post", Define: s.buildPost}),
	}
}

// declareValues declares the graph's inputs and the values that calls pass to each other.
func (s *build) declareValues() {
	c, l, b := s.m.c, s.layout, s.Request.Batch
	if s.Request.TextRows {
		s.Input(graph.Input{Name: "rows", DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim}, Spec: l.Gathered, Step: true})
	} else {
		s.Input(graph.Input{Name: "ids", DType: dtype.I32, Shape: []int{b, l.Padded}, Spec: l.Gathered, Step: true})
	}
	if s.Request.Masked {
		s.Input(graph.Input{Name: "mask", DType: dtype.Bool, Shape: []int{b, l.Tokens}, Spec: strategy.SpecOf(strategy.Batch), Step: true})
	}
	s.Value("tokens", step.Value{DType: dtype.F32, Shape: []int{b, l.Padded, c.Dim}, Spec: l.Stream, Kind: step.Stream})
	s.Value("bias", step.Value{DType: dtype.F32, Shape: []int{c.Buckets, c.Heads}, Spec: strategy.SpecOf(strategy.None, strategy.Heads)})
}

// buildEmbed looks the tokens (B, Lp) up in the table: (B, Lp, D), or takes the rows as they
// are given. If all layers share the
// first layer's bias table, this program passes it to them.
func (s *build) buildEmbed(p *step.ProgramBuilder) {
	if s.Request.TextRows {
		p.Output("tokens", p.Reshard(p.Value("rows"), s.layout.Stream, "rows of tokens as the stream has them"), "")
	} else {
		p.Output("tokens", p.Rows(s.m.n.tokens, p.Value("ids"), s.layout.Stream), "")
	}
	if s.m.c.SharedPos {
		p.Output("bias", p.Weight(s.m.blockPrefix(0)+s.m.n.bias+".weight"), "")
	}
}

// buildBlock builds a layer: self-attention and a gated FFN, each of which reads the stream
// through an RMS norm. The residual stream stays f32.
func (s *build) buildBlock(p *step.ProgramBuilder) {
	c, n, l := s.m.c, s.m.n, s.layout
	x := p.Value("tokens")
	norm := func(name string) spmd.Tensor {
		return p.GatherStream(p.RMSNorm(name, x, c.Eps), l.Gathered)
	}
	h := norm(n.norm1)
	part := func(name string) spmd.Tensor {
		return p.SplitDim(p.Compute(p.Linear(name, h, l.Gathered)), 2, c.Heads, c.HeadDim())
	}
	o := attention.Options{Scale: 1, Keys: l.Tokens, Relative: &attention.Relative{Bucket: c.bucketOfDistance}}
	if c.SharedPos {
		o.Relative.Table = p.Value("bias")
	} else {
		o.Relative.Table = p.Weight(n.bias + ".weight")
	}
	if s.Request.Masked {
		mask := p.ExpandDim(p.ExpandDim(p.Value("mask"), 1), 1) // B 1 1 L
		o.Mask = &mask
	}
	y := attention.Attend(p.Builder, part(n.q), part(n.k), part(n.v), o)
	x = p.Add(x, p.Linear(n.o, p.MergeDims(y, 2, 2), l.Stream))
	x = p.Add(x, p.GatedFFN(n.gate, n.up, n.down, norm(n.norm2), l.Stream, p.GeluTanh))
	p.Output("tokens", x, "tokens")
}

// buildPost builds the final norm. It gives out (B, L, D) and, with a mask, a copy in which
// rows of padding are zeros.
func (s *build) buildPost(p *step.ProgramBuilder) {
	y := p.RMSNorm(s.m.n.norm, p.Value("tokens"), s.m.c.Eps)
	y = p.Reshard(y, strategy.SpecOf(strategy.Batch), "tokens gathered for the result")
	y = p.Slice(y, 1, 0, s.layout.Tokens)
	p.Output("out", y, "")
	if s.Request.Masked {
		p.Output("out_zeroed_pads", p.Select(p.ExpandDim(p.Value("mask"), 2), y, p.Constant(dtype.F32, 0)), "")
	}
}

// bucketOfDistance maps distances (key position minus query position) to rows of the bias
// table. Half of the buckets are for keys before the query, half for keys behind it. In each
// half, the first half of the buckets holds one distance each; the others hold ranges that
// grow by a constant factor up to max_distance.
func (c Config) bucketOfDistance(b *spmd.Builder, distance spmd.Local) spmd.Local {
	number := func(n int) spmd.Local { return b.LConst(dtype.I32, float64(n)) }
	far := b.LUnary(program.OpAbs, distance)
	at := b.LBinary(program.OpMin, far, number(c.Buckets/4))
	for _, from := range c.bucketStarts() {
		at = b.LAdd(at, b.LConvert(b.LCompare("GE", far, number(from)), dtype.I32))
	}
	behind := b.LConvert(b.LCompare("GT", distance, number(0)), dtype.I32)
	return b.LAdd(at, b.LMul(behind, number(c.Buckets/2)))
}

// bucketStarts are the distances at which the buckets of growing ranges start, without the
// first of them. The rule floor(log(distance/exact) / log(max/exact) ranges) is evaluated in
// f32, as the models were trained.
func (c Config) bucketStarts() []int {
	exact := c.Buckets / 4
	of := func(distance int) int {
		part := float32(math.Log(float64(float32(distance)/float32(exact)))) / float32(math.Log(float64(c.MaxDistance)/float64(exact)))
		return min(int(part*float32(exact)), exact-1)
	}
	var from []int
	for d := exact + 1; len(from) < exact-1; d++ {
		for len(from) < of(d) {
			from = append(from, d)
		}
	}
	return from
}

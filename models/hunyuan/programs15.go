package hunyuan

import (
	"weft/dtype"
	"weft/graph"
	"weft/models/step"
	"weft/spmd"
)

// eps15 is the epsilon of the norms in the modules that embed the image's features and
// byT5's rows.
const eps15 = 1e-5

// The rows of cond_type_embedding, one for each kind of rows in the text's stream.
const (
	kindText = iota
	kindGlyphs
	kindImage
)

// refinedName names the value that holds the refined text (B, T, D). It is the text's stream
// itself, except in 1.5, where other rows join it before the blocks.
func (s *build) refinedName() string {
	if s.c.Glyphs {
		return "refined"
	}
	return "text"
}

// declareGlyphsAndImage declares the inputs that 1.5 has besides video and text, and the
// values that are computed from them: byT5's rows, the image's feature rows, and the image's
// latents with the channel that marks the frames that it gives.
func (s *build) declareGlyphsAndImage() {
	c, r, l := s.c, s.r, s.layout
	rows := func(name string, n, width int) {
		s.Input(graph.Input{Name: name, DType: dtype.F32, Shape: []int{r.Batch, n, width}, Spec: l.Batch})
		s.Value(name+"_rows", step.Value{DType: dtype.F32, Shape: []int{r.Batch, n, c.Dim}, Spec: l.Batch})
	}
	if r.SecondText > 0 {
		rows("byt5", r.SecondText, c.GlyphDim)
	}
	if r.Image > 0 {
		rows("vision", r.Image, c.VisionDim)
		s.declareImageLatents()
	}
	s.Value("refined", step.Value{DType: dtype.F32, Shape: []int{r.Batch, r.Text, c.Dim}, Spec: l.Batch, Kind: step.Stream})
}

// declareImageLatents declares the input of an image's latents, with the channel that marks the
// frames that it gives.
func (s *build) declareImageLatents() {
	y := append([]int{s.r.Batch, s.c.embeddedChannels() - s.c.In}, s.r.Latent[1:]...)
	s.Input(graph.Input{Name: "y", DType: dtype.F32, Shape: y, Spec: s.layout.Batch})
}

// addKindEmbedding adds the embedding of their kind to rows (B, n, D).
func (p *programBuilder) addKindEmbedding(x spmd.Tensor, kind int) spmd.Tensor {
	return p.Add(x, p.DropDim(p.Slice(p.Weight(kindTable), 0, kind, kind+1), 0))
}

// buildGlyphs embeds the rows of byT5, which depend on the request alone.
func (s *build) buildGlyphs(p *programBuilder) {
	batch := s.layout.Batch
	h := p.Compute(p.Norm("byt5_in.layernorm", p.Value("byt5"), eps15))
	h = p.Compute(p.Gelu(p.FFN("byt5_in.fc1", "byt5_in.fc2", h, batch, p.Gelu)))
	x := p.Reshard(p.Linear("byt5_in.fc3", h, batch), batch, "letters' rows gathered: they join the text's stream")
	p.Output("byt5_rows", p.addKindEmbedding(x, kindGlyphs), "")
}

// buildImage embeds the image's feature rows, which depend on the request alone.
func (s *build) buildImage(p *programBuilder) {
	h := p.Compute(p.Norm("vision_in.proj.0", p.Value("vision"), eps15))
	x := p.Norm("vision_in.proj.4", p.FFN("vision_in.proj.1", "vision_in.proj.3", h, s.layout.Batch, p.Gelu), eps15)
	p.Output("vision_rows", p.addKindEmbedding(x, kindImage), "")
}

// buildJoin concatenates the rows of the image and of byT5 with the refined text to the
// text's stream (B, V+G+T, D). The order is free, since no row of that stream has a position.
func (s *build) buildJoin(p *programBuilder) {
	rows := []spmd.Tensor{}
	if s.r.Image > 0 {
		rows = append(rows, p.Value("vision_rows"))
	}
	if s.r.SecondText > 0 {
		rows = append(rows, p.Value("byt5_rows"))
	}
	rows = append(rows, p.addKindEmbedding(p.Value("refined"), kindText))
	p.Output("text", p.Concat(1, rows...), "")
}

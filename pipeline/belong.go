package pipeline

import (
	"fmt"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/identify"
	"weft/mesh"
	"weft/models"
)

// WrongPart is a part that does not belong to the transformer, and the one that does.
type WrongPart struct {
	Part  Part   `json:"part"`
	Path  string `json:"path"`
	Is    string `json:"is"`
	Want  string `json:"want"`
	Model string `json:"model"`
}

// checkBelong refuses parts that do not fit the transformer: an autoencoder of other latents, a
// text encoder of another width, a tokenizer of another vocabulary. They would run, or fail
// only when the weights are read.
func (p *Pipeline) checkBelong() error {
	var errs fault.List
	if p.vae != nil {
		errs.Add(p.checkAutoencoder())
	}
	for i, t := range p.texts {
		if n := p.generator().Vocabulary; t.use.Tokens && t.tokens != nil && t.tokens.Size() > n {
			errs.Add(fault.New(ErrWrongPart, WrongPart{t.parts[1], p.paths[t.parts[1]], "a tokenizer", p.Name() + "'s own", p.Name()},
				"%s: this tokenizer has ids up to %d, and %s knows %d: they are not of one release", p.paths[t.parts[1]], t.tokens.Size()-1, p.Name(), n))
		}
		if t.model != nil {
			if err := p.checkStages(t); err != nil {
				errs.Add(err)
				continue
			}
			errs.Add(p.checkTextEncoder(t, i == 0))
		}
	}
	return errs.Err()
}

// refusePart makes the error for a part that does not belong.
func (p *Pipeline) refusePart(part Part, m *identify.Match, want, format string, args ...any) error {
	return fault.New(ErrWrongPart, WrongPart{part, p.paths[part], m.Name(), want, p.Name()}, "%s: %s", p.paths[part], fmt.Sprintf(format, args...))
}

// checkAutoencoder holds the autoencoder's latents against those that the transformer makes.
func (p *Pipeline) checkAutoencoder() error {
	c := p.companions()
	want := c.Decoder
	if file := publishedName(c.Decoder); file != "" {
		want = fmt.Sprintf("%s (%s)", c.Decoder, file)
	}
	d := p.vae.Features().Decoder
	if d == nil {
		return p.refusePart(Autoencoder, p.vae, want, "this is %s, no autoencoder: %s's latents are decoded by %s", p.vae.Name(), p.Name(), want)
	}
	w, h, f := legalSize(p.generator())
	latent, err := p.generator().LatentShape(w, h, f)
	if err != nil {
		return err
	}
	shape, err := d.VideoShape(p.generator().DecodedLatents(latent, f))
	if err == nil {
		shape[1] = p.generator().ShownFrames(shape[1])
	}
	if err != nil {
		return p.refusePart(Autoencoder, p.vae, want, "this autoencoder (%s) does not decode latents of %d channels, which %s makes: its own is %s",
			p.vae.Name(), latent[0], p.Name(), want)
	}
	if !slices.Equal(shape[1:], []int{f, h, w}) {
		return p.refusePart(Autoencoder, p.vae, want, "this autoencoder (%s) makes %dx%d pixels and %d frames of latents %v, and %s means %dx%d and %d: its own is %s",
			p.vae.Name(), shape[3], shape[2], shape[1], latent, p.Name(), w, h, f, want)
	}
	return nil
}

// legalSize is a size of video that a generator makes.
func legalSize(g *models.Generator) (width, height, frames int) {
	if only := g.OnlySize; only != [3]int{} {
		return only[0], only[1], only[2]
	}
	for _, n := range []int{64, 128, 256} {
		for _, f := range []int{9, 17, 5} { // of which every autoencoder makes as many frames
			if _, err := g.LatentShape(n, n, f); err == nil {
				return n, n, f
			}
		}
	}
	return 1024, 1024, 1
}

// checkTextEncoder holds what a text encoder makes against what the transformer reads, and the
// tokenizer's ids against the text encoder's table. context says that it makes the rows of the
// text itself; what else the transformer reads is checked with the loop.
func (p *Pipeline) checkTextEncoder(t *textPart, context bool) error {
	own := t.use.PresetOf(p.generator())
	shape, err := t.outputShape(p.Settings.Count("text_len"))
	if err != nil {
		return p.refusePart(t.parts[0], t.model, own, "this is %s, no text encoder of token ids: %s reads the rows of %s", t.model.Name(), p.Name(), own)
	}
	var errs fault.List
	if context {
		want, err := p.contextWidth()
		if err != nil {
			return err
		}
		if width := shape[len(shape)-1]; width != want {
			errs.Add(p.refusePart(t.parts[0], t.model, own, "this text encoder (%s) makes rows of %d numbers, and %s reads rows of %d: it was trained with %s",
				t.model.Name(), width, p.Name(), want, own))
		}
	}
	if e, ok := t.model.Checkpoint.Lookup(t.model.Stored(t.model.Features().TokenTable)); ok && t.tokens != nil && t.tokens.Size() > e.Shape[0] {
		errs.Add(p.refusePart(t.parts[1], t.model, own, "this tokenizer has ids up to %d, and the text encoder in %s knows %d: they are not of one release",
			t.tokens.Size()-1, p.paths[t.parts[0]], e.Shape[0]))
	}
	return errs.Err()
}

// meshOfOneDevice is a single device, for graphs that are built for their shapes.
func meshOfOneDevice() (*mesh.Mesh, error) { return mesh.Local(mesh.Standard(nil)...) }

// outputShape is the shape of what the encoder and the stages behind it make of one text, where a
// text has textLen rows.
func (t *textPart) outputShape(textLen int) ([]int, error) {
	shape, err := t.encoderShape(textLen)
	if err != nil || len(t.stages) == 0 {
		return shape, err
	}
	return t.shapeBehind(shape)
}

// encoderShape is the shape of what the encoder alone makes of one text.
func (t *textPart) encoderShape(textLen int) ([]int, error) {
	rows := t.use.Length(max(1, textLen))
	if known, ok := t.shapes.Load(rows); ok { // a service asks for each request
		return known.([]int), nil
	}
	on, err := meshOfOneDevice()
	if err != nil {
		return nil, err
	}
	g, err := t.model.Graph(on, models.Request{Batch: 1, Text: rows, Masked: t.use.Masked, DType: dtype.F32})
	if err != nil {
		return nil, err
	}
	shape := outputShape(g, t.use.Output)
	if len(shape) < 2 {
		return nil, fault.New(models.ErrInputs, nil, "%s has no output %s", t.model.Name(), t.use.Output)
	}
	t.shapes.Store(rows, shape)
	return shape, nil
}

// outputShape is the shape of an output of a graph, nil where it has none of the name.
func outputShape(g *graph.Graph, name string) []int {
	for _, o := range g.Outputs {
		if o.Name != name {
			continue
		}
		if o.Shape != nil {
			return o.Shape
		}
		for _, c := range g.Calls {
			for i, out := range c.Outs {
				if out == o.Value {
					return g.Programs[c.Program].Outputs[i].Shape
				}
			}
		}
	}
	return nil
}

// contextWidth is how many numbers a row of the text has that the transformer reads.
func (p *Pipeline) contextWidth() (int, error) {
	on, err := meshOfOneDevice()
	if err != nil {
		return 0, err
	}
	gen := p.generator()
	w, h, f := legalSize(gen)
	latent, err := gen.LatentShape(w, h, f)
	if err != nil {
		return 0, err
	}
	g, err := gen.Graph(on, models.Request{Batch: 1, Latent: latent, Text: p.Settings.Count("text_len"), DType: dtype.F32, Layers: 1})
	if err != nil {
		return 0, err
	}
	in := g.Input("context")
	if in == nil {
		in = g.Input("text") // of a transformer that projects no rows
	}
	if in == nil {
		return 0, fault.New(models.ErrVariant, nil, "%s reads no rows of text", p.Name())
	}
	return in.Shape[len(in.Shape)-1], nil
}

package models

import "fmt"

// What a preset is for.
const (
	KindDenoiser      = "denoiser"
	KindAutoencoder   = "autoencoder"
	KindTextEncoder   = "text encoder"
	KindVisionEncoder = "vision encoder"
)

// CatalogueEntry is what weft knows of a preset.
type CatalogueEntry struct {
	Name   string `json:"name"`
	Family string `json:"family"`
	Kind   string `json:"kind"`
	Params int64  `json:"parameters"`
	// What a denoiser needs to make a video: presets of the text encoder ("" for one that reads
	// its text itself) and of the autoencoder.
	Text        string `json:"text_encoder,omitempty"`
	Autoencoder string `json:"autoencoder,omitempty"`
	Vision      string `json:"vision_encoder,omitempty"`
	// Of a denoiser with a release: WidthStep and HeightStep are the pixels by which sizes grow.
	// Numbers of frames are FrameStep k + FrameRest. A step is 0 where the release's own is the
	// only one.
	WidthStep  int            `json:"width_step,omitempty"`
	HeightStep int            `json:"height_step,omitempty"`
	FrameStep  int            `json:"frame_step,omitempty"`
	FrameRest  int            `json:"frame_rest,omitempty"`
	Releases   []ReleaseEntry `json:"releases"`
	Held       []Evidence     `json:"held_against"`
}

// ReleaseEntry is a release of a preset with its settings, each with its source.
type ReleaseEntry struct {
	Name     string             `json:"name"`
	Settings map[string]Setting `json:"settings"`
}

// Catalogue lists all presets, by family. Errors: ErrDeclaration.
func Catalogue() ([]CatalogueEntry, error) {
	if err := checkRegistered(); err != nil {
		return nil, err
	}
	var out []CatalogueEntry
	for _, f := range registry.families {
		if err := f.usable(); err != nil {
			return nil, err
		}
		for _, name := range f.presets {
			e, err := catalogueEntry(f.name, f.preset(name))
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// catalogueEntry describes a preset's model.
func catalogueEntry(family string, m Model) (CatalogueEntry, error) {
	e := CatalogueEntry{Name: m.Name(), Family: family, Kind: kindOf(m), Releases: []ReleaseEntry{}, Held: EvidenceOf(m.Name())}
	for _, p := range m.Params(0) {
		n := int64(1)
		for _, d := range p.Shape {
			n *= int64(d)
		}
		e.Params += n
	}
	g := m.Features().Generator
	if g == nil {
		return e, nil
	}
	e.Text, e.Autoencoder, e.Vision = g.Companions.Text, g.Companions.Decoder, g.Image.Vision
	for _, r := range releases {
		if r.Preset != e.Name {
			continue
		}
		_, s, err := SettingsOf(m, ReleaseQuery{Name: r.Name})
		if err != nil {
			return e, fmt.Errorf("release %s: %w", r.Name, err)
		}
		if len(e.Releases) == 0 {
			e.takeSizeSteps(g, r)
		}
		e.Releases = append(e.Releases, ReleaseEntry{r.Name, s.Taken()})
	}
	return e, nil
}

// kindOf says what a model is for.
func kindOf(m Model) string {
	switch f := m.Features(); {
	case f.Generator != nil:
		return KindDenoiser
	case f.Decoder != nil:
		return KindAutoencoder
	case f.Vision != nil:
		return KindVisionEncoder
	}
	return KindTextEncoder
}

// takeSizeSteps fills in which sizes a generator takes, from those of a release on.
func (e *CatalogueEntry) takeSizeSteps(g *Generator, r Release) {
	var w, h int
	_, _ = fmt.Sscanf(r.Size, "%dx%d", &w, &h)
	if e.WidthStep, e.HeightStep, e.FrameStep = g.SizeSteps(w, h, r.Frames); e.FrameStep > 0 {
		e.FrameRest = r.Frames % e.FrameStep
	}
}

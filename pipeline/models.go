package pipeline

import (
	"weft/identify"
	"weft/phases"
)

// Models lists the models of the parts that are open: what denoises first, then what encodes
// and decodes.
func (p *Pipeline) Models() []*identify.Match { return p.matches() }

// Experts is how many models denoise: one, or two of which the first begins.
func (p *Pipeline) Experts() int { return len(p.experts) }

// LegalSize is a size of video that the model makes, in pixels and frames: one of many.
func (p *Pipeline) LegalSize() (width, height, frames int) { return legalSize(p.generator()) }

// Parts are the models beside the transformer that are open, as plans take them.
func (p *Pipeline) Parts() phases.Parts {
	var parts phases.Parts
	for _, t := range p.texts {
		if t.model != nil {
			parts.Texts = append(parts.Texts, t.model.Model)
			for _, s := range t.stages {
				parts.Stages = append(parts.Stages, s.model.Model)
			}
		}
	}
	if p.vision != nil {
		parts.Vision = p.vision.Model
	}
	if p.vae != nil {
		parts.Autoencoder = p.vae.Model
	}
	return parts
}

// IsRelease reports whether a folder is one of a release with all its parts, rather than of one
// model: it has a text encoder and an autoencoder under the names of its layout.
func IsRelease(dir string) bool {
	if !isDir(dir) {
		return false
	}
	l := findLayout(dir)
	for _, part := range []Part{TextEncoder, Autoencoder} {
		if _, err := findPart(dir, l, part, Files{}, ""); err != nil {
			return false
		}
	}
	return true
}

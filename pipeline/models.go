package pipeline

import "weft/identify"

// Models lists the models of the parts that are open: what denoises first, then what encodes
// and decodes.
func (p *Pipeline) Models() []*identify.Match { return p.matches() }

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

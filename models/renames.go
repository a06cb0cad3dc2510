package models

import (
	"regexp"
	"sync"
)

// Renames translates a publisher's names of tensors into official ones. Each pair has a
// regular expression and its replacement, as Regexp.ReplaceAllString takes it. The first
// pair that matches decides.
type Renames struct {
	pairs   [][2]string
	compile func() []*regexp.Regexp // on first use, because most runs need one family
}

// NewRenames makes a translation. Register compiles its expressions.
func NewRenames(pairs ...[2]string) *Renames {
	return &Renames{pairs, sync.OnceValue(func() []*regexp.Regexp {
		out := make([]*regexp.Regexp, len(pairs))
		for i, p := range pairs {
			out[i] = regexp.MustCompile(p[0])
		}
		return out
	})}
}

// Official returns the official name. A name that no expression matches comes back as it is.
func (n *Renames) Official(name string) string {
	for i, match := range n.compile() {
		if match.MatchString(name) {
			return match.ReplaceAllString(name, n.pairs[i][1])
		}
	}
	return name
}

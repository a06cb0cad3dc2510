package pipeline

import (
	"path/filepath"
	"slices"
	"strings"
)

// RelativeNames gives a function that names the release's files in a text by their place in its
// folder, and those that lie elsewhere by their last name, for readers who are not to know where
// the folder is.
func (p *Pipeline) RelativeNames() func(text string) string {
	const sep = string(filepath.Separator)
	folders := []string{filepath.Clean(p.Dir)}
	for _, file := range p.ReadFiles() {
		if rel, err := filepath.Rel(folders[0], file); err != nil || strings.HasPrefix(rel, "..") {
			folders = append(folders, filepath.Dir(file)) // configurations stand beside the weights
		}
	}
	for _, f := range slices.Clone(folders) {
		if abs, err := filepath.Abs(f); err == nil {
			folders = append(folders, abs)
		}
	}
	// The longest first: of two that begin alike the replacer takes the one that it has first.
	slices.SortFunc(folders, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, f := range slices.Compact(folders) {
		if strings.Contains(f, sep) && f != sep { // one word may be a part of another
			pairs = append(pairs, f+sep, "", f, filepath.Base(f))
		}
	}
	replace, prefix := strings.NewReplacer(pairs...), filepath.Clean(p.Dir)+sep
	return func(text string) string { return replace.Replace(strings.TrimPrefix(text, prefix)) }
}

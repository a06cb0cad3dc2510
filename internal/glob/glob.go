// Package glob matches names against patterns: the one form that rules, ignore
// lists and strategies share.
package glob

import (
	"slices"
	"strings"
)

// Match reports whether a name matches a pattern in which * stands for any run of
// characters, dots and none included, and every other character for itself.
func Match(pattern, name string) bool {
	first, rest, found := strings.Cut(pattern, "*")
	if !found {
		return name == pattern
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	// Each part between may take the leftmost place that is free: that leaves
	// the most for those after it.
	for {
		part, after, found := strings.Cut(rest, "*")
		if !found {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], after
	}
}

// Any reports whether a name matches one of the patterns.
func Any(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}

// Package glob matches names against patterns. Rules, ignore lists and strategies share
// this one form of patterns.
package glob

import (
	"slices"
	"strings"
)

// Match reports whether a name matches a pattern. In a pattern, * stands for any run of
// characters, also for none and for dots, and every other character stands for itself.
func Match(pattern, name string) bool {
	first, rest, found := strings.Cut(pattern, "*")
	if !found {
		return name == pattern
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	// Each part between two stars takes its leftmost place, because that leaves the most
	// characters for the parts behind it.
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

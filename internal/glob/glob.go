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
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return name == pattern
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	// Each part between may take the leftmost place that is free: that leaves
	// the most for those after it.
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return true
}

// Any reports whether a name matches one of the patterns.
func Any(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}

package checkpoint

import (
	"fmt"
	"strings"
)

// sprintLine formats one line.
func sprintLine(format string, args ...any) string {
	return strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
}

// glob reports whether name matches pattern, in which * stands for any text and ? for any byte.
func glob(pattern, name string) bool {
	star, mark := -1, 0 // the last * and the name's position when it was met
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p, n = p+1, n+1
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// globAny reports whether any pattern matches name.
func globAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if glob(p, name) {
			return true
		}
	}
	return false
}

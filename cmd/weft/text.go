package main

import (
	"strconv"
	"strings"
)

func padRight(s string, n int) string {
	if len(s) >= n {
		return s
	}
	return s + strings.Repeat(" ", n-len(s))
}

// shapeText is "96x64", or "scalar".
func shapeText(shape []int) string {
	if len(shape) == 0 {
		return "scalar"
	}
	parts := make([]string, len(shape))
	for i, s := range shape {
		parts[i] = strconv.Itoa(s)
	}
	return strings.Join(parts, "x")
}

// parseSize reads "832x480".
func parseSize(text string) (w, h int, err error) {
	a, b, ok := strings.Cut(text, "x")
	if ok {
		var e1, e2 error
		w, e1 = strconv.Atoi(a)
		h, e2 = strconv.Atoi(b)
		ok = e1 == nil && e2 == nil
	}
	if !ok {
		return 0, 0, usage("--size %q: want WIDTHxHEIGHT in pixels, e.g. 832x480", text)
	}
	return w, h, nil
}

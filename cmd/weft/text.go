package main

import (
	"strings"

	"weft/internal/numbers"
)

// padRight appends blanks to s until it has n bytes.
func padRight(s string, n int) string {
	if len(s) >= n {
		return s
	}
	return s + strings.Repeat(" ", n-len(s))
}

// shapeText formats a shape as "96x64", or "scalar".
func shapeText(shape []int) string {
	if len(shape) == 0 {
		return "scalar"
	}
	return numbers.SizesText(shape)
}

// Package numbers has the integer arithmetic that packages which do not import each other
// need alike.
package numbers

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxListed bounds the numbers that are tried for a list of legal choices.
const MaxListed = 1 << 16

// Divisors lists the divisors of n up to limit, ascending. A number below 1 has none.
func Divisors(n, limit int) []int {
	out := []int{}
	for d := 1; d <= min(n, limit); d++ {
		if n%d == 0 {
			out = append(out, d)
		}
	}
	return out
}

// NearestMultiples lists the multiples of step, at least 1, on both sides of n. It leaves
// out 0 and what is above the largest int. A multiple of step comes first for itself.
func NearestMultiples(n, step int) []int {
	low := max(n, 0) / step * step
	nearest := []int{}
	if low > 0 {
		nearest = append(nearest, low)
	}
	if low <= math.MaxInt-step {
		nearest = append(nearest, low+step)
	}
	return nearest
}

// RoundUp gives the least multiple of step that is not below n; n and step are not negative,
// and step 0 counts as 1.
func RoundUp(n, step int) int {
	if step <= 1 {
		return n
	}
	if r := n % step; r != 0 {
		return n + step - r
	}
	return n
}

// Product multiplies the sizes of a shape; it gives 1 for none, and does not look for overflow.
func Product(sizes []int) int {
	n := 1
	for _, s := range sizes {
		n *= s
	}
	return n
}

// MulChecked multiplies two counts. fits is false when one is negative or the product does
// not fit an int64; the product is then what is left of it.
func MulChecked(a, b int64) (product int64, fits bool) {
	product = a * b
	return product, a >= 0 && b >= 0 && product >= 0 && (a == 0 || product/a == b)
}

// SizesText writes sizes as people name a slice or a picture: 2x2x1.
func SizesText(sizes []int) string {
	parts := make([]string, len(sizes))
	for i, n := range sizes {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, "x")
}

// ShapeText writes a shape as people do: (16,8).
func ShapeText(shape []int) string {
	return "(" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(shape)), ","), "[]") + ")"
}

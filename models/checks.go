package models

import (
	"weft/fault"
)

// ErrSeq: tokens that do not divide over sp, where padding was refused.
var ErrSeq = fault.NewKind("seq-not-divisible")

// SeqNotDivisible are the fields of ErrSeq.
type SeqNotDivisible struct {
	N         int `json:"n"`
	SP        int `json:"sp"`
	Remainder int `json:"remainder"`
}

// Indivisible are the fields of ErrBatch and ErrFFN.
type Indivisible struct {
	What  string `json:"what"`
	Size  int    `json:"size"`
	Axis  string `json:"axis"`
	Parts int    `json:"parts"`
	Legal []int  `json:"legal"`
}

// NotDivisible says that a size does not divide over an axis, and what would.
func NotDivisible(k *fault.Kind, what string, size int, axis string, parts int) error {
	legal := Divisors(size, 64)
	return fault.New(k, Indivisible{what, size, axis, parts, legal},
		"%s %d does not divide over %s=%d (%d left over); %s that work: %v", what, size, axis, parts, size%parts, axis, legal)
}

// Divisors lists the divisors of n up to limit.
func Divisors(n, limit int) []int {
	out := []int{}
	for d := 1; d <= n && d <= limit; d++ {
		if n%d == 0 {
			out = append(out, d)
		}
	}
	return out
}

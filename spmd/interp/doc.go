// Package interp runs spmd programs in plain Go: the reference that every other
// engine is held against, and the engine where there is no other.
//
// It is small and exact rather than fast. Each device is a goroutine with its
// own values; collectives are meetings in memory. What it computes:
//
//   - An elementwise operation is done in the value's own precision, functions
//     in float64, and rounded once to the value's type.
//   - Sums are collected in float64 and rounded once, be they a contraction's, a
//     reduction's or those of a collective. A collective sums in the order of its
//     group, so all its members, and all runs, have the same bits.
//   - Integers wrap, float to integer stops at the ends of the range, division
//     by zero gives what XLA gives.
//
// Memory is what the program says: a value is freed after its last use, and the
// report has the most that each device held.
package interp

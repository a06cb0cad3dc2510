// Package interp runs programs in plain Go. It is the reference that every other engine
// is compared with, and the engine where there is no other.
//
// It is small and exact rather than fast. Each device is a goroutine with its own
// values, and devices meet in memory for a collective. The numbers:
//
//   - Elementwise arithmetic runs in the value's own precision and elementwise functions
//     in float64; both are rounded once to the value's type.
//   - Sums are collected in float64 and rounded once, in contractions, reductions and
//     collectives alike. A collective sums in the order of its group, so all members,
//     and all runs, have the same bits.
//   - Integers wrap, a float that becomes an integer stops at the ends of the range, and
//     division by zero gives what XLA gives.
//
// Memory is what the program says: a value is freed after its last use, and Report has
// the most that each device held.
package interp

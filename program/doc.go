// Package program is the language that every device of a mesh runs: a flat list of
// instructions on local shapes, the same on every device, with the collectives
// written out. Nothing in a program is left for a compiler to decide about traffic,
// so a program can be printed, counted and checked before anything is compiled.
//
// All that is known of an operation stands in one table (ops.go): how many operands
// it takes and of which element types, the type of its result, what it costs, how it
// is printed and what StableHLO calls it. Validate is the one statement of what a
// well-formed program is; every program is checked when it is complete.
//
// Package spmd makes programs. What reads them has packages of its own:
// program/stablehlo writes the text that XLA takes, program/cost accounts for memory,
// work and traffic, and program/interp runs a program in plain Go.
package program

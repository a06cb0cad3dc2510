// Package spmd holds distributed tensors and the programs they make.
//
// A model is written once, on global shapes, as calls on a Builder. Each call
// looks at how its operands are split over the mesh, chooses the computation
// that one device does and the collectives around it, and appends both to a
// Program: a flat list of instructions on local shapes that is the same on
// every device. Nothing is left for a compiler to decide about traffic, so a
// Program can be printed, counted and priced before anything is compiled.
//
// Two levels share one instruction set. Tensor calls (Add, Linear, Reshard...)
// know global shapes and specs. Local calls (LAdd, LDot, LLoop...) write one
// device's program by hand, as attention does; Builder.Local and Builder.Global
// cross over.
//
// Partial is a state (a spec can be partial over axes): the value is the sum of
// what the devices hold. Sums of partial values, and products with values that
// are whole, stay partial; every other use reduces first. So a bias is added
// once and a norm never sees a slice of a sum.
package spmd

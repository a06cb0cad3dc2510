// Package spmd holds distributed tensors and the operations on them, which make a
// program.
//
// A model is written once, on global shapes, as calls on a Builder. Each call looks
// at how its operands are sharded over the mesh, chooses the computation that one
// device does and the collectives around it, and appends both to a program.Program.
//
// Two levels share one set of instructions. Tensor calls (Add, Linear, Reshard, ...)
// know global shapes and layouts. Local calls (LAdd, LDot, LLoop, ...) write one
// device's program by hand, as attention does; Builder.Local and Builder.Global cross
// over.
//
// Partial is a state of a tensor: its layout can be partial over axes, and the tensor
// is then the sum of what the devices along them hold. Sums of partial tensors, and
// products of a partial tensor with one that is not, stay partial; every other
// operation reduces first. So a bias is added once, and a norm never sees a part of
// a sum.
package spmd

// Package pth reads the directory of a PyTorch .pth file: which tensors it has
// and where in the file their elements lie. The file is a zip with its entries
// stored as they are; a pickle in it names each tensor's storage, offset, shape
// and strides.
//
// A pickle is a program. This package interprets the few instructions that build
// values and knows three functions that make tensors; anything else it meets
// becomes an inert object. Nothing named in a pickle is ever called, looked up or
// imported.
//
// Invariants: no element of a listed tensor lies outside its storage, nor a storage
// outside the file (tensor.go); a pickle's values take memory in proportion to its
// length (machine.go).
package pth

// Package pth reads the directory of a PyTorch .pth file: which tensors it has
// and where in the file their elements lie. The file is a zip with uncompressed
// entries; a pickle in it names each tensor's storage, offset, shape and strides.
//
// A pickle is a program. This package interprets the few instructions that build
// values and knows the results of the functions that make tensors; all other functions
// of its list give inert objects, and any function outside of the list is an error.
// Nothing named in a pickle is ever called, looked up or imported.
//
// Invariants: every element of a listed tensor lies inside its storage, and every
// storage inside the file (tensor.go); the memory that a pickle's values take is
// proportional to its length (machine.go).
package pth

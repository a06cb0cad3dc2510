// Package sharding says where the pieces of a tensor live on a mesh.
//
// An axis is always the mesh's, a dim always the tensor's. Over one axis a
// tensor is in one of three states: split (a dim is cut along the axis),
// replicated (every device along the axis holds the same), or partial (every
// device along the axis holds an addend, and the tensor is their sum). A [Spec]
// gives that state for every axis.
//
// On mesh data=2,model=4, positions 0 to 7, a tensor of shape (16, 8):
//
//	spec            local shape   position 5 holds
//	[data,-]        (8, 8)        rows 8-16
//	[data,model]    (8, 2)        rows 8-16, columns 2-4
//	[data+model,-]  (2, 8)        rows 10-12
//	[model+data,-]  (2, 8)        rows 6-8
//	[-,-]|model     (16, 8)       its addend of everything
//
// Invariants of a spec on a mesh, kept by [Spec.Check]:
//
//	S1  each axis named is in the mesh
//	S2  an axis occurs at most once in the spec: over all dims, and partial
//	S3  the spec has no more dims than the tensor; missing trailing dims are whole
//	S4  a dim's size divides by the product of its axes' sizes
//	S5  an axis of size 1 has no effect; the canonical form leaves it out
//
// A dim that does not divide is an error here, never replicated or padded in
// silence. A caller who pads does so before, to a multiple of the parts.
package sharding

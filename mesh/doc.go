// Package mesh names the axes of a grid of devices.
//
// A mesh is a list of named axes, outermost first, over a list of device ids,
// and the process that holds each. It needs no device to exist: a mesh of 64
// chips can be planned on a laptop. A [Mesh] is immutable and, once built,
// valid; nothing in it depends on which process asks, so that every host of a
// cluster derives the same text from it.
//
// Three words are kept apart:
//
//   - an axis belongs to the mesh ("tp"); a dim belongs to a tensor and never
//     appears in this package;
//   - a position is a place in the mesh, 0 to n-1, row-major, last axis fastest;
//   - a device id is the number the runtime gives a device. Position i holds
//     device Devices()[i].ID, and the two differ when the order is not plain.
//
// On mesh data=2,model=4 the positions are
//
//	          model 0 1 2 3
//	data 0          0 1 2 3
//	data 1          4 5 6 7
//
// Groups("model") is {0 1 2 3} {4 5 6 7}; Groups("data") is {0 4} {1 5} {2 6} {3 7}.
package mesh

// Package topology knows the hardware: TPU generations and slices, GPU boxes,
// virtual CPU devices; their chips, cores, devices, hosts, coordinates, links,
// memory and peak rates, each with its source.
//
// A [Slice] is what a person names and rents: "v4-8", "v5e-8", "v4:2x2x1",
// "h100x8", "cpu:8". [Lookup] reads the names. The facts are in data/, which is
// the only place that has them: one entry for each generation, with the block sizes
// and the efficiency of attention's kernel too. What code here adds are the rules by which
// shapes that no table lists are legal or not.
//
// Four words are kept apart:
//
//   - a chip is a place on the torus, with coordinates x, y, z;
//   - a core is what most names count: v4-8 has 8 cores, two to a chip;
//   - a device is what a program sees: one a chip on v4, v5e, v5p and v6e, two a
//     chip on v2, v3 and tpu7x;
//   - a host is a virtual machine, one process; of four chips as a rule.
//
// [Slice.Order] lays the axes of a mesh on the torus, so that the axes with the
// most traffic run over single hops. It knows of meshes only their axes.
package topology

// Package checkpoint finds, proves and reads model weights: safetensors and
// PyTorch's .pth, in one file or in shards with an index. It reads exactly the bytes that a device's
// shard needs, each once, and writes safetensors files that are either complete
// or absent.
//
// Invariants, and the file that keeps each:
//
//   - Nothing is allocated for a length before it is compared with the file (header.go).
//   - A header is read token by token; what the format does not allow is an error,
//     never a guess, and never a panic (header.go, by internal/jsontext).
//   - A file or folder of another format, and weights that are quantized otherwise than
//     in scaled fp8, are refused by the name of what they are (foreign.go, quantized.go).
//   - The tensors of a file tile its data: no overlap, no gap, no byte left over (validate.go).
//   - An index is believed only as far as the files bear it out (index.go).
//   - Names are stripped of a common prefix before anyone identifies the model (prefix.go).
//   - What stands beside a model is known by one table, internal/bystander: whether a
//     name may lack the prefix, and whether a tensor may be left unused (require.go).
//   - An fp8 weight never loses its scale (scale.go).
//   - A byte of a tensor is read once per Read, however many shards want it (read_plan.go).
//   - Tensors that are loaded whole fit into memory, or nothing is read (read.go).
//   - Memory beyond the shards is bounded by the workers' buffers (read_worker.go).
//
// The package knows no model and no device: a shard is a list of half-open index
// ranges, one per dim.
package checkpoint

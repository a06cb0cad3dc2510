// Package checkpoint finds, checks and reads model weights: safetensors and PyTorch's
// .pth, in one file or in shards with an index. It reads exactly the bytes that a
// device's shard needs, each once, and writes safetensors files that are either complete
// or absent.
//
// The invariants, each with the file that keeps it:
//
//   - Nothing is allocated for a length before it is compared with the file (header.go).
//   - A header is read token by token; anything that the format does not allow is an
//     error, never a guess, and never a panic (header.go, by internal/jsontext).
//   - A file or folder of another format, and weights that are quantized in another way
//     than scaled fp8, are refused by an error that names the format (foreign.go,
//     quantized.go).
//   - The tensors of a file tile its data: no overlap, no gap, no byte left over (validate.go).
//   - An index is checked against the headers of its files (index.go).
//   - A common prefix of the names is stripped before a model is identified by them
//     (prefix.go).
//   - One table, internal/bystander, lists the tensors that may be in the file of a model
//     without being its parameters: it decides whether a name may lack the prefix and
//     whether a tensor may be left unused (require.go).
//   - An fp8 weight never loses its scale (scale.go).
//   - A byte of a tensor is read once per Read, however many shards want it (read_plan.go).
//   - Whole tensors are loaded only if all of them fit into memory (read.go).
//   - Memory beyond the shards is bounded by the workers' buffers (read_worker.go).
//
// The package knows no model and no device: a shard is a list of half-open index
// ranges, one per dim.
package checkpoint

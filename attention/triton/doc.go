// Package triton writes attention kernels for NVIDIA's GPUs: the text of a module of Triton's
// intermediate language, which XLA's CUDA plugin compiles as the body of a custom call.
// Writing it needs neither a GPU nor Python. No GPU has run these kernels yet: the
// compiler tells that they compile, how many registers they take and that none are spilled, and an
// interpreter of the text (attention/internal/tritontest) tells what they compute.
// `weft verify --device cuda` compares them with the blocked form on first use.
//
// # What it computes
//
// The kernel computes softmax(scale q k^T + mask) v over all real keys, with operands and results in
// bf16 or f16, for q (B, Sq, H, D) and k, v (B, Sk, Hkv, D), with tokens or with heads first in
// memory. It is the online softmax of Milakov and Gimelshein (arXiv:1805.02867) in blocks, as in
// FlashAttention-2 (arXiv:2307.08691): one program of the grid takes a block of queries of a
// head and goes over the keys. It keeps, in f32 and in registers, the maximum m so far, the sums l
// of exponentials, and acc, the weighted sum of values. Each block of keys updates them:
//
//	s = q k^T + mask              m' = max(m, max_j s_j)
//	p = 2^(s - m')                c = 2^(m - m')
//	l' = c l + sum_j p_j          acc' = c acc + p v
//
// The result is acc / l. q carries scale*log2(e), so that powers of 2 suffice.
//
//   - Padding keys, at the end or in between, are never read. Blocks that are all real keys carry
//     no mask; in the last block of each range the last real key is read again in the place of what
//     is behind it, and those scores are masked.
//   - Queries behind the last are not read either, and not written.
//   - A head dim that is no power of two, or below 16, is padded in registers: its columns are
//     neither read nor written.
//   - Grouped heads: query head h reads key head h / (H/Hkv). Nothing is copied.
//   - The running state m, l and acc can come from a kernel over other keys, and can be left for one,
//     as a ring needs it.
//
// # Its call
//
// The custom call has a name, a grid, numbers of warps and stages and the text, and XLA ends the process
// where they do not belong together: over a missing name, a missing grid size, fewer parameters
// of the function than operands and results, or a number of warps that is no power of two. So
// all of them come from one Kernel, whose Check is asked first. See Kernel.Config.
package triton

// Package mosaic writes attention kernels for TPUs: the text of a Mosaic module,
// which libtpu compiles as the body of a custom call. Writing it needs neither a TPU
// nor Python. No TPU has run these kernels yet: the compiler tells that they compile and
// how fast their code is, and an interpreter of the text
// (attention/internal/mosaictest) tells what they compute. `weft verify --device tpu`
// compares them with the blocked form on first use.
//
// # What it computes
//
// The kernel computes softmax(scale q k^T + mask) v over all real keys, with bf16
// operands and results, for q (B, Sq, H, D) and k, v (B, Sk, Hkv, D), each stored as
// (B, tokens, heads*D). Matmuls by weights leave their results in this order, with
// tokens first, so nothing is transposed around the kernel. It is the online softmax of
// Milakov and Gimelshein (arXiv:1805.02867) in blocks, as in FlashAttention
// (arXiv:2205.14135). For each block of queries it keeps, in f32, the maximum m so far,
// the sums l of exponentials, and acc, the weighted sum of values. Each sub-block of
// keys updates them:
//
//	s = q k^T + mask              m' = max(m, max_j s_j)
//	p = 2^(s - m')                c = 2^(m - m')
//	l' = c l + p by lane          acc' = c acc + p v
//
// The result is acc / sum(l). Four things differ from the usual form. q carries
// scale*log2(e), so that powers of 2 suffice. l stays apart by lane, so that lanes are
// summed once a block of queries and not once a block of keys. The division comes last.
// Where a matrix unit has columns to spare, p is multiplied by ones there, and l becomes
// part of acc.
//
//   - Padding keys, at the end or in between, get a score of -inf and a value of 0,
//     whatever they hold. Their places are known when the text is written: a group of 128
//     padding keys costs nothing, and only groups that are part padding are masked.
//     Few steps have such groups. Their code is short and loops, whereas the code of all
//     other steps is laid out flat.
//   - Grouped heads: query head h reads key head h / (H/Hkv). Nothing is copied.
//   - A head dim of 64: two heads share the lanes of a register. Each head computes its
//     own scores, from a q that is zero in the other head's lanes, and its values have ones
//     in the other head's lanes, which make the sums. A select by lane joins the two results.
//     With grouped heads, q moves to the lanes of its keys before the first step, and
//     the result moves back after the last one. A pair takes as long as one head of
//     dim 128, because a tile of the matrix unit is 128 wide.
//
// # How it is laid out
//
// The grid is (batch, heads or pairs, blocks of queries, blocks of keys). The last
// dimension runs in order and the others in any order, so that two cores of a chip can
// share them. The pipeline copies windows of q, k, v and the result in and out, two at a
// time; m, l and acc stay in scratch memory. One table has the block sizes by chip and
// head dim, with the figures that chose them. They fit the 16 MiB of vector memory that a
// kernel has on v4, v5e and v5p. All blocks of queries have one size: 4,680 queries are
// five blocks of 944.
//
// # Its text
//
// Operations are in MLIR's generic form under the names "stable_mosaic" at version 11,
// the form that Mosaic promises to keep reading. They stand in the custom call's
// configuration as libtpu 0.0.52 takes it: see Kernel.Config.
package mosaic

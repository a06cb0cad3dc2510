// Package mosaic writes attention kernels for TPUs: the text of a Mosaic module,
// which libtpu compiles as the body of a custom call. There is no TPU and no
// Python in the making of it. No TPU has run it yet, either: that it compiles, how
// fast its code is and what it computes are known from the compiler and from an
// interpreter of the text (attention/internal/mosaictest), and `weft verify
// --device tpu` holds it against the blocked form on first use.
//
// # What it computes
//
// softmax(scale q k^T + mask) v over all keys that are real, bf16 in and out, for
// q (B, Sq, H, D) and k, v (B, Sk, Hkv, D) as (B, tokens, heads*D): tokens come
// first, as matmuls by weights leave them, so nothing is transposed around it. It is
// the online softmax of Milakov and Gimelshein (arXiv:1805.02867) in blocks, as in
// FlashAttention (arXiv:2205.14135). Of a block of queries it keeps m, the maximum
// so far, l, sums of exponentials, and acc, the weighted sum of values, all f32; for
// each sub-block of keys
//
//	s = q k^T + mask              m' = max(m, max_j s_j)
//	p = 2^(s - m')                c = 2^(m - m')
//	l' = c l + p by lane          acc' = c acc + p v
//
// and at the end acc / sum(l). Against the usual form: q carries scale*log2(e), so
// that powers of 2 do; l stays apart by lane, so that lanes are summed once a block of
// queries and not once a block of keys; nothing is divided on the way. Where a matrix
// unit has columns to spare, p is multiplied by ones there, and l is part of acc.
//
//   - Keys that are not real, at the end or in between, have a score of -inf and a
//     value of 0 whatever stands there. It is known when the text is written which
//     groups of 128 keys have any: a group of padding costs nothing, and only groups
//     that are part padding are masked. Steps with such groups are few, and their
//     code is short: loops, where that of all other steps is laid out flat.
//   - Grouped heads: query head h reads key head h / (H/Hkv). Nothing is copied.
//   - A head dim of 64: two heads share the lanes of a register. Each has scores of
//     its own, from a q whose other lanes are zero, and values with ones in the other's
//     lanes, which make the sums; the results are picked by lane. With grouped heads q moves to
//     the lanes of its keys before the first step, and the result back after the last. It takes as long
//     as a head dim of 128: a matrix unit's tile is 128 wide.
//
// # How it is laid out
//
// The grid is (batch, heads or pairs, blocks of queries, blocks of keys), the last in
// order, the others in any, so that two cores of a chip share them. Windows of q, k,
// v and the result come and go by themselves, two at a time; m, l and acc are scratch.
// Block sizes are in one table by chip and head dim, with the figures that chose
// them, and fit the 16 MiB of vector memory that a kernel has on v4, v5e and v5p.
// Blocks of queries are of one size: 4,680 queries are five blocks of 944.
//
// # Its text
//
// Operations are in MLIR's generic form under the names "stable_mosaic" at version
// 11, the form that Mosaic promises to keep reading, in a custom call's configuration
// as libtpu 0.0.52 takes it: see Spec.Config.
package mosaic

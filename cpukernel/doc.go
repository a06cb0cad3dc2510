// Package cpukernel computes attention on x86-64 processors, in assembly that is chosen by
// what the processor has. XLA calls it as a handler of its foreign function interface; see
// package engine.
//
// # What it computes
//
// The result is softmax(scale q k^T + bias) v over all real keys, for q (B, Sq, H, D) and k, v
// (B, Sk, Hkv, D) as they lie in memory after the matmuls that make them: nothing is
// transposed around the call. It is the online softmax in blocks that package attention's
// blocked form computes too. A block of queries takes the keys block by block, and keeps for
// each query the maximum m of the scores so far, the sum l of powers and the sum acc of
// weighted values:
//
//	s = scale log2(e) q k^T + bias    m' = max(m, max_j s_j)
//	p = 2^(s - m')                    c = 2^(m - m')
//	l' = c l + sum of p               acc' = c acc + p v
//
// Scores and sums are f32. The result is acc / l, rounded once.
//
// # How
//
// Keys and values of a head are first put into panels: as many columns as a row of registers
// has, all rows of a panel one after another, so that the inner loops read memory
// straight on. This is done once for each head and costs less than one block of queries. A
// block of scores stays in the second-level cache. Memory is O(S): the panels of the heads
// that are computed at a time, and a block of scores for each worker.
//
// # Levels
//
//	level        f32 operands             bf16 operands
//	avx2         FMA on 8 numbers         widened to f32
//	avx512       FMA on 16 numbers        widened to f32
//	avx512-bf16  as avx512                dot products of pairs, sums in f32
//	amx          as avx512                tiles, sums in f32
//
// Powers of 2 are a polynomial of degree 5, with a relative error below 1e-7, in f32, and of
// degree 3, below 1e-4, where p is rounded to bf16, whose own rounding is 2e-3.
package cpukernel

// Package attention is exact softmax attention for programs of package spmd.
//
// No device ever holds the Sq x Sk matrix of scores. The blocked form walks the
// keys block by block with a running maximum and a running sum, as stablehlo
// while loops, in O(Sq + Sk) memory on CPU, GPU and TPU alike (the online
// softmax of Milakov and Gimelshein, arXiv:1805.02867, blocked as in
// FlashAttention, arXiv:2205.14135).
//
// Where the program's target is a TPU and the shape allows it, a kernel of package
// mosaic computes what a device holds instead; the scores then never leave the chip's
// vector memory. Target.Attention forces either form, and each call's choice and its
// reason stand in Program.Choices. What the kernel means stays in the program as the
// blocked form's instructions, which the interpreter runs.
//
// How a call is split over the mesh follows from how its operands are held:
//
//   - heads split (tensor parallel): each device attends with its heads; no traffic.
//   - query and key tokens split over an axis (DeepSpeed-Ulysses,
//     arXiv:2309.14509): q, k and v change from split tokens to split heads by one
//     all-to-all each, and the result changes back by one.
//   - query tokens split, keys whole (cross-attention): no traffic.
//   - a whole text part beside split video tokens (joint Ulysses): the video goes
//     through the all-to-alls, the text is cut by heads for nothing, and its
//     result is gathered over heads.
package attention

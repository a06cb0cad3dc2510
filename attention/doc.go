// Package attention adds exact softmax attention to programs of package spmd.
//
// A device never holds the Sq x Sk matrix of scores. Attention has forms that all
// compute the same: the blocked form walks the keys block by block with a running
// maximum and a running sum, as stablehlo while loops, in O(Sq + Sk) memory on CPU, GPU
// and TPU alike (the online softmax of Milakov and Gimelshein, arXiv:1805.02867, in blocks
// as in FlashAttention, arXiv:2205.14135). The kernel form calls a kernel of package
// mosaic where the program's target is a TPU and the shape allows it; the scores then
// never leave the chip's vector memory. The blocked form's instructions stand beside the
// kernel in the program and say what it means; the interpreter runs them.
//
// Target.Attention asks for a form by name or leaves the choice to the package
// (forms.go), and Program.Choices says which form each call takes, and why.
//
// The layout of the operands decides how a call runs on a mesh:
//
//   - heads split (tensor parallel): each device computes its heads; no traffic.
//   - query and key tokens split over an axis (DeepSpeed-Ulysses, arXiv:2309.14509): q, k
//     and v change from split tokens to split heads by one all-to-all each, and the
//     result changes back by one.
//   - tokens split over the axis ring (Ring Attention, arXiv:2310.01889), alone or outside of Ulysses
//     (USP, arXiv:2405.07719): keys and values go from device to device, n-1 times on a ring of n,
//     and each device folds them into the running softmax of its own queries (ring.go). Heads bound
//     Ulysses alone.
//   - query tokens split, keys whole (cross-attention): no traffic.
//   - a whole text beside a video with split tokens (joint Ulysses): the video goes
//     through the all-to-alls, the text is cut by heads without traffic, and its
//     result is gathered over heads.
//
// Every call takes one path: sequence.attend in attend.go checks the operands, chooses the
// form, moves tokens to heads (ulysses.go), computes, and moves the result back.
package attention

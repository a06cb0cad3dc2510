package step

import (
	"strings"

	"weft/sharding"
	"weft/spmd"
)

// Grid is how many patches a video has.
type Grid struct{ Frames, Rows, Cols int }

// Tokens is how many patches that are.
func (g Grid) Tokens() int { return g.Frames * g.Rows * g.Cols }

// At is the frame, row and column of token s.
func (g Grid) At(s int) (frame, row, col int) {
	return s / (g.Rows * g.Cols), s / g.Cols % g.Rows, s % g.Cols
}

// GridOf counts the patches of latents (channels, frames, height, width).
func GridOf(latent []int, patch [3]int) Grid {
	return Grid{latent[1] / patch[0], latent[2] / patch[1], latent[3] / patch[2]}
}

// Patches cuts latents x (B, C, F, H, W) into tokens (B, S, C pt ph pw) in
// (frame, row, column) order. order says how the elements of a patch follow each
// other, slowest first: "ctyx" is channel, frame, row, column.
func (p *Program) Patches(x spmd.Tensor, patch [3]int, order string) spmd.Tensor {
	for d := 4; d >= 2; d-- {
		n := patch[d-2]
		x = p.SplitDim(x, d, x.Dim(d)/n, n)
	}
	perm := []int{0, 2, 4, 6} // B C f pt h ph w pw
	for _, c := range order {
		perm = append(perm, map[rune]int{'c': 1, 't': 3, 'y': 5, 'x': 7}[c])
	}
	x = p.MergeDims(p.Transpose(x, perm...), 4, 4)
	return p.MergeDims(x, 1, 3)
}

// Latents puts tokens x (B, S, pt ph pw C) together to latents (B, C, F, H, W);
// order as in Patches. Tokens are gathered first, and those past the grid cut off.
func (p *Program) Latents(x spmd.Tensor, grid Grid, patch [3]int, order string) spmd.Tensor {
	x = p.Reshard(x, sharding.NewSpec(x.Spec.Dim(0), nil, nil), "tokens gathered for the latents")
	x = p.Slice(x, 1, 0, grid.Tokens())
	size := map[rune]int{'c': x.Dim(2) / patch[0] / patch[1] / patch[2], 't': patch[0], 'y': patch[1], 'x': patch[2]}
	sizes := []int{}
	for _, c := range order {
		sizes = append(sizes, size[c])
	}
	x = p.SplitDim(x, 2, sizes...)
	x = p.SplitDim(x, 1, grid.Frames, grid.Rows, grid.Cols)
	at := func(c string) int { return 4 + strings.Index(order, c) }
	x = p.Transpose(x, 0, at("c"), 1, at("t"), 2, at("y"), 3, at("x")) // B C f pt h ph w pw
	x = p.MergeDims(x, 6, 2)
	x = p.MergeDims(x, 4, 2)
	return p.MergeDims(x, 2, 2)
}

// EveryToken gives every token what its frame has: x (B, F, C), held whole, or one
// for the whole video (B, 1, C), which broadcasts as it is. The result is
// (B, padded, C), held as to says; padding has zeros.
func (p *Program) EveryToken(x spmd.Tensor, grid Grid, padded int, to sharding.Spec) spmd.Tensor {
	if x.Dim(1) == 1 {
		return x
	}
	v := p.Local(x)
	b, per, c := v.Shape[0], grid.Rows*grid.Cols, v.Shape[2]
	v = p.LBroadcast(p.LReshape(v, b, grid.Frames, 1, c), b, grid.Frames, per, c)
	y := p.Global(p.LReshape(v, b, grid.Tokens(), c), []int{x.Dim(0), grid.Tokens(), c}, x.Spec)
	return p.Reshard(p.PadTo(y, 1, padded), to, "each token takes what its frame has")
}

// RopeHalves rotates the halves of each head of x (B, S, H, d) by tables (S, d)
// or (B, S, d), or (B, S, H, d) with angles of each head's own: with x = [a, b] it is [a cos - b sin, b cos + a sin]. The tables
// have each angle in both halves. The result is in the compute type.
func (p *Program) RopeHalves(x, cos, sin spmd.Tensor) spmd.Tensor {
	d := x.Dim(3)
	turned := p.Concat(3, p.Scale(p.Slice(x, 3, d/2, d), -1), p.Slice(x, 3, 0, d/2))
	if at := cos.Rank() - 1; at < 3 { // a dim for the heads, before the last
		cos, sin = p.ExpandDim(cos, at), p.ExpandDim(sin, at)
	}
	return p.Compute(p.Add(p.Mul(x, cos), p.Mul(turned, sin)))
}

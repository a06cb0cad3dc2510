package step

import (
	"strings"

	"weft/dtype"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// Grid is the number of patches of a video along each axis.
type Grid struct{ Frames, Rows, Cols int }

// Tokens is the number of patches.
func (g Grid) Tokens() int { return g.Frames * g.Rows * g.Cols }

// At is the frame, row and column of token s.
func (g Grid) At(s int) (frame, row, col int) {
	return s / (g.Rows * g.Cols), s / g.Cols % g.Rows, s % g.Cols
}

// GridOf counts the patches of latents (channels, frames, height, width).
func GridOf(latent []int, patch [3]int) Grid {
	return Grid{latent[1] / patch[0], latent[2] / patch[1], latent[3] / patch[2]}
}

// Patches cuts latents x (B, C, F, H, W) into tokens (B, S, C pt ph pw) in (frame, row,
// column) order. order is the order of the elements of a patch, slowest first: "ctyx" is
// channel, frame, row, column.
func (p *ProgramBuilder) Patches(x spmd.Tensor, patch [3]int, order string) spmd.Tensor {
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

// Latents is the inverse of Patches: it assembles latents (B, C, F, H, W) from tokens x
// (B, S, pt ph pw C). Tokens are gathered first, and padding past the grid is cut off.
func (p *ProgramBuilder) Latents(x spmd.Tensor, grid Grid, patch [3]int, order string) spmd.Tensor {
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

// EveryToken gives every token the values of its frame. x is (B, F, C), whole on every
// device, or (B, 1, C) for the whole video, which is returned as it is because it
// broadcasts. The result is (B, padded, C) with the spec to. A device expands the frames in
// which its tokens lie and slices its tokens out of them, so the boundaries of shards need
// not be those of frames.
func (p *ProgramBuilder) EveryToken(x spmd.Tensor, grid Grid, padded int, to sharding.Spec) spmd.Tensor {
	if x.Dim(1) == 1 {
		return x
	}
	to = to.Canonical(p.Mesh(), 3)
	axes, v, per := to.Dim(1), p.Local(x), grid.Rows*grid.Cols
	n, frames := padded, grid.Frames
	if len(axes) > 0 {
		n = padded / p.Mesh().Size(axes...)
		frames = min(frames, (n+2*per-2)/per) // as many as n tokens can lie in
	}
	first := p.LMul(p.LAxisIndex(axes...), p.LConst(dtype.I32, float64(n))) // of the device's tokens
	if frames < grid.Frames {
		from := p.LBinary(program.OpMin, p.LDiv(first, p.LConst(dtype.I32, float64(per))), p.LConst(dtype.I32, float64(grid.Frames-frames)))
		v = p.LDynSlice(v, 1, from, frames)
		first = p.LSub(first, p.LMul(from, p.LConst(dtype.I32, float64(per))))
	}
	b, c := v.Shape[0], v.Shape[2]
	v = p.LReshape(p.LBroadcast(p.LReshape(v, b, frames, 1, c), b, frames, per, c), b, frames*per, c)
	v = p.LPad(v, 1, 0, padded-grid.Tokens(), 0)
	if len(axes) > 0 {
		v = p.LDynSlice(v, 1, first, n)
	}
	return p.Global(v, []int{x.Dim(0), padded, x.Dim(2)}, to)
}

// RopeHalves rotates the two halves of each head of x (B, S, H, d) by tables (S, d) or
// (B, S, d), or (B, S, H, d) if each head has angles of its own. With x = [a, b] the result
// is [a cos - b sin, b cos + a sin], in the compute type. The tables have each angle in both
// halves.
func (p *ProgramBuilder) RopeHalves(x, cos, sin spmd.Tensor) spmd.Tensor {
	d := x.Dim(3)
	turned := p.Concat(3, p.Scale(p.Slice(x, 3, d/2, d), -1), p.Slice(x, 3, 0, d/2))
	if at := cos.Rank() - 1; at < 3 { // a dim for the heads, before the last
		cos, sin = p.ExpandDim(cos, at), p.ExpandDim(sin, at)
	}
	return p.Compute(p.Add(p.Mul(x, cos), p.Mul(turned, sin)))
}

package step

import (
	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

// Layout is how a video's tokens lie on a mesh: S of them in (frame, row, column)
// order, Sp the same padded for the split.
type Layout struct {
	Grid           Grid
	Tokens, Padded int // S, Sp
	// Batch is how what belongs to a whole video is held, a text's stream (B, T, D)
	// among it. Stream is how the residual stream (B, Sp, D) is held between blocks,
	// over sp and, where it is asked for, tp; Gathered how a matmul's operand is: over sp alone.
	Batch, Stream, Gathered sharding.Spec
}

// LayoutOf lays a request's video out.
func LayoutOf(on *mesh.Mesh, r models.Request, patch [3]int) Layout {
	axes := []string{mesh.SP}
	if r.SplitResidual {
		axes = append(axes, mesh.TP)
	}
	grid := GridOf(r.Latent, patch)
	return Layout{Grid: grid, Tokens: grid.Tokens(), Padded: r.PadTokens(grid.Tokens(), on.Size(axes...)),
		Batch:    sharding.NewSpec([]string{mesh.DP}),
		Stream:   sharding.NewSpec([]string{mesh.DP}, axes, nil),
		Gathered: sharding.NewSpec([]string{mesh.DP}, []string{mesh.SP}, nil)}
}

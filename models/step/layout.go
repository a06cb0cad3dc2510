package step

import (
	"weft/mesh"
	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// Layout says how a video's tokens are sharded over a mesh: S tokens in (frame, row, column)
// order, padded to Sp so that the sharded dim divides.
type Layout struct {
	Grid           Grid
	Tokens, Padded int // S, Sp
	// Batch is the spec of values that belong to a whole video, such as the text's
	// stream (B, T, D): sharded over dp. Stream is the spec of the residual stream
	// (B, Sp, D) between blocks, whose tokens are sharded over sp and, on request, tp.
	// Gathered is that of a matmul's operand, whose tokens are sharded over sp alone.
	Batch, Stream, Gathered sharding.Spec
}

// LayoutOf is the layout of a request's video.
func LayoutOf(on *mesh.Mesh, r models.Request, patch [3]int) Layout {
	stream := models.StreamSpec(r)
	grid := GridOf(r.Latent, patch)
	return Layout{Grid: grid, Tokens: grid.Tokens(), Padded: r.PadTokens(grid.Tokens(), on.Size(stream.Dim(1)...)),
		Batch: strategy.SpecOf(strategy.Batch), Stream: stream, Gathered: strategy.SpecOf(strategy.Batch, strategy.Tokens)}
}

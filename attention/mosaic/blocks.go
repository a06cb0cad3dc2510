package mosaic

// Blocks are how one step of the grid is cut.
type Blocks struct {
	Q, K int // queries and keys of a step
	Sub  int // keys whose scores are made at a time
}

// table has the block sizes by chip.
var table = map[string]Blocks{
	"v4":    {1024, 2048, 256},
	"v5e":   {1024, 2048, 1024},
	"v5p":   {1024, 2048, 1024},
	"v6e":   {1024, 2048, 1024},
	"tpu7x": {1024, 2048, 1024},
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Tiles are the blocks that the kernel uses: no larger than what there is, rounded
// up to whole tiles.
func (s Spec) Tiles() Blocks {
	b := s.Blocks
	if b == (Blocks{}) {
		b = table[s.Chip]
	}
	b.Q = min(b.Q, roundUp(s.Queries, lanes))
	b.K = min(b.K, roundUp(s.end(), lanes))
	b.Sub = min(b.Sub, b.K)
	return b
}

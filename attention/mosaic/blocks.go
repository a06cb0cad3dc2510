package mosaic

// Blocks are how one step of the grid is cut.
type Blocks struct {
	Q, K int // queries and keys of a step
	Sub  int // keys whose scores are made at a time
	// Kept leaves the state in values between sub-blocks; otherwise it goes through memory.
	Kept bool
}

// table has the block sizes by chip, by libtpu 0.0.52's figures for a step of one head
// of 128 (bundles on v4, cycles of the static profile elsewhere), as shares of the
// matrix units' limit.
//
// Small blocks wait for memory on every chip: 128 x 128 is at 0.07 to 0.10, 512 x 1024
// at 0.82 to 0.85, 1024 x 1024 at 0.88 to 0.90, 1024 x 2048 at 0.91 to 0.94. Twice the keys
// again gain 0.02 on v4 for 1.2 MB of code, and need more than its vector memory
// where scores are made all at once.
//
// Sub differs. v4 can load one register a cycle and has few beside two vector units:
// scores of 256 keys stay near them (0.91; 512 keys 0.78; 128 keys 0.69). v5e and v5p
// want fewer updates of the state: 1024 (0.92; 256 keys 0.83 on v5p). So does where the
// state is between them: in memory on v4, whose registers it would take (0.91; kept in
// values 0.84), in values elsewhere (v5p 0.92; through memory 0.91). v6e and tpu7x are
// as v5p; their matrix units are 256 wide, so their limit is half their peak.
var table = map[string]Blocks{
	"v4":    {1024, 2048, 256, false},
	"v5e":   {1024, 2048, 1024, true},
	"v5p":   {1024, 2048, 1024, true},
	"v6e":   {1024, 2048, 1024, true},
	"tpu7x": {1024, 2048, 1024, true},
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

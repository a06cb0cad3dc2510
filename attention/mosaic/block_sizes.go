package mosaic

import (
	"strings"

	"weft/internal/numbers"
	"weft/topology"
)

// Blocks says how the kernel cuts queries and keys into blocks.
type Blocks struct {
	Q, K int // queries and keys of a step
	Sub  int // keys whose scores are computed together
	// Kept keeps the running softmax in values between sub-blocks; without it the state goes
	// through scratch memory.
	Kept bool
	// Ones lets the matrix unit sum the exponentials, beside the values of a head of 128.
	Ones bool
}

// blocksOf gives the block sizes of a chip and a head dim, which stand in topology's data;
// false for a chip without them. The figures that chose them come from libtpu 0.0.52, for a
// step of one head or of a pair, as shares of what the matrix units could do at most: cycles
// of its static profile, which include stalls, and on v4, where the profile aborts, bundles,
// which do not. A head of 128, 1024 queries:
//
//	        keys / sub-block                                                        of the limit
//	v4      2048/256, 3072/256, 4096/256, 8192/256                                  .92 .93 .93 .94
//	        2048/256 kept, 2048/384, 4096/512                                       .85 .80 .77
//	v5e     2048/1024, 2048/512, 3072/512, 4096/512, 8192/1024                      .94 .96 .97 .98 .99
//	v5p     2048/1024, 2048/512, 3072/512, 4096/512, 8192/1024                      .94 .96 .97 .97 .99
//	v6e     2048/1024, 4096/2048; with ones 2048/2048, 4096/2048, 3072/3072         .83 .91 .90 .93 .93
//	tpu7x   2048/2048, 3072/1536, 3072/3072, 4096/2048                              .82 .86 .88 .89
//
// Small blocks wait for memory on every chip: 128 x 128 reaches .07 to .10. A step loses time
// while its first scores are computed and its last exponentials are taken, because the matrix
// unit waits then. More keys a step and smaller sub-blocks lose less of it, but the code and
// the time to compile it grow with the keys. A kernel whose last step is cut short has to
// compile within 3 s; 3072 keys on v4 and 8192 elsewhere take longer. 2048 x 2048 is as good
// as 1024 x 4096 and takes twice as long to begin; 512 queries lose .02.
//
// v4 loads one register a cycle and has few registers for two vector units. So the scores of
// 256 keys stay in registers, and the state goes through memory. On v6e and tpu7x the matrix
// unit is so fast that the vector units are the limit. There all scores of a step are computed
// at once, so that the state is updated once a step. On v6e the half of the matrix unit that a
// head of 128 leaves free also sums the exponentials; the limit is half of v6e's peak for that
// reason. On tpu7x the sums in the matrix unit cost more than they save (.76 at best, by bundles).
//
// A pair of heads of 64 does twice the work a step, so it gets about half the keys: v4 1024/256
// .93 (2048: .95, 3.7 s), v5e and v5p 2048/512 .98, v6e 2048/2048 .95, tpu7x .91. Its limit
// counts both halves of the lanes as multiplied.
func blocksOf(chip string, headDim int) (Blocks, bool) {
	g, ok := topology.GenerationByName(chip)
	if !ok || g.Name != chip || g.AttentionKernel() == nil {
		return Blocks{}, false
	}
	b := g.AttentionKernel().Blocks.HeadDim128
	if headDim == 64 {
		b = g.AttentionKernel().Blocks.HeadDim64
	}
	return Blocks{Q: b.Queries, K: b.Keys, Sub: b.SubBlock, Kept: b.Kept, Ones: b.Ones}, true
}

// Chips lists the chips that the kernel has block sizes for, oldest first.
func Chips() []string {
	var names []string
	for _, g := range topology.Generations() {
		if g.AttentionKernel() != nil {
			names = append(names, g.Name)
		}
	}
	return names
}

// knownChips lists the chips of the table in a sentence: "v4, v5e and v5p".
func knownChips() string {
	names := Chips()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// rowsOfTile is how many rows of bf16 one tile of vector memory holds.
const rowsOfTile = 16

// Tiles returns the blocks that the kernel uses: those of the chip, or s.Blocks, cut
// to the lengths of s and rounded up to whole tiles.
func (s Kernel) Tiles() Blocks {
	b := s.Blocks
	if b == (Blocks{}) {
		b, _ = blocksOf(s.Chip, s.HeadDim)
	}
	// All blocks of queries get one size: 4,680 queries are five blocks of 944, not of 1,024.
	steps := (s.Queries + b.Q - 1) / b.Q
	b.Q = numbers.RoundUp((s.Queries+steps-1)/steps, rowsOfTile)
	b.K = min(b.K, numbers.RoundUp(s.realEnd(), lanes))
	b.Sub = min(b.Sub, b.K)
	return b
}

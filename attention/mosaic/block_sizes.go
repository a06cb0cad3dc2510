package mosaic

// Blocks are how one step of the grid is cut.
type Blocks struct {
	Q, K int // queries and keys of a step
	Sub  int // keys whose scores are made at a time
	// Kept leaves the state in values between sub-blocks; otherwise it goes through memory.
	Kept bool
	// Ones has the matrix unit add up the exponentials, beside the values of a head of 128.
	Ones bool
}

// table has the block sizes by chip and head dim. The figures that chose them are libtpu
// 0.0.52's for a step of one head, or of a pair, as shares of the matrix units' limit: cycles
// of its static profile, which has stalls in it, and bundles on v4, where the profile aborts,
// which have none. A head of 128, 1024 queries:
//
//	        keys / sub-block                                                        of the limit
//	v4      2048/256, 3072/256, 4096/256, 8192/256                                  .92 .93 .93 .94
//	        2048/256 kept, 2048/384, 4096/512                                       .85 .80 .77
//	v5e     2048/1024, 2048/512, 3072/512, 4096/512, 8192/1024                      .94 .96 .97 .98 .99
//	v5p     2048/1024, 2048/512, 3072/512, 4096/512, 8192/1024                      .94 .96 .97 .97 .99
//	v6e     2048/1024, 4096/2048; with ones 2048/2048, 4096/2048, 3072/3072         .83 .91 .90 .93 .93
//	tpu7x   2048/2048, 3072/1536, 3072/3072, 4096/2048                              .82 .86 .88 .89
//
// Small blocks wait for memory on every chip: 128 x 128 is at .07 to .10. What a step loses is
// where its first scores are made and its last exponentials taken, while the matrix unit waits:
// more keys a step and smaller sub-blocks lose less. Against that, code and the time to
// compile it grow with the keys: a kernel whose last step is cut short is to compile in 3 s,
// which 3072 keys on v4 and 8192 elsewhere do not. 2048 x 2048 is as good as 1024 x 4096 and
// takes twice as long to begin; 512 queries lose .02.
//
// v4 can load one register a cycle and has few beside two vector units: scores of 256 keys stay
// near them, and the state goes through memory. On v6e and tpu7x the matrix unit is so fast that
// vector units are what is short: all scores at once, so that the state is updated once a step,
// and on v6e the sums of exponentials come from the half of the matrix unit that a head of
// 128 leaves empty. Their limit is half their peak for that. On tpu7x that costs more than it
// saves (.76 at best, by bundles).
//
// A pair of heads of 64 has twice the work a step, so about half the keys: v4 1024/256 .93
// (2048: .95, 3.7 s), v5e and v5p 2048/512 .98, v6e 2048/2048 .95, tpu7x .91, of a limit that
// has both halves of the lanes multiplied.
var blockTable = map[string]map[int]Blocks{
	"v4": {
		128: {Q: 1024, K: 2048, Sub: 256},
		64:  {Q: 1024, K: 1024, Sub: 256},
	},
	"v5e": {
		128: {Q: 1024, K: 4096, Sub: 512, Kept: true},
		64:  {Q: 1024, K: 2048, Sub: 512, Kept: true},
	},
	"v5p": {
		128: {Q: 1024, K: 4096, Sub: 512, Kept: true},
		64:  {Q: 1024, K: 2048, Sub: 512, Kept: true},
	},
	"v6e": {
		128: {Q: 1024, K: 3072, Sub: 3072, Kept: true, Ones: true},
		64:  {Q: 1024, K: 2048, Sub: 2048, Kept: true},
	},
	"tpu7x": {
		128: {Q: 1024, K: 3072, Sub: 3072, Kept: true},
		64:  {Q: 1024, K: 2048, Sub: 2048, Kept: true},
	},
}

// rowsOfTile are the rows of bf16 that lie together.
const rowsOfTile = 16

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Tiles are the blocks that the kernel uses: no larger than what there is, rounded
// up to whole tiles.
func (s Spec) Tiles() Blocks {
	b := s.Blocks
	if b == (Blocks{}) {
		b = blockTable[s.Chip][s.HeadDim]
	}
	// Blocks of queries of one size: 4,680 are five of 944 and not of 1,024.
	steps := (s.Queries + b.Q - 1) / b.Q
	b.Q = roundUp((s.Queries+steps-1)/steps, rowsOfTile)
	b.K = min(b.K, roundUp(s.realEnd(), lanes))
	b.Sub = min(b.Sub, b.K)
	return b
}

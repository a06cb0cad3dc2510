package triton_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"weft/attention/triton"
	"weft/dtype"
	"weft/internal/golden"
)

// The texts of kernels of each kind, on every GPU, are those of the golden file. A change of
// one is meant, and is then taken over by `go test ./attention/triton -run Text -update`.
func TestTextsAreTheGoldenOnes(t *testing.T) {
	var b strings.Builder
	for _, chip := range triton.Chips() {
		for _, headDim := range []int{64, 96, 128, 256} {
			h := sha256.New()
			for _, heads := range [][2]int{{4, 4}, {6, 2}} {
				for _, keys := range []int{128, 130, 9000} {
					for _, real := range [][]triton.Range{nil, {{To: (keys + 1) / 2}}, {{To: 20}, {From: 33, To: 101}}} {
						s := triton.Kernel{Chip: chip, DType: dtype.BF16, Batch: 2, Queries: 1500, Keys: keys, Heads: heads[0], KVHeads: heads[1], HeadDim: headDim,
							Real: real, Mask: keys == 130, MaskBatch: 1, Scale: float64(keys % 3)}
						if s.Check() != nil {
							continue
						}
						fmt.Fprintln(h, s.Config())
					}
				}
			}
			fmt.Fprintf(&b, "%s head dim %d %x\n", chip, headDim, h.Sum(nil)[:8])
		}
	}
	golden.Compare(t, "testdata/texts.golden", b.String())
}

package cogvideox_test

import (
	"fmt"
	"testing"

	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
)

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range []string{"cogvideox-2b", "cogvideox-5b", "cogvideox-5b-i2v", "cogvideox-1.5-5b", "cogvideox-1.5-5b-i2v"} {
		modeltest.Oracle(t, name, testdata+"oracle/"+name+".json")
		modeltest.Mapping(t, name, testdata+"oracle/mappings/"+name+".json", "")
	}
}

// The bytes that README.md states.
func TestBytesSavedBesideThePeer(t *testing.T) {
	for name, want := range map[string]map[int]string{
		"cogvideox-2b":     {2: "1.250"},
		"cogvideox-5b":     {2: "3.983", 4: "5.975"},
		"cogvideox-5b-i2v": {4: "6.058"},
		"cogvideox-1.5-5b": {4: "5.975"},
	} {
		for tp, want := range want {
			if got := fmt.Sprintf("%.3f", float64(modeltest.Saved(t, name, tp))/1e9); got != want {
				t.Errorf("%s at tp=%d: %s GB, README.md says %s", name, tp, got, want)
			}
		}
	}
}

// What programs exchange, of the fixtures' shapes at batch 2:
//
//	5b     T = 10  S = 3*4*6 = 72   D = 128  2 heads   FFN 512
//	15     T = 6   S = 2*3*5 = 30   D = 64   4 heads   FFN 256
//	i2v    T = 6   S = 3*3*5 = 45   D = 64   4 heads   Sp at sp=4: 48
//
// tp, a layer: the 12 D modulations of both AdaLNs gathered at once; to_out and
// ff.net.2 summed, each for video (S D) and text (T D). sp: q, k, v of the video
// from tokens to heads and back, S D / sp each; the text's heads gathered.
func TestCollectivesOfALayer(t *testing.T) {
	moves := func(fixture string, d dtype.DType, latent []int, table ...modeltest.Move) {
		t.Helper()
		modeltest.Moves(t, modeltest.Config(t, testdata+fixture), models.Request{Batch: 2, Latent: latent, DType: d}, table)
	}
	moves("cogvideox_5b", dtype.F32, []int{16, 3, 8, 12}, []modeltest.Move{
		{On: "dp=2", Program: "block"},
		{On: "tp=2", Program: "block", Want: "all-gather tp 1 1536; all-reduce tp 4 41984"}, // 2*12*128/2; 2*2*(72+10)*128
		{On: "sp=2", Program: "block", Want: "all-gather sp 1 1280; all-to-all sp 4 36864"}, // 2*10*128/2; 4*2*72*128/2
		// The text's projection, gathered: T D / tp. The timestep is whole.
		{On: "tp=2", Program: "text", Want: "all-gather tp 1 1280"},
		{On: "tp=2", Program: "time"},
		{On: "tp=2", Program: "pre"},
	}...)
	moves("cogvideox_5b", dtype.BF16, []int{16, 3, 8, 12}, []modeltest.Move{
		{On: "tp=2", Program: "block", Want: "all-gather tp 1 1536; all-reduce tp 4 41984 bf16"},
		{On: "sp=2", Program: "block", Want: "all-gather sp 1 1280 bf16; all-to-all sp 4 36864 bf16"},
	}...)
	moves("cogvideox15", dtype.F32, []int{4, 4, 6, 10}, []modeltest.Move{
		{On: "tp=4", Program: "block", Want: "all-gather tp 1 384; all-reduce tp 4 9216"},
		{On: "sp=4", Program: "block", Want: "all-gather sp 1 192; all-to-all sp 4 4096"}, // 30 tokens padded to 32
		{On: "tp=2,sp=2", Program: "block", Want: "all-gather sp 1 192; all-gather tp 1 768; all-reduce tp 4 5376; all-to-all sp 4 3840"},
		{On: "dp=2,tp=2,sp=2", Program: "block", Want: "all-gather sp 1 96; all-gather tp 1 384; all-reduce tp 4 2688; all-to-all sp 4 1920"},
		// The video's stream split over tp as well: its sums become reduce-scatters of
		// S D, and it is gathered, S D / tp, before each column-parallel matmul.
		{On: "tp=2", Split: true, Program: "block", Want: "all-gather tp 3 4608; all-reduce tp 2 1536; reduce-scatter tp 2 7680"},
	}...)
	// Of learned positions the sum with the patches is gathered, S D / tp.
	moves("cogvideox_i2v", dtype.F32, []int{4, 3, 6, 10}, []modeltest.Move{
		{On: "tp=2", Program: "pre", Want: "all-gather tp 1 2880"},
		{On: "sp=4", Program: "pre"},
		// The last AdaLN's 2 D, and tokens of 2*2*4 channels for the latents.
		{On: "tp=2,sp=2", Program: "post", Want: "all-gather sp 1 736; all-gather tp 1 128"},
	}...)
}

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
var layers = []struct {
	fixture, on string
	split       bool
	program     string
	want        string
}{
	{"cogvideox_5b", "tp=2", false, "block", "all-gather tp 1 1536; all-reduce tp 4 41984"}, // 2*12*128/2; 2*2*(72+10)*128
	{"cogvideox_5b", "sp=2", false, "block", "all-gather sp 1 1280; all-to-all sp 4 36864"}, // 2*10*128/2; 4*2*72*128/2
	{"cogvideox_5b", "dp=2", false, "block", ""},
	{"cogvideox15", "tp=2,sp=2", false, "block", "all-gather sp 1 192; all-gather tp 1 768; all-reduce tp 4 5376; all-to-all sp 4 3840"},
	{"cogvideox15", "dp=2,tp=2,sp=2", false, "block", "all-gather sp 1 96; all-gather tp 1 384; all-reduce tp 4 2688; all-to-all sp 4 1920"},
	{"cogvideox15", "tp=4", false, "block", "all-gather tp 1 384; all-reduce tp 4 9216"},
	{"cogvideox15", "sp=4", false, "block", "all-gather sp 1 192; all-to-all sp 4 4096"},
	// The video's stream split over tp as well: its sums become reduce-scatters of
	// S D, and it is gathered, S D / tp, before each column-parallel matmul.
	{"cogvideox15", "tp=2", true, "block", "all-gather tp 3 4608; all-reduce tp 2 1536; reduce-scatter tp 2 7680"},
	// The text's projection, gathered: T D / tp. The timestep is whole. Of learned
	// positions the sum with the patches is gathered, S D / tp.
	{"cogvideox_5b", "tp=2", false, "text", "all-gather tp 1 1280"},
	{"cogvideox_5b", "tp=2", false, "time", ""},
	{"cogvideox_5b", "tp=2", false, "pre", ""},
	{"cogvideox_i2v", "tp=2", false, "pre", "all-gather tp 1 2880"},
	{"cogvideox_i2v", "sp=4", false, "pre", ""},
	// The last AdaLN's 2 D, and tokens of 2*2*4 channels for the latents.
	{"cogvideox_i2v", "tp=2,sp=2", false, "post", "all-gather sp 1 736; all-gather tp 1 128"},
}

func TestCollectivesOfALayer(t *testing.T) {
	latents := map[string][]int{"cogvideox_5b": {16, 3, 8, 12}, "cogvideox15": {4, 4, 6, 10}, "cogvideox_i2v": {4, 3, 6, 10}}
	for _, c := range layers {
		r := models.Request{Batch: 2, Latent: latents[c.fixture], SplitResidual: c.split}
		modeltest.Layer{Dir: testdata + c.fixture, On: c.on, Request: r, Program: c.program, Want: c.want}.Check(t)
	}
	// In bf16 as many elements.
	r := models.Request{Batch: 2, Latent: latents["cogvideox_5b"], DType: dtype.BF16}
	modeltest.Layer{Dir: testdata + "cogvideox_5b", On: "sp=2", Request: r, Program: "block", Want: "all-gather sp 1 1280; all-to-all sp 4 36864"}.Check(t)
}

package ltx_test

import (
	"fmt"
	"testing"

	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
)

const prefix = "model.diffusion_model."

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range []string{"ltx-video-2b", "ltx-video-13b", "ltx2.5-22b", "ltx2.5-connector"} {
		modeltest.Oracle(t, name, testdata+"oracle/"+name+".json")
		modeltest.Mapping(t, name, testdata+"oracle/mappings/"+name+".json", prefix)
	}
}

// The bytes that README.md states.
func TestBytesSavedBesideThePeer(t *testing.T) {
	for name, want := range map[string]string{"ltx-video-2b": "0.057", "ltx-video-13b": "0.204", "ltx2.5-22b": "0.298", "ltx2.5-connector": "0.002"} {
		if got := fmt.Sprintf("%.3f", float64(modeltest.Saved(t, name, 4))/1e9); got != want {
			t.Errorf("%s at tp=4: %s GB, README.md says %s", name, got, want)
		}
	}
}

// B = 2, N = 36 tokens, D = 64, 4 heads, FFN 256, L = 9 rows of text.
//
// tp, a layer: the sums of squares of q and k together, 2 B N, and of the cross
// attention's q, B N; three row-parallel sums of B N D: both outputs and the FFN's.
// sp: q, k, v from tokens to heads and the result back, B N D / sp each.
func TestCollectivesOfALayer(t *testing.T) {
	m := modeltest.Config(t, testdata+"ltx_video")
	r := models.Request{Batch: 2, Latent: []int{32, 36, 1, 1}, Text: 9, DType: dtype.F32}
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "dp=2", Program: "block"},
		{On: "tp=2", Program: "block", Want: "all-reduce tp 5 14040"}, // 3*72 + 3*4608
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 9216"},
		{On: "tp=2,sp=2", Program: "block", Want: "all-reduce tp 5 7020; all-to-all sp 4 4608"},
		{On: "dp=2,tp=2,sp=2", Program: "block", Want: "all-reduce tp 5 3510; all-to-all sp 4 2304"},
		{On: "tp=2", Split: true, Program: "block", Want: "all-gather tp 3 6912; all-reduce tp 2 216; reduce-scatter tp 3 13824"},
		// Once a request: the text's second projection, and its keys' sums of squares.
		{On: "tp=2", Program: "text", Want: "all-reduce tp 1 1152"},
		{On: "tp=2", Program: "text_kv", Want: "all-reduce tp 1 18"},
		{On: "sp=2", Program: "text_kv"},
		// The modulation, 6 D / tp of each video; over sp the tokens for the latents.
		{On: "tp=2", Program: "time", Want: "all-gather tp 1 384"},
		{On: "sp=2", Program: "post", Want: "all-gather sp 1 1152"},
		{On: "tp=2,sp=2", Program: "pre"},
	})
	// With a noise level for every token the modulation is that of the device's tokens.
	r.TokenTimes = true
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "sp=2", Program: "time"},
		{On: "tp=2,sp=2", Program: "time", Want: "all-gather tp 1 6912"},
		{On: "tp=2,sp=2", Program: "block", Want: "all-reduce tp 5 7020; all-to-all sp 4 4608"},
	})
	// Of two levels among a video's tokens, the modulations of both are gathered.
	r.Times = 2
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "sp=2", Program: "time"},
		{On: "tp=2,sp=2", Program: "time", Want: "all-gather tp 1 768"},
	})
	r.Times = 0
	// LTX-2.5: the gates are of the heads that a device has. The keys of the text,
	// modulated by the noise level, are made in every step.
	r.TokenTimes, r.Latent[0] = false, 8
	modeltest.Moves(t, modeltest.Config(t, testdata+"ltx25"), r, []modeltest.Move{
		{On: "tp=2", Program: "block", Want: "all-reduce tp 5 14040"},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 9216"},
		{On: "tp=2", Program: "text_kv", Want: "all-reduce tp 1 18"},
		{On: "tp=2", Program: "prompt", Want: "all-gather tp 1 128"},
		{On: "tp=2", Program: "time", Want: "all-gather tp 1 576"},
	})
	// The connector, of 36 rows: no cross-attention.
	modeltest.Moves(t, modeltest.Config(t, testdata+"ltx25_connector"), models.Request{Batch: 2, Text: 36, DType: dtype.F32}, []modeltest.Move{
		{On: "tp=2", Program: "block", Want: "all-reduce tp 3 9360"},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 9216"},
		{On: "tp=2,sp=2", Program: "block", Want: "all-reduce tp 3 4680; all-to-all sp 4 4608"},
	})
	r.Latent[0], r.DType = 32, dtype.BF16
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "tp=2", Program: "block", Want: "all-reduce tp 2 216; all-reduce tp 3 13824 bf16"},
	})
}

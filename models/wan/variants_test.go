package wan_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
)

// What the once-a-request program of a layer's keys and values, the image's
// embedding, the time path and a block exchange, of the fixtures' shapes:
//
//	i2v    B = 1   S = 36   D = 96   L = 512   Li = 17   3 heads
//	ti2v   B = 1   S = 36   D = 80   L = 16              2 heads
var variantTable = []struct {
	fixture, on string
	split       bool
	program     string
	want        string // op axis count elements
}{
	// Both keys' sums of squares in one reduction: L + Li.
	{"wan21_i2v", "tp=3", false, "text_kv", "all-reduce tp 1 529"},
	// A column-parallel matmul's result, Li * D/3, gathered for the norm after it.
	{"wan21_i2v", "tp=3", false, "image", "all-gather tp 1 544"},
	{"wan21_i2v", "sp=3", false, "text_kv", ""},
	{"wan21_i2v", "sp=3", false, "image", ""},
	// The image adds nothing to a block: as for t2v, the sums of squares of q and
	// k (2 S) and cross q (S), three row-parallel sums (3 S D).
	{"wan21_i2v", "tp=3", false, "block", "all-reduce tp 5 10476"},
	{"wan21_i2v", "sp=3", false, "block", "all-to-all sp 4 4608"},

	// e0 of every token, gathered over tp from S * 6 D/2; nothing over sp.
	{"wan22_ti2v", "tp=2", false, "time", "all-gather tp 1 8640"},
	{"wan22_ti2v", "sp=2", false, "time", ""},
	{"wan22_ti2v", "sp=2", false, "block", "all-to-all sp 4 5760"},
	// With the stream split over tp e0 changes from split columns to split rows.
	{"wan22_ti2v", "tp=2", true, "time", "all-to-all tp 1 8640"},
	// Of two timesteps among all tokens, their two rows are gathered: 2 * 6 D/2.
	{"wan22_ti2v, two times", "tp=2", false, "time", "all-gather tp 1 480"},
	{"wan22_ti2v, two times", "tp=2", true, "time", "all-gather tp 1 480"},
	{"wan22_ti2v, two times", "sp=2", false, "time", ""},
}

func TestVariantsCollectives(t *testing.T) {
	requests := map[string]models.Request{
		"wan21_i2v":  {Batch: 1, Latent: []int{16, 3, 8, 6}, Text: 9, Image: 17, DType: dtype.F32},
		"wan22_ti2v": {Batch: 1, Latent: []int{48, 3, 6, 8}, Text: 13, DType: dtype.F32, TokenTimes: true},
	}
	few := requests["wan22_ti2v"]
	few.Times = 2
	requests["wan22_ti2v, two times"] = few
	for _, c := range variantTable {
		dir, _, _ := strings.Cut(c.fixture, ",")
		m := modeltest.Config(t, "../../testdata/"+dir)
		modeltest.Moves(t, m, requests[c.fixture], []modeltest.Move{{On: c.on, Split: c.split, Program: c.program, Want: c.want}})
	}
}

// The bytes of bf16 a device keeps less than under the peer's rules, which
// README.md states: matmul weights and their vectors, the latter counted in f32.
func TestBytesSavedBesideThePeer(t *testing.T) {
	for name, want := range map[string]map[int]string{
		"wan2.1-i2v-14b":  {2: "2.309", 4: "3.464"},
		"wan2.1-t2v-14b":  {4: "0.307"},
		"wan2.2-ti2v-5b":  {4: "0.118"},
		"wan2.2-i2v-a14b": {4: "0.307"},
	} {
		for tp, want := range want {
			if got := fmt.Sprintf("%.3f", float64(modeltest.Saved(t, name, tp))/1e9); got != want {
				t.Errorf("%s at tp=%d: %s GB, README.md says %s", name, tp, got, want)
			}
		}
	}
}

package strategy_test

import (
	"fmt"
	"testing"

	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// Stages send the activation of one microbatch: 4096 tokens of 8192 channels in bf16.
func TestSends(t *testing.T) {
	x := tensor("x", "batch,sequence,hidden", 1, 4096, 8192)
	for _, test := range []struct {
		mesh, axis, spec  string
		chunks            int
		forward, backward string
		bytes             int64
	}{
		{"pipeline=2,data=2,model=2", "pipeline", "[-,-,-]", 1, "[[0 4] [1 5] [2 6] [3 7]]", "[[4 0] [5 1] [6 2] [7 3]]", 67_108_864},
		{"pipeline=4,model=2", "pp", "[-,-,-]", 1, "[[0 2] [1 3] [2 4] [3 5] [4 6] [5 7]]", "[[2 0] [3 1] [4 2] [5 3] [6 4] [7 5]]", 67_108_864},
		{"pp=2,tp=8", "pipeline", "[-,tp,-]", 1, "[[0 8] [1 9] [2 10] [3 11] [4 12] [5 13] [6 14] [7 15]]", "[[8 0] [9 1] [10 2] [11 3] [12 4] [13 5] [14 6] [15 7]]", 8_388_608},
		{"pp=4", "pp", "[]", 1, "[[0 1] [1 2] [2 3]]", "[[1 0] [2 1] [3 2]]", 67_108_864},
		{"pp=2", "pp", "[]", 1, "[[0 1]]", "[[1 0]]", 67_108_864},
		{"pp=1,tp=2", "pp", "[]", 1, "[]", "[]", 67_108_864},
		{"pp=1,tp=2", "pp", "[]", 2, "[]", "[]", 67_108_864},
		{"pp=4", "pp", "[]", 2, "[[0 1] [1 2] [2 3] [3 0]]", "[[0 3] [1 0] [2 1] [3 2]]", 67_108_864}, // interleaved adds last to first
	} {
		f, b, err := strategy.Sends(grid(t, test.mesh), test.axis, x, meshtest.Spec(t, test.spec), test.chunks)
		if err != nil || fmt.Sprint(f.Pairs) != test.forward || fmt.Sprint(b.Pairs) != test.backward || f.Bytes != test.bytes || b.Bytes != test.bytes {
			t.Errorf("%s over %s: %v and %v, want %s, %s, %d: %v", test.mesh, test.axis, f, b, test.forward, test.backward, test.bytes, err)
		}
		if 8*f.Bytes != map[int64]int64{67_108_864: 536_870_912, 8_388_608: 67_108_864}[f.Bytes] {
			t.Error("8 microbatches:", 8*f.Bytes)
		}
	}
	// Pairs are device ids, in whatever order the mesh has them.
	m, err := mesh.New([]mesh.Axis{{Name: "pp", Size: 2}, {Name: "tp", Size: 2}}, []mesh.Device{{ID: 7}, {ID: 5}, {ID: 6}, {ID: 4}})
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := strategy.Sends(m, "pp", x, sharding.Spec{}, 1)
	if err != nil || fmt.Sprint(f.Pairs) != "[[7 6] [5 4]]" {
		t.Error(f, err)
	}
	_, _, err = strategy.Sends(m, "stage", x, sharding.Spec{}, 1)
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis)
	_, _, err = strategy.Sends(m, "pp", x, meshtest.Spec(t, "[pp]"), 1)
	faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
	_, _, err = strategy.Sends(m, "pp", x, meshtest.Spec(t, "[tp]"), 1)
	faulttest.WantKinds(t, err, sharding.ErrUneven)
}

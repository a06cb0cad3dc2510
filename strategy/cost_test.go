package strategy_test

import (
	"fmt"
	"testing"

	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/sharding"
)

// The bytes that each device sends when a tensor of 67,108,864 bytes changes its layout
// over one axis.
func TestCostSheet(t *testing.T) {
	shape := []int{4096, 4096, 2} // 67,108,864 bytes in bf16
	const s = 67_108_864
	for _, test := range []struct {
		n        int
		from, to string
		op       sharding.Op
		bytes    int64
		hops     int
	}{
		{8, "[a]", "[-]", sharding.AllGather, 58_720_256, 7},
		{8, "[-]|a", "[-]", sharding.AllReduce, 117_440_512, 14},
		{8, "[-]|a", "[a]", sharding.ReduceScatter, 58_720_256, 7},
		{4, "[a]", "[-]", sharding.AllGather, 50_331_648, 3},
		{4, "[-]|a", "[-]", sharding.AllReduce, 100_663_296, 6},
		{4, "[-]|a", "[-,a]", sharding.ReduceScatter, 50_331_648, 3},
		{4, "[a]", "[-,a]", sharding.AllToAll, s / 4 * 3 / 4, 3},
		{8, "[-,a]", "[a]", sharding.AllToAll, s / 8 * 7 / 8, 7},
		{8, "[-]", "[-,a]", sharding.Slice, 0, 0},
		{8, "[a]", "[b]", sharding.Permute, s / 8, 1},
		{1, "[a]", "[-]", "", 0, 0}, // n = 1: no collective
		{1, "[-]|a", "[-]", "", 0, 0},
	} {
		m := grid(t, fmt.Sprintf("a=%d,b=%d", test.n, test.n))
		steps, err := sharding.Reshard(m, meshtest.Spec(t, test.from), meshtest.Spec(t, test.to), shape, 2)
		if err != nil {
			t.Fatal(err)
		}
		if test.op == "" {
			if len(steps) != 0 {
				t.Errorf("%s to %s over 1: %v", test.from, test.to, steps)
			}
			continue
		}
		if len(steps) != 1 || steps[0].Op != test.op || steps[0].Bytes != test.bytes {
			t.Errorf("%s to %s over %d: %v, want %s of %d bytes", test.from, test.to, test.n, steps, test.op, test.bytes)
		}
		if got := sharding.Hops(test.op, test.n); got != test.hops {
			t.Errorf("%s over %d: %d hops, want %d", test.op, test.n, got, test.hops)
		}
	}
	_, err := sharding.Reshard(grid(t, "a=4"), meshtest.Spec(t, "[-]"), meshtest.Spec(t, "[-]|a"), shape, 2)
	faulttest.WantKinds(t, err, sharding.ErrToPartial) // normally a bug
}

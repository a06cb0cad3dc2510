package sharding_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"weft/internal/faulttest"
	"weft/sharding"
)

// Each rank takes its share of q, of k and of v. A plain cut of the stacked rows would give
// rank 0 all of q and none of v.
func TestFusedQKV(t *testing.T) {
	stacked := sharding.Layout{Parts: []int{4, 4, 4}}
	for rank, want := range []string{"[0 1 4 5 8 9]", "[2 3 6 7 10 11]"} {
		ranges, err := stacked.Ranges(12, 2, rank)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(rowsOf(ranges)); got != want {
			t.Errorf("rank %d holds rows %s, want %s", rank, got, want)
		}
	}
}

func rowsOf(ranges []sharding.Range) []int {
	rows := []int{}
	for _, r := range ranges {
		for i := r.Lo; i < r.Hi; i++ {
			rows = append(rows, i)
		}
	}
	return rows
}

// HunyuanVideo's single-stream blocks: q, k, v and the MLP's input in one matrix.
func TestFusedFourParts(t *testing.T) {
	ranges, err := sharding.Layout{Parts: []int{3072, 3072, 3072, 12288}}.Ranges(3*3072+12288, 8, 3)
	if err != nil || fmt.Sprint(ranges) != "[1152-1536 4224-4608 7296-7680 13824-15360]" {
		t.Error(ranges, err)
	}
}

func TestFusedRefuses(t *testing.T) {
	for _, c := range []struct {
		parts              []int
		size, split, index int
		want               []error
	}{
		{[]int{4, 5, 6, 7}, 22, 2, 0, []error{sharding.ErrUneven, sharding.ErrUneven}},
		{[]int{4, 4}, 8, 2, 2, []error{sharding.ErrPosition}},
		{[]int{4, 4}, 8, 0, 0, []error{sharding.ErrPosition}},
		{[]int{4, 4}, 9, 2, 0, []error{sharding.ErrFusedLayout}},
		{[]int{-4, 8}, 4, 2, 0, []error{sharding.ErrFusedLayout}},
		{[]int{math.MaxInt, math.MaxInt}, -2, 1, 0, []error{sharding.ErrFusedLayout}},
	} {
		_, err := sharding.Layout{Parts: c.parts}.Ranges(c.size, c.split, c.index)
		faulttest.WantKinds(t, err, c.want...)
	}
}

// q of 32 heads, k and v of 4, head_dim 2, fused, over 8: q is shared out and k
// and v are copied in pairs.
func TestFusedGroupedQuery(t *testing.T) {
	l := sharding.Layout{Parts: []int{64, 8, 8}, Heads: []int{32, 4, 4}}
	for rank, want := range map[int]string{0: "[0-8 64-66 72-74]", 1: "[8-16 64-66 72-74]", 2: "[16-24 66-68 74-76]", 7: "[56-64 70-72 78-80]"} {
		ranges, err := l.Ranges(80, 8, rank)
		if err != nil || fmt.Sprint(ranges) != want {
			t.Errorf("rank %d: %v, want %s: %v", rank, ranges, want, err)
		}
	}
	_, err := l.Ranges(80, 3, 0)
	faulttest.WantKinds(t, err, sharding.ErrKVHeads, sharding.ErrKVHeads, sharding.ErrKVHeads)
	for _, bad := range []sharding.Layout{
		{Parts: []int{64, 8}}, {Parts: []int{64, 8, 9}}, {Parts: []int{80}, Heads: []int{3}},
		{Parts: []int{40, 40}, Heads: []int{4}}, {Heads: []int{-4}},
	} {
		_, err := bad.Ranges(80, 2, 0)
		faulttest.WantKinds(t, err, sharding.ErrFusedLayout)
	}
	if got, err := (sharding.Layout{}).Ranges(80, 8, 7); err != nil || !slices.Equal(got, []sharding.Range{{Lo: 70, Hi: 80}}) {
		t.Error(got, err)
	}
}

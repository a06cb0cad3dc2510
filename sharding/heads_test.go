package sharding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/sharding"
)

// tp*sp must divide the heads: the heads that sp splits are those that tp left.
func TestCheckHeads(t *testing.T) {
	for _, test := range []struct {
		heads, tp, sp int
		legal         []int // nil when accepted
		says          string
	}{
		{12, 1, 8, []int{1, 2, 3, 4, 6, 12}, "the sp that work at tp=1: 1 2 3 4 6 12"},
		{12, 4, 2, []int{1, 3}, "the sp that work at tp=4: 1 3"},
		{40, 4, 4, []int{1, 2, 5, 10}, "the sp that work at tp=4: 1 2 5 10"},
		{40, 2, 4, nil, ""},
		{32, 5, 1, []int{1, 2, 4, 8, 16, 32}, "the tp that work: 1 2 4 8 16 32"},
		{12, 0, 1, []int{1, 2, 3, 4, 6, 12}, "the tp that work"},
		{12, 2, 0, []int{1, 2, 3, 6}, "the sp that work at tp=2"},
		{0, 1, 1, []int{}, "none"},
		{-4, 2, 1, []int{}, "none"},
	} {
		err := sharding.CheckHeads(test.heads, test.tp, test.sp)
		if test.legal == nil {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		faulttest.WantKinds(t, err, sharding.ErrHeadsNotDivisible)
		f, _ := fault.Fields[sharding.HeadsNotDivisible](err)
		if f.Heads != test.heads || f.TP != test.tp || f.SP != test.sp || !slices.Equal(f.Legal, test.legal) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// 4 kv heads over tp=8 are copied to pairs of devices. Half a head on each device would
// give wrong attention without an error.
func TestKVHeads(t *testing.T) {
	heads := sharding.Layout{Heads: []int{4}}
	for rank, want := range []string{"0-128", "0-128", "128-256", "128-256", "256-384", "256-384", "384-512", "384-512"} {
		r, err := heads.Ranges(4*128, 8, rank)
		if err != nil || len(r) != 1 || r[0].String() != want {
			t.Errorf("rank %d holds rows %v, want %s: %v", rank, r, want, err)
		}
	}
	for _, test := range []struct{ q, kv, parts, perDevice, copies int }{
		{32, 4, 8, 1, 2}, {32, 4, 4, 1, 1}, {32, 4, 2, 2, 1}, {32, 4, 1, 4, 1}, {32, 8, 16, 1, 2}, {32, 32, 8, 4, 1}, {32, 1, 32, 1, 32},
	} {
		per, copies, err := sharding.KVHeads(test.q, test.kv, test.parts)
		if err != nil || per != test.perDevice || copies != test.copies {
			t.Errorf("%+v: %d a device, %d copies: %v", test, per, copies, err)
		}
	}
}

func TestKVHeadsRefuses(t *testing.T) {
	_, _, err := sharding.KVHeads(32, 4, 3)
	faulttest.WantKinds(t, err, sharding.ErrHeadsNotDivisible, sharding.ErrKVHeads)
	f, _ := fault.Fields[sharding.KVHeadsMismatch](err)
	if got := fmt.Sprint(f); got != "{ 32 4 3 [1 2 4 8 16 32]}" {
		t.Error(got)
	}
	_, _, err = sharding.KVHeads(24, 4, 6) // the q heads divide
	faulttest.WantKinds(t, err, sharding.ErrKVHeads)
	_, _, err = sharding.KVHeads(24, 5, 2)
	faulttest.WantKinds(t, err, sharding.ErrKVHeads)
	for _, bad := range [][3]int{{0, 4, 2}, {4, 0, 2}, {4, 4, 0}, {-4, -4, -4}} {
		if _, _, err := sharding.KVHeads(bad[0], bad[1], bad[2]); err == nil {
			t.Error("accepted", bad)
		}
	}
	_, err = sharding.Layout{Heads: []int{4}}.Ranges(4*128, 8, 8)
	faulttest.WantKinds(t, err, sharding.ErrPosition)
	_, err = sharding.Layout{Heads: []int{4}}.Ranges(4*128, 3, 0)
	faulttest.WantKinds(t, err, sharding.ErrKVHeads)
}

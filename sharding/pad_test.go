package sharding_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"weft/mesh"
	"weft/sharding"
)

// A batch of 17 does not divide over 8 devices; here the caller asks for padding.
func TestPad(t *testing.T) {
	p, err := sharding.Pad(grid(t, "data", 8), spec(t, "[data,-]"), []int{17, 16})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Padded, p.Local, p.Valid[0], p.Empty(), p.Waste()); got != "[24 16] [3 16] [3 3 3 3 3 2 0 0] [6 7] 112" {
		t.Error(got)
	}
	p, err = sharding.Pad(grid(t, "x", 4), spec(t, "[x]"), []int{5, 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Padded, p.Local, p.Valid[0], p.ValidAt(2), p.Empty()); got != "[8 10] [2 10] [2 2 1 0] [1 10] [3]" {
		t.Error(got)
	}
	p, err = sharding.Pad(grid(t, "x", 4), spec(t, "[x]"), []int{0})
	if err != nil || fmt.Sprint(p.Padded, p.Valid, p.Empty(), p.Waste()) != "[0] [[0 0 0 0]] [] 0" {
		t.Error(p, err)
	}
}

// Token counts that do not divide are padded: dropping the last tokens would lose a part
// of the video.
func TestPadTokens(t *testing.T) {
	for _, test := range []struct{ tokens, sp, padded, local int }{
		{56700, 8, 56704, 7088}, {32760, 16, 32768, 2048}, {75600, 16, 75600, 4725}, {27280, 32, 27296, 853},
		{22177, 2, 22178, 11089}, {22177, 4, 22180, 5545}, {22177, 8, 22184, 2773}, {22177, 1, 22177, 22177},
	} {
		p, err := sharding.Pad(grid(t, "sp", test.sp), spec(t, "[-,sp,-]"), []int{1, test.tokens, 5120})
		if err != nil || p.Padded[1] != test.padded || p.Local[1] != test.local || sharding.RoundUp(test.tokens, test.sp) != test.padded {
			t.Errorf("%d tokens over sp=%d: %v, want %d and %d a device: %v", test.tokens, test.sp, p, test.padded, test.local, err)
		}
	}
}

func TestPadRefuses(t *testing.T) {
	m := grid(t, "a", 3)
	_, err := sharding.Pad(m, spec(t, "[x,a,a]"), []int{-1, 4})
	wantKinds(t, err, mesh.ErrUnknownAxis, sharding.ErrDuplicateAxis, sharding.ErrRank, sharding.ErrShape)
	_, err = sharding.Pad(m, spec(t, "[a]"), []int{math.MaxInt})
	wantKinds(t, err, sharding.ErrShape)
	if sharding.RoundUp(5, 0) != 5 || sharding.RoundUp(0, 4) != 0 {
		t.Error("rounding up by nothing, or nothing")
	}
}

// The valid parts are the tensor, in order, and nothing else; the padded shape
// is the least that divides.
func TestPadKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t)
		m, rank := anyMesh(r), anyRank(r)
		s, shape := anySpec(r, m, rank, nil), make([]int, rank)
		for i := range shape {
			shape[i] = pick(r, 0, 1, 2, 5, 17, 36, 37)
		}
		p, err := sharding.Pad(m, s, shape)
		if err != nil {
			t.Fatal(err)
		}
		if local, err := s.Local(m, p.Padded); err != nil || !slices.Equal(local, p.Local) {
			t.Fatalf("padded %v has local shape %v, not %v: %v", p.Padded, local, p.Local, err)
		}
		for i := range shape {
			if d := p.Padded[i] - shape[i]; d < 0 || d >= parts(m, s, i) {
				t.Fatalf("dim %d of %v padded to %v", i, shape, p.Padded)
			}
		}
		for pos := range m.NumDevices() {
			ranges, err := s.Ranges(m, p.Padded, pos)
			if err != nil {
				t.Fatal(err)
			}
			for i, valid := range p.ValidAt(pos) {
				if want := max(0, min(ranges[i].Hi, shape[i])-ranges[i].Lo); valid != want {
					t.Fatalf("device %d dim %d: %d valid, want %d", pos, i, valid, want)
				}
			}
		}
	})
}

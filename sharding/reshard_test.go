package sharding_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/sharding"
)

// Exactly which collectives, and how many bytes: S is 8*8*8*2 = 1024 bytes.
func TestReshardSteps(t *testing.T) {
	m := grid(t, "a", 2, "b", 2, "c", 4, "one", 1)
	tests := []struct{ from, to, want string }{
		// Every change of state over one axis.
		{"[-]", "[-]", ""},
		{"[one]", "[-,one]", ""},
		{"[-]", "[c]", "slice 0 c 0"},
		{"[c]", "[-]", "all-gather 0 c 768"},
		{"[c]", "[-,c]", "all-to-all 0>1 c 192"},
		{"[-]|c", "[-]", "all-reduce c 1536"},
		{"[-]|c", "[-,-,c]", "reduce-scatter 2 c 768"},
		{"[a]", "[b]", "collective-permute a+b 512"},
		{"[a,-]", "[-,b]", "slice 1 b 0; all-gather 0 a 256"},
		// Slicing comes first: there is less to move after it.
		{"[a,-]", "[-,c]", "slice 1 c 0; all-gather 0 a 128"},
		{"[-]|a", "[c]", "slice 0 c 0; all-reduce a 256"},
		{"[-,c]|a", "[b,c]", "slice 0 b 0; all-reduce a 128"},
		// A sum is taken while the pieces are small, and a gather is left for last.
		{"[c]|a", "[-]", "all-reduce a 256; all-gather 0 c 768"},
		{"[c]|a", "[a]", "reduce-scatter 0 a 128; collective-permute a+c 128; all-gather 0 c 384"},
		// Several axes on one dim: the minor ones come off first.
		{"[a+b]", "[a]", "all-gather 0 b 256"},
		{"[a+b]", "[b]", "collective-permute a+b 256; all-gather 0 a 256"},
		{"[a+b]", "[-]", "all-gather 0 a+b 768"},
		{"[a+b]", "[b+a]", "collective-permute a+b 256"},
		{"[-]", "[b+a]", "slice 0 b+a 0"},
		{"[-]|a+b", "[b+a]", "reduce-scatter 0 b+a 768"},
		{"[-]|a+b", "[a]|b", "reduce-scatter 0 a 512"},
		{"[a+b]", "[-,a+b]", "all-to-all 0>1 a+b 192"},
		{"[a+b]", "[a,b]", "all-to-all 0>1 b 128"},
		{"[a,b]", "[b,a]", "collective-permute a+b 256"},
		{"[a+b]", "[c]", "collective-permute a+b+c 256"},
		// What both specs agree on does not move.
		{"[c+a]|b", "[c]|b", "all-gather 0 a 128"},
		{"[c,a]|b", "[c,-,a]", "reduce-scatter 1 b 64; all-to-all 1>2 a+b 48; all-gather 2 b 64"},
	}
	for _, test := range tests {
		t.Run(test.from+" to "+test.to, func(t *testing.T) {
			steps, err := sharding.Reshard(m, meshtest.Spec(t, test.from), meshtest.Spec(t, test.to), []int{8, 8, 8}, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(steps); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// brief is "op dim axes bytes" of each step.
func brief(steps []sharding.Move) string {
	var out []string
	for _, s := range steps {
		dim := ""
		switch {
		case s.Op == sharding.AllToAll:
			dim = fmt.Sprintf(" %d>%d", s.ConcatDim, s.SplitDim)
		case s.Dim >= 0:
			dim = fmt.Sprintf(" %d", s.Dim)
		}
		out = append(out, fmt.Sprintf("%s%s %s %d", s.Op, dim, strings.Join(s.Axes, "+"), s.Bytes))
	}
	return strings.Join(out, "; ")
}

// The bytes that each device sends in each collective on a ring of n devices.
func TestRingBytes(t *testing.T) {
	const s = 67108864
	for _, test := range []struct {
		op   sharding.Op
		n    int
		size int64
		want int64
		hops int
	}{
		{sharding.AllGather, 8, s / 8, 58720256, 7},
		{sharding.AllReduce, 8, s, 117440512, 14},
		{sharding.ReduceScatter, 8, s, 58720256, 7},
		{sharding.AllGather, 4, s / 4, 50331648, 3},
		{sharding.AllReduce, 4, s, 100663296, 6},
		{sharding.AllToAll, 4, s, 50331648, 3},
		{sharding.Permute, 4, s, s, 1},
		{sharding.Slice, 4, s, 0, 0},
		{sharding.AllReduce, 8, 14000000000, 24500000000, 14},
		{sharding.AllReduce, 8, 90177536, 157810688, 14},
		{sharding.AllReduce, 4, 5, 12, 6}, // the chunk is rounded up to 2
		{sharding.AllReduce, 1, s, 0, 0},
		{sharding.AllGather, 0, s, 0, 0},
	} {
		if got := sharding.RingBytes(test.op, test.n, test.size); got != test.want {
			t.Errorf("%s of %d bytes over %d: %d bytes, want %d", test.op, test.size, test.n, got, test.want)
		}
		if got := sharding.Hops(test.op, test.n); got != test.hops {
			t.Errorf("%s over %d: %d hops, want %d", test.op, test.n, got, test.hops)
		}
	}
}

// Whatever the specs, the steps run one after another on an array for each
// device, each ends in the spec it says, the last in the one asked for, and each
// sends the bytes it says.
func TestReshardRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		m, rank := anyMesh(r), anyRank(r)
		from := anySpec(r, m, rank, m.Names())
		to := anySpec(r, m, rank, from.Partial())
		shape, elemBytes := anyShape(r, m, rank, from, to), 1+r.IntN(8)
		steps, err := sharding.Reshard(m, from, to, shape, elemBytes)
		if err != nil {
			t.Fatal(err)
		}

		a := newArray(shape)
		for i := range a.data {
			a.data[i] = int64(i + 1)
		}
		held, err := place(m, from, a)
		if err != nil {
			t.Fatal(err)
		}
		at := from.Canonical(m, rank)
		for i, step := range steps {
			if step.From.String() != at.String() {
				t.Fatalf("step %d starts at %s, not at %s:\n%s", i, step.From, at, brief(steps))
			}
			at = step.To
			if at.String() != at.Canonical(m, rank).String() || at.Check(m, shape) != nil {
				t.Fatalf("step %d ends at %s, which is not canonical or not legal", i, at)
			}
			var sent int64
			held, sent, err = run(m, step, held, elemBytes)
			if err == nil {
				err = laidOut(m, at, a, held)
			}
			if err != nil {
				t.Fatalf("step %d of %s to %s on %s of %v: %v\n%v", i, from, to, m, shape, err, step)
			}
			if sent != step.Bytes {
				t.Fatalf("step %d sends %d bytes, not %d:\n%v", i, sent, step.Bytes, step)
			}
			wellFormed(t, step)
		}
		if at.String() != to.Canonical(m, rank).String() {
			t.Fatalf("the steps end at %s, not at %s", at, to.Canonical(m, rank))
		}
	})
}

func wellFormed(t *rapid.T, s sharding.Move) {
	hasDim := s.Op == sharding.AllGather || s.Op == sharding.ReduceScatter || s.Op == sharding.Slice
	isAllToAll := s.Op == sharding.AllToAll
	switch {
	case hasDim != (s.Dim >= 0), isAllToAll != (s.SplitDim >= 0), isAllToAll != (s.ConcatDim >= 0),
		(s.Op == sharding.Permute) != (s.Pairs != nil), len(s.Axes) == 0, s.Reason == "", strings.Contains(s.String(), "\n"):
		t.Fatalf("malformed step %+v", s)
	}
}

// Never more bytes than going through the whole tensor, and no step over an axis
// whose place stays the same.
func TestReshardIsNotWasteful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		m, rank := anyMesh(r), anyRank(r)
		from := anySpec(r, m, rank, m.Names())
		to := anySpec(r, m, rank, from.Partial())
		shape := anyShape(r, m, rank, from, to)
		reshard := func(a, b sharding.Spec) (bytes int64, steps []sharding.Move) {
			steps, err := sharding.Reshard(m, a, b, shape, 4)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				bytes += s.Bytes
			}
			return bytes, steps
		}
		direct, steps := reshard(from, to)
		middle := sharding.Whole(rank).WithPartial(to.Partial()...)
		first, _ := reshard(from, middle)
		second, _ := reshard(middle, to)
		if direct > first+second {
			t.Fatalf("%s to %s of %v on %s: %d bytes, through %s %d", from, to, shape, m, direct, middle, first+second)
		}
		for _, s := range steps {
			for _, axis := range s.Axes {
				if !from.Uses(axis) && !to.Uses(axis) {
					t.Fatalf("%v uses axis %s, which neither %s nor %s does", s, axis, from, to)
				}
			}
		}
		again, _ := reshard(from, to)
		_, twice := reshard(from, to)
		if again != direct || brief(twice) != brief(steps) {
			t.Fatal("the same question has two answers")
		}
	})
}

func TestReshardRefuses(t *testing.T) {
	m := grid(t, "a", 2, "b", 3)
	tests := []struct {
		from, to string
		shape    []int
		elem     int
		kinds    []error
	}{
		{"[-]", "[-]|a", []int{6}, 4, []error{sharding.ErrToPartial}},
		{"[a]", "[-]|a", []int{6}, 4, []error{sharding.ErrToPartial}},
		{"[-]|a", "[-]|b", []int{6}, 4, []error{sharding.ErrToPartial}},
		{"[a]", "[b]", []int{7}, 4, []error{sharding.ErrUneven, sharding.ErrUneven}},
		{"[a]", "[x]", []int{6}, 0, []error{nil, sharding.ErrShape}},
		{"[-]", "[a]", []int{-6}, 4, []error{sharding.ErrShape, sharding.ErrShape}},
		{"[-]", "[a]", []int{math.MaxInt - 1, math.MaxInt}, 4, []error{sharding.ErrShape}},
		{"[-,-]", "[-]", []int{6}, 4, []error{sharding.ErrRank}},
	}
	for _, test := range tests {
		steps, err := sharding.Reshard(m, meshtest.Spec(t, test.from), meshtest.Spec(t, test.to), test.shape, test.elem)
		if steps != nil || err == nil {
			t.Errorf("%s to %s is accepted", test.from, test.to)
			continue
		}
		if test.kinds[0] != nil {
			faulttest.WantKinds(t, err, test.kinds...)
		}
	}
	_, err := sharding.Reshard(m, meshtest.Spec(t, "[-,b]"), meshtest.Spec(t, "[-,b]|a"), []int{6, 6}, 4)
	f, ok := fault.Fields[sharding.ToPartial](err)
	if !ok || f.Axis != "a" || f.To.String() != "[-,b]|a" || !errors.Is(err, sharding.ErrToPartial) {
		t.Error(f, err)
	}
	if _, err := sharding.Reshard(m, meshtest.Spec(t, "[b]"), meshtest.Spec(t, "[a]"), []int{math.MaxInt / 3 * 0}, 4); err != nil {
		t.Error("a tensor without elements can be resharded:", err)
	}
}

// More axes than a search takes on: still right.
func TestReshardManyAxes(t *testing.T) {
	names := "abcdefghij"
	var args []any
	var axes []string
	for _, r := range names {
		args, axes = append(args, string(r), 2), append(axes, string(r))
	}
	m := grid(t, args...)
	back := slices.Clone(axes)
	slices.Reverse(back)
	from, to := sharding.NewSpec(axes[:5], axes[5:9]).WithPartial("j"), sharding.NewSpec(back[:5], back[5:])
	shape := []int{32, 32}
	steps, err := sharding.Reshard(m, from, to, shape, 2)
	if err != nil {
		t.Fatal(err)
	}
	a := newArray(shape)
	for i := range a.data {
		a.data[i] = int64(i)
	}
	held, err := place(m, from, a)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		var sent int64
		if held, sent, err = run(m, s, held, 2); err != nil || sent != s.Bytes {
			t.Fatal(s, sent, err)
		}
	}
	if err := laidOut(m, to, a, held); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkReshard(b *testing.B) {
	m := grid(b, "dp", 2, "fsdp", 2, "tp", 4, "sp", 2)
	for _, c := range []struct{ name, from, to string }{
		{"same", "[dp,sp,tp]", "[dp,sp,tp]"},
		{"gather", "[dp,sp,tp]", "[dp,sp]"},
		{"ulysses", "[dp,sp,tp]", "[dp,-,tp+sp]"},
		{"reduce-scatter", "[dp,sp]|tp", "[dp,sp+tp]"},
		{"four axes", "[dp+fsdp,sp]|tp", "[tp,dp+sp,fsdp]"},
		{"four axes reversed", "[dp+fsdp+tp+sp]", "[sp+tp+fsdp+dp]"},
		{"four axes over five dims", "[dp,fsdp,tp,sp]", "[-,dp,fsdp,tp,sp]"},
	} {
		from, to := meshtest.Spec(b, c.from), meshtest.Spec(b, c.to)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := sharding.Reshard(m, from, to, []int{64, 64, 64, 64, 64}, 2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

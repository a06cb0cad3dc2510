package weft

import (
	"errors"
	"math"
	"slices"
	"testing"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/nonfinite"
	"weft/program"
	"weft/tensor"
)

// What is not finite in an output of all videos is told to the loop whose video it is of, with its
// place there and the devices of its seat.
func TestNonFiniteValuesAreToldToTheirLoop(t *testing.T) {
	on, err := mesh.Local(mesh.Axis{Name: mesh.TP, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(&batchForm{seats: 3, alone: &graph.Graph{Mesh: on}}, nil, "")
	nan := float32(math.NaN())
	out, err := tensor.FromFloat32s(dtype.F32, []float32{1, 2, 3, nan, 5, nan, 7, 8, 9, 10, 11, 12}, 6, 2)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]nonfinite.Counts{"text\x00out": {Tensor: "out", Count: 3, Shape: out.Shape, Devices: []int{1, 2, 5}}}
	refused := errors.New("refused")
	for at, want := range []*nonfinite.Counts{
		{Count: 1, First: []int{1, 1}, Devices: []int{1}},
		{Count: 1, First: []int{0, 1}, Devices: []int{2}},
		{Count: 3, Devices: []int{5}}, // a copy that did not come to the host
	} {
		var told *nonfinite.Counts
		a := &askedStep{seat: &seat{at: at}, lanes: []string{"text"}, finite: func(lane string, c nonfinite.Counts) error {
			told = &c
			return refused
		}}
		if _, err := b.shareOf(a, []map[string]*tensor.Tensor{{"out": out}}, seen); !errors.Is(err, refused) {
			t.Errorf("seat %d: %v", at, err)
		}
		if told == nil || told.Count != want.Count || !slices.Equal(told.First, want.First) || !slices.Equal(told.Devices, want.Devices) || !slices.Equal(told.Shape, []int{2, 2}) {
			t.Errorf("seat %d is told %+v, want %+v", at, told, want)
		}
	}
	mine, err := b.shareOf(&askedStep{seat: &seat{at: 1}, lanes: []string{"text"}}, []map[string]*tensor.Tensor{{"out": out}}, nil)
	if err != nil || mine[0]["out"].String() != "f32[2 2]" || !slices.Equal(mine[0]["out"].Data, out.Rows(2, 4).Data) {
		t.Errorf("seat 1 has %v, %v", mine, err)
	}
}

// A device computes the same for one video and for several only where instructions, shapes and the
// groups of those that exchange are the same.
func TestSameBodyOfSeveralVideos(t *testing.T) {
	add := program.Instr{Op: program.OpAdd, Args: []program.ID{0, 1}, Out: []program.ID{2}, Reason: "alone"}
	reduce := func(groups ...[]int) program.Instr {
		return program.Instr{Op: program.OpAllReduce, Axes: []string{mesh.TP}, Groups: groups}
	}
	index := program.Instr{Op: program.OpAxisIndex, Axes: []string{mesh.DP}}
	loop := func(body ...program.Instr) program.Instr {
		return program.Instr{Op: program.OpLoop, Loop: &program.Loop{Trips: 3, Body: body}}
	}
	said := add
	said.Reason = "together"
	other := add
	other.Args = []program.ID{1, 0}
	for _, c := range []struct {
		name         string
		alone, joint []program.Instr
		want         bool
	}{
		{"equal", []program.Instr{add}, []program.Instr{add}, true},
		{"another reason", []program.Instr{add}, []program.Instr{said}, true},
		{"other operands", []program.Instr{add}, []program.Instr{other}, false},
		{"one more", []program.Instr{add}, []program.Instr{add, add}, false},
		{"each among its own", []program.Instr{reduce([]int{0, 1})}, []program.Instr{reduce([]int{0, 1}, []int{2, 3})}, true},
		{"across", []program.Instr{reduce([]int{0, 1})}, []program.Instr{reduce([]int{0, 2}, []int{1, 3})}, false},
		{"all", []program.Instr{reduce([]int{0, 1})}, []program.Instr{reduce([]int{0, 1, 2, 3})}, false},
		{"the place along dp", []program.Instr{index}, []program.Instr{index}, false},
		{"in a loop", []program.Instr{loop(reduce([]int{0, 1}))}, []program.Instr{loop(reduce([]int{0, 1}, []int{2, 3}))}, true},
		{"another in a loop", []program.Instr{loop(add)}, []program.Instr{loop(other)}, false},
		{"no loop", []program.Instr{loop(add)}, []program.Instr{add}, false},
	} {
		if got := sameBody(c.alone, c.joint, 2, 2); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

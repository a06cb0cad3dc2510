package cost_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/internal/spmdtest"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/spmd"
)

// What a program holds at its peak adds up to the peak, each byte once.
func TestPeakPartsAddUp(t *testing.T) {
	check := func(t rapid.TB, p *program.Program) {
		t.Helper()
		a := cost.AccountOf(p)
		sum := a.Memory.Arguments
		for _, k := range a.PeakParts() {
			sum += k.Bytes
			if k.Bytes <= 0 || k.Why == "" {
				t.Errorf("part %+v", k)
			}
		}
		if sum != a.Memory.Peak {
			t.Errorf("the parts at the peak add up to %d, the peak is %d\n%s", sum, a.Memory.Peak, p)
		}
	}
	check(t, spmdtest.Block(t))
	rapid.Check(t, func(t *rapid.T) {
		p, _ := spmdtest.Random(t)
		check(t, p)
	})
}

// Two matmuls, a sum over devices that widens, and a loop, counted by hand.
func TestPeakPartsOfAProgram(t *testing.T) {
	m := spmdtest.NewMesh(t, mesh.Axis{Name: "tp", Size: 4})
	bf16 := func(shape ...int) program.Type { return program.Type{DType: dtype.BF16, Shape: shape} }
	// 64 x 32 in bf16 is 4096 bytes, 64 x 64 is 8192. At the second matmul the results of both are
	// held: the first is read again after it.
	p := spmdtest.Build(t, m, "", []program.Type{bf16(64, 32), bf16(64, 32), bf16(64, 64)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := b.LDot(in[0], in[1], program.DotDims{LeftContract: []int{1}, RightContract: []int{1}}, dtype.BF16)
		y := b.LDot(x, in[2], program.DotDims{LeftContract: []int{1}, RightContract: []int{1}}, dtype.BF16)
		z := b.LAllReduce(program.Sum, y, []string{"tp"}, "sum")
		return []spmd.Local{b.LAllReduce(program.Sum, b.LAdd(z, x), []string{"tp"}, "again")}
	})
	a := cost.AccountOf(p)
	if a.Memory.Arguments != 4096+4096+8192 {
		t.Errorf("arguments of %d bytes", a.Memory.Arguments)
	}
	got := map[string]int64{}
	lines := p.Lines()
	for _, k := range a.PeakParts() {
		for in, line := range lines {
			if in.Out[0] == k.Value {
				got[line.Text] += k.Bytes
			}
		}
	}
	want := map[string]int64{
		"%3 = dot %0, %1 contract [1] x [1] : bf16[64,64]":    8192,
		"%4 = dot %3, %2 contract [1] x [1] : bf16[64,64]":    8192,
		"%5 = all-reduce %4 add : bf16[64,64] over tp  # sum": 8192,
	}
	if len(got) != len(want) {
		t.Errorf("held at the peak: %v\n%s", got, p)
	}
	for text, n := range want {
		if got[text] != n {
			t.Errorf("%s: %d bytes, want %d; all: %v", text, got[text], n, got)
		}
	}
}

// A program's lines are those of its listing.
func TestLinesAreTheListings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := spmdtest.Random(t)
		lines := p.Lines()
		listing := strings.Split(p.String(), "\n")
		seen := 0
		p.Walk(func(in *program.Instr, _ int) {
			seen++
			line, ok := lines[in]
			if !ok || line.Number < 1 || line.Number > len(listing) || strings.TrimLeft(listing[line.Number-1], " ") != line.Text {
				t.Errorf("%v of\n%s", line, p)
			}
		})
		if seen != len(lines) {
			t.Errorf("%d instructions, %d lines", seen, len(lines))
		}
	})
}

package interp_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/spmdtest"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
)

// Random programs are well formed; they run, twice to the same bits, with
// finite results; and what was exchanged is what the program says.
func TestRandomPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, in := spmdtest.Random(rt)
		if err := program.Validate(p); err != nil {
			rt.Fatalf("%v\n%s", err, p)
		}
		out, r, err := interp.New(p.Mesh, interp.Options{}).Run(t.Context(), p, in)
		if err != nil {
			rt.Fatalf("%v\n%s", err, p)
		}
		again, _, err := interp.New(p.Mesh, interp.Options{MaxParallel: 1}).Run(t.Context(), p, in)
		if err != nil {
			rt.Fatalf("%v\n%s", err, p)
		}
		for pos := range out {
			for i, y := range out[pos] {
				if d := spmdtest.Differ(again[pos][i], y, 0); d != "" {
					rt.Fatalf("device %d, output %d, second run: %s\n%s", pos, i, d, p)
				}
				for k := range y.Len() {
					if v := y.At(k); math.IsNaN(v) || math.IsInf(v, 0) {
						rt.Fatalf("device %d, output %d has %v\n%s", pos, i, v, p)
					}
				}
			}
		}
		if d := spmdtest.DifferTraffic(r.Collectives, cost.Collectives(p)); d != "" {
			rt.Fatalf("%s\n%s", d, p)
		}
	})
}

// The model of live memory lies between what is resident and what the
// interpreter takes, which fuses nothing. Loops are left out: the model copies
// an input that a loop starts from, the interpreter need not.
func TestRandomPeakBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, in := spmdtest.Random(rt)
		loops := false
		p.Walk(func(in *program.Instr, _ int) { loops = loops || in.Loop != nil })
		_, r, err := interp.New(p.Mesh, interp.Options{}).Run(t.Context(), p, in)
		if err != nil {
			rt.Fatal(err)
		}
		l := cost.MemoryOf(p)
		if l.Peak < l.Arguments+l.Outputs-l.Aliased {
			rt.Fatalf("model %+v is less than what is resident\n%s", l, p)
		}
		if !loops && l.Peak > r.PeakBytes[0]+l.Outputs { // an input that is an output is copied
			rt.Fatalf("model %+v, interpreter %d\n%s", l, r.PeakBytes[0], p)
		}
	})
}

package interp_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/dtype"
	"weft/fault"
	"weft/internal/meshtest"
	"weft/internal/spmdtest"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// exactly is the tolerance of the hand values: functions whose wanted value is
// itself computed in float64 round to the same float32.
const exactly = 1e-7

// Every operation of the table, and the elementwise ones on floats and on integers
// where they take both.
func TestEveryOperation(t *testing.T) {
	onFloats, onIntegers := map[program.Op]bool{}, map[program.Op]bool{}
	for _, c := range spmdtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			p, err := c.Program()
			if err != nil {
				t.Fatal(err)
			}
			p.Walk(func(in *program.Instr, _ int) {
				for _, id := range slices.Concat(in.Args, in.Out) {
					if p.Values[id].DType.IsFloat() {
						onFloats[in.Op] = true
					} else {
						onIntegers[in.Op] = true
					}
				}
			})
			n := p.Mesh.NumDevices()
			out, _, err := interp.New(p.Mesh, interp.Options{}).Run(t.Context(), p, spmdtest.PerDevice(c.Inputs, n))
			if err != nil {
				t.Fatal(err)
			}
			for pos, want := range spmdtest.PerDevice(c.Want, n) {
				for i, w := range want {
					if d := spmdtest.Differ(out[pos][i], w, exactly); d != "" {
						t.Errorf("device %d, output %d: %s", pos, i, d)
					}
				}
			}
		})
	}
	for _, op := range program.Ops() {
		f := op.Facts()
		switch {
		case op == program.OpKernel: // package attention has one, and tests it
		case !onFloats[op] && !onIntegers[op]:
			t.Errorf("no case for %s", op)
		case f.Class != program.ElementwiseOp:
		case f.Elements != program.IntegerElements && !onFloats[op]:
			t.Errorf("no case for %s on floats", op)
		case f.Elements != program.FloatElements && !onIntegers[op]:
			t.Errorf("no case for %s on integers", op)
		}
	}
}

// The larger or smaller of a number and what is not one is not one.
func TestNotANumberWins(t *testing.T) {
	m := localMesh(t)
	p, err := spmd.Build("nan", m, func(b *spmd.Builder) {
		x := b.Local(b.Input("x", dtype.F32, []int{2}, sharding.Whole(1)))
		y := b.Local(b.Input("y", dtype.F32, []int{2}, sharding.Whole(1)))
		for name, v := range map[string]spmd.Local{"max": b.LMax(x, y), "min": b.LBinary(program.OpMin, x, y)} {
			b.Output(name, b.Global(v, []int{2}, sharding.Whole(1)), "")
		}
		b.Output("all", b.Global(b.LReduce(program.Maximum, x, 0), nil, sharding.Whole(0)), "")
	})
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	out, _, err := interp.New(m, interp.Options{}).Run(t.Context(), p, spmdtest.One(spmdtest.Row(nan, 1), spmdtest.Row(1, nan)))
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out[0] {
		for k := range o.Len() {
			if !math.IsNaN(o.At(k)) {
				t.Errorf("%s is %v", p.Outputs[i].Name, o.F)
			}
		}
	}
}

func localMesh(t testing.TB, axes ...mesh.Axis) *mesh.Mesh {
	t.Helper()
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sumOfPositions is an all-reduce of 0..n-1.
func sumOfPositions(t testing.TB, n int) (*program.Program, [][]*interp.Array) {
	t.Helper()
	m := localMesh(t, mesh.Axis{Name: "tp", Size: n})
	p, err := spmd.Build("sum", m, func(b *spmd.Builder) {
		x := b.Input("x", dtype.F32, []int{1}, sharding.Whole(1))
		y := b.LAllReduce(program.Sum, b.Local(x), []string{"tp"}, "sum of positions")
		b.Output("y", b.Global(y, []int{1}, sharding.Whole(1)), "")
	})
	if err != nil {
		t.Fatal(err)
	}
	in := make([][]*interp.Array, n)
	for pos := range in {
		in[pos] = []*interp.Array{spmdtest.Row(float64(pos))}
	}
	return p, in
}

// Devices that wait in a collective hold no processor, so that 8 of them meet on one.
func TestMoreDevicesThanProcessors(t *testing.T) {
	p, in := sumOfPositions(t, 8)
	for _, parallel := range []int{0, 1, 2, 16} {
		threads := runtime.GOMAXPROCS(1)
		out, _, err := interp.New(p.Mesh, interp.Options{MaxParallel: parallel}).Run(t.Context(), p, in)
		runtime.GOMAXPROCS(threads)
		if err != nil {
			t.Fatal(err)
		}
		for pos := range out {
			if got := out[pos][0].F[0]; got != 28 {
				t.Errorf("device %d has %v, want 28", pos, got)
			}
		}
	}
}

// A participant that never arrives is named within the limit, and nothing waits for ever.
func TestMissingParticipant(t *testing.T) {
	p, in := sumOfPositions(t, 8)
	limit := 300 * time.Millisecond
	stall := func(pos int, _ *program.Instr) bool { return pos == 5 }
	start := time.Now()
	_, _, err := interp.New(p.Mesh, interp.Options{Timeout: limit, Stall: stall}).Run(t.Context(), p, in)
	if took := time.Since(start); took < limit || took > limit+time.Second {
		t.Errorf("took %v with a limit of %v", took, limit)
	}
	f, ok := fault.Fields[interp.CollectiveTimeout](err)
	if !errors.Is(err, interp.ErrCollectiveTimeout) || !ok {
		t.Fatalf("error %v", err)
	}
	want := interp.CollectiveTimeout{Op: program.OpAllReduce, Arrived: 7, Expected: 8, Missing: []int{5}, LimitSeconds: 0.3}
	if f.Op != want.Op || f.Arrived != want.Arrived || f.Expected != want.Expected || !slices.Equal(f.Missing, want.Missing) || f.LimitSeconds != want.LimitSeconds {
		t.Errorf("fields %+v, want %+v", f, want)
	}
}

// Devices that wait, further on, for one that waits itself are not the ones to blame.
func TestTimeoutNamesTheCause(t *testing.T) {
	m := localMesh(t, mesh.Axis{Name: "dp", Size: 2}, mesh.Axis{Name: "tp", Size: 2})
	p, err := spmd.Build("two", m, func(b *spmd.Builder) {
		x := b.Input("x", dtype.F32, []int{1}, sharding.Whole(1))
		y := b.LAllReduce(program.Sum, b.Local(x), []string{"tp"}, "first")
		y = b.LAllReduce(program.Sum, y, []string{"dp"}, "second")
		b.Output("y", b.Global(y, []int{1}, sharding.Whole(1)), "")
	})
	if err != nil {
		t.Fatal(err)
	}
	row := []*interp.Array{spmdtest.Row(1)}
	stall := func(pos int, in *program.Instr) bool { return pos == 3 && in.Reason == "first" }
	_, _, err = interp.New(m, interp.Options{Timeout: 100 * time.Millisecond, Stall: stall}).Run(t.Context(), p, [][]*interp.Array{row, row, row, row})
	f, _ := fault.Fields[interp.CollectiveTimeout](err)
	if !slices.Equal(f.Missing, []int{3}) || f.Arrived != 1 || f.Expected != 2 || !strings.Contains(err.Error(), "first") {
		t.Errorf("error %v, fields %+v", err, f)
	}
}

func TestCancel(t *testing.T) {
	p, in := sumOfPositions(t, 4)
	ctx, cancel := context.WithCancel(t.Context())
	stall := func(pos int, _ *program.Instr) bool {
		if pos == 0 {
			cancel()
		}
		return pos == 0
	}
	_, _, err := interp.New(p.Mesh, interp.Options{Stall: stall}).Run(ctx, p, in)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestInputsAreChecked(t *testing.T) {
	p, in := sumOfPositions(t, 2)
	it := interp.New(p.Mesh, interp.Options{})
	for name, bad := range map[string][][]*interp.Array{
		"devices": in[:1],
		"number":  {in[0], {}},
		"nil":     {in[0], {nil}},
		"type":    {in[0], {meshtest.Arr(dtype.I32, []int{1}, 1)}},
		"shape":   {in[0], {spmdtest.Row(1, 2)}},
	} {
		if _, _, err := it.Run(t.Context(), p, bad); !errors.Is(err, interp.ErrInput) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	other, _ := sumOfPositions(t, 4)
	if _, _, err := it.Run(t.Context(), other, in); !errors.Is(err, interp.ErrInput) {
		t.Errorf("another mesh: error %v", err)
	}
}

// A device that breaks off ends the run with an error, also for those that wait for it.
func TestPanicBecomesAnError(t *testing.T) {
	p, in := sumOfPositions(t, 3)
	stall := func(pos int, _ *program.Instr) bool {
		if pos == 2 {
			panic("broken")
		}
		return false
	}
	_, _, err := interp.New(p.Mesh, interp.Options{Stall: stall}).Run(t.Context(), p, in)
	if f, ok := fault.Fields[interp.Device](err); !errors.Is(err, interp.ErrDevice) || !ok || f.Position != 2 || f.Op != program.OpAllReduce {
		t.Errorf("error %v", err)
	}
}

// A sum over devices has the same bits on all of them and in every run, though
// the order of arrival differs.
func TestAllReduceIsReproducible(t *testing.T) {
	const n = 8
	p, in := sumOfPositions(t, n)
	for pos := range in {
		in[pos][0] = spmdtest.Row(math.Pow(-1.7, float64(3*pos)))
	}
	var first uint32
	for range 20 {
		out, _, err := interp.New(p.Mesh, interp.Options{}).Run(t.Context(), p, in)
		if err != nil {
			t.Fatal(err)
		}
		for pos := range out {
			bits := math.Float32bits(out[pos][0].F[0])
			if first == 0 {
				first = bits
			}
			if bits != first {
				t.Fatalf("device %d: %x and %x", pos, bits, first)
			}
		}
	}
}

// The report counts at the meeting what the program counts from its text.
func TestReportAgreesWithProgram(t *testing.T) {
	for _, c := range spmdtest.Cases() {
		p, err := c.Program()
		if err != nil {
			t.Fatal(err)
		}
		_, r, err := interp.New(p.Mesh, interp.Options{}).Run(t.Context(), p, spmdtest.PerDevice(c.Inputs, p.Mesh.NumDevices()))
		if err != nil {
			t.Fatal(err)
		}
		if d := spmdtest.DifferTraffic(r.Collectives, cost.Collectives(p)); d != "" {
			t.Errorf("%s: %s", c.Name, d)
		}
	}
}

// Values go when nothing reads them any more: a chain of any length holds two.
func TestPeakBytes(t *testing.T) {
	m := localMesh(t)
	spec := sharding.Whole(1)
	p, err := spmd.Build("chain", m, func(b *spmd.Builder) {
		x := b.Local(b.Input("x", dtype.BF16, []int{100}, spec))
		for range 10 {
			x = b.LUnary(program.OpNeg, x)
		}
		y := b.LLoop(5, []spmd.Local{x}, func(_ spmd.Local, c []spmd.Local) []spmd.Local {
			return []spmd.Local{b.LUnary(program.OpAbs, b.LReshape(b.LReshape(c[0], 10, 10), 100))}
		})
		b.Output("y", b.Global(y[0], []int{100}, spec), "x")
	})
	if err != nil {
		t.Fatal(err)
	}
	_, r, err := interp.New(m, interp.Options{}).Run(t.Context(), p, spmdtest.One(interp.NewArray(dtype.BF16, 100)))
	if err != nil {
		t.Fatal(err)
	}
	if r.PeakBytes[0] != 400 && r.PeakBytes[0] != 404 { // and the loop's index
		t.Errorf("peak %d, want two values of 200 bytes", r.PeakBytes[0])
	}
}

// A run stops soon after its context has ended, inside one long operation too.
func TestStopsInsideAnOperation(t *testing.T) {
	const n = 4000 // some 60 s of multiplications
	m := localMesh(t)
	p, err := spmd.Build("long", m, func(b *spmd.Builder) {
		x := b.Local(b.Input("x", dtype.F32, []int{n, n}, sharding.Whole(2)))
		y := b.LDot(x, x, program.DotDims{LeftContract: []int{1}, RightContract: []int{1}}, dtype.F32)
		b.Output("y", b.Global(y, []int{n, n}, sharding.Whole(2)), "")
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, _, err = interp.New(m, interp.Options{}).Run(ctx, p, [][]*interp.Array{{interp.NewArray(dtype.F32, n, n)}})
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
		t.Errorf("%v after %v", err, took)
	} else {
		t.Log(took)
	}
}

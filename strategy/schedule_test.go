package strategy_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/meshtest"
	"weft/strategy"
)

func schedule(t testing.TB, kind strategy.Kind, stages, micro, chunks int) [][]strategy.Action {
	t.Helper()
	s, err := strategy.Schedule(kind, stages, micro, chunks)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lines(schedule [][]strategy.Action) string {
	var out []string
	for i, actions := range schedule {
		line := fmt.Sprintf("stage %d ", i)
		for _, a := range actions {
			line += " " + a.String()
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// The actions of 1F1B with 4 stages and 8 microbatches, and of the other kinds with fewer.
func TestSchedules(t *testing.T) {
	for _, test := range []struct {
		kind                  strategy.Kind
		stages, micro, chunks int
		want                  string
	}{
		{strategy.OneF1B, 4, 8, 1, `stage 0  F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7
stage 1  F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7
stage 2  F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7
stage 3  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7`},
		{strategy.OneF1B, 3, 1, 1, "stage 0  F0 B0\nstage 1  F0 B0\nstage 2  F0 B0"},
		{strategy.GPipe, 2, 3, 1, "stage 0  F0 F1 F2 B0 B1 B2\nstage 1  F0 F1 F2 B0 B1 B2"},
		{strategy.Forward, 2, 3, 1, "stage 0  F0 F1 F2\nstage 1  F0 F1 F2"},
		{strategy.Interleaved, 2, 2, 1, "stage 0  F0 F1 B0 B1\nstage 1  F0 B0 F1 B1"},
		{strategy.Interleaved, 2, 4, 2, `stage 0  F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3
stage 1  F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3`},
	} {
		if got := lines(schedule(t, test.kind, test.stages, test.micro, test.chunks)); got != test.want {
			t.Errorf("%s %d %d %d:\n%s\nwant\n%s", test.kind, test.stages, test.micro, test.chunks, got, test.want)
		}
	}
}

// uniform is forward 1 and backward 2 for a microbatch on a stage, all chunks together.
func uniform(chunks int) func(int, strategy.Action) float64 {
	return func(_ int, a strategy.Action) float64 {
		if a.Backward {
			return 2 / float64(chunks)
		}
		return 1 / float64(chunks)
	}
}

// Makespan, share of the bubble, overhead and live microbatches, where a forward takes 1
// and a backward 2.
func TestScheduleNumbers(t *testing.T) {
	for _, test := range []struct {
		kind                  strategy.Kind
		stages, micro, chunks int
		makespan              float64
		share, overhead       float64
		live                  string
	}{
		{strategy.OneF1B, 1, 8, 1, 24, 0, 0, "[1]"},
		{strategy.OneF1B, 2, 4, 1, 15, 0.2, 0.25, "[2 1]"},
		{strategy.OneF1B, 4, 1, 1, 12, 0.75, 3, "[1 1 1 1]"},
		{strategy.OneF1B, 4, 2, 1, 15, 0.6, 1.5, "[2 2 2 1]"},
		{strategy.OneF1B, 4, 4, 1, 21, 3.0 / 7, 0.75, "[4 3 2 1]"},
		{strategy.OneF1B, 4, 8, 1, 33, 3.0 / 11, 0.375, "[4 3 2 1]"},
		{strategy.GPipe, 4, 8, 1, 33, 3.0 / 11, 0.375, "[8 8 8 8]"},
		{strategy.OneF1B, 8, 8, 1, 45, 7.0 / 15, 0.875, "[8 7 6 5 4 3 2 1]"},
		{strategy.OneF1B, 8, 32, 1, 117, 7.0 / 39, 0.21875, "[8 7 6 5 4 3 2 1]"},
		{strategy.Interleaved, 4, 8, 2, 28.5, 3.0 / 19, 0.1875, "[11 9 7 5]"},
	} {
		s := schedule(t, test.kind, test.stages, test.micro, test.chunks)
		run, err := strategy.Simulate(s, uniform(test.chunks))
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-9 {
				t.Errorf("%s %d %d %d: %s %g, want %g", test.kind, test.stages, test.micro, test.chunks, what, got, want)
			}
		}
		near("makespan", run.Makespan(), test.makespan)
		near("formula", strategy.Makespan(test.stages, test.micro, test.chunks, 1, 2), test.makespan)
		near("share", strategy.BubbleShare(test.stages, test.micro, test.chunks), test.share)
		near("share simulated", run.BubbleShare(), test.share)
		near("overhead", strategy.Overhead(test.stages, test.micro, test.chunks), test.overhead)
		near("overhead simulated", run.Makespan()/(3*float64(test.micro))-1, test.overhead)
		if got := fmt.Sprint(strategy.Live(s)); got != test.live {
			t.Errorf("%s %d %d %d: live %s, want %s", test.kind, test.stages, test.micro, test.chunks, got, test.live)
		}
	}
	// Inference has no backward: (m+p-1) forwards, and the same share.
	run, err := strategy.Simulate(schedule(t, strategy.Forward, 4, 2, 1), uniform(1))
	if err != nil || run.Makespan() != 5 || run.Makespan() != strategy.Makespan(4, 2, 1, 1, 0) || math.Abs(run.BubbleShare()-strategy.BubbleShare(4, 2, 1)) > 1e-9 {
		t.Error(run, err)
	}
	if got := fmt.Sprint(strategy.Live(schedule(t, strategy.Forward, 2, 4, 1))); got != "[1 1]" {
		t.Error(got)
	}
}

func TestScheduleRefuses(t *testing.T) {
	for _, test := range []struct {
		kind                  strategy.Kind
		stages, micro, chunks int
		want                  int
		says                  string
	}{
		{"zero-bubble", 4, 8, 1, 1, "gpipe, 1f1b, interleaved and forward"},
		{"x", 0, -1, 0, 4, "0 stages"},
		{strategy.OneF1B, 4, 8, 2, 1, "interleaved"},
		{strategy.GPipe, 4, 8, 2, 1, "one chunk"},
		{strategy.Interleaved, 4, 6, 2, 1, "4 and 8"},
		{strategy.OneF1B, 1 << 9, 1 << 9, 1, 1, "actions"},
		{strategy.OneF1B, math.MaxInt, math.MaxInt, 1, 1, "actions"},
	} {
		_, err := strategy.Schedule(test.kind, test.stages, test.micro, test.chunks)
		if got := len(fault.Violations(err)); got != test.want || !errors.Is(err, strategy.ErrSchedule) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %d violations: %v", test, got, err)
		}
	}
}

// A list that cannot run is an error, not a wait.
func TestSimulateOrder(t *testing.T) {
	f, b := strategy.Action{}, strategy.Action{Backward: true}
	for i, bad := range [][][]strategy.Action{
		{{b, f}},
		{{f, b}, {b, f}},
		{{f, f, b}},
		{{f}, {strategy.Action{Micro: 1}}},
		{{f, b}, {f}},
	} {
		_, err := strategy.Simulate(bad, uniform(1))
		if !errors.Is(err, strategy.ErrOrder) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	run, err := strategy.Simulate(nil, uniform(1))
	if err != nil || run.Makespan() != 0 || run.BubbleShare() != 0 {
		t.Error(run, err)
	}
}

// A recorded timeline need not start at 0.
func TestRecordedTimeline(t *testing.T) {
	run := strategy.Timeline{{{Start: 10, End: 11}, {Start: 11, End: 12}}, {{Start: 11, End: 12}, {Start: 12, End: 13}}}
	if run.Makespan() != 3 || math.Abs(run.BubbleShare()-1.0/3) > 1e-12 {
		t.Error(run.Makespan(), run.BubbleShare())
	}
}

// Any schedule, any costs: each action once, none before its input, one at a time
// on a stage; with uniform costs the makespan is the formula.
func TestScheduleRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		kind := meshtest.Pick(r, strategy.Kinds()...)
		stages, micro, chunks := 1+r.IntN(6), 1+r.IntN(10), 1
		if kind == strategy.Interleaved {
			chunks, micro = 1+r.IntN(4), stages*(1+r.IntN(3))
		}
		s, err := strategy.Schedule(kind, stages, micro, chunks)
		if err != nil {
			t.Fatal(err)
		}
		forward, backward := meshtest.Pick(r, 0.5, 1, 3), meshtest.Pick(r, 0.0, 1, 2, 5)
		cost := func(_ int, a strategy.Action) float64 {
			if a.Backward {
				return backward / float64(chunks)
			}
			return forward / float64(chunks)
		}
		run, err := strategy.Simulate(s, cost)
		if err != nil {
			t.Fatal(err)
		}
		inOrder(t, run, stages, micro, chunks, kind != strategy.Forward)
		if kind == strategy.Forward {
			backward = 0
		}
		want := strategy.Makespan(stages, micro, chunks, forward, backward)
		if math.Abs(run.Makespan()-want) > 1e-9*want {
			t.Fatalf("%s %d %d %d, %g and %g: makespan %g, the formula has %g", kind, stages, micro, chunks, forward, backward, run.Makespan(), want)
		}
		if got, want := run.BubbleShare(), strategy.BubbleShare(stages, micro, chunks); math.Abs(got-want) > 1e-9 {
			t.Fatalf("bubble share %g, the formula has %g", got, want)
		}
		for i, n := range strategy.Live(s) {
			if kind == strategy.OneF1B && n != min(stages-i, micro) || kind == strategy.GPipe && n != micro {
				t.Fatalf("%s %d %d: %d live on stage %d", kind, stages, micro, n, i)
			}
		}
		// Costs of any kind.
		run, err = strategy.Simulate(s, func(int, strategy.Action) float64 { return r.Float64() })
		if err != nil {
			t.Fatal(err)
		}
		inOrder(t, run, stages, micro, chunks, kind != strategy.Forward)
	})
}

func inOrder(t *rapid.T, run strategy.Timeline, stages, micro, chunks int, backward bool) {
	type slot struct {
		backward       bool
		virtual, micro int
	}
	spans := map[slot]strategy.Span{}
	for i, stage := range run {
		end := 0.0
		for _, s := range stage {
			if s.Start < end {
				t.Fatalf("stage %d starts %s at %g, before %g", i, s, s.Start, end)
			}
			end = s.End
			spans[slot{s.Backward, s.Chunk*stages + i, s.Micro}] = s
		}
	}
	passes := 1
	if backward {
		passes = 2
	}
	if want := stages * chunks * micro * passes; len(spans) != want {
		t.Fatalf("%d actions ran, want %d", len(spans), want)
	}
	last := stages*chunks - 1
	for k, s := range spans {
		var inputs []slot
		if !k.backward && k.virtual > 0 {
			inputs = append(inputs, slot{false, k.virtual - 1, k.micro})
		}
		if k.backward {
			inputs = append(inputs, slot{false, k.virtual, k.micro})
			if k.virtual < last {
				inputs = append(inputs, slot{true, k.virtual + 1, k.micro})
			}
		}
		for _, in := range inputs {
			if end, ok := spans[in]; !ok || end.End > s.Start {
				t.Fatalf("%s of virtual stage %d starts at %g, its input %v ends at %g", s, k.virtual, s.Start, in, end.End)
			}
		}
	}
}

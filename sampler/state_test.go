package sampler

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
)

// optionsFor are options that a sampler of any name takes.
func optionsFor(name string, steps int) Options {
	o := Options{Steps: steps, Seed: 7, Tokens: 96}
	if TakesShift(name) {
		o.Shift = 3
	}
	return o
}

// mostSteps is how many steps a sampler of a name takes, up to a limit.
func mostSteps(name string, limit int) int {
	return min(limit, makers[slices.IndexFunc(makers, func(m maker) bool { return m.name == name })].maxSteps)
}

// bitsOf are the bits of a sample: a NaN equals itself.
func bitsOf(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}

// Whatever the sampler and wherever it stops, a fresh one that restores the state takes
// the remaining steps to the same bits, and so does the one that was asked for its state.
func TestResumeGivesTheSameBits(t *testing.T) {
	for _, name := range Names() {
		rapid.Check(t, func(t *rapid.T) {
			steps, n := rapid.IntRange(1, mostSteps(name, 12)).Draw(t, "steps"), rapid.IntRange(1, 40).Draw(t, "elements")
			o := optionsFor(name, steps)
			o.Seed = rapid.Uint64().Draw(t, "seed")
			o.IntegerTimesteps = rapid.Bool().Draw(t, "integers")
			fresh := func() Sampler {
				s, err := New(name, o)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			step := func(s Sampler, i int, x []float32) {
				if err := s.Step(i, x, fakeV(x, s.Timestep(i))); err != nil {
					t.Fatal(err)
				}
			}
			whole, x := fresh(), Noise(o.Seed, n)
			states, samples := []State{whole.State()}, [][]float32{slices.Clone(x)}
			for i := range steps {
				step(whole, i, x)
				states, samples = append(states, whole.State()), append(samples, slices.Clone(x))
			}
			stop := rapid.IntRange(0, steps).Draw(t, "stop")
			again, y := fresh(), slices.Clone(samples[stop])
			if rapid.Bool().Draw(t, "used") { // what a sampler did before does not matter
				step(again, 0, Noise(1, n+3))
			}
			if err := again.Restore(states[stop]); err != nil {
				t.Fatal(err)
			}
			for i := stop; i < steps; i++ {
				step(again, i, y)
				if !slices.Equal(bitsOf(y), bitsOf(samples[i+1])) {
					t.Fatalf("%s: stopped before step %d, step %d gives other bits", name, stop, i)
				}
			}
		})
	}
}

// A state belongs to nobody: steps taken after it do not change it, nor does changing it
// change the sampler.
func TestStateIsACopy(t *testing.T) {
	for _, name := range Names() {
		s := mustNew(t, name, optionsFor(name, 5))
		x := Noise(3, 11)
		for i := range 2 {
			if err := s.Step(i, x, fakeV(x, s.Timestep(i))); err != nil {
				t.Fatal(err)
			}
		}
		state := s.State()
		if want := map[string]int{"unipc": 2, "unipc-flow": 2, "unipc-karras": 2, "cogvideox-dpm": 1}[name]; len(state.History) != want || state.Next != 2 || state.Taken != 2 {
			t.Errorf("%s: %d predictions, want %d; next %d after %d steps", name, len(state.History), want, state.Next, state.Taken)
		}
		same := s.State()
		y := slices.Clone(x)
		if err := s.Step(2, y, fakeV(y, s.Timestep(2))); err != nil {
			t.Fatal(err)
		}
		for i, m := range state.History {
			if !slices.Equal(m, same.History[i]) {
				t.Errorf("%s: a step changed prediction %d of a state", name, i)
			}
		}
		other := mustNew(t, name, optionsFor(name, 5))
		if err := other.Restore(state); err != nil {
			t.Fatal(err)
		}
		for _, m := range state.History {
			clear(m)
		}
		if err := other.Step(2, x, fakeV(x, other.Timestep(2))); err != nil || !slices.Equal(x, y) {
			t.Errorf("%s: the sampler reads the state that it restored (%v)", name, err)
		}
	}
}

// States that no step could have left are refused, with everything that is wrong with
// them, and leave the sampler where it was.
func TestStatesRefused(t *testing.T) {
	s := mustNew(t, "unipc", Options{Steps: 4, Shift: 5})
	x := Noise(3, 6)
	for i := range 3 {
		if err := s.Step(i, x, fakeV(x, s.Timestep(i))); err != nil {
			t.Fatal(err)
		}
	}
	good := s.State()
	for _, c := range []struct {
		name   string
		change func(*State)
		says   []string
	}{
		{"no schedule", func(s *State) { s.Schedule = "" }, []string{"schedule"}},
		{"behind the end", func(s *State) { s.Next = 5 }, []string{"next step is 5: want 0 to 4"}},
		{"before the start", func(s *State) { s.Next = -1 }, []string{"next step is -1", "2 steps taken before step -1: want 0 to 0"}},
		{"too many taken", func(s *State) { s.Taken = 3 }, []string{"3 steps taken before step 3: want 0 to 2"}},
		{"more taken than there were", func(s *State) { s.Next = 1 }, []string{"2 steps taken before step 1: want 0 to 1"}},
		{"a prediction short", func(s *State) { s.History = s.History[:1] }, []string{"1 predictions: sampler unipc keeps 2 after 2 steps"}},
		{"of two lengths", func(s *State) { s.History = [][]float32{s.History[0], s.History[1][1:]} }, []string{"prediction 1 of the state has 5 elements and prediction 0 has 6"}},
		{"several", func(s *State) { s.Next, s.History = 9, nil }, []string{"next step is 9", "0 predictions"}},
	} {
		bad := good
		c.change(&bad)
		err := s.Restore(bad)
		if !errors.Is(err, ErrState) || len(fault.Violations(err)) != len(c.says) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", c.name, want, err)
			}
		}
	}
	// Nor is another schedule's, whatever it differs in.
	for _, o := range []Options{{Steps: 5, Shift: 5}, {Steps: 4, Shift: 3}, {Steps: 4, Shift: 5, IntegerTimesteps: true}} {
		if err := mustNew(t, "unipc", o).Restore(good); !errors.Is(err, ErrState) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := mustNew(t, "unipc-flow", Options{Steps: 4, Shift: 5}).Restore(good); !errors.Is(err, ErrState) {
		t.Errorf("another sampler: %v", err)
	}
	y, want := slices.Clone(x), slices.Clone(x)
	other := mustNew(t, "unipc", Options{Steps: 4, Shift: 5})
	if err := other.Restore(good); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		s Sampler
		x []float32
	}{{s, y}, {other, want}} {
		if err := of.s.Step(3, of.x, fakeV(of.x, of.s.Timestep(3))); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(y, want) {
		t.Error("a refused state changed the sampler")
	}
}

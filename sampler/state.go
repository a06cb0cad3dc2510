package sampler

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"

	"weft/fault"
)

// ErrState: a state that a sampler cannot go on from.
var ErrState = fault.NewKind("bad-sampler-state")

// State is what a sampler keeps from step to step beside the sample. A sampler of the
// same schedule that restores it goes on with the same bits, on any machine.
type State struct {
	// Schedule is the SHA-256 of the sampler's name, noise levels and timesteps, in hex.
	Schedule string
	// Next is the step that comes next, 0 <= Next <= Steps.
	Next int
	// Taken is how many steps were taken since Reset, where 2 stands for more as well: it
	// decides the order of the next step.
	Taken int
	// History are the latest predictions of the clean sample that the sampler keeps, the
	// latest first, each as long as the sample. Only unipc's samplers (at most two) and
	// cogvideox-dpm (at most one) keep any.
	History [][]float32
}

// State returns a copy of what the sampler keeps.
func (s *multistep) State() State {
	out := State{Schedule: s.scheduleSum(), Next: s.next, Taken: s.have}
	for _, m := range s.kept[:min(s.have, s.history)] {
		out.History = append(out.History, slices.Clone(m))
	}
	return out
}

// Restore makes the sampler go on from a state, which is copied.
func (s *multistep) Restore(from State) error {
	if err := s.checkState(from); err != nil {
		return err
	}
	s.next, s.have, s.kept, s.rand = from.Next, from.Taken, [2][]float32{}, nil
	for i, m := range from.History {
		s.kept[i] = slices.Clone(m)
	}
	if s.history == 2 && len(from.History) == 1 {
		s.kept[1] = make([]float32, len(s.kept[0])) // the second step multiplies it by 0
	}
	return nil
}

// checkState reports everything that a state has and no state of this sampler can.
func (s *multistep) checkState(from State) error {
	var l fault.List
	if sum := s.scheduleSum(); from.Schedule != sum {
		l.Add(fault.New(ErrState, nil,
			"the state is of schedule %.12q, and sampler %s of %d steps has schedule %.12q: restore it into the sampler with the same name, steps, shift and timesteps",
			from.Schedule, s.name, s.steps, sum))
	}
	if from.Next < 0 || from.Next > s.steps {
		l.Add(fault.New(ErrState, nil, "the state's next step is %d: want 0 to %d", from.Next, s.steps))
	}
	if from.Taken < 0 || from.Taken > 2 || from.Taken > from.Next {
		l.Add(fault.New(ErrState, nil, "the state has %d steps taken before step %d: want 0 to %d", from.Taken, from.Next, max(0, min(2, from.Next))))
	} else if want := min(from.Taken, s.history); len(from.History) != want {
		l.Add(fault.New(ErrState, nil, "the state has %d predictions: sampler %s keeps %d after %d steps", len(from.History), s.name, want, from.Taken))
	}
	for i, m := range from.History {
		if len(m) != len(from.History[0]) {
			l.Add(fault.New(ErrState, nil, "prediction %d of the state has %d elements and prediction 0 has %d: they must be equal", i, len(m), len(from.History[0])))
		}
	}
	return l.Err()
}

// scheduleSum is State.Schedule: what decides a step beside the state, the sample and the
// velocity, but for the seed of cogvideox-dpm's noise.
func (s *multistep) scheduleSum() string {
	b := append([]byte(s.name), 0)
	for _, list := range [][]float64{s.sigmas[:s.steps+1], s.timesteps[:s.steps]} {
		for _, v := range list {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

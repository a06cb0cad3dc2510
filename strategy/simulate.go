package strategy

import (
	"weft/fault"
)

// Span is one execution with its start and end, in any one unit of time.
type Span struct {
	Action
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// Timeline lists the actions that each stage ran, in order: simulated, or recorded.
type Timeline [][]Span

// Simulate runs a schedule on a clock. Each stage runs its actions one after
// another; each starts as soon as the stage is free and its input is there: the
// forward of the virtual stage before, the backward of the one after, and for a
// backward its own forward. Virtual stage chunk*stages+stage holds a stage's
// chunk. Sending takes no time. Cost is how long a stage takes over an action.
// Error: ErrOrder for an order in which an action's input can never be there, and
// for an action that occurs twice.
func Simulate(schedule [][]Action, cost func(stage int, a Action) float64) (Timeline, error) {
	sim := simulation{stages: len(schedule), done: map[slot]float64{}}
	for _, actions := range schedule {
		for _, a := range actions {
			sim.last = max(sim.last, a.Chunk*sim.stages+sim.stages-1)
		}
	}
	out := make(Timeline, sim.stages)
	free := make([]float64, sim.stages)
	for moved := true; moved; {
		moved = false
		for i, actions := range schedule {
			for len(out[i]) < len(actions) {
				a := actions[len(out[i])]
				ready, ok := sim.inputReady(i, a)
				if !ok {
					break
				}
				start := max(free[i], ready)
				free[i] = start + cost(i, a)
				sim.done[sim.slotOf(i, a)] = free[i]
				out[i] = append(out[i], Span{a, start, free[i]})
				moved = true
			}
		}
	}
	for i, actions := range schedule {
		if n := len(out[i]); n < len(actions) {
			return nil, fault.New(ErrOrder, Order{i, actions[n].String()},
				"stage %d can never run %s, action %d of its list: it ran before, or its input is never there", i, actions[n], n)
		}
	}
	return out, nil
}

type simulation struct {
	stages int
	last   int // the last virtual stage
	done   map[slot]float64
}

// slot is one action on one virtual stage.
type slot struct {
	backward       bool
	micro, virtual int
}

func (s *simulation) slotOf(stage int, a Action) slot {
	return slot{a.Backward, a.Micro, a.Chunk*s.stages + stage}
}

// inputReady gives the time at which the input of an action is there. It is false as long
// as the input is missing, and always for an action that has run.
func (s *simulation) inputReady(stage int, a Action) (float64, bool) {
	me := s.slotOf(stage, a)
	if _, twice := s.done[me]; twice {
		return 0, false
	}
	var needs []slot
	switch {
	case !a.Backward && me.virtual > 0:
		needs = []slot{{false, me.micro, me.virtual - 1}}
	case a.Backward && me.virtual < s.last:
		needs = []slot{{false, me.micro, me.virtual}, {true, me.micro, me.virtual + 1}}
	case a.Backward:
		needs = []slot{{false, me.micro, me.virtual}}
	}
	at := 0.0
	for _, n := range needs {
		end, ok := s.done[n]
		if !ok {
			return 0, false
		}
		at = max(at, end)
	}
	return at, true
}

// Makespan gives the time from the first start to the last end.
func (t Timeline) Makespan() float64 {
	first, last, some := 0.0, 0.0, false
	for _, spans := range t {
		for _, s := range spans {
			if !some || s.Start < first {
				first = s.Start
			}
			if !some || s.End > last {
				last = s.End
			}
			some = true
		}
	}
	return last - first
}

// BubbleShare gives the share of the time of all stages in which they ran nothing.
func (t Timeline) BubbleShare() float64 {
	whole := t.Makespan() * float64(len(t))
	if whole == 0 {
		return 0
	}
	busy := 0.0
	for _, spans := range t {
		for _, s := range spans {
			busy += s.End - s.Start
		}
	}
	return 1 - busy/whole
}

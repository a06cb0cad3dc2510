package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/engine"
	"weft/fault"
	"weft/graph"
	"weft/nonfinite"
	"weft/tensor"
)

// RunOptions are the options of one run.
type RunOptions struct {
	// Trace is called with every value that the graph names for comparison, in order.
	// Lanes and stages then run one after another.
	Trace func(lane, name string, t *tensor.Tensor) error
	// Visit is called with every part of an output as soon as it is computed, and Run then
	// returns no outputs. at is the part's place along the output's dim Dim: 0 for an output
	// of one value. An output with several names comes under its first. Lanes and stages then
	// run one after another.
	Visit func(lane, output string, at int, t *tensor.Tensor) error
	// Frame gives the frames of inputs that Feed was not given, each as the first call that
	// reads it is issued.
	Frame func(ctx context.Context, lane string, in graph.Input) (*tensor.Tensor, error)
	// Finite, where set, has the devices look at each part of an output, in the layout that it
	// has there, before it is handed over: it is called with how many values of the part are
	// NaN or infinite. Its error ends the run.
	Finite func(lane string, seen nonfinite.Counts) error
	// Timed, where set, is called with the seconds that each call took. A call then ends before the
	// next one begins, so that times do not overlap.
	Timed func(c graph.Call, seconds float64)
	// Progress counts calls.
	Progress Progress
}

// Span is the work of one stage on one lane, in seconds since the start of the run. It
// starts when the stage's inputs are there and ends when its outputs are.
type Span struct {
	Stage int     `json:"stage"`
	Lane  string  `json:"lane"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// Spans are those of the last Run in the order in which they ended. They are recorded only
// if the graph has several stages.
func (s *Session) Spans() []Span { return s.spans }

// Run runs the calls of the graph for each lane and returns the graph's outputs by lane.
// Each part of an output is taken to the host as soon as it is computed, so that the devices
// do not hold all of them. Calls of the request run only if their inputs changed since the last run. Inputs that
// change from step to step are consumed.
func (s *Session) Run(ctx context.Context, lanes []string, o RunOptions) ([]map[string]*tensor.Tensor, error) {
	s.spans = nil
	for _, name := range lanes {
		s.laneOf(name).dropValues(s.made)
	}
	total := int64(len(lanes) * len(s.g.Calls))
	var done atomic.Int64
	tick := func(call string) { o.Progress.report(call, done.Add(1)-1, total) }
	run := s.newRun(o, lanes, tick)
	err := s.beginRequest(ctx, run)
	if err == nil {
		err = s.bringFollowers(ctx, o.Progress)
	}
	if err == nil {
		err = s.runStep(ctx, run)
	}
	if err != nil {
		s.stopStreams() // what was read ahead is of calls that did not run
		return nil, err
	}
	for i := range lanes {
		if err := run.handOverRest(ctx, i); err != nil {
			return nil, err
		}
	}
	o.Progress.report("run", total, total)
	return run.outs, nil
}

// beginRequest runs the calls of the request for the lanes whose inputs changed. Each call runs
// for all of these lanes before the next, so that its weights are needed once. What only these
// calls read then leaves the devices.
func (s *Session) beginRequest(ctx context.Context, run *oneRun) error {
	var lanes []int
	for i, name := range run.lanes {
		if !s.laneOf(name).requestRun {
			lanes = append(lanes, i)
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	if err := s.bringLeavers(ctx, run.o.Progress); err != nil {
		return err
	}
	s.startStreams(ctx, true)
	if err := s.runCalls(ctx, run, lanes, func(c graph.Call) bool { return c.Request }); err != nil {
		return err
	}
	for _, i := range lanes {
		s.laneOf(run.lanes[i]).requestRun = true
	}
	s.sendLeavers()
	return nil
}

// runStep runs the calls of a step. Where weights are streamed, each call runs for all lanes
// before the next, so that its weights come once a step. With a pipeline each stage takes the
// lanes in turn, and its weights come once for each lane.
func (s *Session) runStep(ctx context.Context, run *oneRun) error {
	s.startStreams(ctx, false)
	ofStep := func(c graph.Call) bool { return !c.Request }
	if stages := s.g.Stages(); stages > 1 && run.o.Trace == nil && run.o.Visit == nil && run.o.Timed == nil {
		return s.runPipeline(ctx, run, stages)
	}
	all := make([]int, len(run.lanes))
	for i := range all {
		all[i] = i
	}
	if s.placed.Stream {
		return s.runCalls(ctx, run, all, ofStep)
	}
	for _, i := range all {
		if err := s.runCalls(ctx, run, []int{i}, ofStep); err != nil {
			return err
		}
	}
	return nil
}

// runCalls runs in order those calls that takes picks, each for all of the lanes, given by
// their numbers.
func (s *Session) runCalls(ctx context.Context, run *oneRun, lanes []int, takes func(graph.Call) bool) error {
	if len(lanes) == 0 {
		return nil
	}
	walks := make([]laneWalk, len(lanes))
	for k, at := range lanes {
		walks[k] = laneWalk{run: run, at: at, name: run.lanes[at], lane: s.laneOf(run.lanes[at])}
	}
	for i, c := range s.g.Calls {
		if !takes(c) {
			continue
		}
		if err := s.runForLanes(ctx, walks, i); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	for k := range walks {
		if err := run.handOver(ctx, walks[k].at, walks[k].ready); err != nil {
			return err
		}
	}
	return nil
}

// runForLanes runs one call for each lane in turn, with its streamed weights if it has some.
func (s *Session) runForLanes(ctx context.Context, walks []laneWalk, i int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	weights, err := s.takeWeights(ctx, i)
	if err != nil {
		return err
	}
	for k := range walks {
		if err := s.advance(ctx, &walks[k], i, weights.values); err != nil {
			weights.discard()
			return err
		}
	}
	weights.passOn(walks[len(walks)-1].before)
	return nil
}

// laneWalk is how far some calls have come in a lane.
type laneWalk struct {
	run    *oneRun
	at     int // number of the lane
	name   string
	lane   *lane
	before engine.Value // made by the previous call: one call runs while the next is issued
	ready  []string     // values of outputs that the previous call made
}

// advance runs the next call of a lane: number i, with those weights that are streamed.
func (s *Session) advance(ctx context.Context, w *laneWalk, i int, streamed map[string]engine.Value) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c, l := s.g.Calls[i], w.lane
	w.run.tick(c.Name)
	began := time.Now()
	made, err := s.runCall(ctx, w, i, streamed)
	if timed := w.run.o.Timed; err == nil && timed != nil {
		if err = made.Wait(ctx); err == nil {
			timed(c, time.Since(began).Seconds())
		}
	}
	if err == nil && w.before != nil {
		err = w.before.Wait(ctx)
	}
	if err == nil {
		err = w.run.handOver(ctx, w.at, w.ready)
	}
	if err == nil {
		err = s.traceCall(ctx, w.run.o.Trace, l, w.name, c)
	}
	if err != nil {
		return err
	}
	w.before, w.ready = made, s.outputValues(c)
	for _, v := range s.lastUses[i] {
		if !slices.Contains(w.ready, v) {
			l.dropValue(v)
		}
	}
	return nil
}

// traceCall calls trace, unless it is nil, with the values that a call names for comparison.
func (s *Session) traceCall(ctx context.Context, trace func(string, string, *tensor.Tensor) error, l *lane, name string, c graph.Call) error {
	if trace == nil {
		return nil
	}
	for k, out := range c.Outs {
		value, ok := c.Trace[k]
		if !ok {
			continue
		}
		t, err := s.fetchValue(ctx, l, out)
		if err == nil {
			err = trace(name, value.Name, t.Crop(value.Shape))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runCall issues one call and returns a value that it makes.
func (s *Session) runCall(ctx context.Context, w *laneWalk, i int, streamed map[string]engine.Value) (engine.Value, error) {
	c, l := s.g.Calls[i], w.lane
	p := s.g.Programs[c.Program]
	args := make([]engine.Value, len(c.Args))
	for k, r := range c.Args {
		var err error
		if r.Weight {
			if args[k] = streamed[r.Name]; args[k] == nil {
				args[k] = s.weights[r.Name]
			}
			if args[k] == nil {
				return nil, fmt.Errorf("weight %q is not in place: weights are loaded before a run", r.Name)
			}
			continue
		}
		if err := s.placeFrame(ctx, w.run, l, w.name, r.Name); err != nil {
			return nil, err
		}
		if _, made := s.shapes[r.Name]; !made || (s.inputs[r.Name] != nil && !l.hasValue(r.Name)) {
			return nil, fmt.Errorf("input %q is not in place: inputs are fed before a run", r.Name)
		}
		if args[k], err = l.valueOnMesh(ctx, s.eng, r.Name, p.Mesh, s.isLastUse(i, r.Name)); err != nil {
			return nil, err
		}
	}
	outs, err := s.exes[c.Program].Run(ctx, args)
	if err != nil {
		return nil, err
	}
	for _, o := range p.Outputs {
		if o.Donor >= 0 {
			l.forgetDonated(c.Args[o.Donor].Name, p.Mesh) // its memory is an output's now
		}
	}
	for k, name := range c.Outs {
		l.setValue(name, p.Mesh, outs[k])
	}
	return outs[0], nil
}

// isLastUse says whether no call after call i, and no output, needs the value.
func (s *Session) isLastUse(i int, name string) bool { return slices.Contains(s.lastUses[i], name) }

// hasValue says whether the lane has a value.
func (l *lane) hasValue(name string) bool {
	_, _, ok := l.peekValue(name)
	return ok
}

// runPipeline runs every stage in a goroutine of its own, which takes the lanes in turn. A
// stage waits for the values that the previous one makes.
func (s *Session) runPipeline(ctx context.Context, run *oneRun, stages int) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := time.Now()
	var mu sync.Mutex
	record := func(span Span) {
		mu.Lock()
		defer mu.Unlock()
		s.spans = append(s.spans, span)
	}
	var all sync.WaitGroup
	for stage := range stages {
		all.Go(func() {
			if err := s.runStage(ctx, run, stage, start, record); err != nil {
				fail(fmt.Errorf("stage %d: %w", stage, err))
				for _, n := range run.lanes {
					s.laneOf(n).wakeWaiters()
				}
			}
		})
	}
	stop := context.AfterFunc(ctx, func() {
		for _, n := range run.lanes {
			s.lanes[n].wakeWaiters()
		}
	})
	all.Wait()
	stop()
	return context.Cause(ctx)
}

// runStage runs one stage of a pipeline over the lanes.
func (s *Session) runStage(ctx context.Context, run *oneRun, stage int, start time.Time, record func(Span)) (err error) {
	defer fault.Recover(&err)
	for i, name := range run.lanes {
		begin, err := s.waitForInputs(ctx, name, stage)
		if err == nil {
			err = s.runCalls(ctx, run, []int{i}, func(c graph.Call) bool { return c.Stage == stage && !c.Request })
		}
		if err == nil {
			err = s.waitForOutputs(ctx, name, stage)
		}
		if err != nil {
			return err
		}
		record(Span{stage, name, begin.Sub(start).Seconds(), time.Since(start).Seconds()})
	}
	return nil
}

// waitForInputs waits for the values that a stage reads from other stages, and returns the
// time at which they were there.
func (s *Session) waitForInputs(ctx context.Context, name string, stage int) (time.Time, error) {
	for _, in := range s.flow[stage] {
		if err := s.laneOf(name).waitUntilMade(ctx, in); err != nil {
			return time.Time{}, err
		}
	}
	return time.Now(), nil
}

// waitForOutputs waits for the values that the last call of a stage makes.
func (s *Session) waitForOutputs(ctx context.Context, name string, stage int) error {
	l := s.laneOf(name)
	for i := len(s.g.Calls) - 1; i >= 0; i-- {
		c := s.g.Calls[i]
		if c.Stage != stage {
			continue
		}
		for _, out := range c.Outs {
			l.mu.Lock()
			h := l.values[out]
			l.mu.Unlock()
			if h.v != nil && h.m == s.g.Programs[c.Program].Mesh {
				if err := h.v.Wait(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return nil
}

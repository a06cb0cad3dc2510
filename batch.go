package weft

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/nonfinite"
	"weft/session"
	"weft/tensor"
)

// batch is a model on the devices that denoises several videos of one shape at once. Each video's
// loop has a seat, and sees programs for its own video alone. A step is taken when all loops ask for
// one. A seat that nobody has computes what the first one does, and its results are dropped: the
// devices run one program, whose shapes do not change.
type batch struct {
	form *batchForm
	run  *Run
	key  string // of the run, for releaseRun
	held int64  // bytes that the run holds between steps
	mu   sync.Mutex
	turn sync.Cond // of mu: somebody asked, came, went, or a step ended

	seats  []*seat
	busy   bool              // a step is under way
	fed    map[string]string // by lane: whose request the devices have
	failed error             // after which nobody knows what is on the devices
	gone   chan struct{}     // closed when the last loop has left
}

// seat is one loop's place in a batch.
type seat struct {
	at     int
	number uint64 // of all seats that were ever taken
	lanes  map[string]*seatLane
	asked  *askedStep // nil while the loop does not wait for a step
	beside int        // the most others that a step was taken with
}

// seatLane is what a loop fed of one lane.
type seatLane struct {
	inputs map[string]*tensor.Tensor
	times  int // how often inputs of the request were fed
}

// askedStep is a step that a loop waits for.
type askedStep struct {
	ctx    context.Context
	seat   *seat
	lanes  []string
	taken  bool // by the step under way
	done   bool
	finite func(string, nonfinite.Counts) error
	outs   []map[string]*tensor.Tensor
	err    error
}

func newBatch(f *batchForm, r *Run, key string) *batch {
	b := &batch{form: f, run: r, key: key, seats: make([]*seat, f.seats), fed: map[string]string{}, gone: make(chan struct{})}
	b.turn.L = &b.mu
	return b
}

var seatsTaken atomic.Uint64

// togetherError is an error of a step that several loops took: nobody knows whose fault it is.
type togetherError struct{ error }

func (e togetherError) Unwrap() error { return e.error }

// FailedTogether reports whether an error ended the work on several videos at once, so that each
// may go well alone.
func FailedTogether(err error) bool {
	var e togetherError
	return errors.As(err, &e)
}

// isBroken reports whether no step can be taken any more.
func (b *batch) isBroken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed != nil
}

// sit gives a loop a seat.
func (b *batch) sit() *seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.seats, nil)
	b.seats[i] = &seat{at: i, number: seatsTaken.Add(1), lanes: map[string]*seatLane{}}
	return b.seats[i]
}

// rise takes a loop's seat away, and reports whether it was the last.
func (b *batch) rise(s *seat) (last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seats[s.at] = nil
	b.turn.Broadcast()
	return !slices.ContainsFunc(b.seats, func(s *seat) bool { return s != nil })
}

// feed notes what a loop feeds; it is put on the devices with the next step.
func (s *seat) feed(g *graph.Graph, lane string, inputs map[string]*tensor.Tensor) {
	l := s.lanes[lane]
	if l == nil {
		l = &seatLane{inputs: map[string]*tensor.Tensor{}}
		s.lanes[lane] = l
	}
	maps.Copy(l.inputs, inputs)
	if slices.ContainsFunc(g.Inputs, func(in graph.Input) bool { return !in.Step && inputs[in.Name] != nil }) {
		l.times++
	}
}

// step waits until all loops ask for a step, and takes part in it.
func (b *batch) step(ctx context.Context, s *seat, lanes []string, finite func(string, nonfinite.Counts) error) ([]map[string]*tensor.Tensor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &askedStep{ctx: ctx, seat: s, lanes: lanes, finite: finite}
	s.asked = a
	stop := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.turn.Broadcast()
	})
	defer stop()
	b.turn.Broadcast()
	for !a.done {
		switch {
		case b.failed != nil && !a.taken:
			s.asked = nil
			return nil, togetherError{b.failed}
		case ctx.Err() != nil && !a.taken:
			s.asked = nil
			b.turn.Broadcast() // the others need not wait for this one
			return nil, context.Cause(ctx)
		case !b.busy && b.allAsk():
			b.takeStep(b.together())
		default:
			b.turn.Wait()
		}
	}
	return a.outs, a.err
}

// allAsk reports whether every loop waits for a step.
func (b *batch) allAsk() bool {
	return !slices.ContainsFunc(b.seats, func(s *seat) bool { return s != nil && s.asked == nil })
}

// together are the loops of the next step: the first that asks, and those that can be taken with it.
func (b *batch) together() []*askedStep {
	var list []*askedStep
	for _, s := range b.seats {
		if s != nil && s.asked != nil && (len(list) == 0 || b.agree(list[0], s.asked)) {
			list = append(list, s.asked)
		}
	}
	return list
}

// agree reports whether two loops have the same lanes, and the same inputs where all videos share
// one.
func (b *batch) agree(one, other *askedStep) bool {
	if !slices.Equal(one.lanes, other.lanes) {
		return false
	}
	for i, in := range b.run.g.Inputs {
		if !slices.Equal(in.Shape, b.form.alone.Inputs[i].Shape) {
			continue
		}
		for _, lane := range one.lanes {
			x, y := one.seat.lanes[lane].inputs[in.Name], other.seat.lanes[lane].inputs[in.Name]
			if (x == nil) != (y == nil) || x != nil && !bytes.Equal(x.Data, y.Data) {
				return false
			}
		}
	}
	return true
}

// takeStep takes a step of some loops. mu is held, and let go while the devices compute.
func (b *batch) takeStep(list []*askedStep) {
	b.busy = true
	for _, a := range list {
		a.taken = true
		a.seat.beside = max(a.seat.beside, len(list)-1)
	}
	b.mu.Unlock()
	outs, seen, err := b.runStep(list)
	b.mu.Lock()
	if err != nil && len(list) > 1 {
		err = togetherError{err}
	}
	for _, a := range list {
		if a.err = err; err == nil {
			a.outs, a.err = b.shareOf(a, outs, seen)
		}
		a.done, a.seat.asked = true, nil
	}
	b.failed = cmp.Or(b.failed, err)
	b.busy = false
	b.turn.Broadcast()
}

// runStep feeds the seats and runs a step. It ends early when all who take part want it to.
func (b *batch) runStep(list []*askedStep) (outs []map[string]*tensor.Tensor, seen map[string]nonfinite.Counts, err error) {
	defer fault.Recover(&err)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(list[0].ctx))
	defer cancel(nil)
	var left atomic.Int32
	left.Store(int32(len(list)))
	for _, a := range list {
		stop := context.AfterFunc(a.ctx, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(a.ctx))
			}
		})
		defer stop()
	}
	seats := b.fill(list)
	for _, lane := range list[0].lanes {
		if err := b.feedLane(ctx, lane, seats); err != nil {
			return nil, nil, err
		}
	}
	seen = map[string]nonfinite.Counts{}
	var mu sync.Mutex
	outs, err = b.run.s.Run(ctx, list[0].lanes, session.RunOptions{Finite: func(lane string, c nonfinite.Counts) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Count > 0 {
			seen[lane+"\x00"+c.Tensor] = c
		}
		return nil
	}})
	return outs, seen, err
}

// fill puts the loops of a step into their seats, and the first of them into all others.
func (b *batch) fill(list []*askedStep) []*seat {
	seats := slices.Repeat([]*seat{list[0].seat}, b.form.seats)
	for _, a := range list {
		seats[a.seat.at] = a.seat
	}
	return seats
}

// feedLane puts the seats' inputs of a lane on the devices: those of the step, and those of the
// request where the devices have others.
func (b *batch) feedLane(ctx context.Context, lane string, seats []*seat) error {
	whose := ""
	for _, s := range seats {
		whose += fmt.Sprint(s.number, " ", s.lanes[lane].times, " ")
	}
	all := map[string]*tensor.Tensor{}
	for i, in := range b.run.g.Inputs {
		if !in.Step && b.fed[lane] == whose || seats[0].lanes[lane].inputs[in.Name] == nil {
			continue
		}
		if slices.Equal(in.Shape, b.form.alone.Inputs[i].Shape) {
			all[in.Name] = seats[0].lanes[lane].inputs[in.Name]
			continue
		}
		var parts []*tensor.Tensor
		for _, s := range seats {
			part := s.lanes[lane].inputs[in.Name]
			if part == nil {
				return fmt.Errorf("input %q of one video is missing, and another has it", in.Name)
			}
			parts = append(parts, part)
		}
		all[in.Name] = tensor.Stack(parts)
	}
	b.fed[lane] = whose
	return b.run.s.Feed(ctx, lane, all)
}

// shareOf cuts a loop's part out of the outputs, and tells it of what is not finite there.
func (b *batch) shareOf(a *askedStep, outs []map[string]*tensor.Tensor, seen map[string]nonfinite.Counts) ([]map[string]*tensor.Tensor, error) {
	mine := make([]map[string]*tensor.Tensor, len(outs))
	n := b.form.alone.Mesh.NumDevices()
	for k, lane := range a.lanes {
		mine[k] = map[string]*tensor.Tensor{}
		for name, t := range outs[k] {
			rows := t.Shape[0] / b.form.seats
			part := t.Rows(a.seat.at*rows, (a.seat.at+1)*rows)
			mine[k][name] = part
			c, odd := seen[lane+"\x00"+name]
			if !odd {
				continue
			}
			c.Shape, c.First = part.Shape, nil
			c.Devices = slices.DeleteFunc(slices.Clone(c.Devices), func(id int) bool { return id/n != a.seat.at })
			if len(c.Devices) == 0 {
				continue
			}
			if count, first := part.NonFinite(); count > 0 {
				c.Count, c.First = count, part.Index(first)
			}
			if err := a.finite(lane, c); err != nil {
				return nil, err
			}
		}
	}
	return mine, nil
}

// trace runs one step of one loop in all seats, and shows it the values of its own.
func (b *batch) trace(ctx context.Context, s *seat, lane string, visit func(string, *tensor.Tensor) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.busy {
		b.turn.Wait()
	}
	shapes := map[string][]int{}
	for _, c := range b.form.alone.Calls {
		for _, v := range c.Trace {
			shapes[v.Name] = v.Shape
		}
	}
	if err := b.feedLane(ctx, lane, slices.Repeat([]*seat{s}, b.form.seats)); err != nil {
		return err
	}
	_, err := b.run.s.Run(ctx, []string{lane}, session.RunOptions{Trace: func(_, name string, t *tensor.Tensor) error {
		if of := shapes[name]; len(of) == len(t.Shape) {
			t = t.Crop(of)
		}
		return visit(name, t)
	}})
	return err
}

// report is that of the run, while no step is under way.
func (b *batch) report() Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.busy {
		b.turn.Wait()
	}
	return b.run.Report()
}

// seatRun is a loop's run in a batch.
type seatRun struct {
	p *phaseDenoiser
	b *batch
	s *seat
}

func (r *seatRun) Request() models.Request { return r.b.form.of }
func (r *seatRun) Microbatches() int       { return r.b.form.micro }
func (r *seatRun) Graph() *graph.Graph     { return r.b.form.alone }

func (r *seatRun) Feed(_ context.Context, lane string, inputs map[string]*tensor.Tensor) error {
	r.s.feed(r.b.form.alone, lane, inputs)
	return nil
}

func (r *seatRun) Step(ctx context.Context, lanes []string, finite func(string, nonfinite.Counts) error) ([]map[string]*tensor.Tensor, error) {
	return r.b.step(ctx, r.s, lanes, finite)
}

func (r *seatRun) Trace(ctx context.Context, lane string, visit func(string, *tensor.Tensor) error) error {
	return r.b.trace(ctx, r.s, lane, visit)
}

// Close gives the seat back, and with the last one the run.
func (r *seatRun) Close() {
	d := r.p.d
	r.p.loop.past = append(r.p.loop.past, r.report())
	r.p.seat = nil
	d.leaveBatch(r)
	d.endTurn()
}

// report is the run's, with what the loop shared with others.
func (r *seatRun) report() Report {
	rep := r.b.report()
	if r.b.form.note != "" {
		rep.Notes = append(rep.Notes, r.b.form.note)
	}
	if r.s.beside > 0 {
		rep.Notes = append(rep.Notes, fmt.Sprintf("denoised at once with up to %d other videos of its shape, over %s: each device computed what it does for one video alone", r.s.beside, rep.Mesh))
	}
	return rep
}

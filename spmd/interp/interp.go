package interp

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
	"weft/spmd"
)

// Options say how to run. The zero value is ready.
type Options struct {
	// Timeout is for how long, with no device at work, a collective may wait
	// for the rest of its group; 0 is a minute.
	Timeout time.Duration
	// MaxParallel is how many devices compute at one time; 0 is as many as
	// there are processors. Those that wait in a collective do not count.
	MaxParallel int
	// Stall is for tests: a device for which it returns true at a collective
	// never arrives there.
	Stall func(pos int, in *spmd.Instr) bool
}

// Interp runs programs of one mesh. It is safe for concurrent use.
type Interp struct {
	mesh *mesh.Mesh
	opts Options
}

// New makes an interpreter.
func New(m *mesh.Mesh, opts Options) *Interp {
	if opts.Timeout <= 0 {
		opts.Timeout = time.Minute
	}
	if opts.MaxParallel <= 0 {
		opts.MaxParallel = runtime.GOMAXPROCS(0)
	}
	return &Interp{m, opts}
}

// Report says what a run did.
type Report struct {
	// Collectives is what was exchanged, counted where it happened, by
	// operation, axes and element type. Bytes are those of the device that
	// sends most. Reasons are those of the program.
	Collectives []spmd.Traffic
	// PeakBytes is, for each device, the most that its values took at one
	// time. Every value counts: nothing is fused here.
	PeakBytes []int64
}

// Run runs a program once: inputs and outputs are by mesh position, then by
// port. Inputs are left as they are, donated or not. The first failure ends all
// devices. Errors: ErrInput, ErrCollectiveTimeout, ErrDevice, ctx's.
func (it *Interp) Run(ctx context.Context, p *spmd.Program, inputs [][]*Array) ([][]*Array, Report, error) {
	n := it.mesh.NumDevices()
	if p.Mesh.NumDevices() != n || p.Mesh.String() != it.mesh.String() {
		return nil, Report{}, fault.New(ErrInput, Input{-1, "", p.Mesh.String(), it.mesh.String()},
			"program %s is for mesh %s, and the interpreter has %s", p.Name, p.Mesh, it.mesh)
	}
	if err := checkInputs(p, n, inputs); err != nil {
		return nil, Report{}, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &run{
		Options: it.opts, program: p, hub: newHub(n, it.opts.Timeout), tokens: make(chan struct{}, it.opts.MaxParallel),
	}
	r.plan = newPlan(p.Body, ports(p.Inputs), ports(p.Outputs))
	devices := make([]*device, n)
	var done sync.WaitGroup
	for pos := range devices {
		d := &device{run: r, ctx: ctx, pos: pos, env: make([]held, len(p.Values))}
		devices[pos] = d
		done.Go(func() {
			defer r.hub.rest()
			if err := d.guarded(ctx, inputs[pos]); err != nil {
				fail(err)
			}
		})
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	go r.hub.watch(watch, fail)
	done.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, Report{}, err
	}
	outputs := make([][]*Array, n)
	for pos, d := range devices {
		outputs[pos] = d.outputs
	}
	return outputs, report(devices), nil
}

func ports(ps []spmd.Port) []spmd.ID {
	ids := make([]spmd.ID, len(ps))
	for i, p := range ps {
		ids[i] = p.Value
	}
	return ids
}

func report(devices []*device) Report {
	r := Report{PeakBytes: make([]int64, len(devices))}
	for pos, d := range devices {
		r.PeakBytes[pos] = d.peak
		for i, t := range d.traffic {
			if pos == 0 {
				r.Collectives = slices.Clone(d.traffic)
				break
			}
			r.Collectives[i].Bytes = max(r.Collectives[i].Bytes, t.Bytes)
		}
	}
	return r
}

// run is what the devices of one Run share.
type run struct {
	Options
	program *spmd.Program
	plan    *plan
	hub     *hub
	tokens  chan struct{} // one for each device that computes
}

// buffer is memory that one or more values of a device name.
type buffer struct {
	bytes int64
	names int
}

type held struct {
	array  *Array
	buffer *buffer
}

// device is one goroutine's state.
type device struct {
	*run
	ctx     context.Context // of the run
	pos     int
	token   bool   // holds one of run.tokens
	env     []held // by value
	live    int64
	peak    int64
	seq     int // collectives so far
	at      *spmd.Instr
	traffic []spmd.Traffic
	outputs []*Array
}

// guarded runs the device and makes an error of a panic.
func (d *device) guarded(ctx context.Context, inputs []*Array) (err error) {
	if err := d.acquire(ctx); err != nil {
		return err
	}
	defer func() {
		d.release()
		if r := recover(); r != nil {
			f := Device{Position: d.pos}
			if d.at != nil {
				f.Op = d.at.Op
			}
			err = fault.New(ErrDevice, f, "program %s, position %d, %s: %v", d.program.Name, d.pos, f.Op, r)
		}
	}()
	for i, port := range d.program.Inputs {
		d.set(port.Value, inputs[i])
		if !d.donated(i) { // the caller has it to the end
			d.env[port.Value].buffer.names++
		}
	}
	d.drop(d.plan.unread)
	if err := d.body(ctx, d.plan); err != nil {
		return err
	}
	for _, port := range d.program.Outputs {
		d.outputs = append(d.outputs, d.env[port.Value].array)
	}
	return nil
}

func (d *device) donated(input int) bool {
	return slices.ContainsFunc(d.program.Outputs, func(o spmd.Port) bool { return o.Donor == input })
}

func (d *device) acquire(ctx context.Context) error {
	select {
	case d.tokens <- struct{}{}:
		d.token = true
		return nil
	case <-ctx.Done():
		return errEnded
	}
}

func (d *device) release() {
	if d.token {
		d.token = false
		<-d.tokens
	}
}

// errEnded is what a device returns that others have ended; the cause is theirs.
var errEnded = errors.New("the run has ended")

func (d *device) body(ctx context.Context, p *plan) error {
	for i := range p.steps {
		s := &p.steps[i]
		d.at = s.in
		if ctx.Err() != nil {
			return errEnded
		}
		if err := d.step(ctx, s); err != nil {
			return err
		}
		d.drop(s.dead)
	}
	return nil
}

func (d *device) step(ctx context.Context, s *step) error {
	switch {
	case s.kernel != nil:
		return d.kernel(ctx, s)
	case s.loop != nil:
		return d.loop(ctx, s)
	case s.in.IsCollective():
		return d.collective(ctx, s.in)
	}
	out := d.compute(s.in)
	if t := d.program.Values[s.in.Out[0]]; out.DType != t.DType || !slices.Equal(out.Shape, t.Shape) {
		panic(fmt.Sprintf("%v%v where the program says %v", out.DType, out.Shape, t))
	}
	if s.in.Op == spmd.OpReshape {
		d.alias(s.in.Out[0], out, d.env[s.in.Args[0]].buffer)
	} else {
		d.set(s.in.Out[0], out)
	}
	return nil
}

func (d *device) get(id spmd.ID) *Array { return d.env[id].array }

// set gives a value memory of its own.
func (d *device) set(id spmd.ID, a *Array) {
	d.live += a.Bytes()
	d.peak = max(d.peak, d.live)
	d.env[id] = held{a, &buffer{a.Bytes(), 1}}
}

// alias gives a value the memory of another.
func (d *device) alias(id spmd.ID, a *Array, b *buffer) {
	b.names++
	d.env[id] = held{a, b}
}

func (d *device) drop(ids []spmd.ID) {
	for _, id := range ids {
		b := d.env[id].buffer
		d.env[id] = held{}
		if b.names--; b.names == 0 {
			d.live -= b.bytes
		}
	}
}

// loop runs the rounds. Values are handed from round to round without a copy.
func (d *device) loop(ctx context.Context, s *step) error {
	l := s.in.Loop
	carried := d.values(s.in.Args)
	d.drop(s.before)
	for trip := range l.Trips {
		d.name(l.Params, carried)
		d.set(l.Index, filled(d.program.Values[l.Index], float64(trip)))
		d.drop(s.loop.unread)
		if err := d.body(ctx, s.loop); err != nil {
			return err
		}
		carried = d.values(l.Results)
		d.drop(s.loop.results)
	}
	d.name(s.in.Out, carried)
	d.at = s.in
	return nil
}

// kernel runs what the kernel means.
func (d *device) kernel(ctx context.Context, s *step) error {
	k := s.in.Kernel
	carried := d.values(s.in.Args)
	d.drop(s.before)
	d.name(k.Params, carried)
	d.drop(s.kernel.unread)
	if err := d.body(ctx, s.kernel); err != nil {
		return err
	}
	result := d.values([]spmd.ID{k.Result})
	d.drop(s.kernel.results)
	d.name(s.in.Out, result)
	d.at = s.in
	return nil
}

// values holds on to values while their names change hands; name ends that.
func (d *device) values(ids []spmd.ID) []held {
	hs := make([]held, len(ids))
	for i, id := range ids {
		hs[i] = d.env[id]
		hs[i].buffer.names++
	}
	return hs
}

func (d *device) name(ids []spmd.ID, hs []held) {
	for i, id := range ids {
		d.env[id] = hs[i]
	}
}

// collective meets the group. The processor is given up while others are awaited.
func (d *device) collective(ctx context.Context, in *spmd.Instr) error {
	if d.Stall != nil && d.Stall(d.pos, in) {
		d.release()
		d.hub.rest()
		<-ctx.Done()
		return errEnded
	}
	x := d.get(in.Args[0])
	mt, last := d.hub.arrive(in, d.seq, d.pos, d.program.Mesh.NumDevices(), x)
	d.seq++
	if last {
		mt.share()
		close(mt.ready)
	} else if err := d.await(ctx, mt); err != nil {
		return err
	}
	d.record(in, len(mt.members), x)
	d.set(in.Out[0], mt.result(d.pos))
	return nil
}

// await rests until the last of the group has arrived, which wakes all of it.
func (d *device) await(ctx context.Context, mt *meeting) error {
	d.release()
	select {
	case <-mt.ready:
		return d.acquire(ctx)
	case <-ctx.Done():
		return errEnded
	}
}

// record counts what was sent, by the group that met and the operand that came.
func (d *device) record(in *spmd.Instr, members int, x *Array) {
	sends := func(p [2]int) bool { return p[0] == d.pos && p[1] != d.pos }
	if in.Op == spmd.OpPermute && !slices.ContainsFunc(in.Pairs, sends) {
		members = 1
	}
	t := spmd.Traffic{Op: in.Op, DType: x.DType, Type: x.DType.String(), Count: 1, Elements: int64(x.Len()),
		Bytes: sharding.RingBytes(sharding.Op(in.Op), members, x.Bytes()), Reason: in.Reason}
	for _, a := range d.program.Mesh.Names() {
		if slices.Contains(in.Axes, a) {
			t.Axes = append(t.Axes, a)
		}
	}
	t.Axis = strings.Join(t.Axes, "+")
	d.traffic = spmd.AddTraffic(d.traffic, []spmd.Traffic{t}, 1)
}

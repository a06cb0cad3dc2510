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
	"weft/program"
	"weft/program/cost"
	"weft/sharding"
)

// Options say how to run programs. The zero value has the defaults.
type Options struct {
	// Timeout is how long a collective may wait for the rest of its group while no
	// device computes; 0 is a minute.
	Timeout time.Duration
	// MaxParallel is how many devices compute at one time; 0 is the number of
	// processors. Devices that wait in a collective do not count.
	MaxParallel int
	// Stall is for tests: where it returns true, a device never arrives at a collective.
	Stall func(pos int, in *program.Instr) bool
}

// Interp runs programs of one mesh. It is safe for concurrent use.
type Interp struct {
	mesh *mesh.Mesh
	opts Options
}

// New makes an interpreter for programs of a mesh.
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
	// Collectives is the traffic that was counted while it happened, by operation, axes
	// and element type. Bytes are those of the device that sends most; reasons are those
	// of the program.
	Collectives []cost.Traffic
	// PeakBytes is, for each device, the most memory of its values at one time, in
	// bytes. Every value counts, since nothing is fused here.
	PeakBytes []int64
}

// Run runs a program once. Inputs and outputs are by mesh position, then by port. No
// input changes, donated or not. The first failure ends all devices. Errors: ErrInput,
// ErrCollectiveTimeout, ErrDevice, and that of ctx.
func (it *Interp) Run(ctx context.Context, p *program.Program, inputs [][]*Array) ([][]*Array, Report, error) {
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
	r := &sharedRun{
		Options: it.opts, program: p, hub: newMeetingHub(n, it.opts.Timeout), tokens: make(chan struct{}, it.opts.MaxParallel),
	}
	r.plan = planBody(p.Body, portValues(p.Inputs), portValues(p.Outputs))
	devices := make([]*device, n)
	var done sync.WaitGroup
	for pos := range devices {
		d := &device{sharedRun: r, ctx: ctx, pos: pos, values: make([]heldValue, len(p.Values))}
		devices[pos] = d
		done.Go(func() {
			defer r.hub.noteRest()
			if err := d.runGuarded(ctx, inputs[pos]); err != nil {
				fail(err)
			}
		})
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	go r.hub.watchForStall(watch, fail)
	done.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, Report{}, err
	}
	outputs := make([][]*Array, n)
	for pos, d := range devices {
		outputs[pos] = d.outputs
	}
	return outputs, reportOf(devices), nil
}

func portValues(ps []program.Port) []program.ID {
	ids := make([]program.ID, len(ps))
	for i, p := range ps {
		ids[i] = p.Value
	}
	return ids
}

func reportOf(devices []*device) Report {
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

// sharedRun has what the devices of one call of Run share.
type sharedRun struct {
	Options
	program *program.Program
	plan    *bodyPlan
	hub     *meetingHub
	tokens  chan struct{} // holds a token for each device that computes
}

// valueBuffer is memory that one or more values of a device share.
type valueBuffer struct {
	bytes int64
	names int
}

type heldValue struct {
	array  *Array
	buffer *valueBuffer
}

// device is the state of the goroutine that stands for one device.
type device struct {
	*sharedRun
	ctx     context.Context // of the run
	pos     int
	token   bool        // holds one of run.tokens
	values  []heldValue // by value
	live    int64
	peak    int64
	seq     int // collectives so far
	current *program.Instr
	traffic []cost.Traffic
	outputs []*Array
}

// runGuarded runs the device. A panic becomes ErrDevice.
func (d *device) runGuarded(ctx context.Context, inputs []*Array) (err error) {
	if err := d.acquireProcessor(ctx); err != nil {
		return err
	}
	defer func() {
		d.releaseProcessor()
		if r := recover(); r != nil {
			f := Device{Position: d.pos}
			if d.current != nil {
				f.Op = d.current.Op
			}
			err = fault.New(ErrDevice, f, "program %s, position %d, %s: %v", d.program.Name, d.pos, f.Op, r)
		}
	}()
	for i, port := range d.program.Inputs {
		d.setOwned(port.Value, inputs[i])
		if !d.isDonated(i) { // the caller holds it to the end
			d.values[port.Value].buffer.names++
		}
	}
	d.dropValues(d.plan.unread)
	if err := d.runBody(ctx, d.plan); err != nil {
		return err
	}
	for _, port := range d.program.Outputs {
		d.outputs = append(d.outputs, d.values[port.Value].array)
	}
	return nil
}

func (d *device) isDonated(input int) bool {
	return slices.ContainsFunc(d.program.Outputs, func(o program.Port) bool { return o.Donor == input })
}

func (d *device) acquireProcessor(ctx context.Context) error {
	select {
	case d.tokens <- struct{}{}:
		d.token = true
		return nil
	case <-ctx.Done():
		return errEnded
	}
}

func (d *device) releaseProcessor() {
	if d.token {
		d.token = false
		<-d.tokens
	}
}

// errEnded is the error of a device that stops because another one failed; the error of
// the run is that of the other.
var errEnded = errors.New("the run has ended")

func (d *device) runBody(ctx context.Context, p *bodyPlan) error {
	for i := range p.steps {
		s := &p.steps[i]
		d.current = s.in
		if ctx.Err() != nil {
			return errEnded
		}
		if err := d.runStep(ctx, s); err != nil {
			return err
		}
		d.dropValues(s.dead)
	}
	return nil
}

func (d *device) runStep(ctx context.Context, s *planStep) error {
	switch {
	case s.kernel != nil:
		return d.runKernel(ctx, s)
	case s.loop != nil:
		return d.runLoop(ctx, s)
	case s.in.IsCollective():
		return d.runCollective(ctx, s.in)
	}
	out := d.computeLocal(s.in)
	if t := d.program.Values[s.in.Out[0]]; out.DType != t.DType || !slices.Equal(out.Shape, t.Shape) {
		panic(fmt.Sprintf("%v%v where the program says %v", out.DType, out.Shape, t))
	}
	if s.in.Op.Facts().SharesMemory {
		d.setAlias(s.in.Out[0], out, d.values[s.in.Args[0]].buffer)
	} else {
		d.setOwned(s.in.Out[0], out)
	}
	return nil
}

func (d *device) arrayOf(id program.ID) *Array { return d.values[id].array }

// setOwned sets a value that has memory of its own.
func (d *device) setOwned(id program.ID, a *Array) {
	d.live += a.Bytes()
	d.peak = max(d.peak, d.live)
	d.values[id] = heldValue{a, &valueBuffer{a.Bytes(), 1}}
}

// setAlias sets a value that shares the memory of another.
func (d *device) setAlias(id program.ID, a *Array, b *valueBuffer) {
	b.names++
	d.values[id] = heldValue{a, b}
}

func (d *device) dropValues(ids []program.ID) {
	for _, id := range ids {
		b := d.values[id].buffer
		d.values[id] = heldValue{}
		if b.names--; b.names == 0 {
			d.live -= b.bytes
		}
	}
}

// runLoop runs the rounds of a loop. Values pass from round to round without a copy.
func (d *device) runLoop(ctx context.Context, s *planStep) error {
	l := s.in.Loop
	carried := d.holdValues(s.in.Args)
	d.dropValues(s.before)
	for trip := range l.Trips {
		d.nameValues(l.Params, carried)
		d.setOwned(l.Index, filledArray(d.program.Values[l.Index], float64(trip)))
		d.dropValues(s.loop.unread)
		if err := d.runBody(ctx, s.loop); err != nil {
			return err
		}
		carried = d.holdValues(l.Results)
		d.dropValues(s.loop.results)
	}
	d.nameValues(s.in.Out, carried)
	d.current = s.in
	return nil
}

// runKernel runs the instructions that are the kernel's meaning.
func (d *device) runKernel(ctx context.Context, s *planStep) error {
	k := s.in.Kernel
	carried := d.holdValues(s.in.Args)
	d.dropValues(s.before)
	d.nameValues(k.Params, carried)
	d.dropValues(s.kernel.unread)
	if err := d.runBody(ctx, s.kernel); err != nil {
		return err
	}
	result := d.holdValues([]program.ID{k.Result})
	d.dropValues(s.kernel.results)
	d.nameValues(s.in.Out, result)
	d.current = s.in
	return nil
}

// holdValues keeps the memory of values until nameValues gives it to other values.
func (d *device) holdValues(ids []program.ID) []heldValue {
	hs := make([]heldValue, len(ids))
	for i, id := range ids {
		hs[i] = d.values[id]
		hs[i].buffer.names++
	}
	return hs
}

// nameValues makes ids values with the memory that holdValues kept.
func (d *device) nameValues(ids []program.ID, hs []heldValue) {
	for i, id := range ids {
		d.values[id] = hs[i]
	}
}

// runCollective meets the other devices of the group. A device gives its processor up
// while it waits for them.
func (d *device) runCollective(ctx context.Context, in *program.Instr) error {
	if d.Stall != nil && d.Stall(d.pos, in) {
		d.releaseProcessor()
		d.hub.noteRest()
		<-ctx.Done()
		return errEnded
	}
	x := d.arrayOf(in.Args[0])
	mt, last := d.hub.joinMeeting(in, d.seq, d.pos, d.program.Mesh.NumDevices(), x)
	d.seq++
	if last {
		mt.computeShared()
		close(mt.ready)
	} else if err := d.awaitGroup(ctx, mt); err != nil {
		return err
	}
	d.recordTraffic(in, len(mt.members), x)
	d.setOwned(in.Out[0], mt.resultFor(d.pos))
	return nil
}

// awaitGroup waits until the last device of the group has arrived, which wakes the others.
func (d *device) awaitGroup(ctx context.Context, mt *meeting) error {
	d.releaseProcessor()
	select {
	case <-mt.ready:
		return d.acquireProcessor(ctx)
	case <-ctx.Done():
		return errEnded
	}
}

// recordTraffic counts what the device sent, by the group that met and the operand that
// it brought.
func (d *device) recordTraffic(in *program.Instr, members int, x *Array) {
	sends := func(p [2]int) bool { return p[0] == d.pos && p[1] != d.pos }
	if in.Op == program.OpPermute && !slices.ContainsFunc(in.Pairs, sends) {
		members = 1
	}
	t := cost.Traffic{Op: in.Op, DType: x.DType, Type: x.DType.String(), Count: 1, Elements: int64(x.Len()),
		Bytes: sharding.RingBytes(sharding.Op(in.Op), members, x.Bytes()), Reason: in.Reason}
	for _, a := range d.program.Mesh.Names() {
		if slices.Contains(in.Axes, a) {
			t.Axes = append(t.Axes, a)
		}
	}
	t.Axis = strings.Join(t.Axes, "+")
	d.traffic = cost.AddTraffic(d.traffic, []cost.Traffic{t}, 1)
}

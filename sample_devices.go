package weft

import (
	"context"

	"weft/denoise"
	"weft/engine"
	"weft/graph"
	"weft/models"
	"weft/nonfinite"
	"weft/session"
	"weft/tensor"
)

// loopDevices puts the experts of a denoising loop on devices, one at a time, and adds up
// what they cost.
type loopDevices struct {
	opt   Options
	share bool          // the experts run on one engine
	eng   engine.Engine // of all experts, where it is this loop's own
	run   *Run          // of the expert in use
	past  []Report      // of the experts before it
}

func newLoopDevices(o Options, share bool) *loopDevices {
	o.OutputBytes = nil // of the latents, of which the loop tells, and not of each step's outputs
	return &loopDevices{opt: o, share: share && o.Running == nil}
}

// of returns the devices for one of the experts.
func (d *loopDevices) of(m *Model) denoise.Devices { return expertDevices{d, m} }

// expertDevices are the devices of a loop, as one expert sees them.
type expertDevices struct {
	d *loopDevices
	m *Model
}

func (e expertDevices) CheckSplit(req models.Request) error {
	_, _, _, err := e.m.applyOptions(req, e.d.opt)
	return err
}

func (e expertDevices) Start(ctx context.Context, req models.Request) (denoise.Run, error) {
	d := e.d
	if d.share && d.eng == nil {
		on, err := d.opt.LocalMesh()
		if err != nil {
			return nil, err
		}
		if d.eng, err = engine.Open(ctx, d.opt.Device, on.NumDevices(), d.opt.Engine); err != nil {
			d.eng = nil
			return nil, err
		}
	}
	run, err := e.m.prepareRun(ctx, req, d.opt, d.eng)
	if err != nil {
		return nil, err
	}
	return d.use(run, func(bool) { run.Close() }), nil
}

// use gives a loop a run; release is called when the loop closes it, and told whether it failed.
func (d *loopDevices) use(r *Run, release func(failed bool)) denoise.Run {
	d.run = r
	return &loopRun{d: d, r: r, release: release}
}

// loopRun is a Run whose report is kept when the loop closes it.
type loopRun struct {
	d       *loopDevices
	r       *Run
	release func(failed bool)
	failed  bool // nobody knows what it left on the devices
}

func (l *loopRun) Request() models.Request { return l.r.req }
func (l *loopRun) Microbatches() int       { return l.r.micro }
func (l *loopRun) Graph() *graph.Graph     { return l.r.g }

func (l *loopRun) Feed(ctx context.Context, lane string, inputs map[string]*tensor.Tensor) error {
	err := l.r.s.Feed(ctx, lane, inputs)
	l.failed = l.failed || err != nil
	return err
}

func (l *loopRun) Step(ctx context.Context, lanes []string, finite func(string, nonfinite.Counts) error) ([]map[string]*tensor.Tensor, error) {
	out, err := l.r.s.Run(ctx, lanes, session.RunOptions{Finite: finite})
	l.failed = l.failed || err != nil
	return out, err
}

func (l *loopRun) Trace(ctx context.Context, lane string, visit func(string, *tensor.Tensor) error) error {
	_, err := l.r.s.Run(ctx, []string{lane}, session.RunOptions{Trace: func(_, name string, t *tensor.Tensor) error { return visit(name, t) }})
	return err
}

func (l *loopRun) Close() {
	l.d.past = append(l.d.past, l.r.Report())
	l.d.run = nil
	l.release(l.failed)
}

// report returns the report of the expert in use, or else of the last one, with the costs
// of the experts before it added.
func (d *loopDevices) report() Report {
	if d.run != nil {
		return d.reportWith(d.run.Report())
	}
	n := len(d.past)
	if n == 0 {
		return Report{}
	}
	last := loopDevices{past: d.past[:n-1]}
	return last.reportWith(d.past[n-1])
}

// reportWith adds the costs of the experts before to a report.
func (d *loopDevices) reportWith(r Report) Report {
	for _, p := range d.past {
		r.CompileSeconds += p.CompileSeconds
		r.LoadSeconds += p.LoadSeconds
		r.BytesRead += p.BytesRead
		r.Resident = max(r.Resident, p.Resident)
	}
	return r
}

// close closes the engine that the experts shared.
func (d *loopDevices) close() {
	if d.eng != nil {
		d.eng.Close()
		d.eng = nil
	}
}

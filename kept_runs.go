package weft

import (
	"context"
	"fmt"
	"slices"

	"weft/engine"
	"weft/graph"
	"weft/internal/hostmemory"
	"weft/models"
	"weft/plan"
	"weft/session"
)

// keptRun is a run whose programs and weights stay until it is used again.
type keptRun struct {
	key string
	run *Run
}

// takeRun puts a model on the devices: with the programs and weights that were kept of the same
// request, or anew, in the place of what was kept of others where the memory does not hold both.
// key is for releaseRun. again says that the model will run once more, so that the weights that
// only the beginning of a request reads stay too, where there is memory.
func (d *PhaseDevices) takeRun(ctx context.Context, m *Model, req models.Request, o Options, again bool) (r *Run, key string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.countHeld()
	return d.takeRunLocked(ctx, m, req, o, again)
}

// takeRunLocked does what takeRun does; mu is held.
func (d *PhaseDevices) takeRunLocked(ctx context.Context, m *Model, req models.Request, o Options, again bool) (r *Run, key string, err error) {
	key = fmt.Sprintf("%p %s", m.Match, runKey(req, o))
	if i := slices.IndexFunc(d.kept, func(k *keptRun) bool { return k.key == key }); i >= 0 {
		r = d.kept[i].run
		d.kept = slices.Delete(d.kept, i, i+1)
		r.beginAgain()
		if !again { // no request follows this one's
			r.s.KeepLeavers(false)
		}
		if note := m.Name() + ": programs and weights stayed from the video before"; !slices.Contains(r.notes, note) {
			r.notes = append(r.notes, note)
		}
		return r, key, nil
	}
	d.dropOtherForms(m, req)
	o.makeRoom, o.again = d.makeRoom, again
	r, err = m.prepareRun(ctx, req, o, d.eng)
	return r, key, err
}

// runKey is what a run that stays must agree in with the one that is asked for: all but what only
// the loop over steps reads.
func runKey(req models.Request, o Options) string {
	o.Steps, o.Sampler, o.Shift, o.IntegerTimesteps, o.Guidance, o.Boundary, o.Seed, o.Asked = 0, "", 0, false, nil, 0, 0, nil
	return fmt.Sprintf("%+v %s %v %v", req, o.Request, o.AllowNonFinite, o.Compiled)
}

// dropOtherForms closes what stays of a model that is about to be loaded for another size, or on
// another mesh: its weights would be there twice. An autoencoder's halves are two models in this.
func (d *PhaseDevices) dropOtherForms(m *Model, req models.Request) {
	d.kept = slices.DeleteFunc(d.kept, func(k *keptRun) bool {
		if k.run.model.Match != m.Match || k.run.req.Encode != req.Encode {
			return false
		}
		k.run.Close()
		return true
	})
}

// releaseRun ends the use of a run. It stays where it will be used again.
func (d *PhaseDevices) releaseRun(key string, r *Run, again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseRunLocked(key, r, again)
}

func (d *PhaseDevices) releaseRunLocked(key string, r *Run, again bool) {
	defer d.countHeld()
	if !again {
		r.Close()
		return
	}
	r.endUse()
	d.kept = append(d.kept, &keptRun{key, r})
}

// makeRoom lets go of what is kept of other models, until a graph that is about to run has the
// memory that it needs by the plan's count. Of several kept models the one goes first that ran
// last, since models run in turn: its turn is the farthest away. It reports whether there is
// memory for the weights of the graph to stay that only the beginning of a request reads.
func (d *PhaseDevices) makeRoom(o Options, m *Model, g *graph.Graph, micro int) (leaversStay bool) {
	if len(d.kept) == 0 && !o.again {
		return false
	}
	limit, err := memoryLimit(o, d.eng)
	if err != nil { // the memory is not known
		d.letGo(len(d.kept), "the memory of %s is not known", d.eng.Info().Name)
		return false
	}
	if !isHost(d.eng) {
		for _, k := range d.kept {
			limit -= k.run.heldBytes(d.eng)
		}
	}
	limit -= d.needOfOthers()
	load := heldBy(o, g, micro, d.eng)
	load.LeaversStay = true
	if need, err := load.Bytes(); err == nil && need <= limit {
		return true
	}
	load.LeaversStay, load.Again = false, o.again
	need, err := load.Bytes()
	if err != nil {
		d.letGo(len(d.kept), "what %s needs is not counted: %v", m.Name(), err)
		return false
	}
	for at := len(d.kept) - 1; at >= 0 && need > limit; at-- {
		limit += d.kept[at].run.sendLeavers(d.eng)
	}
	gone := 0
	for ; gone < len(d.kept) && need > limit; gone++ {
		limit += d.kept[len(d.kept)-1-gone].run.heldBytes(d.eng)
	}
	d.letGo(gone, "%s needs %s", m.Name(), Bytes(need))
	return false
}

// letGo closes the last n runs that are kept, and notes why.
func (d *PhaseDevices) letGo(n int, why string, args ...any) {
	for range n {
		k := d.kept[len(d.kept)-1]
		d.kept = d.kept[:len(d.kept)-1]
		d.addNote("the weights of %s are read again for each video: there is no memory for them to stay, because %s", k.run.model.Name(), fmt.Sprintf(why, args...))
		k.run.Close()
	}
	if n > 0 {
		hostmemory.Return()
	}
}

// heldBy is what a graph holds as it runs with some options on an engine.
func heldBy(o Options, g *graph.Graph, micro int, eng engine.Engine) plan.Load {
	return plan.Load{Graph: g, Passes: passesOf(o), Micro: micro, Shared: isHost(eng), Offload: o.Offloading()}
}

// passesOf is how many passes run one after another over the same weights.
func passesOf(o Options) int {
	if o.CFG == models.CFGSequential {
		return 2
	}
	return 1
}

// heldBytes is what the run's weights take of the engine's memory between two uses: of the host's
// where devices are this machine's processors, else of the device that has most.
func (r *Run) heldBytes(eng engine.Engine) int64 {
	if isHost(eng) {
		return r.s.HostBytes()
	}
	most := int64(0)
	for _, w := range r.s.Loaded().Weights {
		n := w.Stay + w.Slots
		if !r.s.LeaversLeft() {
			n += w.Leave
		}
		most = max(most, n)
	}
	return most
}

// sendLeavers lets the weights go that only the beginning of a request reads, and says how much
// memory that is.
func (r *Run) sendLeavers(eng engine.Engine) int64 {
	before := r.heldBytes(eng)
	r.s.SendLeavers()
	return before - r.heldBytes(eng)
}

// endUse frees what a run has of one use: all but programs and weights. What it cost so far is
// left out of later reports.
func (r *Run) endUse() {
	r.s.ForgetLanes()
	r.odd.Notes, r.frames = nil, nil
	l := r.s.Loaded()
	r.before = earlierCosts{bytesRead: l.BytesRead, loadSeconds: l.Seconds, compileSeconds: r.s.CompileSeconds()}
	if off := r.s.Offloaded(); off != nil {
		r.before.streamed = *off
	}
}

// earlierCosts are what a run cost in the uses before this one.
type earlierCosts struct {
	bytesRead                   int64
	loadSeconds, compileSeconds float64
	streamed                    session.Offloaded
}

// beginAgain prepares a run for other inputs of the same request.
func (r *Run) beginAgain() {
	r.lanes, r.inputs = nil, nil
	r.first, r.seconds = 0, 0
}

package weft

import (
	"context"
	"fmt"
	"slices"

	"weft/graph"
	"weft/models"
	"weft/program"
)

// shareTurns lets several generations use the devices, in turns.
func (h *heldDevices) shareTurns(videos int) {
	h.batch, h.batches, h.forms, h.costs = videos, map[string]*batch{}, map[string]*batchForm{}, map[string]useCost{}
	h.turns = &turns{fits: h.fitsBeside}
}

// fitsBeside reports whether there is memory for a use beside others, by plan.
func (h *heldDevices) fitsBeside(t *turn, using []*turn) bool {
	return h.haveRoom(append([]*turn{t}, using...))
}

// haveRoom reports whether some uses can be at a time, of which some may be under way: there is
// memory for all.
func (h *heldDevices) haveRoom(uses []*turn) bool {
	if h.limit == nil {
		return false
	}
	limit, known := h.limit()
	var need int64
	exchange := 0
	for _, u := range uses {
		if u.cost.need == 0 {
			return false
		}
		if u.cost.exchanges {
			exchange++
		}
		if need += u.cost.need; isHost(h.eng) {
			limit += u.held.Load()
		}
	}
	return known && need <= limit && exchange < 2
}

// waitForTurn waits until the generation may use the devices. Without turns it always may.
func (d *PhaseDevices) waitForTurn(ctx context.Context, t *turn) error {
	if d.turns == nil {
		return nil
	}
	if err := d.turns.begin(ctx, t); err != nil {
		return err
	}
	d.using = t
	if d.onTurn != nil {
		d.onTurn()
		d.onTurn = nil
	}
	return nil
}

// endTurn ends the generation's use of the devices.
func (d *PhaseDevices) endTurn() {
	if d.turns != nil {
		d.turns.end(d.using)
		d.using = nil
	}
}

// mostKnown bounds what is remembered of shapes.
const mostKnown = 256

// beginPhase waits for the turn of a model that is no denoiser.
func (d *PhaseDevices) beginPhase(ctx context.Context, m *Model, req models.Request, o Options) error {
	if d.turns == nil {
		return nil
	}
	return d.waitForTurn(ctx, &turn{model: m.Match, cost: d.costOfUse(m, req, o)})
}

// costOfUse is what a model's run takes, unknown where that is not counted.
func (d *PhaseDevices) costOfUse(m *Model, req models.Request, o Options) (c useCost) {
	key := fmt.Sprintf("%p %s", m.Match, runKey(req, o))
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, known := d.costs[key]; known {
		return c
	}
	if len(d.costs) >= mostKnown {
		clear(d.costs)
	}
	on, whole, micro, err := m.applyOptions(req, o)
	if err == nil {
		whole.Target = o.Adapt(d.eng.Target())
		if g, err := m.Graph(on, whole); err == nil {
			c = d.costOfGraph(g, micro, o)
		}
	}
	d.costs[key] = c
	return c
}

// costOfGraph is what running a graph takes.
func (d *PhaseDevices) costOfGraph(g *graph.Graph, micro int, o Options) useCost {
	c := useCost{exchanges: g.Stages() > 1}
	if need, err := heldBy(o, g, micro, d.eng).Bytes(); err == nil {
		c.need = need
	}
	for _, p := range g.Programs {
		c.exchanges = c.exchanges || anyExchanges(p.Body)
	}
	return c
}

// anyExchanges reports whether devices wait for each other in instructions.
func anyExchanges(body []program.Instr) bool {
	return slices.ContainsFunc(body, func(in program.Instr) bool {
		return len(in.Groups) > 0 || len(in.Pairs) > 0 || in.Loop != nil && anyExchanges(in.Loop.Body)
	})
}

// tellBeside says that the next video may be denoised while this one is decoded, where there is
// memory for both.
func (d *PhaseDevices) tellBeside() {
	if d.turns == nil || d.onBeside == nil || d.using == nil {
		return
	}
	d.mu.Lock()
	next := &turn{cost: d.loopCost}
	d.mu.Unlock()
	if d.haveRoom([]*turn{d.using, next}) {
		d.onBeside()
	}
}

// needOfOthers is the memory that other generations' uses need, beyond what is taken already where
// the devices are this machine's processors.
func (d *PhaseDevices) needOfOthers() (need int64) {
	if d.turns == nil || d.using == nil {
		return 0
	}
	for _, u := range d.turns.others(d.using) {
		need += u.cost.need
		if isHost(d.eng) {
			need -= u.held.Load()
		}
	}
	return need
}

// countHeld notes what kept runs hold, for those who wait for a turn. mu is held.
func (d *PhaseDevices) countHeld() {
	if d.turns == nil || d.eng == nil {
		return
	}
	n := int64(0)
	for _, k := range d.kept {
		n += k.run.heldBytes(d.eng)
	}
	d.keptBytes.Store(n)
}

// enterBatch waits for a loop's turn, and gives it a seat in the batch of its shape.
func (d *PhaseDevices) enterBatch(ctx context.Context, p *phaseDenoiser, m *Model, req models.Request, o Options) (*seatRun, error) {
	key := fmt.Sprintf("%p %s", m.Match, runKey(req, o))
	f, err := d.formOf(key, m, req, o)
	if err != nil {
		return nil, err
	}
	if err := d.waitForTurn(ctx, &turn{batch: key, seats: f.seats, model: m.Match, cost: f.cost}); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.batches[key]
	for b != nil && b.isBroken() { // those who have it are about to leave
		d.mu.Unlock()
		select {
		case <-b.gone:
		case <-ctx.Done():
		}
		d.mu.Lock()
		if ctx.Err() != nil {
			d.endTurn()
			return nil, context.Cause(ctx)
		}
		b = d.batches[key]
	}
	if b == nil {
		r, runKey, err := d.takeRunLocked(ctx, m, f.req, f.o, p.again)
		d.countHeld()
		if err != nil {
			d.endTurn()
			return nil, err
		}
		b = newBatch(f, r, runKey)
		b.held = r.heldBytes(d.eng)
		d.batches[key] = b
	}
	d.loopCost = f.cost
	d.using.held.Store(b.held)
	return &seatRun{p: p, b: b, s: b.sit()}, nil
}

// formOf is how loops of a request are batched.
func (d *PhaseDevices) formOf(key string, m *Model, req models.Request, o Options) (*batchForm, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.forms[key]; f != nil {
		return f, nil
	}
	f, err := d.formBatch(m, req, o)
	if err != nil {
		return nil, err
	}
	if len(d.forms) >= mostKnown {
		clear(d.forms)
	}
	d.forms[key] = f
	return f, nil
}

// leaveBatch gives a loop's seat back, and with the last one the run.
func (d *PhaseDevices) leaveBatch(r *seatRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !r.b.rise(r.s) {
		return
	}
	for key, b := range d.batches {
		if b == r.b {
			delete(d.batches, key)
		}
	}
	close(r.b.gone)
	d.releaseRunLocked(r.b.key, r.b.run, r.p.again && !r.b.isBroken())
}

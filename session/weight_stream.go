package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weft/checkpoint"
	"weft/engine"
	"weft/fault"
	"weft/graph"
)

// weightStream brings the weights of one pipeline stage's calls to the devices, in the order
// in which the calls run. A goroutine reads ahead of them, as far as there are slots. At the
// end of a step it goes on with the first call of the next.
type weightStream struct {
	s       *Session
	request []*streamedCall // of the beginning of a request
	step    []*streamedCall // of every step
	pool    *slotPool

	ready  chan filledSlot
	cancel context.CancelFunc
	ended  chan struct{} // closed once the reader has ended; nil while there is none

	mu     sync.Mutex
	totals streamTotals
}

// streamTotals are what a stream has done so far.
type streamTotals struct {
	bytes   int64         // read from files
	reading time.Duration // of the reader
	waiting time.Duration // of calls, for their weights
}

// streamedCall is a call with the weights that it alone reads.
type streamedCall struct {
	call    int // index in the graph's calls
	weights []*weightShards
	at      [][]int // where in a slot each shard of each weight begins
	bytes   int     // of a slot that it fills
	users   int     // blocks, and the call itself
}

// filledSlot is a slot with the weights of a call, on the devices or on the way there.
type filledSlot struct {
	call   int
	slot   *slot
	values map[string]engine.Value
	err    error
}

// makeStreams makes the streams of a graph whose weights were placed.
func (s *Session) makeStreams() error {
	for _, w := range s.streams {
		if w != nil {
			w.pool.close()
		}
	}
	s.streams = make([]*weightStream, s.g.Stages())
	for i, list := range s.placed.Streamed {
		if len(list) == 0 {
			continue
		}
		c, err := s.newStreamedCall(i, list)
		if err != nil {
			return err
		}
		stage := s.g.Calls[i].Stage
		if s.streams[stage] == nil {
			s.streams[stage] = &weightStream{s: s}
		}
		if w := s.streams[stage]; s.g.Calls[i].Request {
			w.request = append(w.request, c)
		} else {
			w.step = append(w.step, c)
		}
	}
	for stage, w := range s.streams {
		if w == nil {
			continue
		}
		most := 0
		for _, list := range [][]*streamedCall{w.request, w.step} {
			for _, c := range list {
				most = max(most, c.bytes)
			}
		}
		var err error
		if w.pool, err = newSlotPool(s.eng, s.placed.Slots(s.g, stage), most); err != nil {
			s.streams[stage] = nil
			return err
		}
	}
	return nil
}

// newStreamedCall lays the weights of a call, given by their index, out in a slot.
func (s *Session) newStreamedCall(call int, list []int) (*streamedCall, error) {
	c := &streamedCall{call: call, users: 1}
	for _, i := range list {
		w := s.g.Weights[i]
		h, err := shardsOf(w, s.homes[w.Name])
		if err != nil {
			return nil, err
		}
		at := make([]int, len(h.shards))
		for k := range at {
			at[k] = c.bytes
			c.bytes += int(graph.AlignedSize(h.t.Bytes()))
			c.users++
		}
		c.weights, c.at = append(c.weights, h), append(c.at, at)
	}
	return c, nil
}

// start begins to read ahead: for the calls of the request, if it begins, and then for those of
// one step after another. Reading outlives the run that starts it.
func (w *weightStream) start(ctx context.Context, request bool) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.ready, w.ended = make(chan filledSlot, w.pool.count), make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		if request && !w.readInOrder(ctx, w.request) {
			return
		}
		for len(w.step) > 0 && w.readInOrder(ctx, w.step) {
		}
	}(w.ended)
}

// readInOrder reads the weights of some calls, each as soon as there is a slot. It is false
// once the stream is stopped or has failed.
func (w *weightStream) readInOrder(ctx context.Context, calls []*streamedCall) bool {
	for _, c := range calls {
		var s *slot
		select {
		case s = <-w.pool.free:
		case <-ctx.Done():
			return false
		}
		f := w.fill(ctx, s, c)
		w.ready <- f // never waits: there is room for every slot
		if f.err != nil || ctx.Err() != nil {
			return false
		}
	}
	return true
}

// fill reads the weights of a call into a slot and hands them to the engine.
func (w *weightStream) fill(ctx context.Context, s *slot, c *streamedCall) (f filledSlot) {
	f = filledSlot{call: c.call, values: map[string]engine.Value{}}
	start := time.Now()
	var parts []checkpoint.Part
	for i, h := range c.weights {
		for k, at := range c.at[i] {
			parts = append(parts, w.s.source.partsOf(h, k, s.memory.Bytes()[at:at+int(h.t.Bytes())])...)
		}
	}
	stats, err := readUnchanged(ctx, w.s.source.checkpoint, parts)
	w.mu.Lock()
	w.totals.bytes, w.totals.reading = w.totals.bytes+stats.BytesRead, w.totals.reading+time.Since(start)
	w.mu.Unlock()
	if err != nil {
		w.pool.giveBack(s)
		f.err = err
		return f
	}
	s.use(c.users)
	f.slot = s
	defer fault.Recover(&f.err)
	for i, h := range c.weights {
		blocks := make([]*engine.Block, len(h.shards))
		for k, at := range c.at[i] {
			blocks[k] = &engine.Block{Data: s.memory.Bytes()[at : at+int(h.t.Bytes())], Release: s.done}
		}
		v, err := w.s.eng.Put(ctx, h.m, h.t, h.byPosition(blocks))
		if err != nil {
			f.err = fmt.Errorf("%s: %w", h.w.Name, err)
			return f
		}
		f.values[h.w.Name] = v
	}
	return f
}

// readUnchanged reads parts of a checkpoint whose files must still be those that were opened,
// before and after.
func readUnchanged(ctx context.Context, c *checkpoint.Checkpoint, parts []checkpoint.Part) (checkpoint.Stats, error) {
	if err := c.CheckUnchanged(parts); err != nil {
		return checkpoint.Stats{}, err
	}
	stats, err := c.Read(ctx, parts, checkpoint.ReadOptions{})
	if err == nil {
		err = c.CheckUnchanged(parts)
	}
	return stats, err
}

// take waits for the weights of a call, which must be the next in order.
func (w *weightStream) take(ctx context.Context, call int) (filledSlot, error) {
	start := time.Now()
	select {
	case f := <-w.ready:
		w.mu.Lock()
		w.totals.waiting += time.Since(start)
		w.mu.Unlock()
		if f.err != nil {
			f.discard()
			return filledSlot{}, fmt.Errorf("weights of %s: %w", w.s.g.Calls[f.call].Name, f.err)
		}
		if f.call != call {
			f.discard()
			return filledSlot{}, fmt.Errorf("the weights of %s came in place of those of %s", w.s.g.Calls[f.call].Name, w.s.g.Calls[call].Name)
		}
		return f, nil
	case <-ctx.Done():
		return filledSlot{}, context.Cause(ctx)
	}
}

// stop ends the reading and throws away what was read ahead. Slots that a call still reads
// come back to the pool when the engine says so.
func (w *weightStream) stop() {
	if w.ended == nil {
		return
	}
	w.cancel()
	<-w.ended
	w.ended = nil
	for {
		select {
		case f := <-w.ready:
			f.discard()
		default:
			return
		}
	}
}

// passOn lets go of the weights after the call was issued for its last lane, which makes v.
// The engine keeps what the call still reads. The slot is free again when the engine has
// released its memory and has computed v.
func (f filledSlot) passOn(v engine.Value) {
	if f.slot == nil {
		return
	}
	f.freeValues()
	go func() {
		_ = v.Wait(context.Background()) // an error is that of the run
		f.slot.done()
	}()
}

// discard lets go of weights that no call will read.
func (f filledSlot) discard() {
	if f.slot == nil {
		return
	}
	f.freeValues()
	f.slot.done()
}

func (f filledSlot) freeValues() {
	for _, v := range f.values {
		v.Free()
	}
}

// stopStreams stops all streams. They begin anew with the next run.
func (s *Session) stopStreams() {
	for _, w := range s.streams {
		if w != nil {
			w.stop()
		}
	}
}

// closeStreams stops all streams and gives their slots to the system.
func (s *Session) closeStreams() {
	s.stopStreams()
	for _, w := range s.streams {
		if w != nil {
			w.pool.close()
		}
	}
	s.streams = nil
}

// startStreams begins to read ahead where nothing is read ahead yet, and begins anew where a
// request begins.
func (s *Session) startStreams(ctx context.Context, request bool) {
	for _, w := range s.streams {
		switch {
		case w == nil:
		case request:
			w.stop()
			w.start(ctx, true)
		case w.ended == nil:
			w.start(ctx, false)
		}
	}
}

// takeWeights waits for the weights that are streamed with a call. It gives none for a call
// whose weights are on the devices.
func (s *Session) takeWeights(ctx context.Context, call int) (filledSlot, error) {
	if len(s.placed.Streamed) == 0 || len(s.placed.Streamed[call]) == 0 {
		return filledSlot{}, nil
	}
	return s.streams[s.g.Calls[call].Stage].take(ctx, call)
}

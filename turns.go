package weft

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// turns say which of several generations use the same devices when. Loops that denoise videos of
// one shape use them together; other phases run beside such loops and beside each other where memory
// by plan allows. Everything else goes one after another, in the order in which it came.
type turns struct {
	fits func(t *turn, using []*turn) bool // whether there is memory for t beside those

	mu      sync.Mutex
	waiting []*turn // in the order in which they came
	using   []*turn
}

// useCost is what a use of the devices takes.
type useCost struct {
	need int64 // bytes by plan; 0 is not known
	// exchanges says that its devices wait for each other. Of such uses one runs at a time: devices
	// that began two in different orders would wait for ever.
	exchanges bool
}

// turn is one use of the devices.
type turn struct {
	batch string // of a loop: what it has in common with those that it is batched with; "" of a phase
	seats int    // of a loop: how many may be in one batch
	model any    // that the use runs: it is on the devices once
	cost  useCost
	held  atomic.Int64  // bytes of the weights, when they are there
	begun chan struct{} // closed when the use may begin
}

// begin waits until a use may begin. end ends it.
func (q *turns) begin(ctx context.Context, t *turn) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	q.mu.Lock()
	t.begun = make(chan struct{})
	q.waiting = append(q.waiting, t)
	q.letBegin()
	q.mu.Unlock()
	select {
	case <-t.begun:
		return nil
	case <-ctx.Done():
		q.end(t)
		return context.Cause(ctx)
	}
}

// end ends a use, or the wait for it. A nil one is none.
func (q *turns) end(t *turn) {
	if t == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	is := func(other *turn) bool { return other == t }
	q.waiting, q.using = slices.DeleteFunc(q.waiting, is), slices.DeleteFunc(q.using, is)
	q.letBegin()
}

// letBegin lets those begin that may. The first that may not holds up all behind it, so that none
// waits for ever.
func (q *turns) letBegin() {
	for len(q.waiting) > 0 && q.mayBegin(q.waiting[0]) {
		t := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		q.using = append(q.using, t)
		close(t.begun)
	}
}

func (q *turns) mayBegin(t *turn) bool {
	loops := 0
	for _, u := range q.using {
		switch {
		case u.batch != "" && u.batch == t.batch:
			loops++
		case u.model == t.model || u.batch != "" && t.batch != "":
			return false
		}
	}
	switch {
	case loops > 0:
		return loops < t.seats // the batch has its memory
	case len(q.using) == 0:
		return true
	}
	return q.fits(t, oneOfEach(q.using))
}

// others are the uses besides one's own, a batch once.
func (q *turns) others(own *turn) []*turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(oneOfEach(q.using), func(u *turn) bool { return u == own || u.batch != "" && u.batch == own.batch })
}

// oneOfEach has one loop of each batch, and all phases.
func oneOfEach(uses []*turn) []*turn {
	var out []*turn
	for _, u := range uses {
		if u.batch == "" || !slices.ContainsFunc(out, func(o *turn) bool { return o.batch == u.batch }) {
			out = append(out, u)
		}
	}
	return out
}

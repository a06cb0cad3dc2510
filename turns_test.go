package weft

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Uses of the devices begin in their order: loops of one shape together, a phase beside loops where
// there is memory, everything else one after another.
func TestTurns(t *testing.T) {
	const limit = 10
	q := &turns{fits: func(u *turn, using []*turn) bool {
		for _, o := range using {
			u = &turn{cost: useCost{need: u.cost.need + o.cost.need}}
		}
		return u.cost.need <= limit
	}}
	begun := func(u *turn) bool {
		select {
		case <-u.begun:
			return true
		default:
			return false
		}
	}
	ask := func(u *turn) *turn {
		started := make(chan struct{})
		go func() { close(started); _ = q.begin(context.Background(), u) }()
		<-started
		for i := 0; ; i++ { // until it is known
			q.mu.Lock()
			known := u.begun != nil
			q.mu.Unlock()
			if known {
				return u
			}
			time.Sleep(time.Millisecond)
		}
	}
	check := func(what string, want map[*turn]bool) {
		t.Helper()
		for u, is := range want {
			if begun(u) != is {
				t.Errorf("%s: turn %+v has begun: %v, want %v", what, u.batch, !is, is)
			}
		}
	}
	a := ask(&turn{batch: "a", model: 1, seats: 2, cost: useCost{need: 6}})
	b := ask(&turn{batch: "a", model: 1, seats: 2, cost: useCost{need: 6}})
	c := ask(&turn{batch: "a", model: 1, seats: 2, cost: useCost{need: 6}})
	check("two seats", map[*turn]bool{a: true, b: true, c: false})
	q.end(a)
	small := ask(&turn{model: 2, cost: useCost{need: 4}})
	large := ask(&turn{model: 3, cost: useCost{need: 5}})
	d := ask(&turn{batch: "b", model: 1, seats: 2, cost: useCost{need: 1}})
	check("a seat is free, and a phase fits beside", map[*turn]bool{c: true, small: true, large: false, d: false})
	q.end(small)
	check("the next phase does not fit, and what is behind it waits", map[*turn]bool{large: false, d: false})
	q.end(b)
	check("a loop of the batch is left", map[*turn]bool{large: false})
	q.end(c)
	check("the loops have ended", map[*turn]bool{large: true, d: true})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := q.begin(ctx, &turn{cost: useCost{need: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a phase that is not waited for: %v", err)
	}
	q.end(large)
	q.end(d)
	if len(q.using)+len(q.waiting) != 0 {
		t.Errorf("%d use and %d wait at the end", len(q.using), len(q.waiting))
	}
}

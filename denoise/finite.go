package denoise

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"weft/nonfinite"
	"weft/tensor"
)

// finiteWatch hears what the devices see of NaN and infinities in the outputs of a step.
type finiteWatch struct {
	l    *Loop
	step int

	mu   sync.Mutex // stages of a pipeline tell at the same time
	lane string     // the first with such values
	seen nonfinite.Counts
}

// see takes what the devices saw in an output of a lane.
func (w *finiteWatch) see(lane string, seen nonfinite.Counts) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Count == 0 && seen.Count > 0 {
		w.lane, w.seen = lane, seen
	}
	return nil
}

// check refuses the velocities of the step if the devices saw a NaN or an infinity in one, or
// notes it where that is allowed. The error says with which value on the way it begins: for that
// the lane is run once more, with its inputs fed by again.
func (w *finiteWatch) check(ctx context.Context, again map[string]func() error) error {
	if w.seen.Count == 0 {
		return nil
	}
	f := nonfinite.Found{Of: "velocity", Step: &w.step, Compute: w.l.run.Request().DType.String()}
	if !w.l.odd.Allow {
		f.Arises = w.findOrigin(ctx, again[w.lane])
	}
	return w.l.odd.CheckCounts(f, w.seen)
}

// findOrigin names the first value on the way to the velocity that is not finite; "" where none
// is, or where that cannot be found out.
func (w *finiteWatch) findOrigin(ctx context.Context, feed func() error) string {
	if feed == nil || feed() != nil {
		return ""
	}
	found, origin := errors.New("found"), ""
	_ = w.l.run.Trace(ctx, w.lane, func(name string, t *tensor.Tensor) error {
		if count, _ := t.NonFinite(); count > 0 {
			origin = fmt.Sprintf("%s %v", name, t)
			return found
		}
		return nil
	})
	return origin
}

package denoise

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// computeVelocities runs the model on the latents for every text, in step i. Each text is a
// lane, or several lanes where a pipeline cuts the batch; the lanes of a step share the
// stages. The devices look whether the velocities are finite, before these reach the latents.
func (l *Loop) computeVelocities(ctx context.Context, i int, fresh bool, t float64) error {
	n, micro := l.run.Request().Batch, l.run.Microbatches()
	copies := n * micro / l.batch // 2 when guidance is one batch
	x, err := l.copiesWithKept(copies)
	if err != nil {
		return err
	}
	lanes, again := []string{}, map[string]func() error{}
	for pass, text := range l.texts {
		for k := range micro {
			lane := fmt.Sprintf("text %d micro %d", pass, k)
			lanes = append(lanes, lane)
			part := x.Rows(k*n, (k+1)*n)
			if err := l.feedLane(ctx, lane, text.Rows(k*n, (k+1)*n), part, pass*l.batch+k*n, fresh, t); err != nil {
				return err
			}
			again[lane] = func() error { return l.feedLatents(ctx, lane, part, t) }
		}
	}
	watch := finiteWatch{l: l, step: i}
	outs, err := l.run.Step(ctx, lanes, watch.see)
	if err == nil {
		err = watch.check(ctx, again)
	}
	if err != nil {
		return err
	}
	all := make([]*tensor.Tensor, len(outs))
	for k := range outs {
		if all[k], err = l.latentsOf(l.run.Request(), outs[k]["out"]); err != nil {
			return err
		}
	}
	fs, err := tensor.Stack(all).Float32s()
	if err != nil {
		return err
	}
	l.velocity = l.velocity[:0]
	for at := 0; at < len(fs); at += len(l.x) {
		l.velocity = append(l.velocity, fs[at:at+len(l.x)])
	}
	return nil
}

// latentsOf returns a step's output in the shape of the request's latents, or an error if
// it has another shape.
func (l *Loop) latentsOf(r models.Request, out *tensor.Tensor) (*tensor.Tensor, error) {
	want := append([]int{r.Batch}, l.shape[1:]...)
	if out == nil || out.Elements() != tensor.Elements(want) {
		return nil, fault.New(models.ErrOutput, nil,
			"%s gives %v in a step: want the velocity of latents %v; its configuration's channels out are no latents'", l.family.Name(), out, want)
	}
	out = l.family.velocityOf(r, out)
	if !slices.Equal(out.Shape, want) {
		return nil, fault.New(models.ErrOutput, nil, "%s gives %v in a step: want the velocity of latents %v", l.family.Name(), out, want)
	}
	return out, nil
}

// feedLane feeds the latents of a lane, which start at row lo of the videos of both
// texts. Before the expert's first step it also feeds the text and the conditions.
func (l *Loop) feedLane(ctx context.Context, lane string, text, x *tensor.Tensor, lo int, fresh bool, t float64) error {
	g, r := l.run.Graph(), l.run.Request()
	if fresh {
		in, err := l.family.FeedText(g, r, text)
		if err != nil {
			return err
		}
		more, err := l.family.feedConditions(g, r, l.conditionRows(lo, text.Shape[0]))
		if err != nil {
			return err
		}
		maps.Copy(in, more)
		if err := l.addGivenFrames(in); err != nil {
			return err
		}
		if err := l.run.Feed(ctx, lane, in); err != nil {
			return err
		}
	}
	return l.feedLatents(ctx, lane, x, t)
}

// feedLatents feeds what changes from step to step in a lane.
func (l *Loop) feedLatents(ctx context.Context, lane string, x *tensor.Tensor, t float64) error {
	in, err := l.feedStep(x, t)
	if err != nil {
		return err
	}
	return l.run.Feed(ctx, lane, in)
}

// feedStep makes the inputs of a step of one lane, with a timestep for each frame where
// frames are kept.
func (l *Loop) feedStep(x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error) {
	if l.kept != nil {
		return l.family.FeedFrameTimes(l.run.Graph(), l.run.Request(), x, l.frameTimes(t))
	}
	return l.family.FeedStep(l.run.Request(), x, t)
}

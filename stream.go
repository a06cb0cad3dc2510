package weft

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/session"
	"weft/tensor"
)

// FrameSource gives a frame of a model's input, (batch, channels, 1, height, width) of a
// floating-point type. A run asks for each frame once, in order, just before the first
// computation that reads it.
type FrameSource func(ctx context.Context, frame int) (*tensor.Tensor, error)

// StartFrames is Start for a model that reads one input frame by frame, such as an autoencoder:
// input is its name, shape (batch, channels, frames, height, width), and frames gives the
// elements while a step runs. Error: models.ErrInputs for a model of another kind.
func (m *Model) StartFrames(ctx context.Context, input string, shape []int, frames FrameSource, o Options) (*Run, error) {
	return runFeed{input: input, shape: shape, frames: frames}.start(m, o.AllowNonFinite, func(req models.Request) (*Run, error) { return m.prepareRun(ctx, req, o, nil) })
}

// framesRequest is the request of an input that comes frame by frame.
func (m *Model) framesRequest(input string, shape []int) (models.Request, error) {
	reader := m.Features().Frames
	if reader == nil {
		return models.Request{}, fault.New(models.ErrInputs, nil, "%s reads no input frame by frame: give its inputs whole", m.Name())
	}
	return reader.Request(input, shape)
}

// feedFrames takes the source of the frames, and feeds what does not come by frames.
func (r *Run) feedFrames(frames FrameSource) error {
	static, err := r.model.Features().Frames.FeedStatic(r.g)
	if err == nil && r.micro != 1 {
		err = fault.New(models.ErrBatch, nil, "%d microbatches of an input that comes by frames: want 1", r.micro)
	}
	r.frames, r.lanes, r.inputs = frames, []string{"frames"}, []map[string]*tensor.Tensor{static}
	return err
}

// nextFrame gets a frame of the graph's input from the source of frames.
func (r *Run) nextFrame(ctx context.Context, _ string, in graph.Input) (*tensor.Tensor, error) {
	if r.frames == nil {
		return nil, nil // told as an input that was not fed
	}
	t, err := r.frames(ctx, in.Frame)
	if err != nil {
		return nil, err
	}
	if t == nil || !t.DType.IsFloat() || !slices.Equal(t.Shape, in.Shape) {
		return nil, fault.New(models.ErrInputs, nil, "frame %d of %q is %v: want a floating-point type of shape %v", in.Frame, in.Of, t, in.Shape)
	}
	if err := r.odd.CheckTensors("input", nil, map[string]*tensor.Tensor{fmt.Sprintf("%s, frame %d", in.Of, in.Frame): t}); err != nil {
		return nil, err
	}
	return t.As(in.DType)
}

// Stream runs a step as Forward does, but hands over each part of an output as soon as it is
// computed, and keeps none: memory does not grow with the number of frames. visit is called in
// order with the output's name, the part's place along dim 2 (the frame; 0 for an output that is
// no video) and the part itself. Where an output has several names, the first one counts. An
// error of visit ends the step.
func (r *Run) Stream(ctx context.Context, visit func(name string, frame int, t *tensor.Tensor) error) error {
	if r.micro > 1 {
		return fault.New(models.ErrBatch, nil, "%d microbatches: parts of an output are handed over for the whole batch, so want 1", r.micro)
	}
	start, loaded := time.Now(), r.s.Loaded().Seconds
	if err := r.feedStep(ctx); err != nil {
		return err
	}
	_, err := r.s.Run(ctx, r.lanes, session.RunOptions{Progress: r.opt.Progress, Frame: r.nextFrame,
		Visit: func(_, name string, at int, t *tensor.Tensor) error {
			if err := r.odd.CheckFrame("output", name, at, t); err != nil {
				return err
			}
			return visit(name, at, t)
		}})
	if err != nil {
		return err
	}
	r.recordStepTime(time.Since(start).Seconds() - (r.s.Loaded().Seconds - loaded))
	return nil
}

// feedStep feeds the inputs of a step, in the first step those of the request as well.
func (r *Run) feedStep(ctx context.Context) error {
	for i, lane := range r.lanes {
		feed := r.inputs[i]
		if r.first > 0 {
			feed = r.stepInputs(feed)
		}
		if err := r.s.Feed(ctx, lane, feed); err != nil {
			return err
		}
	}
	return nil
}

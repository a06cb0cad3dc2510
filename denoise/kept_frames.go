package denoise

import (
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// Kept are the latents of given frames, such as an image's that a video begins with. The
// model sees them in the place of the loop's own, with timestep 0, since they have no
// noise. The loop's own latents of these frames are stepped like the others; VideoLatents
// has those kept in their places. A model whose given frames replace the loop's own
// (models.ReplacedFrames) is run in that way.
type Kept struct {
	Frames  []int          // of the latents, ascending
	Latents *tensor.Tensor // (batch, channels, frames kept, height, width) of a floating-point type
	// Mixed says that the frames are mixed into the loop's own latents, for a model whose first
	// frame is; nil keeps them apart.
	Mixed *Mixed
}

// keepFrames checks the frames that are kept, and enters in the request that frames have
// timesteps of their own.
func (l *Loop) keepFrames() error {
	k := l.o.Kept
	if k == nil {
		return nil
	}
	if !l.family.keepsFrames() {
		return fault.New(models.ErrInputs, nil,
			"frames %v are to be kept: %s has one timestep for all frames, and takes a given image, if at all, as a condition", k.Frames, l.family.Name())
	}
	var errs fault.List
	frames := l.shape[2]
	for i, f := range k.Frames {
		if f < 0 || f >= frames || i > 0 && f <= k.Frames[i-1] {
			errs.Add(fault.New(models.ErrInputs, nil, "frames %v are to be kept: want ascending numbers from 0 to %d", k.Frames, frames-1))
			break
		}
	}
	if n := len(k.Frames); n == 0 || n >= frames {
		errs.Add(fault.New(models.ErrInputs, nil, "%d of %d frames are to be kept: want 1 to %d, so that one is left to denoise", n, frames, frames-1))
	}
	want := slices.Clone(l.shape)
	want[2] = len(k.Frames)
	if k.Latents == nil || !k.Latents.DType.IsFloat() || !slices.Equal(k.Latents.Shape, want) {
		errs.Add(fault.New(models.ErrInputs, nil, "the latents of the frames to keep are %v: want %v of a floating-point type", k.Latents, want))
	}
	if err := errs.Err(); err != nil {
		return err
	}
	var err error
	if l.kept, err = k.Latents.Float32s(); err != nil {
		return err
	}
	l.req.TokenTimes, l.req.Times = true, 2
	return k.Mixed.check()
}

// putKept writes the frames that are kept over those of latents x.
func (l *Loop) putKept(x []float32) {
	if l.kept == nil || l.o.Kept.Mixed != nil {
		return
	}
	frame := l.shape[3] * l.shape[4]
	n := len(l.o.Kept.Frames)
	for row := range l.batch * l.shape[1] { // a channel of a video
		for i, f := range l.o.Kept.Frames {
			copy(x[(row*l.shape[2]+f)*frame:][:frame], l.kept[(row*n+i)*frame:])
		}
	}
}

// frameTimes returns the timestep of each frame: 0 for those that are kept, and t.
func (l *Loop) frameTimes(t float64) []float64 {
	ts := slices.Repeat([]float64{t}, l.shape[2])
	for _, f := range l.o.Kept.Frames {
		ts[f] = 0
		if m := l.o.Kept.Mixed; m != nil {
			ts[f] = min(t, 1000*(1-m.Strength))
		}
		if r := l.family.Image.Replaced; r != nil {
			ts[f] = 1000 * r.Level
		}
	}
	return ts
}

// copiesWithKept returns copies of the latents along the batch, with the frames that are
// kept in their places.
func (l *Loop) copiesWithKept(copies int) (*tensor.Tensor, error) {
	xs := make([]float32, 0, len(l.x)*copies)
	for i := range copies {
		xs = append(xs, l.x...)
		l.putKept(xs[i*len(l.x):])
	}
	return tensor.FromFloat32s(dtype.F32, xs, append([]int{l.batch * copies}, l.shape[1:]...)...)
}

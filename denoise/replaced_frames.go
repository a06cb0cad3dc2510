package denoise

import (
	"maps"
	"slices"

	"weft/dtype"
	"weft/tensor"
)

// aimFrames computes the velocity of given frames that replace the loop's own: what these begin
// with less the given latents, in every step, so that a sampler takes the loop's own to those given.
func (l *Loop) aimFrames() {
	if l.kept == nil || l.family.Image.Replaced == nil || l.o.OnlyCheck {
		return
	}
	if l.family.Image.Replaced.Begins {
		l.putKept(l.x)
	}
	l.aimed = make([]float32, len(l.kept))
	l.eachKept(func(x, kept, size int) {
		for i := range size {
			l.aimed[kept+i] = l.x[x+i] - l.kept[kept+i]
		}
	})
}

// putAimed writes the velocity of frames that are replaced over the model's.
func (l *Loop) putAimed(velocity []float32) {
	if l.aimed != nil {
		l.eachKept(func(x, kept, size int) { copy(velocity[x:x+size], l.aimed[kept:]) })
	}
}

// addGivenFrames adds the inputs that say which frames are given, for a model that reads this.
func (l *Loop) addGivenFrames(in map[string]*tensor.Tensor) error {
	if l.kept == nil || l.family.FeedGivenFrames == nil {
		return nil
	}
	more, err := l.family.FeedGivenFrames(l.run.Graph(), l.run.Request(), l.o.Kept.Frames)
	maps.Copy(in, more)
	return err
}

// decodedLatents are the latents with the frames that are kept apart in their places.
func (l *Loop) decodedLatents() (*tensor.Tensor, error) {
	if l.aimed != nil {
		return tensor.FromFloat32s(dtype.F32, slices.Clone(l.x), l.shape...)
	}
	return l.copiesWithKept(1)
}

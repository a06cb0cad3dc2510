package denoise

import (
	"math"

	"weft/fault"
	"weft/models"
)

// Mixed says how given frames are mixed into the latents. Before the first step they are
// x + Strength (given - x) of the latents x. A frame of strength 1 is never denoised: in every
// step it is what it was at first, and NoiseScale times noise times the squared noise level. One
// of less strength is denoised from the noise level 1 - Strength on.
type Mixed struct{ Strength, NoiseScale float64 }

// fullStrength is the strength from which on a frame is never denoised.
const fullStrength = 1 - 1e-6

// check reports numbers that are no strength and no scale.
func (m *Mixed) check() error {
	if m == nil {
		return nil
	}
	var errs fault.List
	if !(m.Strength > 0 && m.Strength <= 1) {
		errs.Add(fault.New(models.ErrInputs, nil, "strength %g of the given frames: want a share above 0, at most 1", m.Strength))
	}
	if !(m.NoiseScale >= 0 && m.NoiseScale <= math.MaxFloat32) {
		errs.Add(fault.New(models.ErrInputs, nil, "scale %g of the given frames' noise: want 0 or more", m.NoiseScale))
	}
	return errs.Err()
}

// noisesFrames reports whether given frames get noise in every step.
func (l *Loop) noisesFrames() bool {
	return l.kept != nil && l.o.Kept.Mixed != nil && l.o.Kept.Mixed.Strength > fullStrength && l.o.Kept.Mixed.NoiseScale > 0
}

// eachKept calls f for the values of each given frame and channel: where they begin in latents, and
// where in those that are kept.
func (l *Loop) eachKept(f func(x, kept, size int)) {
	frame := l.shape[3] * l.shape[4]
	n := len(l.o.Kept.Frames)
	for row := range l.batch * l.shape[1] { // a channel of a video
		for i, at := range l.o.Kept.Frames {
			f((row*l.shape[2]+at)*frame, (row*n+i)*frame, frame)
		}
	}
}

// mixFrames mixes the given frames into the first latents, and keeps what that makes of them.
func (l *Loop) mixFrames() {
	if l.kept == nil || l.o.Kept.Mixed == nil || l.o.OnlyCheck {
		return
	}
	strength := float32(l.o.Kept.Mixed.Strength)
	l.eachKept(func(x, kept, size int) {
		for i := range size {
			v := l.x[x+i]
			l.x[x+i] = v + strength*(l.kept[kept+i]-v)
			l.kept[kept+i] = l.x[x+i]
		}
	})
}

// noiseFrames gives frames of full strength the noise of a step.
func (l *Loop) noiseFrames(step int) {
	if !l.noisesFrames() {
		return
	}
	noise := make([]float32, len(l.x))
	l.fillNoise(step, 0, noise)
	level := float32(l.sampler.Timestep(step) / 1000)
	by := float32(l.o.Kept.Mixed.NoiseScale)
	l.eachKept(func(x, kept, size int) {
		for i := range size {
			l.x[x+i] = l.kept[kept+i] + by*noise[x+i]*(level*level)
		}
	})
}

// stepLatents moves the latents along a velocity by a step of the sampler. Frames that are mixed in
// move from their own noise level to the next one, or stay.
func (l *Loop) stepLatents(step int, velocity []float32) error {
	if l.kept == nil || l.o.Kept.Mixed == nil || l.o.OnlyCheck {
		return l.sampler.Step(step, l.x, velocity)
	}
	before := make([]float32, len(l.kept))
	l.eachKept(func(x, kept, size int) { copy(before[kept:kept+size], l.x[x:]) })
	own := append([]float32{}, velocity...)
	if err := l.sampler.Step(step, l.x, velocity); err != nil {
		return err
	}
	by := float32(l.moveOfFrames(step))
	l.eachKept(func(x, kept, size int) {
		for i := range size {
			l.x[x+i] = before[kept+i] + by*own[x+i]
		}
	})
	return nil
}

// moveOfFrames is by how much the noise level of frames that are mixed in changes in a step: 0
// before they are denoised.
func (l *Loop) moveOfFrames(step int) float64 {
	level, start := l.sampler.Timestep(step)/1000, 1-l.o.Kept.Mixed.Strength
	if level-1e-6 >= start {
		return 0
	}
	level = min(level, start)
	for i := range l.sampler.Steps() + 1 { // levels fall, so the first one below is the nearest
		if next := l.sampler.Sigma(i); next < level-1e-6 {
			return next - level
		}
	}
	return -level
}

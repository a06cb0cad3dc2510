package sampler

import (
	"math"

	"weft/fault"
)

// newLTX is LTX-Video's Euler method, on a schedule that is linear in its first half and
// quadratic in its second.
func newLTX(o Options) *multistep {
	const threshold = 0.025 // how far the linear half descends
	n := o.Steps
	linear := n / 2
	sigmas := make([]float64, n+1) // the last is 0
	diff := float64(linear) - threshold*float64(n)
	square := float64((n - linear) * (n - linear))
	for i := range n {
		x, l := float64(i), float64(linear)
		switch {
		case n == 1:
			sigmas[i] = 1
		case i < linear:
			sigmas[i] = 1 - x*threshold/l
		default:
			quad := diff / (l * square)
			slope := threshold/l - 2*diff/square
			sigmas[i] = 1 - (quad*x*x + slope*x + quad*l*l)
		}
	}
	return eulerFromSigmas(sigmas)
}

// ltx is a sampler that can step tokens with different noise levels.
type ltx struct{ *multistep }

func (s *ltx) StepTokens(sample, velocity, sigmas []float32) error {
	if len(velocity) != len(sample) {
		return fault.New(ErrLength, Length{"velocity", len(velocity), len(sample)},
			"velocity has %d elements and the sample %d; they must be equal", len(velocity), len(sample))
	}
	if len(sample) == 0 && len(sigmas) == 0 {
		return nil
	}
	if len(sigmas) == 0 || len(sample)%len(sigmas) != 0 {
		return fault.New(ErrLength, Length{"sigmas", len(sigmas), len(sample)},
			"%d token sigmas do not divide a sample of %d elements into rows", len(sigmas), len(sample))
	}
	row := len(sample) / len(sigmas)
	for tok, sigma := range sigmas {
		lower := 0.
		for _, level := range s.sigmas { // they fall, so the first one below is the nearest
			if level < float64(sigma)-1e-6 {
				lower = level
				break
			}
		}
		combineTwo(sample[tok*row:(tok+1)*row], velocity[tok*row:(tok+1)*row], 1, float32(lower-float64(sigma)))
	}
	return nil
}

// The noise levels that distilled weights were made for: LTX-Video's first pass (its configs/), and
// LTX-2's (its constants.py).
var (
	ltxDistilled  = []float64{1, 0.9937, 0.9875, 0.9812, 0.975, 0.9094, 0.725}
	ltx2Distilled = []float64{1, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875}
)

// eulerFromList is Euler's method over the levels of a list and then 0. Of fewer steps than levels
// it takes those at even places.
func eulerFromList(levels []float64, steps int) *multistep {
	sigmas := make([]float64, steps+1) // the last is 0
	for i := range steps {
		sigmas[i] = levels[i*len(levels)/steps]
	}
	return eulerFromSigmas(sigmas)
}

// newLTXShifted is the schedule of LTX-Video up to 0.9.1, and of LTX-2: n even levels from 1 to 1/n are
// shifted by the number of a video's tokens, then stretched so that the last level before 0
// is 0.1. The shift is e^mu; mu lies on the line through 0.95 at 1024 tokens and 2.05 at
// 4096.
func newLTXShifted(o Options) *multistep {
	const terminal = 0.1
	mu := 0.95 + (float64(o.Tokens)-1024)*(2.05-0.95)/(4096-1024)
	shift := math.Exp(mu)
	n := o.Steps
	sigmas := make([]float64, n+1) // the last is 0
	for i := range n {
		s := 1.0
		if n > 1 {
			s = 1 + (1/float64(n)-1)*float64(i)/float64(n-1)
		}
		sigmas[i] = shift / (shift + 1/s - 1)
	}
	if last := 1 - sigmas[n-1]; n > 1 && last > 0 { // a single step goes from 1 to 0
		for i := range n {
			sigmas[i] = 1 - (1-sigmas[i])/(last/(1-terminal))
		}
	}
	return eulerFromSigmas(sigmas)
}

package sampler

import "math"

// warpedSigmas are n+1 evenly spaced noise levels from hi to lo, warped by shift (see
// Options.Shift).
func warpedSigmas(hi, lo float64, n int, shift float64) []float64 {
	out := make([]float64, n+1)
	for i := range out {
		s := hi + (lo-hi)*(float64(i)/float64(n))
		out[i] = shift * s / (1 + (shift-1)*s)
	}
	return out
}

// timestepsOf are the timesteps of noise levels: 1000 sigma.
func timestepsOf(sigmas []float64) []float64 {
	out := make([]float64, len(sigmas))
	for i, s := range sigmas {
		out[i] = trainSteps * s
	}
	return out
}

// newEuler is vidax's RectifiedFlowScheduler, whose grid starts at exactly 1.
func newEuler(o Options) *multistep { return eulerFromSigmas(warpedSigmas(1, 0, o.Steps, o.Shift)) }

// eulerFromSigmas is Euler's method over given noise levels.
func eulerFromSigmas(sigmas []float64) *multistep {
	return &multistep{sigmas: sigmas, timesteps: timestepsOf(sigmas), coefs: func(i, _ int) coefs {
		return coefs{P: 1, Q: sigmas[i+1] - sigmas[i]}
	}}
}

// sigmaMax is the first noise level of UniPC's grid, 1 - 1/1000, so that log(1-sigma) is
// finite. It is rounded to float32 as in the released scheduler. That matters if timesteps
// are truncated: 1000*sigma must not come out as 665.999.
var sigmaMax = float64(float32(0.999))

// newUniPC is Wan's own scheduler, which vidax has too: UniPC of order 2 with B(h) = e^h -
// 1, which predicts the clean sample from a flow model; the last step is of first order.
func newUniPC(o Options) *multistep {
	return uniPCFromSigmas(warpedSigmas(sigmaMax, 0, o.Steps, o.Shift))
}

// newUniPCFlow is UniPC as diffusers runs it for flow models. It takes the first n of n+1
// even levels from 1 to 1/1000, warped; the first is set a little below 1, so that
// log(1-sigma) is finite.
func newUniPCFlow(o Options) *multistep {
	sigmas := warpedSigmas(1, 1./trainSteps, o.Steps, o.Shift)
	sigmas[0], sigmas[o.Steps] = 1-1e-6, 0
	return uniPCFromSigmas(sigmas)
}

// newKarras is UniPC on Cosmos3's grid: the power-law ramp of Karras et al. from 200 to
// 0.147, with each s mapped to s/(s+1).
func newKarras(o Options) *multistep {
	const lo, hi, rho = 0.147, 200, 7
	n := o.Steps
	sigmas := make([]float64, n+1)
	a, b := math.Pow(hi, 1./rho), math.Pow(lo, 1./rho)
	for i := range n {
		s := math.Pow(a+float64(i)/float64(max(n-1, 1))*(b-a), rho)
		sigmas[i] = s / (s + 1)
	}
	return uniPCFromSigmas(sigmas)
}

// uniPCFromSigmas is UniPC over given noise levels.
func uniPCFromSigmas(sigmas []float64) *multistep {
	return &multistep{sigmas: sigmas, timesteps: timestepsOf(sigmas), history: 2, coefs: func(i, have int) coefs {
		return uniPCCoefs(sigmas, i, have)
	}}
}

// bhUpdate holds the factors of UniPC's update from sigma[i] to sigma[i+1].
type bhUpdate struct {
	ratio float64 // sigma' / sigma
	k     float64 // alpha' (e^-h - 1), where h is the distance in lambda = log(alpha/sigma)
	r     float64 // the distance to the point before, in units of h: negative; 0 at order 1
	rho   [2]float64
}

func newBHUpdate(sigmas []float64, i, order int) bhUpdate {
	lambda := func(j int) float64 { return math.Log(1-sigmas[j]) - math.Log(sigmas[j]) }
	s, t := sigmas[i], sigmas[i+1]
	h := lambda(i+1) - lambda(i) // +Inf at the last step, where only ratio and k are used
	u := bhUpdate{ratio: t / s, k: (1 - t) * math.Expm1(-h)}
	if order < 2 {
		u.rho = [2]float64{0, 0.5}
		return u
	}
	// The corrector's weights solve rho0+rho1 = b0, r rho0+rho1 = b1.
	u.r = (lambda(i-1) - lambda(i)) / h
	e := math.Expm1(-h)
	phi2 := e/-h - 1
	phi3 := phi2/-h - 0.5
	b0, b1 := phi2/e, 2*phi3/e
	u.rho[0] = (b0 - b1) / (1 - u.r)
	u.rho[1] = b0 - u.rho[0]
	return u
}

// uniPCCoefs folds the corrector of the step before and the predictor of this one into one
// linear map. Let base = ratio x - k m0, from which both start: the predictor arrived at
// base - k D/2, and the corrector would arrive at base - k (rho0 D + rho1 (m - m0)), where D
// = (m1-m0)/r and order 1 has no D. The corrected sample is therefore the predicted one plus
// the difference, and the sample before the step need not be kept.
func uniPCCoefs(sigmas []float64, i, have int) coefs {
	n := len(sigmas) - 1
	order := func(j, have int) int { return min(2, n-j, have+1) }
	c := coefs{A: 1, B: -sigmas[i]}

	// x = s + cm m + c0 m0 + c1 m1 is the corrected sample.
	var cm, c0, c1 float64
	if have > 0 {
		o := order(i-1, have-1)
		u := newBHUpdate(sigmas, i-1, o)
		cm, c0 = -u.k*u.rho[1], u.k*u.rho[1]
		if o == 2 {
			d := u.k * (0.5 - u.rho[0]) / u.r
			c0 -= d
			c1 = d
		}
	}
	// s' = ratio x - k m - k (m0-m)/(2r).
	o := order(i, have)
	u := newBHUpdate(sigmas, i, o)
	dm, d0 := -u.k, 0.
	if o == 2 {
		d := u.k * 0.5 / u.r
		dm += d
		d0 = -d
	}
	m := u.ratio*cm + dm
	c.P = u.ratio + m
	c.Q = -sigmas[i] * m
	c.R = u.ratio*c0 + d0
	c.S = u.ratio * c1
	return c
}

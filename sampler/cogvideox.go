package sampler

import "math"

// cogSchedule is CogVideoX's training schedule (scaled linear betas, zero terminal SNR) and
// its trailing timesteps, which are the same in all releases.
type cogSchedule struct {
	alphas []float64 // the cumulative products of alphas, trainSteps of them; the last is 0
	t      []int     // the timesteps of the sampler, highest first
	stride int
}

func newCogSchedule(o Options) *cogSchedule {
	const betaStart, betaEnd = 0.00085, 0.012
	c := &cogSchedule{alphas: make([]float64, trainSteps), t: make([]int, o.Steps), stride: trainSteps / o.Steps}
	lo, hi := math.Sqrt(betaStart), math.Sqrt(betaEnd)
	product := 1.0
	for i := range c.alphas {
		beta := lo + (hi-lo)*float64(i)/(trainSteps-1)
		product *= 1 - beta*beta
		c.alphas[i] = math.Sqrt(product / (o.Shift + (1-o.Shift)*product))
	}
	first, last := c.alphas[0], c.alphas[trainSteps-1]
	for i, a := range c.alphas {
		a = (a - last) * (first / (first - last))
		c.alphas[i] = a * a
	}
	for i := range c.t {
		c.t[i] = int(math.RoundToEven(trainSteps-float64(i)*trainSteps/float64(o.Steps))) - 1
	}
	return c
}

// alphasAt gives the products of alphas before and after step i. The peers go down by a
// whole stride, whatever the next timestep is, and so does this.
func (c *cogSchedule) alphasAt(i int) (a, next float64) {
	a, next = c.alphas[c.t[i]], 1
	if t := c.t[i] - c.stride; t >= 0 {
		next = c.alphas[t]
	}
	return a, next
}

// newMultistep makes a sampler on the schedule from the coefficients of its steps.
func (c *cogSchedule) newMultistep(history int, coefs func(i, have int) coefs) *multistep {
	n := len(c.t)
	s := &multistep{sigmas: make([]float64, n+1), timesteps: make([]float64, n+1), history: history, coefs: coefs}
	for i, t := range c.t {
		s.sigmas[i], s.timesteps[i] = math.Sqrt(1-c.alphas[t]), float64(t)
	}
	return s
}

// newDDIM is CogVideoXDDIMScheduler at eta 0, for a model that predicts v.
func newDDIM(o Options) *multistep {
	c := newCogSchedule(o)
	return c.newMultistep(0, func(i, _ int) coefs {
		a, next := c.alphasAt(i)
		p := math.Sqrt((1 - next) / (1 - a))
		m := math.Sqrt(next) - math.Sqrt(a)*p
		return coefs{P: p + m*math.Sqrt(a), Q: -m * math.Sqrt(1-a)}
	})
}

// newDPM is CogVideoXDPMScheduler: DPM-Solver++ (SDE), second order but for the first and the last step.
func newDPM(o Options) *multistep {
	c := newCogSchedule(o)
	lambda := func(a float64) float64 { return math.Log(math.Sqrt(a / (1 - a))) } // -Inf at a = 0, +Inf at 1
	s := c.newMultistep(1, func(i, have int) coefs {
		a, next := c.alphasAt(i)
		h := lambda(next) - lambda(a)
		k := coefs{A: math.Sqrt(a), B: -math.Sqrt(1 - a), N: math.Sqrt((1 - next) * -math.Expm1(-2*h))}
		m := -math.Expm1(-2*h) * math.Sqrt(next)
		p := math.Sqrt((1-next)/(1-a)) * math.Exp(-h)
		if have > 0 && c.t[i] >= c.stride {
			before := c.alphas[c.t[i-1]]
			r := (lambda(a) - lambda(before)) / h // +Inf after the first step, whose a is 0
			k.R = -m / (2 * r)
			m *= 1 + 1/(2*r)
		}
		k.P, k.Q = p+m*k.A, m*k.B
		return k
	})
	s.noise = o.Noise
	if s.noise == nil {
		s.noise = func(step, _ int, dst []float32) { Fill(o.Seed, uint64(step)+1, 0, dst) }
	}
	return s
}

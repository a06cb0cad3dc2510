package sampler

import (
	"runtime"
	"sync"

	"weft/fault"
)

// chunk is the smallest number of elements that is worth a goroutine: about 50 us of work.
const chunk = 1 << 16

// runInPieces runs f over [0, n), cut into at most GOMAXPROCS pieces that run at the same
// time. A small n runs in the caller's goroutine.
func runInPieces(n int, f func(lo, hi int)) {
	workers := min(runtime.GOMAXPROCS(0), (n+chunk-1)/chunk)
	if workers < 2 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { f(n*w/workers, n*(w+1)/workers) })
	}
	wg.Wait()
}

// combineTwo sets s = p s + q v.
func combineTwo(s, v []float32, p, q float32) {
	runInPieces(len(s), func(lo, hi int) {
		s, v := s[lo:hi], v[lo:hi]
		v = v[:len(s)]
		for i := range s {
			s[i] = p*s[i] + q*v[i]
		}
	})
}

// combineThree sets s = P s + Q v + R m0 and replaces m0 by A s + B v of the old s.
func combineThree(s, v, m0 []float32, c coefs) {
	a, b, p, q, r := float32(c.A), float32(c.B), float32(c.P), float32(c.Q), float32(c.R)
	runInPieces(len(s), func(lo, hi int) {
		s, v, m0 := s[lo:hi], v[lo:hi], m0[lo:hi]
		v, m0 = v[:len(s)], m0[:len(s)]
		for i, x := range s {
			y, old := v[i], m0[i]
			m0[i] = a*x + b*y
			s[i] = p*x + q*y + r*old
		}
	})
}

// combineFour sets s = P s + Q v + R m0 + S m1 and replaces m1 by A s + B v of the old s.
func combineFour(s, v, m0, m1 []float32, c coefs) {
	a, b, p, q, r, t := float32(c.A), float32(c.B), float32(c.P), float32(c.Q), float32(c.R), float32(c.S)
	runInPieces(len(s), func(lo, hi int) {
		s, v, m0, m1 := s[lo:hi], v[lo:hi], m0[lo:hi], m1[lo:hi]
		v, m0, m1 = v[:len(s)], m0[:len(s)], m1[:len(s)]
		for i, x := range s {
			y, old := v[i], m1[i]
			m1[i] = a*x + b*y
			s[i] = p*x + q*y + r*m0[i] + t*old
		}
	})
}

// Guide is classifier-free guidance: dst = uncond + scale (cond - uncond). Dst may be either input.
func Guide(uncond, cond []float32, scale float32, dst []float32) error {
	for _, l := range []Length{{"cond", len(cond), len(uncond)}, {"dst", len(dst), len(uncond)}} {
		if l.Have != l.Want {
			return fault.New(ErrLength, l, "%s has %d elements and uncond %d; they must be equal", l.What, l.Have, l.Want)
		}
	}
	runInPieces(len(dst), func(lo, hi int) {
		u, c, d := uncond[lo:hi], cond[lo:hi], dst[lo:hi]
		c, d = c[:len(u)], d[:len(u)]
		for i, x := range u {
			d[i] = x + scale*(c[i]-x)
		}
	})
	return nil
}

package strategy

import (
	"math"

	"weft/fault"
)

// Costs are the costs of a pipeline's parts, in any one unit.
type Costs struct {
	Embed float64   // of everything before the layers, on the first stage
	Head  float64   // of everything after them, on the last stage
	Layer []float64 // of each layer; nil: 1 each
}

func (c Costs) checkCosts(layers int) error {
	bad := c.Layer != nil && len(c.Layer) != layers
	for _, x := range append([]float64{c.Embed, c.Head}, c.Layer...) {
		bad = bad || x < 0 || math.IsInf(x, 0) || math.IsNaN(x)
	}
	if bad {
		return fault.New(ErrCosts, BadCosts{layers, len(c.Layer)},
			"costs are one for each of %d layers, have %d; each, and those of embed (%g) and head (%g), is a number from 0 up", layers, len(c.Layer), c.Embed, c.Head)
	}
	return nil
}

// Of gives the cost of each stage.
func (c Costs) Of(s Stages) []float64 {
	out := make([]float64, s.Len())
	for i, r := range s.Ranges() {
		for l := r.Lo; l < r.Hi; l++ {
			if c.Layer == nil {
				out[i]++
			} else if l < len(c.Layer) {
				out[i] += c.Layer[l]
			}
		}
	}
	if len(out) > 0 {
		out[0] += c.Embed
		out[len(out)-1] += c.Head
	}
	return out
}

// Balanced assigns layers by cost, for a 1F1B schedule of so many microbatches. Of
// all splits into contiguous ranges with at least a layer a stage it takes the one
// with, in this order: the smallest largest cost of a stage, the largest smallest
// cost, the smallest Peak, and the smallest counts of the first stages. Costs that
// differ by less than one part in 10^9 are equal. Errors: ErrSplit, ErrEmptyStage,
// ErrCosts, ErrSchedule for fewer than one microbatch.
func Balanced(layers, stages, micro int, c Costs) (Stages, error) {
	if err := checkSplit(layers, stages); err != nil {
		return Stages{}, err
	}
	err := c.checkCosts(layers)
	if micro < 1 {
		err = fault.Join(err, fault.New(ErrSchedule, BadSchedule{Kind: OneF1B, Stages: stages, Micro: micro, Chunks: 1},
			"a split for %d microbatches does not exist; the least is 1", micro))
	}
	if err != nil {
		return Stages{}, err
	}
	b := newBalance(layers, stages, micro, c)
	total := b.stageCost(0, layers, 0) + c.Head
	if stages == 1 {
		return Stages{[]int{layers}}, nil
	}
	// Each bound is narrowed until hardly any split keeps it, and is then widened by the
	// difference that counts as equal.
	slack := tolerance * total
	b.most = slack + leastFloat(0, total, func(x float64) bool { b.most = x; return b.isPossible() })
	b.fewest = -slack - leastFloat(-total, 0, func(x float64) bool { b.fewest = -x; return b.isPossible() })
	b.peak = leastInt(1, stages*layers, func(n int) bool { b.peak = n; return b.isPossible() })
	return b.firstSplit(), nil
}

// balance searches for a split whose stages keep three bounds.
type balance struct {
	layers, stages, micro int
	sums                  []float64 // sums[i]: cost of the first i layers
	embed, head           float64
	most, fewest          float64 // bounds of a stage's cost
	peak                  int     // bound of min(stages-i, micro)*layers of stage i
	// reach[s][i]: stages s and up can hold layers i and up.
	reach [][]bool
}

func newBalance(layers, stages, micro int, c Costs) *balance {
	b := &balance{layers: layers, stages: stages, micro: micro, sums: make([]float64, layers+1),
		embed: c.Embed, head: c.Head, most: math.Inf(1), fewest: 0, peak: math.MaxInt}
	for i := range layers {
		cost := 1.0
		if c.Layer != nil {
			cost = c.Layer[i]
		}
		b.sums[i+1] = b.sums[i] + cost
	}
	b.reach = make([][]bool, stages+1)
	for s := range b.reach {
		b.reach[s] = make([]bool, layers+1)
	}
	return b
}

// stageCost gives the cost of stage s where it holds layers lo to hi.
func (b *balance) stageCost(lo, hi, s int) float64 {
	x := b.sums[hi] - b.sums[lo]
	if s == 0 {
		x += b.embed
	}
	if s == b.stages-1 {
		x += b.head
	}
	return x
}

const tolerance = 1e-9

// keepsBounds reports whether stage s may hold layers lo to hi.
func (b *balance) keepsBounds(lo, hi, s int) bool {
	x := b.stageCost(lo, hi, s)
	return x <= b.most && x >= b.fewest && (hi-lo) <= b.peak/min(b.stages-s, b.micro)
}

// isPossible fills reach and reports whether a split keeps the bounds. For one first layer,
// the last layers that a stage may have are a contiguous range. Both its ends move on with
// the first layer, so that one pass over the layers is enough for each stage.
func (b *balance) isPossible() bool {
	for i := range b.reach[b.stages] {
		b.reach[b.stages][i] = i == b.layers
	}
	for s := b.stages - 1; s >= 0; s-- {
		b.fillStage(s)
	}
	return b.reach[0][0]
}

func (b *balance) fillStage(s int) {
	next, here := b.reach[s+1], b.reach[s]
	width := b.peak / min(b.stages-s, b.micro)
	lo, hi, good := 0, 0, 0 // good: how many of next[lo:hi] are reachable
	for i := range here {
		for hi <= b.layers && hi-i <= width && (hi <= i || b.stageCost(i, hi, s) <= b.most) {
			if next[hi] {
				good++
			}
			hi++
		}
		for lo < hi && (lo <= i || b.stageCost(i, lo, s) < b.fewest) {
			if next[lo] {
				good--
			}
			lo++
		}
		here[i] = good > 0
	}
}

// firstSplit gives, of the splits that keep the bounds, the one with the smallest counts
// on the first stages. There must be one.
func (b *balance) firstSplit() Stages {
	counts := make([]int, b.stages)
	at := 0
	for s := range counts {
		for hi := at + 1; hi <= b.layers; hi++ {
			if b.reach[s+1][hi] && b.keepsBounds(at, hi, s) {
				counts[s] = hi - at
				break
			}
		}
		at += counts[s]
	}
	return Stages{counts}
}

// leastFloat finds by bisection, to within rounding, the smallest x between lo and hi at
// which ok holds. ok must hold from that x up to hi.
func leastFloat(lo, hi float64, ok func(float64) bool) float64 {
	for range 64 {
		mid := lo + (hi-lo)/2
		if ok(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

func leastInt(lo, hi int, ok func(int) bool) int {
	for lo < hi {
		mid := lo + (hi-lo)/2
		if ok(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	ok(hi)
	return hi
}

package main

import (
	"math"
	"slices"

	"weft/fault"
)

// difference is how far b is from a.
type difference struct {
	MaxAbs float64 `json:"max_abs"`
	Peak   float64 `json:"peak"`    // max |a|
	RelRMS float64 `json:"rel_rms"` // rms(b-a) / rms(a)
}

func diff(a, b []float32) difference {
	var d difference
	var sum, sum2 float64
	for i := range a {
		x, e := float64(a[i]), math.Abs(float64(b[i])-float64(a[i]))
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		d.MaxAbs, d.Peak = max(d.MaxAbs, e), max(d.Peak, math.Abs(x))
		sum, sum2 = sum+e*e, sum2+x*x
	}
	d.RelRMS = math.Sqrt(sum / max(sum2, math.SmallestNonzeroFloat64))
	return d
}

// bf16RelRMS is how far two bfloat16 runs of one model may be apart, in rms, relative to the output.
//
// Rounding to 8 bits of significand is off by 2^-7/sqrt(12) of the value's power of two, in rms, and by
// about 1.6e-3 of the value itself. A block rounds some 8 times in a row on the way of a change to the
// residual stream (the norm, q and k, rope, v, the attention's output, o; the same in the rest), and the
// errors are independent, so L layers give 1.6e-3 sqrt(8 L), which the tiny fixture confirms: 6.4e-3 by this,
// 5.5e-3 of its output's rms measured (diffusers; vidax, which rounds less, 3.8e-3). Two programs round apart:
// sqrt(2) more. Twice that is allowed. A wrong weight or a forgotten norm moves the output by 1e-1 or more.
func bf16RelRMS(layers int) float64 { return 2 * math.Sqrt2 * 1.6e-3 * math.Sqrt(8*float64(layers)) }

// f32MaxAbs bounds max |difference| in float32, relative to the peak: 100 times what the peers differ by on the fixtures.
const f32MaxAbs = 1e-3

// agree compares the outputs of two programs on a case.
func agree(c bcase, nameA, fileA, nameB, fileB string) (difference, error) {
	shapeA, a, err := readTensor(fileA, "out")
	if err != nil {
		return difference{}, err
	}
	shapeB, b, err := readTensor(fileB, "out")
	if err != nil {
		return difference{}, err
	}
	if !slices.Equal(shapeA, shapeB) {
		return difference{}, fault.New(ErrDisagree, nil, "%s: %s gives shape %v and %s %v", c.name, nameA, shapeA, nameB, shapeB)
	}
	d := diff(a, b)
	if c.dtype == "f32" && d.MaxAbs > f32MaxAbs*d.Peak {
		return d, fault.New(ErrDisagree, d, "%s: %s and %s differ by up to %.3g where the peak is %.3g; at most %g of the peak is rounding",
			c.name, nameA, nameB, d.MaxAbs, d.Peak, f32MaxAbs)
	}
	if limit := bf16RelRMS(c.layers); c.dtype != "f32" && !(d.RelRMS <= limit) {
		return d, fault.New(ErrDisagree, d, "%s: %s and %s differ by %.3g of the output in rms; at most %.3g is rounding in %d layers",
			c.name, nameA, nameB, d.RelRMS, limit, c.layers)
	}
	return d, nil
}

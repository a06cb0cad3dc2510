package spmd

import (
	"weft/program"
)

// erfP and erfQ are the coefficients, highest power first, of a rational
// approximation erf(x) = x P(x^2) / Q(x^2) for |x| <= 4, beyond which erf is 1 in
// f32: the one of Eigen and of XLA's own expansion. Its error is below 4e-7.
var (
	erfP = []float64{-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
		-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02}
	erfQ = []float64{-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02}
)

// Erf is the error function of an f32 tensor, made of multiplications and additions,
// because StableHLO has no such operation.
func (b *Builder) Erf(x Tensor) Tensor {
	x = b.Reduced(x, "erf needs whole sums")
	v := b.LMax(b.LBinary(program.OpMin, x.local, b.LConst(x.DType, 4)), b.LConst(x.DType, -4))
	square := b.LMul(v, v)
	poly := func(cs []float64) Local {
		y := b.LConst(x.DType, cs[0])
		for _, c := range cs[1:] {
			y = b.LAdd(b.LMul(y, square), b.LConst(x.DType, c))
		}
		return y
	}
	return b.Global(b.LDiv(b.LMul(v, poly(erfP)), poly(erfQ)), x.Shape, x.Spec)
}

// Gelu is the exact GELU: x/2 (1 + erf(x/sqrt 2)).
func (b *Builder) Gelu(x Tensor) Tensor {
	x = b.Reduced(x, "gelu needs whole sums")
	return b.Mul(b.Scale(x, 0.5), b.Shift(b.Erf(b.Scale(x, 0.7071067811865476)), 1))
}

// Relu is the larger of x and 0.
func (b *Builder) Relu(x Tensor) Tensor {
	x = b.Reduced(x, "relu needs whole sums")
	return b.Global(b.LMax(x.local, b.LConst(x.DType, 0)), x.Shape, x.Spec)
}

// Silu is x * sigmoid(x).
func (b *Builder) Silu(x Tensor) Tensor {
	x = b.Reduced(x, "silu needs whole sums")
	return b.Mul(x, b.Unary(program.OpSigmoid, x))
}

// geluC is sqrt(2/pi).
const geluC = 0.7978845608028654

// GeluTanh is the tanh form of GELU: x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
func (b *Builder) GeluTanh(x Tensor) Tensor {
	x = b.Reduced(x, "gelu needs whole sums")
	// 1 + tanh(u) = 2 sigmoid(2u): one transcendental, no cancellation for negative u.
	u := b.Mul(x, b.Shift(b.Scale(b.Mul(x, x), 2*geluC*0.044715), 2*geluC))
	return b.Mul(x, b.Unary(program.OpSigmoid, u))
}

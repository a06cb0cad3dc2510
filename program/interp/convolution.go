package interp

import (
	"weft/program"
)

// patchRows is the number of positions of a convolution that are laid out as rows at a time.
const patchRows = 256

// convolveArray slides a kernel (O, I, K...) over x (N, S..., I), with lo zeros before x along
// each spatial dim, in steps of strides. The input under the kernel becomes a row, which is multiplied by the
// rows of the kernel. split divides the positions.
func convolveArray(x, kernel *Array, lo, strides []int, out program.Type, split func(n int, work func(lo, hi int))) *Array {
	to := NewArray(out.DType, out.Shape...)
	perm := []int{0}
	for d := range lo {
		perm = append(perm, 2+d)
	}
	kernel = kernel.transposeDims(append(perm, 1)) // O, K..., I: as a row lies
	if x.D != nil {
		slideKernel(to, x.D, kernel.D, x.Shape, kernel.Shape, lo, strides, split)
	} else {
		slideKernel(to, x.F, kernel.F, x.Shape, kernel.Shape, lo, strides, split)
	}
	return to
}

func slideKernel[T float32 | float64](to *Array, x, kernel []T, shape, window, lo, strides []int, split func(n int, work func(lo, hi int))) {
	outputs := window[0]
	row := len(kernel) / max(1, outputs)
	if to.Len() == 0 {
		return
	}
	n := to.Len() / outputs
	if n*outputs*row < smallProduct {
		split = func(n int, work func(lo, hi int)) { work(0, n) }
	}
	split(n, func(first, end int) {
		rows := make([]T, min(patchRows, end-first)*row)
		for ; first < end; first += patchRows {
			m := min(patchRows, end-first)
			clear(rows)
			for i := range m {
				copyPatch(rows[i*row:(i+1)*row], x, first+i, shape, to.Shape, window, lo, strides)
			}
			multiplyBlocked(rows[:m*row], kernel, first, outputs, row, func(r, c int, v float64) { to.Set(r*outputs+c, v) })
		}
	})
}

// copyPatch copies the part of x under the kernel at a position, which counts row-major
// over the result's dims but the channels. dst stays zero where the kernel is outside of x.
func copyPatch[T float32 | float64](dst, x []T, position int, shape, result, window, lo, strides []int) {
	dims := len(lo)
	channels := shape[dims+1]
	corner := make([]int, dims) // of the kernel, in x
	for d := dims - 1; d >= 0; d-- {
		corner[d] = position%result[1+d]*program.StrideOf(strides, d) - lo[d]
		position /= result[1+d]
	}
	base := position // the batch's entry
	for d := range dims {
		base *= shape[1+d]
	}
	taps := len(dst) / max(1, channels)
	for tap := range taps {
		at, stride, rest, inside := base, 1, tap, true
		for d := dims - 1; d >= 0; d-- {
			k := window[1+d]
			p := corner[d] + rest%k
			rest /= k
			inside = inside && p >= 0 && p < shape[1+d]
			at += p * stride
			stride *= shape[1+d]
		}
		if inside {
			copy(dst[tap*channels:(tap+1)*channels], x[at*channels:])
		}
	}
}

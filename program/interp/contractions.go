package interp

import (
	"math"
	"slices"

	"weft/dtype"
	"weft/program"
)

// reduceDims joins the elements along dims. Sums of floats are collected in float64.
func reduceDims(r program.Reduction, x *Array, dims []int) *Array {
	perm, shape, run := []int{}, []int{}, 1
	for d, n := range x.Shape {
		if !slices.Contains(dims, d) {
			perm, shape = append(perm, d), append(shape, n)
		}
	}
	for d, n := range x.Shape {
		if slices.Contains(dims, d) {
			perm = append(perm, d)
			run *= n
		}
	}
	x = x.transposeDims(perm)
	out := NewArray(x.DType, shape...)
	for i := range out.D {
		out.D[i] = joinFloats(r, x.D[i*run:(i+1)*run])
	}
	for i := range out.F {
		out.F[i] = roundTo(x.DType, joinFloats(r, x.F[i*run:(i+1)*run]))
	}
	for i := range out.I {
		out.I[i] = joinInts(r, x.DType, x.I[i*run:(i+1)*run])
	}
	return out
}

func joinFloats[T float32 | float64](r program.Reduction, xs []T) float64 {
	if r == program.Maximum {
		m := math.Inf(-1)
		for _, x := range xs {
			m = max(m, float64(x))
		}
		return m
	}
	sum := 0.0
	for _, x := range xs {
		sum += float64(x)
	}
	return sum
}

func joinInts(r program.Reduction, d dtype.DType, xs []int64) int64 {
	if r == program.Maximum {
		m, _ := intLimits(d)
		for _, x := range xs {
			if lessInt(d, m, x) {
				m = x
			}
		}
		return m
	}
	sum := int64(0)
	for _, x := range xs {
		sum += x
	}
	return wrapInt(d, sum)
}

// joinArrays joins arrays of one shape element by element, in the order of parts.
func joinArrays(r program.Reduction, parts []*Array) *Array {
	out := NewArray(parts[0].DType, parts[0].Shape...)
	fs, ds, is := make([]float32, len(parts)), make([]float64, len(parts)), make([]int64, len(parts))
	for i := range out.F {
		for k, p := range parts {
			fs[k] = p.F[i]
		}
		out.F[i] = roundTo(out.DType, joinFloats(r, fs))
	}
	for i := range out.D {
		for k, p := range parts {
			ds[k] = p.D[i]
		}
		out.D[i] = joinFloats(r, ds)
	}
	for i := range out.I {
		for k, p := range parts {
			is[k] = p.I[i]
		}
		out.I[i] = joinInts(r, out.DType, is)
	}
	return out
}

// dotArrays contracts x and y. Both are packed so that the contracted dim is the last,
// as [batch, m, k] and [batch, n, k]; split divides the rows of the result.
func dotArrays(x, y *Array, d *program.DotDims, out program.Type, split func(n int, work func(lo, hi int))) *Array {
	left, m := packOperand(x, d.LeftBatch, d.LeftContract)
	right, n := packOperand(y, d.RightBatch, d.RightContract)
	to := NewArray(out.DType, out.Shape...)
	if m == 0 || n == 0 || to.Len() == 0 {
		return to
	}
	k := left.Len() * n / to.Len() // left is [batch, m, k], to is [batch, m, n]
	if to.Len()*k < smallProduct {
		split = func(n int, work func(lo, hi int)) { work(0, n) }
	}
	split(to.Len()/n, func(lo, hi int) {
		for lo < hi { // the rows of one batch at a time
			batch := lo / m
			end := min(hi, (batch+1)*m)
			multiplyRows(to, left, right, lo, end, batch*n, n, k)
			lo = end
		}
	})
	return to
}

// smallProduct is the number of multiplications below which dividing a contraction
// between processors takes more time than it saves.
const smallProduct = 1 << 16

// packOperand moves the batch dims to the front and the contracted dims to the end, and
// returns the number of elements of the dims in between.
func packOperand(x *Array, batch, contract []int) (*Array, int) {
	perm, free := slices.Clone(batch), 1
	for d, n := range x.Shape {
		if !slices.Contains(batch, d) && !slices.Contains(contract, d) {
			perm = append(perm, d)
			free *= n
		}
	}
	return x.transposeDims(append(perm, contract...)), free
}

// multiplyRows fills rows lo to hi of the result from the same rows of left and the n
// rows of right from base on. A row has k elements.
func multiplyRows(to, left, right *Array, lo, hi, base, n, k int) {
	set := func(row, col int, v float64) { to.Set(row*n+col, v) }
	if to.DType == dtype.F32 {
		set = func(row, col int, v float64) { to.F[row*n+col] = float32(v) }
	}
	switch {
	case left.I != nil:
		for row := lo; row < hi; row++ {
			for col := range n {
				sum := int64(0)
				for i, v := range left.I[row*k : (row+1)*k] {
					sum += v * right.I[(base+col)*k+i]
				}
				if to.I != nil {
					to.I[row*n+col] = wrapInt(to.DType, sum)
				} else {
					to.Set(row*n+col, intToFloat(left.DType, sum))
				}
			}
		}
	case left.D != nil:
		multiplyBlocked(left.D[lo*k:hi*k], right.D[base*k:(base+n)*k], lo, n, k, set)
	default:
		multiplyBlocked(left.F[lo*k:hi*k], right.F[base*k:(base+n)*k], lo, n, k, set)
	}
}

// blockColumns is the number of rows of the right operand that stay in cache while the
// rows of the left operand pass.
const blockColumns = 64

// multiplyBlocked is a blocked matrix product in which four columns at a time share the
// loads of a row. Every sum runs over k in order, in float64. Operands are converted to
// float64 a panel and a row at a time, because each is read many times.
func multiplyBlocked[T float32 | float64](left, right []T, first, n, k int, set func(row, col int, v float64)) {
	m := 0
	if k > 0 {
		m = len(left) / k
	}
	x, panel := make([]float64, k), make([]float64, min(n, blockColumns)*k)
	for c0 := 0; c0 < n; c0 += blockColumns {
		c1 := min(n, c0+blockColumns)
		widenTo64(panel, right[c0*k:c1*k])
		for row := range m {
			widenTo64(x, left[row*k:(row+1)*k])
			c := c0
			for ; c+4 <= c1; c += 4 {
				y := panel[(c-c0)*k:]
				y0, y1, y2, y3 := y[:len(x)], y[k:][:len(x)], y[2*k:][:len(x)], y[3*k:][:len(x)]
				var s0, s1, s2, s3 float64
				for i, v := range x {
					s0 += v * y0[i]
					s1 += v * y1[i]
					s2 += v * y2[i]
					s3 += v * y3[i]
				}
				set(first+row, c, s0)
				set(first+row, c+1, s1)
				set(first+row, c+2, s2)
				set(first+row, c+3, s3)
			}
			for ; c < c1; c++ {
				y, s := panel[(c-c0)*k:][:len(x)], 0.0
				for i, v := range x {
					s += v * y[i]
				}
				set(first+row, c, s)
			}
		}
	}
}

func widenTo64[T float32 | float64](dst []float64, src []T) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}

package peer

import (
	"math"

	"weft/topology"
)

// Calibrate finds the calibration with the least relative errors over the published
// rows of all families but one. The family left out is that of the models whose times are
// predicted with it, so that no prediction is scored on its own data. Rows whose time is
// mostly another than a known part's (NotCalibrated) are left out too.
func Calibrate(but string, on topology.Slice) (Calibration, error) {
	var rows []Calibration // each term over the measured time
	var known []float64    // what no factor changes, likewise
	for _, r := range Rows() {
		m, err := ModelOf(r.Model)
		if err != nil {
			return Calibration{}, err
		}
		if m.Family == but || r.NotCalibrated != "" {
			continue
		}
		p, err := r.Published(on)
		if err != nil {
			return Calibration{}, err
		}
		for i := range p.Terms {
			p.Terms[i] /= r.StepSeconds
		}
		rows, known = append(rows, p.Terms), append(known, p.Known/r.StepSeconds)
	}
	return leastErrors(rows, known), nil
}

// leastErrors finds the c >= 0 with the least sum of |c.row + known - 1|, by least squares with
// weights: one odd row then does not bend the rest.
func leastErrors(rows []Calibration, known []float64) (c Calibration) {
	weights := make([]float64, len(rows))
	for i := range weights {
		weights[i] = 1
	}
	weighted, want := make([]Calibration, len(rows)), make([]float64, len(rows))
	for range 100 {
		for i, r := range rows {
			for j := range r {
				weighted[i][j] = r[j] * weights[i]
			}
			want[i] = (1 - known[i]) * weights[i]
		}
		c = leastSquares(weighted, want)
		for i, r := range rows {
			weights[i] = 1 / math.Sqrt(max(0.02, math.Abs(c.dot(r)+known[i]-1)))
		}
	}
	return c
}

func (c Calibration) dot(row Calibration) float64 {
	t := 0.0
	for i := range row {
		t += c[i] * row[i]
	}
	return t
}

// leastSquares finds the c >= 0 with the least sum of (c.row - want)^2. It tries every
// set of terms that are not 0, which are few.
func leastSquares(rows []Calibration, want []float64) Calibration {
	var best Calibration
	least := math.Inf(1)
	for set := 1; set < 1<<len(workTerms); set++ {
		var terms []int
		for i := range workTerms {
			if set>>i&1 == 1 {
				terms = append(terms, i)
			}
		}
		c, ok := solveTerms(rows, want, terms)
		if !ok {
			continue
		}
		sum := 0.0
		for i, r := range rows {
			d := c.dot(r) - want[i]
			sum += d * d
		}
		if sum < least-1e-12 {
			least, best = sum, c
		}
	}
	return best
}

// solveTerms solves the normal equations of some terms by elimination. It is false where
// a solution is negative or not determined.
func solveTerms(rows []Calibration, want []float64, terms []int) (c Calibration, ok bool) {
	n := len(terms)
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, n+1)
		for k, r := range rows {
			for j := range terms {
				a[i][j] += r[terms[i]] * r[terms[j]]
			}
			a[i][n] += r[terms[i]] * want[k]
		}
	}
	for i := range n {
		at := i
		for k := i + 1; k < n; k++ {
			if math.Abs(a[k][i]) > math.Abs(a[at][i]) {
				at = k
			}
		}
		a[i], a[at] = a[at], a[i]
		if math.Abs(a[i][i]) < 1e-12 {
			return c, false
		}
		for k := range n {
			if k == i {
				continue
			}
			f := a[k][i] / a[i][i]
			for j := i; j <= n; j++ {
				a[k][j] -= f * a[i][j]
			}
		}
	}
	for i, t := range terms {
		if c[t] = a[i][n] / a[i][i]; c[t] < 0 {
			return c, false
		}
	}
	return c, true
}

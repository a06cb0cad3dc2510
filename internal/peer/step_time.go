package peer

import (
	"encoding/json"
	"fmt"
	"math"

	"weft/fault"
	"weft/topology"
)

// workTerms are the parts of vidax's step. Each has a factor that calibration finds.
var workTerms = [5]string{"matmul", "flash", "dense", "offload", "vae"}

// flashCycles are the cycles that JAX's flash attention takes for one block of 128 queries
// by 128 keys with its default block sizes, with which vidax calls it. They are read from
// the code that libtpu 0.0.52 compiles: from its final bundles without waits for memory (v4)
// and from its static profile (v5p, v5e). No device was measured.
var flashCycles = map[string]float64{"v4": 527, "v5p": 686, "v5e": 975}

// mxuFLOPs are the operations of one TensorCore's matrix units in a cycle on those
// generations: four units of 128x128, each a multiply and an add. A chip's peak rate
// divided by it is the number of cores times their clock.
const mxuFLOPs = 4 * 128 * 128 * 2

// Work is vidax's step in seconds at the device's peak rates, by term:
// contractions at the peak arithmetic rate; flash attention's blocks at the compiler's
// cycles; the scores of dense attention written once; the offloaded weights at 1 GB/s;
// and the decoder's multiplications, 10^12 a second, spread over the steps.
type Work [len(workTerms)]float64

// Work counts a step of vidax on a slice. Errors: ErrPeer for what is not known.
func (r Run) Work(on topology.Slice) (Work, error) {
	var w Work
	m, err := ModelOf(r.Model)
	if err != nil {
		return w, err
	}
	cycles, ok := flashCycles[on.Generation]
	if !ok {
		return w, fault.New(ErrPeer, nil, "no profile of the peer's attention for %s: there is one for v4, v5e and v5p", on.Generation)
	}
	rates := on.Rates()
	peak, hbm := rates.BF16FLOPs, rates.HBMBytes
	if peak == 0 || hbm == 0 {
		return w, fmt.Errorf("peer: no rates are known for %s", on)
	}
	s, tp, sp := float64(m.countTokens(r)), float64(r.TP), float64(r.SP)
	text, image := float64(m.TextRows), float64(m.ImageRows)
	batch := float64(r.Passes) / float64(r.DP)
	p := func(key string) float64 { return float64(m.Params[key]) }
	rows := s/sp*(p("visual_split")/tp+p("visual_whole")) + text*(p("text_split")/tp+p("text_whole")) +
		(s/sp+text)*(p("both_split")/tp+p("both_whole")) + image*(p("image_split")/tp+p("image_whole"))
	if m.TokenTimes {
		rows += s / sp * (p("other_split")/tp + p("other_whole"))
	}
	w[0] = 2 * batch * rows / peak

	heads := batch * float64(m.Heads) * float64(m.Layers) / tp / sp
	blocks := func(n float64) float64 { return math.Ceil(n / 128) }
	keys := s
	if m.Joined {
		keys += text
	}
	if m.Attention == "dense" {
		w[2] = heads * s * keys * 4 / hbm
	} else {
		n := blocks(keys) * blocks(keys)
		if !m.Joined {
			n = blocks(s) * (blocks(s) + blocks(text) + blocks(image))
		}
		w[1] = heads * n * cycles * mxuFLOPs / peak
	}
	if r.OffloadBlocks > 0 {
		split, whole := m.countWeights()
		w[3] = float64(r.weightBytes(m)) * (float64(split)/tp + float64(whole)) / 1e9
	}
	if r.Steps > 0 {
		w[4] = float64(r.Width) * float64(r.Height) * float64(r.Frames) * (m.DecodeMACs + m.EncodeMACs) / 1e12 / float64(r.Steps)
	}
	return w, nil
}

// Naive is the estimate to beat: FLOPs of tokens times parameters and of attention, over
// the slice's peak rate.
func (r Run) Naive(on topology.Slice) (float64, error) {
	m, err := ModelOf(r.Model)
	if err != nil {
		return 0, err
	}
	params := int64(0)
	for _, n := range m.Params {
		params += n
	}
	s := float64(m.countTokens(r))
	flops := float64(r.Passes) * (2*s*float64(params) + 4*s*s*float64(m.Heads*m.HeadDim*m.Layers))
	return flops / (on.Rates().BF16FLOPs * float64(r.DP*r.TP*r.SP)), nil
}

// countWeights counts the transformer's parameters that multiply tokens, those that tp
// splits and those that are whole on every device. Parameters that multiply a single row,
// as the time's embedding does, are left out.
func (m *Model) countWeights() (split, whole int64) {
	for _, rows := range []string{"visual", "text", "both", "image"} {
		split += m.Params[rows+"_split"]
		whole += m.Params[rows+"_whole"]
	}
	return split, whole
}

func (r Run) weightBytes(m *Model) int64 {
	if r.WeightBytes > 0 {
		return int64(r.WeightBytes)
	}
	return int64(m.WeightBytes)
}

// Calibration has, for each term, the factor by which it takes longer than Work says.
type Calibration [len(workTerms)]float64

// Seconds is the step's time by a calibration.
func (c Calibration) Seconds(w Work) float64 {
	t := 0.0
	for i := range w {
		t += c[i] * w[i]
	}
	return t
}

// MarshalJSON names the terms.
func (c Calibration) MarshalJSON() ([]byte, error) {
	byName := map[string]float64{}
	for i, name := range workTerms {
		byName[name] = c[i]
	}
	return json.Marshal(byName)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Calibration) UnmarshalJSON(b []byte) error {
	byName := map[string]float64{}
	if err := json.Unmarshal(b, &byName); err != nil {
		return err
	}
	for i, name := range workTerms {
		c[i] = byName[name]
	}
	return nil
}

// Calibrate finds the calibration with the least relative errors over the published
// rows of all families but one. The family left out is that of the models whose times are
// predicted with it, so that no prediction is scored on its own data. Rows whose time is
// mostly the decoder's are left out too.
func Calibrate(but string, on topology.Slice) (Calibration, error) {
	var rows []Work // over the measured time
	for _, r := range Rows() {
		m, err := ModelOf(r.Model)
		if err != nil {
			return Calibration{}, err
		}
		if m.Family == but || r.DecodeDominates != "" {
			continue
		}
		w, err := r.Work(on)
		if err != nil {
			return Calibration{}, err
		}
		for i := range w {
			w[i] /= r.StepSeconds
		}
		rows = append(rows, w)
	}
	// The least sum of absolute errors, by least squares with weights: one odd row
	// then does not bend the rest.
	weights := make([]float64, len(rows))
	for i := range weights {
		weights[i] = 1
	}
	var c Calibration
	for range 100 {
		weighted := make([]Work, len(rows))
		for i, r := range rows {
			for j := range r {
				weighted[i][j] = r[j] * weights[i]
			}
		}
		c = leastSquares(weighted, weights)
		for i, r := range rows {
			weights[i] = 1 / math.Sqrt(max(0.02, math.Abs(c.Seconds(r)-1)))
		}
	}
	return c, nil
}

// leastSquares finds the c >= 0 with the least sum of (c.row - want)^2. It tries every
// set of terms that are not 0, which are few.
func leastSquares(rows []Work, want []float64) Calibration {
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
			d := c.Seconds(r) - want[i]
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
func solveTerms(rows []Work, want []float64, terms []int) (c Calibration, ok bool) {
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

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"weft/internal/peer"
	"weft/models"
	"weft/plan"
	"weft/topology"
)

// peerScore is plan --as vidax beside vidax's own measurements.
type peerScore struct {
	On           string                      `json:"on"`
	Calibrations map[string]peer.Calibration `json:"calibrations"` // by the family left out
	Rows         []peerRowScore              `json:"rows"`
	Statements   []peerStatementScore        `json:"statements"`
}

type peerRowScore struct {
	peer.Row
	Family       string         `json:"family"`
	Runs         bool           `json:"runs"` // weft has the model: the row counts
	Seconds      float64        `json:"predicted_step_seconds"`
	Published    peer.Published `json:"published"`
	NaiveSeconds float64        `json:"naive_step_seconds"`
	Memory       peer.Memory    `json:"memory"`
}

type peerStatementScore struct {
	peer.Statement
	Memory *peer.Memory `json:"memory,omitempty"`
	// Fits is what plan says; nil where it is not judged.
	PlanFits *bool  `json:"plan_fits,omitempty"`
	Verdict  string `json:"verdict"`
}

func (r peerRowScore) err() float64 { return r.Seconds/r.StepSeconds - 1 }

// memoryErr is the relative error of the peak memory.
func (r peerRowScore) memoryErr() float64 { return float64(r.Memory.PeakBytes)/(r.PeakGB*1e9) - 1 }

func scorePeer() (peerScore, error) {
	s := peerScore{On: "v4-8", Calibrations: map[string]peer.Calibration{}}
	on, err := topology.Lookup(s.On)
	if err != nil {
		return s, err
	}
	for _, row := range peer.Rows() {
		r := peerRowScore{Row: row, Family: peer.Models()[row.Model].Family}
		_, err := models.ByName(row.Model)
		r.Runs = err == nil
		cal, ok := s.Calibrations[r.Family]
		if !ok {
			if cal, err = peer.Calibrate(r.Family, on); err != nil {
				return s, err
			}
			s.Calibrations[r.Family] = cal
		}
		if r.Published, err = row.Published(on); err != nil {
			return s, err
		}
		r.Seconds = cal.PublishedSeconds(r.Published)
		if r.NaiveSeconds, err = row.Naive(on); err != nil {
			return s, err
		}
		if r.Memory, err = plan.PeerMemory(row.Run); err != nil {
			return s, err
		}
		s.Rows = append(s.Rows, r)
	}
	slices.SortStableFunc(s.Rows, func(a, b peerRowScore) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.StepSeconds, b.StepSeconds))
	})
	for _, st := range peer.Statements() {
		j, err := judge(st, on)
		if err != nil {
			return s, err
		}
		s.Statements = append(s.Statements, j)
	}
	return s, nil
}

// judge says whether a published statement agrees with what is planned.
func judge(st peer.Statement, on topology.Slice) (peerStatementScore, error) {
	j := peerStatementScore{Statement: st}
	if st.NotJudged != "" {
		j.Verdict = "not judged: " + st.NotJudged
		return j, nil
	}
	st.DP, st.Passes = on.Devices/(st.TP*st.SP), 2
	m, err := plan.PeerMemory(st.Run)
	if err != nil {
		return j, err
	}
	j.Memory = &m
	fits := m.PeakBytes <= on.HBMUsableBytes
	j.PlanFits = &fits
	switch {
	case m.Working.Step < 0:
		j.Verdict = "weights alone: weft has no program of it yet"
	case st.Fits != nil && fits == *st.Fits:
		j.Verdict = "right"
	default:
		j.Verdict = "wrong"
	}
	if j.Verdict != "right" && st.Why != "" {
		j.Verdict += ": " + st.Why
	}
	return j, nil
}

// ranks are the places of values in ascending order, ties sharing theirs.
func ranks(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		below, same := 0, 0
		for _, o := range values {
			if o < v {
				below++
			} else if o == v {
				same++
			}
		}
		out[i] = float64(below) + float64(same-1)/2
	}
	return out
}

// spearman is the correlation of ranks.
func spearman(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	n := float64(len(x))
	mean := (n - 1) / 2
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mean) * (y[i] - mean)
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
	}
	return xy / math.Sqrt(xx*yy)
}

// pairs counts the pairs of one family whose step times differ, and those that are predicted in that order.
func pairs(rows []peerRowScore) (right, all int, wrong []string) {
	for i, a := range rows {
		for _, b := range rows[i+1:] {
			if a.Family != b.Family || a.StepSeconds == b.StepSeconds {
				continue
			}
			all++
			if (a.Seconds-b.Seconds)*(a.StepSeconds-b.StepSeconds) > 0 {
				right++
			} else {
				wrong = append(wrong, fmt.Sprintf("%s and %s", a.Slug, b.Slug))
			}
		}
	}
	return right, all, wrong
}

func (s peerScore) markdown(say func(string, ...any)) {
	if len(s.Rows) == 0 {
		return
	}
	say("\n## `--as vidax`, beside vidax's published rows\n")
	say("32 rows on a %s. A published time a step is what vidax's harness makes of a run: all calls but the first of each compiled function, over the steps. So it", s.On)
	say("has one step less than the video; of a decoder the calls that its script compiles, which CogVideoX, LTX and Cosmos3 have none of; and compilations of")
	say("functions that are called with other shapes later: parts of HunyuanVideo's decoders for tiles of four sizes, second programs of causal decoders, and the")
	say("step itself where its latents lie on the mesh only after the first call. Steps are predicted from the peer's own parameter tree and its attention's")
	say("blocks. Each family's factors are those with the least relative errors over the rows of the *other* families (`peer.Calibrate`); the seconds of decoding,")
	say("of f32 weights from the host and of compiling a layer or a program come from other published figures (`rates_from` in `internal/peer/data/vidax.json`).")
	say("It is no blind test: which parts a published time has was read in the peer's scripts with these errors in view.\n")
	for _, part := range []struct {
		name string
		in   func(peerRowScore) bool
	}{
		{"all rows", func(peerRowScore) bool { return true }},
		{"the same without rows that nothing is calibrated with", func(r peerRowScore) bool { return r.NotCalibrated == "" }},
	} {
		var rows []peerRowScore
		var errs, memory, predicted, naive, measured []float64
		for _, r := range s.Rows {
			if part.in(r) {
				rows = append(rows, r)
				errs, memory, predicted = append(errs, r.err()), append(memory, r.memoryErr()), append(predicted, r.Seconds)
				naive, measured = append(naive, r.NaiveSeconds), append(measured, r.StepSeconds)
			}
		}
		m, w := middle(errs)
		mm, mw := middle(memory)
		right, all, wrong := pairs(rows)
		say("- %s, %d rows: step time median error %.0f %%, worst %.0f %%; %d of %d pairs of a family in the right order; rank correlation %.3f, of the naive estimate %.3f; peak memory median error %.0f %%, worst %.0f %%",
			part.name, len(rows), 100*m, 100*w, right, all, spearman(predicted, measured), spearman(naive, measured), 100*mm, 100*mw)
		if part.name == "all rows" {
			for _, p := range wrong {
				say("  - in the wrong order: %s", p)
			}
		}
	}
	say("\nThe naive estimate is tokens times parameters plus attention's FLOPs, over the chips' peak rate.\n")
	say("| family | row | measured, s | predicted, s | error | naive, s | measured peak, GB | planned, GB | error | fullest in |\n|---|---|---|---|---|---|---|---|---|---|")
	gb := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e9) }
	for _, r := range s.Rows {
		say("| %s | %s | %.2f | %.2f | %+.0f %% | %.2f | %.1f | %s | %+.0f %% | %s |", r.Family, r.Slug, r.StepSeconds, r.Seconds, 100*r.err(), r.NaiveSeconds, r.PeakGB,
			gb(r.Memory.PeakBytes), 100*r.memoryErr(), r.Memory.Peak)
	}
	say("\nA measured peak is the process's high-water mark over five runs. A planned one is the fullest phase: what the scripts keep, and the activations of weft's")
	say("programs on the same split, with what is known of the peer's own: decoders that compute all frames at once, attention that makes its scores whole, a")
	say("modulation of every token that is made before it is cut, and frames that stay on every device.\n")
	for _, r := range s.Rows {
		if r.NotCalibrated != "" {
			say("- %s: %s", r.Slug, r.NotCalibrated)
		}
	}
	say("\n### Published statements of what fits\n")
	say("| statement | fits | plan, GiB | of | fullest in | verdict |\n|---|---|---|---|---|---|")
	for _, st := range s.Statements {
		fits, gib, in := "not said", "", ""
		if st.Fits != nil {
			fits = map[bool]string{true: "yes", false: "no"}[*st.Fits]
		}
		if st.Memory != nil {
			gib, in = fmt.Sprintf("%.1f", float64(st.Memory.PeakBytes)/(1<<30)), st.Memory.Peak
		}
		say("| %s | %s | %s | %.2f | %s | %s |", st.Text, fits, gib, st.LimitGiB, in, st.Verdict)
	}
}

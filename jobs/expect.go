package jobs

import (
	"cmp"
	"slices"
	"time"
)

// expectation is how long jobs take here, by those that ended last. Plans rest on assumed
// efficiencies, so their times are scaled by what they were for the jobs before.
type expectation struct {
	scale float64 // of a plan's seconds
	mean  float64 // seconds of a job without a plan; 0 is not known
}

// learnFrom is how many jobs an expectation rests on at most.
const learnFrom = 20

// learnExpectation finds how long jobs take, from those that have ended. It follows from what is stored alone, so that all
// processes expect the same.
func learnExpectation(all []*Job) expectation {
	var ended []*Job
	for _, j := range all {
		if j.State == Completed && j.Try == 1 {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(ended, func(a, b *Job) int { return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(a.ID, b.ID)) })
	ended = ended[:min(len(ended), learnFrom)]
	e := expectation{scale: 1}
	var ratios []float64
	for _, j := range ended {
		took := j.Ended.Sub(j.Taken).Seconds()
		e.mean += took / float64(len(ended))
		if j.Spec.Seconds > 0 {
			ratios = append(ratios, took/j.Spec.Seconds)
		}
	}
	if len(ratios) > 0 {
		slices.Sort(ratios)
		e.scale = ratios[len(ratios)/2]
	}
	return e
}

// seconds is how long a job is expected to take from now on, on one worker.
func (e expectation) seconds(j *Job, now time.Time) float64 {
	whole := e.mean
	if j.Spec.Seconds > 0 {
		whole = j.Spec.Seconds * e.scale
	}
	if !j.isOwned() {
		return whole
	}
	left := whole * float64(100-j.Percent()) / 100
	return max(0, min(left, whole-now.Sub(j.Taken).Seconds()))
}

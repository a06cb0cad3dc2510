package mosaic

import "slices"

// subBlock is a run of keys within a step; their scores are computed together.
type subBlock struct {
	from, n int
	// real has the real columns of each group of 128 keys.
	real [][]Range
	// times is how many such runs follow each other; more than one become a loop.
	times int
}

// rareSub bounds a sub-block in a rare kind of step, in keys times heads.
const rareSub = 512

// stepKind says what the steps from up to and including to have in common: which of
// their keys are real.
type stepKind struct {
	from, to int
	subs     []subBlock
}

// stepKinds groups the steps along the keys by which of their keys are real. The
// commonest kind comes last, because the code tests for all others first.
func (s Kernel) stepKinds(b Blocks) []stepKind {
	var kinds []stepKind
	n := (s.realEnd() + b.K - 1) / b.K
	for j := range n {
		subs := s.cutSubBlocks(b, j)
		if last := len(kinds) - 1; last >= 0 && sameSubBlocks(kinds[last].subs, subs) {
			kinds[last].to = j
			continue
		}
		kinds = append(kinds, stepKind{j, j, subs})
	}
	most := 0
	for i, k := range kinds {
		if k.to-k.from > kinds[most].to-kinds[most].from {
			most = i
		}
	}
	for i := range kinds {
		if i != most {
			kinds[i].subs = s.cutRareStep(kinds[i].subs)
		}
	}
	return append(slices.Delete(slices.Clone(kinds), most, most+1), kinds[most])
}

// cutRareStep cuts the sub-blocks of a rare kind of step into short runs, with a loop over
// runs without padding. Laid out flat, the few rare steps would have as much code, and take
// as long to compile, as all other steps together. The price is that rounds of a loop
// overlap less.
func (s Kernel) cutRareStep(subs []subBlock) []subBlock {
	var out []subBlock
	most := rareSub / s.headsPerStep()
	for _, x := range subs {
		for at := 0; at < x.n; at += most {
			n := min(most, x.n-at)
			y := subBlock{x.from + at, n, x.real[at/lanes : (at+n)/lanes], 1}
			if last := len(out) - 1; last >= 0 && !y.hasPadding() && !out[last].hasPadding() && out[last].n == n && out[last].from+out[last].times*n == y.from {
				out[last].times++
			} else {
				out = append(out, y)
			}
		}
	}
	return out
}

// sameSubBlocks reports whether two steps have the same real keys in the same places.
func sameSubBlocks(a, b []subBlock) bool {
	return slices.EqualFunc(a, b, func(x, y subBlock) bool {
		return x.from == y.from && x.n == y.n && slices.EqualFunc(x.real, y.real, slices.Equal[[]Range])
	})
}

// cutSubBlocks cuts step j into sub-blocks and leaves out groups of 128 keys that are all
// padding.
func (s Kernel) cutSubBlocks(b Blocks, j int) []subBlock {
	var out []subBlock
	for from := 0; from < b.K; from += lanes {
		real := s.realWithin(j*b.K+from, lanes)
		if len(real) == 0 {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].from+out[last].n == from && out[last].n < b.Sub {
			out[last].n += lanes
			out[last].real = append(out[last].real, real)
		} else {
			out = append(out, subBlock{from, lanes, [][]Range{real}, 1})
		}
	}
	return out
}

// realWithin returns the real keys among the n that start at key from, counted from there.
func (s Kernel) realWithin(from, n int) []Range {
	var out []Range
	for _, r := range s.realRanges() {
		if lo, hi := max(r.From-from, 0), min(r.To-from, n); lo < hi {
			out = append(out, Range{lo, hi})
		}
	}
	return out
}

// realColumns returns the real columns of the i-th group of 128 keys.
func (x subBlock) realColumns(i int) []Range { return x.real[i] }

// isWholeGroup reports whether all 128 columns are real.
func isWholeGroup(real []Range) bool { return len(real) == 1 && real[0] == Range{0, lanes} }

// hasPadding reports whether some column is padding.
func (x subBlock) hasPadding() bool { return !allHold(x.real, isWholeGroup) }

// allHold reports whether f holds for every element.
func allHold[T any](xs []T, f func(T) bool) bool {
	return !slices.ContainsFunc(xs, func(x T) bool { return !f(x) })
}

package mosaic

import "slices"

// sub is a run of keys of a step whose scores are made together.
type subBlock struct {
	from, n int
	// real are, for each group of 128 keys, the columns that count.
	real [][]Range
	// times is how many such runs follow each other, in a loop if more than one.
	times int
}

// rareSub are the most keys, times heads, of a run in a rare kind of step.
const rareSub = 512

// kind is what steps [from, to] have in common.
type stepKind struct {
	from, to int
	subs     []subBlock
}

// stepKinds sorts the steps along the keys by what is real in them. The commonest
// kind comes last: it is the one that is not asked for.
func (s Spec) stepKinds(b Blocks) []stepKind {
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

// cutRareStep is how the few steps of a kind of their own are cut: into runs that are short, and
// loops of what is whole. Their code, and the time to compile it, would otherwise be as much
// as that of all other steps; they are slower by what a loop's rounds cannot share.
func (s Spec) cutRareStep(subs []subBlock) []subBlock {
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

func sameSubBlocks(a, b []subBlock) bool {
	return slices.EqualFunc(a, b, func(x, y subBlock) bool {
		return x.from == y.from && x.n == y.n && slices.EqualFunc(x.real, y.real, slices.Equal[[]Range])
	})
}

// cutSubBlocks cuts what is real of step j into sub-blocks. Groups of 128 keys with none
// real are left out.
func (s Spec) cutSubBlocks(b Blocks, j int) []subBlock {
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

// realWithin is what is real of keys [from, from+n), counted from there.
func (s Spec) realWithin(from, n int) []Range {
	var out []Range
	for _, r := range s.realRanges() {
		if lo, hi := max(r.From-from, 0), min(r.To-from, n); lo < hi {
			out = append(out, Range{lo, hi})
		}
	}
	return out
}

// realColumns are the columns of group i that count.
func (x subBlock) realColumns(i int) []Range { return x.real[i] }

func isWholeGroup(real []Range) bool { return len(real) == 1 && real[0] == Range{0, lanes} }

// hasPadding reports whether some column does not count.
func (x subBlock) hasPadding() bool { return !allHold(x.real, isWholeGroup) }

func allHold[T any](xs []T, f func(T) bool) bool {
	return !slices.ContainsFunc(xs, func(x T) bool { return !f(x) })
}

package mosaic

import "slices"

// sub is a run of keys of a step whose scores are made together.
type sub struct {
	from, n int
	// real are, for each group of 128 keys, the columns that count.
	real [][]Range
	// times is how many such runs follow each other, in a loop if more than one.
	times int
}

// rareSub are the most keys, times heads, of a run in a rare kind of step.
const rareSub = 512

// kind is what steps [from, to] have in common.
type kind struct {
	from, to int
	subs     []sub
}

// steps sorts the steps along the keys by what is real in them. The commonest
// kind comes last: it is the one that is not asked for.
func (s Spec) steps(b Blocks) []kind {
	var kinds []kind
	n := (s.end() + b.K - 1) / b.K
	for j := range n {
		subs := s.subs(b, j)
		if last := len(kinds) - 1; last >= 0 && sameSubs(kinds[last].subs, subs) {
			kinds[last].to = j
			continue
		}
		kinds = append(kinds, kind{j, j, subs})
	}
	most := 0
	for i, k := range kinds {
		if k.to-k.from > kinds[most].to-kinds[most].from {
			most = i
		}
	}
	for i := range kinds {
		if i != most {
			kinds[i].subs = s.rare(kinds[i].subs)
		}
	}
	return append(slices.Delete(slices.Clone(kinds), most, most+1), kinds[most])
}

// rare is how the few steps of a kind of their own are cut: into runs that are short, and
// loops of what is whole. Their code, and the time to compile it, would otherwise be as much
// as that of all other steps; they are slower by what a loop's rounds cannot share.
func (s Spec) rare(subs []sub) []sub {
	var out []sub
	most := rareSub / s.perStep()
	for _, x := range subs {
		for at := 0; at < x.n; at += most {
			n := min(most, x.n-at)
			y := sub{x.from + at, n, x.real[at/lanes : (at+n)/lanes], 1}
			if last := len(out) - 1; last >= 0 && !y.partial() && !out[last].partial() && out[last].n == n && out[last].from+out[last].times*n == y.from {
				out[last].times++
			} else {
				out = append(out, y)
			}
		}
	}
	return out
}

func sameSubs(a, b []sub) bool {
	return slices.EqualFunc(a, b, func(x, y sub) bool {
		return x.from == y.from && x.n == y.n && slices.EqualFunc(x.real, y.real, slices.Equal[[]Range])
	})
}

// subs cuts what is real of step j into sub-blocks. Groups of 128 keys with none
// real are left out.
func (s Spec) subs(b Blocks, j int) []sub {
	var out []sub
	for from := 0; from < b.K; from += lanes {
		real := s.within(j*b.K+from, lanes)
		if len(real) == 0 {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].from+out[last].n == from && out[last].n < b.Sub {
			out[last].n += lanes
			out[last].real = append(out[last].real, real)
		} else {
			out = append(out, sub{from, lanes, [][]Range{real}, 1})
		}
	}
	return out
}

// within is what is real of keys [from, from+n), counted from there.
func (s Spec) within(from, n int) []Range {
	var out []Range
	for _, r := range s.real() {
		if lo, hi := max(r.From-from, 0), min(r.To-from, n); lo < hi {
			out = append(out, Range{lo, hi})
		}
	}
	return out
}

// within are the columns of group i that count.
func (x sub) within(i int) []Range { return x.real[i] }

func whole(real []Range) bool { return len(real) == 1 && real[0] == Range{0, lanes} }

// partial reports whether some column does not count.
func (x sub) partial() bool { return !all(x.real, whole) }

func all[T any](xs []T, f func(T) bool) bool {
	return !slices.ContainsFunc(xs, func(x T) bool { return !f(x) })
}

package topology

import (
	"cmp"
	"slices"
)

// A digit is the share of one physical dim that one axis of the mesh takes.
// Going from one value to the next costs stride hops. A closed digit is a ring:
// so does going from the last to the first.
//
// The dims are x, y, z, and for two devices a chip the cores, of stride 0.
type digit struct {
	dim    int
	size   int
	stride int
	closed bool
}

// ring orders the places of a box of digits into a cycle whose steps are short.
//
// The constructions, all of which this file has:
//
//  1. one digit: in order when closed or of two; else folded, 0 2 4 5 3 1, whose
//     longest step is 2;
//  2. two digits or more, one of them of even size: a cycle in which every step
//     changes one digit by one. The even digit makes rows; the others, as one
//     snake, make columns. Down the rows it goes over all columns but the first,
//     and back along the first.
//  3. only odd digits: such a cycle does not exist (the places are coloured like
//     a chess board, one colour more often). A snake goes over all rows but the
//     last, which are even in number, as in 2; the last row's places are taken
//     in by pairs on the way along the row before it, and the one left over
//     costs a step of 2;
//  4. a digit of stride 0, the devices of a chip: a cycle over the others that
//     stops at each place for all devices of it.
//
// Places are written with digits in the order given.
type ring struct {
	digits []digit
	rows   int   // index of the digit that makes rows, in 2 and 3
	order  []int // of the other digits, fastest first

	chips *ring // of 4: the cycle over the others
	core  int   // of 4: the digit of stride 0
}

// listRings lists the cycles that the constructions give for a box of digits, each digit
// of size 2 or more.
func listRings(digits []digit) []ring {
	if len(digits) <= 1 {
		return []ring{{digits: digits}}
	}
	odd := !slices.ContainsFunc(digits, func(d digit) bool { return d.size%2 == 0 })
	var out []ring
	for rows := range digits {
		if digits[rows].size%2 != 0 && !odd {
			continue
		}
		r := ring{digits: digits, rows: rows}
		for i := range digits {
			if i != rows {
				r.order = append(r.order, i)
			}
		}
		// Most steps are those of the fastest digit, so it is the cheapest.
		slices.SortStableFunc(r.order, func(a, b int) int { return cmp.Compare(digits[a].stride, digits[b].stride) })
		out = append(out, r)
	}
	if core := slices.IndexFunc(digits, func(d digit) bool { return d.stride == 0 }); core >= 0 {
		for _, r := range listRings(slices.Delete(slices.Clone(digits), core, core+1)) {
			out = append(out, ring{digits: digits, chips: &r, core: core})
		}
	}
	return out
}

// bestRing picks the cycle whose longest step is the shortest, and of those the one with
// the least sum.
func bestRing(digits []digit) (best ring, longest, sum int) {
	for i, r := range listRings(digits) {
		l, s := r.stepLengths()
		if i == 0 || l < longest || l == longest && s < sum {
			best, longest, sum = r, l, s
		}
	}
	return best, longest, sum
}

// stepLengths gives the longest step of the cycle and the sum of all steps. It computes
// them without listing the places, except in case 3. A test compares it with walkCycle.
func (r ring) stepLengths() (longest, sum int) {
	if r.chips != nil {
		return r.chips.stepLengths()
	}
	switch len(r.digits) {
	case 0:
		return 0, 0
	case 1:
		d := r.digits[0]
		switch {
		case d.closed || d.size == 2:
			return d.stride, d.size * d.stride
		default:
			return 2 * d.stride, 2 * (d.size - 1) * d.stride
		}
	}
	rows := r.digits[r.rows]
	if rows.size%2 != 0 {
		return walkCycle(r.digits, r.listPlaces())
	}
	steps, columns := 0, 1
	for _, i := range r.order {
		d := r.digits[i]
		columns *= d.size
		steps = steps*d.size + (d.size-1)*d.stride
	}
	// steps is the length of the snake when the fastest digit comes first in order: each
	// slower digit repeats the snake so far size times and adds size-1 steps.
	for _, d := range r.digits {
		longest = max(longest, d.stride)
	}
	first := r.digits[r.order[0]].stride
	return longest, rows.size*steps - (rows.size-2)*first + 2*(rows.size-1)*rows.stride
}

// walkCycle gives the longest step and the sum of all steps of a cycle of places.
func walkCycle(digits []digit, places [][]int) (longest, sum int) {
	for i, p := range places {
		q, hops := places[(i+1)%len(places)], 0
		for k, d := range digits {
			n := max(p[k]-q[k], q[k]-p[k])
			if d.closed {
				n = min(n, d.size-n)
			}
			hops += n * d.stride
		}
		longest, sum = max(longest, hops), sum+hops
	}
	return longest, sum
}

// listPlaces lists the places of the cycle in order.
func (r ring) listPlaces() [][]int {
	if r.chips != nil {
		var out [][]int
		for _, p := range r.chips.listPlaces() {
			for v := range r.digits[r.core].size {
				out = append(out, slices.Insert(slices.Clone(p), r.core, v))
			}
		}
		return out
	}
	switch len(r.digits) {
	case 0:
		return [][]int{{}}
	case 1:
		d := r.digits[0]
		out := make([][]int, 0, d.size)
		if d.closed || d.size == 2 {
			for i := range d.size {
				out = append(out, []int{i})
			}
			return out
		}
		for i := 0; i < d.size; i += 2 {
			out = append(out, []int{i})
		}
		for i := d.size - 1 - d.size%2; i > 0; i -= 2 {
			out = append(out, []int{i})
		}
		return out
	}
	snake := r.snakePlaces()
	place := func(row, column int) []int {
		p := slices.Clone(snake[column])
		p[r.rows] = row
		return p
	}
	rows := r.digits[r.rows].size
	last := rows - rows%2 // rows of the comb
	out := [][]int{place(0, 0)}
	for row := range last {
		for i := 1; i < len(snake); i++ {
			column := i
			if row%2 == 1 {
				column = len(snake) - i
			}
			out = append(out, place(row, column))
			if last == rows || row != last-1 {
				continue
			}
			// The row left over hangs below this one, which runs from the last column to
			// the first: columns m-1 and m-2 between those two, and so on; m is odd.
			if i%2 == 1 {
				out = append(out, place(last, column), place(last, column-1))
			}
		}
	}
	for row := last - 1; row > 0; row-- {
		if row == last-1 && last < rows {
			// Column 0 of the row left over: one step of 2 on the way.
			out = append(out, place(last, 0))
		}
		out = append(out, place(row, 0))
	}
	return out
}

// snakePlaces lists all places of the digits of order so that each is one step from the
// one before. The digit of the rows stays 0.
func (r ring) snakePlaces() [][]int {
	out := [][]int{make([]int, len(r.digits))}
	for _, i := range r.order {
		n := len(out)
		for v := 1; v < r.digits[i].size; v++ {
			for k := range n {
				j := k
				if v%2 == 1 {
					j = n - 1 - k
				}
				p := slices.Clone(out[j])
				p[i] = v
				out = append(out, p)
			}
		}
	}
	return out
}

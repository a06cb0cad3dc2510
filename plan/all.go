package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"weft/fault"
	"weft/models"
	"weft/topology"
)

// maxDevices is the largest slice SearchAll looks at.
const maxDevices = 256

// SearchAll plans a model's step on all hardware: of every generation of TPU and
// every kind of GPU the smallest slice on which a split fits, with its best split;
// fewest chips first, then the fastest. Hardware on which nothing fits is among the refused.
func SearchAll(ctx context.Context, m models.Model, o Options) (*Result, error) {
	s, err := newSearch(m, o)
	if err != nil {
		return nil, err
	}
	res := s.result("all")
	chips := map[string]int{}
	for _, row := range ladders() {
		var best *Plan
		var tried []topology.Slice
		var closest *Plan
		for _, on := range row {
			sub := s.result(on.String())
			if err := s.slice(ctx, sub, on, false); err != nil {
				return nil, err
			}
			tried = append(tried, on)
			if len(sub.Plans) == 0 {
				continue
			}
			if sub.Plans[0].Fits {
				best = &sub.Plans[0]
				chips[on.String()] = on.Chips
				break
			}
			for i := range sub.Plans {
				if closest == nil || sub.Plans[i].OverBytes < closest.OverBytes {
					closest = &sub.Plans[i]
				}
			}
		}
		if best != nil {
			res.Plans = append(res.Plans, *best)
			continue
		}
		last := tried[len(tried)-1].String()
		r := Refusal{Slice: last, Kind: ErrTooBig.Name(), Reason: fmt.Sprintf("no split fits on %s to %s", tried[0], last), Violations: []fault.Report{}}
		if closest != nil {
			r.Mesh = closest.Mesh
			r.Reason += fmt.Sprintf("; nearest: %s on %s, %s too much", closest.Mesh, closest.Slice, gigabytes(closest.OverBytes))
		}
		res.Refuse = append(res.Refuse, r)
	}
	slices.SortStableFunc(res.Plans, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(chips[a.Slice], chips[b.Slice]), cmp.Compare(a.StepSeconds, b.StepSeconds))
	})
	return res, nil
}

// ladders are slices of one kind each, smallest first.
func ladders() [][]topology.Slice {
	var out [][]topology.Slice
	for _, g := range topology.Generations() {
		var row []topology.Slice
		for _, on := range topology.Slices() {
			if on.Generation == g.Name && on.Usual && on.Devices <= maxDevices {
				row = append(row, on)
			}
		}
		slices.SortStableFunc(row, func(a, b topology.Slice) int { return cmp.Compare(a.Chips, b.Chips) })
		if len(row) > 0 {
			out = append(out, row)
		}
	}
	for _, g := range topology.GPUs() {
		var row []topology.Slice
		for _, n := range []int{1, 2, 4, 8} {
			if on, err := topology.Lookup(fmt.Sprintf("%sx%d", g.Names[0], n)); err == nil {
				row = append(row, on)
			}
		}
		if len(row) > 0 {
			out = append(out, row)
		}
	}
	return out
}

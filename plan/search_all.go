package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"weft/fault"
	"weft/topology"
)

// maxDevices is the largest slice that a search of all hardware looks at.
const maxDevices = 256

// searchAll plans the step on all hardware, as Search says.
func (s *search) searchAll(ctx context.Context) (*Result, error) {
	res := s.newResult("all")
	chips := map[string]int{}
	for _, row := range listSliceLadders() {
		var best *Plan
		var closest *Plan
		resident := map[string][]Plan{}
		var refused *Refusal // why the smallest slice without a plan has none
		for _, on := range row {
			sub := s.newResult(on.String())
			if err := s.planAsAsked(ctx, sub, on); ctx.Err() != nil {
				return nil, ctx.Err()
			} else if err != nil { // this slice's alone
				r := newRefusal(on, split{pp: 1, dp: 1, fsdp: 1, tp: 1, sp: on.Devices}, err)
				sub.Refuse = append(sub.Refuse, r)
			}
			if len(sub.Plans) == 0 {
				if len(sub.Refuse) > 0 && refused == nil {
					refused = &sub.Refuse[0]
				}
				continue
			}
			if sub.Plans[0].Fits != TooBig {
				best = &sub.Plans[0]
				chips[on.String()] = on.Chips
				break
			}
			resident[on.String()] = sub.Plans
			if p := smallestPlan(sub.Plans); closest == nil || *p.OverBytes < *closest.OverBytes {
				closest = p
			}
		}
		if best == nil && closest != nil && s.offloadsWhereNeeded() {
			var err error
			if best, err = s.smallestOffloaded(ctx, row, resident, chips); err != nil {
				return nil, err
			}
		}
		if best != nil {
			res.Plans = append(res.Plans, *best)
			continue
		}
		res.Refuse = append(res.Refuse, leftOut(row, closest, refused))
	}
	slices.SortStableFunc(res.Plans, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(chips[a.Slice], chips[b.Slice]), cmp.Compare(a.StepSeconds, b.StepSeconds))
	})
	return res, nil
}

// leftOut says why a kind of hardware is not among the plans. It names the plan that is
// the least too big, or where no split is legal, the reason.
func leftOut(row []topology.Slice, closest *Plan, refused *Refusal) Refusal {
	first, last := row[0], row[len(row)-1].String()
	switch {
	case closest != nil:
		return Refusal{Slice: last, Mesh: closest.Mesh, Kind: ErrTooBig.Name(), Violations: []fault.Report{},
			Reason: fmt.Sprintf("no split fits on %s to %s; nearest: %s on %s, %s too much", first, last, closest.Mesh, closest.Slice, formatGigabytes(*closest.OverBytes))}
	case refused != nil:
		r := *refused
		r.Slice, r.Reason = last, fmt.Sprintf("no split of %s to %s is legal; on %s: %s", first, last, refused.Slice, r.Reason)
		return r
	}
	return Refusal{Slice: last, Kind: ErrNoPlan.Name(), Reason: fmt.Sprintf("%s to %s have no split", first, last), Violations: []fault.Report{}}
}

// listSliceLadders lists, for each kind of hardware, its usual slices, smallest first.
func listSliceLadders() [][]topology.Slice {
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

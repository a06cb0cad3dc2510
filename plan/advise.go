package plan

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"weft/dtype"
	"weft/request"
	"weft/topology"
)

// adviseOnPlans gives each plan that is too big the smallest change that makes it fit.
// It prefers another split of the same slice, with as few axes changed as possible:
// sharding the weights on the same mesh counts as the least change. Where no split fits,
// it tries one flag, then several, then fewer frames, then a larger slice of the same
// kind. Every change is planned before it is advised.
func (s *search) adviseOnPlans(ctx context.Context, on topology.Slice, plans []Plan) error {
	asAsked := slices.DeleteFunc(slices.Clone(plans), Plan.isOffloadedUnasked)
	offloaded := slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool { return !p.isOffloadedUnasked() })
	var all *advice
	for i := range plans {
		p := &plans[i]
		if p.Fits != TooBig {
			continue
		}
		if q := nearestFit(p, asAsked); q != nil {
			advice{flags: q.splitFlags(), bytes: q.HBMBytesPerDevice}.adviseTo(p)
			continue
		}
		if all == nil {
			var err error
			if all, err = s.findFittingChange(ctx, on, asAsked); err != nil {
				return err
			}
		}
		all.adviseTo(p)
		if q := nearestFit(p, offloaded); q != nil {
			p.adviseOffload(q)
		}
	}
	return nil
}

// adviseOffload adds to the advice for a plan the plan q, which streams weights. It is the whole
// advice where there is no other.
func (p *Plan) adviseOffload(q *Plan) {
	other := advice{flags: q.splitFlags(), bytes: q.HBMBytesPerDevice}
	if p.Advice == "" {
		other.adviseTo(p)
		return
	}
	change, flags := p.Change, p.Advice
	other.adviseTo(p)
	p.Change, p.Advice = change+", or "+p.Change, flags
}

// advice holds the flags that make a plan fit, and the bytes that a device then holds.
// Where flags is empty, why says why no change helps.
type advice struct {
	flags string
	bytes int64
	why   string
}

func (a advice) adviseTo(p *Plan) {
	if p.Advice, p.Change = a.flags, a.why; a.flags != "" {
		p.Change = fmt.Sprintf("%s (%s)", a.flags, formatGigabytes(a.bytes))
	}
}

// splitFlags gives the flags that plan p's split and no other.
func (p *Plan) splitFlags() string {
	text := "--mesh " + p.Mesh
	if len(p.split.shardedOver) > 0 {
		text += " --fsdp " + strings.Join(p.split.shardedOver, ",")
	}
	if p.Offload != nil {
		text += " --offload " + p.Offload.Policy
	}
	return text
}

// nearestFit finds the plan of the same slice that fits and differs least from p. Of
// equals it takes the first, which is the better plan.
func nearestFit(p *Plan, plans []Plan) *Plan {
	var best *Plan
	least := math.MaxInt
	for i := range plans {
		q := &plans[i]
		if q.Fits != Fits || q.Slice != p.Slice {
			continue
		}
		if n := p.split.countDifferences(q.split); n < least {
			best, least = q, n
		}
	}
	return best
}

// countDifferences counts the differences of two splits. An axis counts twice as much as
// the sharding of the weights, because it changes what every program does.
func (s split) countDifferences(t split) int {
	n := 0
	for _, pair := range [][2]int{{s.pp, t.pp}, {s.dp, t.dp}, {s.fsdp, t.fsdp}, {s.tp, t.tp}, {s.sp, t.sp}} {
		if pair[0] != pair[1] {
			n += 2
		}
	}
	if !slices.Equal(s.shardedOver, t.shardedOver) {
		n++
	}
	return n
}

// smallestPlan finds the plan with the fewest bytes on a device.
func smallestPlan(plans []Plan) *Plan {
	small := &plans[0]
	for i := range plans {
		if plans[i].HBMBytesPerDevice < small.HBMBytesPerDevice {
			small = &plans[i]
		}
	}
	return small
}

// maxRetried bounds the splits that are planned again with a changed flag.
const maxRetried = 64

// withOptions plans a slice with other options. It keeps the split where that is legal
// with them, and else takes the split that holds the fewest bytes; nil where none is legal.
func (s *search) withOptions(ctx context.Context, on topology.Slice, o Options, sp split) (*Plan, error) {
	o.Mesh = nil
	t, err := newSearch(s.m, o)
	if err != nil {
		return nil, nil // the model has no step with these options
	}
	p, _, err := t.planSplit(on, sp)
	if p != nil || err != nil {
		return p, err
	}
	all, err := t.listSplits(on)
	if err != nil || len(all) > maxRetried {
		return nil, err
	}
	res := t.newResult(on.String())
	if err := t.planAsAsked(ctx, res, on); err != nil || len(res.Plans) == 0 {
		return nil, err
	}
	return smallestPlan(res.Plans), nil
}

// findFittingChange looks for flags, frames or a larger slice with which a plan fits,
// for a slice on which no split does.
func (s *search) findFittingChange(ctx context.Context, on topology.Slice, plans []Plan) (*advice, error) {
	small := smallestPlan(plans)
	type change struct {
		flag string
		set  func(*Options)
	}
	var changes []change
	if s.o.DType == dtype.F32 {
		changes = append(changes, change{"--dtype bf16", func(o *Options) { o.DType = dtype.BF16 }})
	}
	if !s.o.SplitResidual {
		changes = append(changes, change{"--split-residual", func(o *Options) { o.SplitResidual = true }})
	}
	if s.o.CFG == CFGBatch {
		changes = append(changes, change{"--cfg sequential", func(o *Options) { o.CFG = CFGSequential }})
	}
	flagged := func(p *Plan, flags string) *advice {
		return &advice{flags: p.splitFlags() + flags, bytes: p.HBMBytesPerDevice}
	}
	best, with, flags := small, s.o, ""
	for _, alone := range []bool{true, false} {
		best, with, flags = small, s.o, ""
		for _, c := range changes {
			o, text := s.o, ""
			if !alone {
				o, text = with, flags
			}
			c.set(&o)
			p, err := s.withOptions(ctx, on, o, best.split)
			if err != nil {
				return nil, err
			}
			if p == nil {
				continue // not legal with it
			}
			if text += " " + c.flag; p.Fits == Fits {
				return flagged(p, text), nil
			}
			if !alone && p.HBMBytesPerDevice < best.HBMBytesPerDevice {
				best, with, flags = p, o, text
			}
		}
	}
	short, err := s.findFittingFrames(ctx, on, best, with)
	if err != nil {
		return nil, err
	}
	if short.p != nil && short.p.Fits == Fits {
		return flagged(short.p, fmt.Sprintf("%s --frames %d", flags, short.frames)), nil
	}
	larger, err := s.findLargerSlice(ctx, on)
	if err != nil || larger != nil {
		return larger, err
	}
	why := "no change fits on this slice"
	if short.p != nil {
		why += fmt.Sprintf(", where --frames %d takes %s at the least", short.frames, formatGigabytes(short.p.HBMBytesPerDevice))
	} else {
		why += fmt.Sprintf(", where a device holds %s at the least", formatGigabytes(best.HBMBytesPerDevice))
	}
	return &advice{why: why + ", and no larger slice of its kind does; --on " + request.All + " looks at other hardware"}, nil
}

// shortened is a plan of fewer frames. Without a plan the model takes no fewer frames.
type shortened struct {
	p      *Plan
	frames int
}

// findFittingFrames plans the most frames that fit, or where none fit, the fewest that
// the model takes.
func (s *search) findFittingFrames(ctx context.Context, on topology.Slice, from *Plan, o Options) (shortened, error) {
	var frames []int
	for n := 1; n < o.Frames; n++ {
		if _, err := s.m.Features().Generator.LatentShape(o.Width, o.Height, n); err == nil {
			frames = append(frames, n)
		}
	}
	var failed error
	planned := map[int]*Plan{}
	fits := func(i int) bool {
		o.Frames = frames[i]
		p, err := s.withOptions(ctx, on, o, from.split)
		if err != nil {
			failed = err
		}
		planned[i] = p
		return p != nil && p.Fits == Fits
	}
	// A model may have no step of the fewest frames: the first that has one begins.
	first := 0
	for first < len(frames) {
		if fits(first) || planned[first] != nil || failed != nil {
			break
		}
		first++
	}
	if first == len(frames) || failed != nil {
		return shortened{}, failed
	}
	if planned[first].Fits != Fits {
		return shortened{planned[first], frames[first]}, nil
	}
	n := sort.Search(len(frames)-first, func(i int) bool { return !fits(first + i) })
	i := first + n - 1
	return shortened{planned[i], frames[i]}, failed
}

// findLargerSlice looks for the smallest larger slice of the same kind on which a split fits.
func (s *search) findLargerSlice(ctx context.Context, on topology.Slice) (*advice, error) {
	o := s.o
	o.Mesh = nil
	for _, row := range listSliceLadders() {
		if row[0].Generation != on.Generation {
			continue
		}
		t, err := newSearch(s.m, o)
		if err != nil {
			return nil, err
		}
		for _, larger := range row {
			if larger.Devices <= on.Devices {
				continue
			}
			res := t.newResult(larger.String())
			if err := t.planAsAsked(ctx, res, larger); err != nil {
				return nil, err
			}
			if len(res.Plans) > 0 && res.Plans[0].Fits == Fits {
				p := &res.Plans[0]
				return &advice{flags: "--on " + larger.String() + " " + p.splitFlags(), bytes: p.HBMBytesPerDevice}, nil
			}
		}
	}
	return nil, nil
}

// formatGigabytes writes a size in units of 10^9 bytes.
func formatGigabytes(n int64) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }

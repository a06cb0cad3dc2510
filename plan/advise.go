package plan

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"weft/dtype"
	"weft/mesh"
	"weft/models"
	"weft/topology"
)

// advise gives each plan that is too big the smallest change that makes it fit. In
// this order: shares of the weights on the same mesh; another split of the same
// slice, the one with the fewest axes changed; where no split fits, one flag, then
// two; then fewer frames.
func (s *search) advise(on topology.Slice, plans []Plan) error {
	var global string
	for i := range plans {
		p := &plans[i]
		if p.Fits {
			continue
		}
		if q := nearestFit(p, plans); q != nil {
			p.Change = fmt.Sprintf("%s (%s)", difference(p, q), gigabytes(q.HBMBytesPerDevice))
			continue
		}
		if global == "" {
			var err error
			if global, err = s.rescue(on, plans); err != nil {
				return err
			}
		}
		p.Change = global
	}
	return nil
}

// nearestFit is the plan that fits with the fewest differences, of equals the better.
func nearestFit(p *Plan, plans []Plan) *Plan {
	var best *Plan
	least := math.MaxInt
	for i := range plans {
		q := &plans[i]
		if !q.Fits || q.Slice != p.Slice {
			continue
		}
		n := 0
		for _, pair := range [][2]int{{p.split.pp, q.split.pp}, {p.split.dp, q.split.dp}, {p.split.fsdp, q.split.fsdp}, {p.split.tp, q.split.tp}, {p.split.sp, q.split.sp}} {
			if pair[0] != pair[1] {
				n += 2
			}
		}
		if !slices.Equal(p.split.shares, q.split.shares) {
			n++
		}
		if n < least {
			best, least = q, n
		}
	}
	return best
}

// difference names what of p to change for q.
func difference(p, q *Plan) string {
	var parts []string
	if p.Mesh != q.Mesh {
		parts = append(parts, "--mesh "+q.Mesh)
	}
	if !slices.Equal(p.split.shares, q.split.shares) {
		switch {
		case len(q.split.shares) > 0:
			parts = append(parts, "--fsdp "+strings.Join(q.split.shares, ","))
		default:
			parts = append(parts, "no --fsdp")
		}
	}
	return strings.Join(parts, " ")
}

// rescue finds what would make the smallest plan of a slice fit.
func (s *search) rescue(on topology.Slice, plans []Plan) (string, error) {
	small := &plans[0]
	for i := range plans {
		if plans[i].HBMBytesPerDevice < small.HBMBytesPerDevice {
			small = &plans[i]
		}
	}
	where := "--mesh " + small.Mesh
	if len(small.split.shares) > 0 {
		where += " --fsdp " + strings.Join(small.split.shares, ",")
	}
	local, err := mesh.Local(axesOf(small.split)...)
	if err != nil {
		return "", err
	}
	bytes := func(o Options) (int64, error) {
		t, err := newSearch(s.m, o)
		if err != nil {
			return 0, err
		}
		r := t.r
		r.FSDP, r.Target = small.split.shares, s.o.Target(on)
		if err := t.m.Check(local, r); err != nil {
			return math.MaxInt64, nil
		}
		got, err := t.measured(local, small.split, r)
		if err != nil {
			return 0, err
		}
		return got.memory.TotalBytes, nil
	}
	type change struct {
		flag string
		set  func(*Options)
	}
	var changes []change
	if s.o.DType == dtype.F32 {
		changes = append(changes, change{"--dtype bf16", func(o *Options) { o.DType = dtype.BF16 }})
	}
	if !s.o.SplitResidual && small.split.tp > 1 {
		changes = append(changes, change{"--split-residual", func(o *Options) { o.SplitResidual = true }})
	}
	if s.o.CFG == CFGBatch {
		changes = append(changes, change{"--cfg sequential", func(o *Options) { o.CFG = CFGSequential }})
	}
	o, tried := s.o, ""
	for _, alone := range []bool{true, false} {
		o, tried = s.o, ""
		for _, c := range changes {
			if alone {
				o, tried = s.o, ""
			}
			c.set(&o)
			tried += " " + c.flag
			n, err := bytes(o)
			if err != nil {
				return "", err
			}
			if n <= small.HBMLimitBytes {
				return fmt.Sprintf("%s%s (%s)", where, tried, gigabytes(n)), nil
			}
		}
		if len(changes) < 2 {
			break
		}
	}
	return s.shorten(where, tried, o, small.HBMLimitBytes, bytes)
}

// shorten looks for the most frames that fit, everything else tried already.
func (s *search) shorten(where, tried string, o Options, limit int64, bytes func(Options) (int64, error)) (string, error) {
	var frames []int
	for n := 1; n < o.Frames; n++ {
		if _, err := s.m.(models.Generator).LatentShape(o.Width, o.Height, n); err == nil {
			frames = append(frames, n)
		}
	}
	least := int64(0)
	var failed error
	fits := func(n int) bool {
		o.Frames = n
		b, err := bytes(o)
		if err != nil {
			failed = err
		}
		if n == frames[0] {
			least = b
		}
		return b <= limit
	}
	if len(frames) > 0 && fits(frames[0]) {
		i := sort.Search(len(frames), func(i int) bool { return !fits(frames[i]) })
		o.Frames = frames[i-1]
		n, err := bytes(o)
		if failed == nil {
			failed = err
		}
		return fmt.Sprintf("%s%s --frames %d (%s)", where, tried, o.Frames, gigabytes(n)), failed
	}
	if failed != nil {
		return "", failed
	}
	if least == 0 {
		return "no change fits on this slice; --on all looks for a larger one", nil
	}
	return fmt.Sprintf("no change fits on this slice, where %d frame takes %s at the least; --on all looks for a larger one", frames[0], gigabytes(least)), nil
}

// gigabytes is a size in units of 10^9 bytes.
func gigabytes(n int64) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }

package plan

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/phases"
	"weft/topology"
)

// search holds what the plans of all splits of one request share. It is safe for use by
// many goroutines.
type search struct {
	m        models.Model
	o        Options
	r        models.Request
	passes   int
	layers   int // number of layers to which graphs of two layers are scaled; 0: graphs have all layers
	figures  Efficiencies
	mu       sync.Mutex
	measures map[string]*splitMeasures
	explains bool // graphs are kept with the measures
	companions
}

func newSearch(m models.Model, o Options) (*search, error) {
	e, err := efficiencies()
	if err != nil {
		return nil, err
	}
	r, passes, err := o.Step(m)
	if err != nil {
		return nil, err
	}
	o.Request = o.WithRelease(m)
	s := &search{m: m, o: o, r: r, passes: passes, figures: e, measures: map[string]*splitMeasures{}}
	if s.companions.list, err = phases.OfParts(m, o.Request, o.Parts); err != nil {
		return nil, err
	}
	one, err := mesh.Local(axesOf(split{pp: 1, dp: 1, fsdp: 1, tp: 1, sp: 1})...)
	if err != nil {
		return nil, err
	}
	if err := m.Check(one, s.r); err != nil { // wrong on one device, so wrong with every split
		return nil, err
	}
	s.layers = countAlikeLayers(m)
	return s, nil
}

// Search plans a model's step on the slice that o.On names: every split, legal or not. A
// Result with no plans is no error here.
//
// On all hardware it plans, of every generation of TPU and every kind of GPU, the smallest
// slice on which a split fits, with its best split; fewest chips first, then the fastest.
// Hardware on which nothing fits is among the refused.
//
// Errors: ErrOptions, models.ErrSize and what Model.Check says of a single device; ctx's,
// when it ends first.
func Search(ctx context.Context, m models.Model, o Options) (*Result, error) {
	s, err := newSearch(m, o)
	if err != nil {
		return nil, err
	}
	if o.On.All {
		return s.searchAll(ctx)
	}
	if !o.On.IsNamed() {
		return nil, errNoHardware()
	}
	on := o.On.Slice
	if o.As == AsVidax {
		return s.searchPeer(ctx, on)
	}
	res := s.newResult(on.String())
	if err := s.planSlice(ctx, res, on); err != nil {
		return nil, err
	}
	return res, s.adviseOnPlans(ctx, on, res.Plans)
}

// errNoHardware is the error of a plan for nothing.
func errNoHardware() error {
	return fault.New(ErrOptions, nil, "no hardware is named: a plan is for a slice such as v4-8, h100x8 or cpu:4, or for all")
}

func (s *search) newResult(on string) *Result {
	res := &Result{Model: s.m.Name(), On: on, Size: fmt.Sprintf("%dx%d", s.o.Width, s.o.Height), Frames: s.o.Frames,
		Batch: s.o.Batch, CFG: s.o.CFG, DType: s.o.DType.String(), Plans: []Plan{}, Refuse: []Refusal{}, Efficiency: s.figures.Status}
	res.Notes = []string{
		"phases run one after another; memory is the largest one's",
		fmt.Sprintf("step times rest on %s efficiencies (plan/data/efficiency.json)", res.Efficiency)}
	if g := s.m.Features().Generator; g != nil && g.LeftOut != "" {
		res.Notes = append(res.Notes, s.m.Name()+": "+g.LeftOut)
	}
	res.Notes = append(res.Notes, s.o.Settings.Notes...)
	res.Settings = map[string]models.Setting{}
	for _, name := range []string{"release", "cfg", "passes", "text_len", "time"} { // what a plan depends on
		if setting, ok := s.o.Settings.Get(name); ok {
			res.Settings[name] = setting
		}
	}
	if missing := s.unmodelledPhases(); len(missing) > 0 {
		res.Notes = append(res.Notes, "not modelled: "+strings.Join(missing, " and "))
	}
	return res
}

// planSlice adds the plans and refusals of one slice, without advice: where nothing fits, those
// with streamed weights too.
func (s *search) planSlice(ctx context.Context, res *Result, on topology.Slice) error {
	first := len(res.Plans)
	err := s.planAsAsked(ctx, res, on)
	if err != nil || !s.offloadsWhereNeeded() || slices.ContainsFunc(res.Plans[first:], func(p Plan) bool { return p.Fits != TooBig }) {
		return err
	}
	if err := s.planOffloaded(ctx, res, on, res.Plans); err != nil {
		return err
	}
	slices.SortStableFunc(res.Plans[first:], comparePlans)
	return nil
}

// planAsAsked adds the plans and refusals of one slice. Weights are streamed only where the
// request says so.
func (s *search) planAsAsked(ctx context.Context, res *Result, on topology.Slice) error {
	splits, err := s.listSplits(on)
	if err != nil {
		return err
	}
	type answer struct {
		plan    *Plan
		refused *Refusal
		err     error
	}
	answers := make([]answer, len(splits))
	runs := len(s.companions.list)
	measure := s.measureRuns(on)
	runParallel(ctx, runs+len(splits), func(i int) {
		if i < runs {
			measure(i)
			return
		}
		i -= runs
		a := &answers[i]
		a.plan, a.refused, a.err = s.planSplit(on, splits[i])
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	first := len(res.Plans)
	for _, a := range answers {
		switch {
		case a.err != nil:
			return a.err
		case a.plan != nil:
			res.Plans = append(res.Plans, *a.plan)
		case a.refused != nil && !slices.ContainsFunc(res.Refuse, func(r Refusal) bool { return r.Slice == a.refused.Slice && r.Mesh == a.refused.Mesh }):
			res.Refuse = append(res.Refuse, *a.refused)
		}
	}
	plans := res.Plans[first:]
	slices.SortStableFunc(plans, comparePlans)
	return nil
}

// comparePlans orders plans: those that fit first, then the faster, then the smaller.
func comparePlans(a, b Plan) int {
	fits := func(p Plan) int {
		if p.Fits == TooBig {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(fits(a), fits(b)), cmp.Compare(a.StepSeconds, b.StepSeconds),
		cmp.Compare(a.HBMBytesPerDevice, b.HBMBytesPerDevice), cmp.Compare(a.Mesh, b.Mesh), cmp.Compare(strings.Join(a.FSDP, ","), strings.Join(b.FSDP, ",")))
}

// waitingWorkers is how many calls more than processors runParallel makes at a time: the plans of
// several splits may wait for one phase to be measured.
const waitingWorkers = 4

// runParallel calls f with 0 to n-1 on all processors, until ctx ends.
func runParallel(ctx context.Context, n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)+waitingWorkers) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
}

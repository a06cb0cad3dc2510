package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sync/singleflight"

	"weft"
	"weft/fault"
	"weft/mesh"
	"weft/phases"
	"weft/pipeline"
	"weft/plan"
	"weft/request"
	"weft/topology"
)

// Planned is what a request takes.
type Planned struct {
	// Bytes are those of the device that holds the most, in the phase that takes most; 0 is not
	// known, and so is Limit, what a device has.
	Bytes int64 `json:"memory_bytes" doc:"on the device that holds the most, in the phase that takes most; 0 is not known"`
	Limit int64 `json:"memory_limit_bytes" doc:"what a device has; 0 is not known"`
	// Seconds is the time of all phases, without what loading takes; 0 is not known.
	Seconds float64        `json:"seconds" doc:"of all phases, by assumed efficiencies; 0 is not known"`
	Phases  []PlannedPhase `json:"phases"`
}

// PlannedPhase is what one phase takes.
type PlannedPhase struct {
	Name    string  `json:"name"`
	Bytes   int64   `json:"memory_bytes"`
	Seconds float64 `json:"seconds"`
	Steps   int     `json:"steps,omitempty"`
}

// TooBig is a request that the devices do not hold, and what is nearest to it that they do.
type TooBig struct {
	Bytes   int64     `json:"memory_bytes,omitempty"`
	Limit   int64     `json:"memory_limit_bytes,omitempty"`
	Seconds float64   `json:"seconds,omitempty"`
	Most    float64   `json:"seconds_limit,omitempty"`
	Phase   string    `json:"phase,omitempty"`
	Nearest []Nearest `json:"nearest"`
}

// Nearest is a video that fits.
type Nearest struct {
	Size   string `json:"size"`
	Frames int    `json:"num_frames"`
	Bytes  int64  `json:"memory_bytes"`
}

// planner plans requests. Equal ones are planned once.
type planner struct {
	mu    sync.Mutex
	known map[string]answer
	group singleflight.Group
	slots chan struct{}
	once  sync.Once
}

type answer struct {
	Planned
	fits plan.Fit
}

const (
	// plansKept bounds what is remembered: a few hundred bytes each.
	plansKept = 4096
	// plansAtATime is how many are worked out at the same time; each uses all processors.
	plansAtATime = 2
)

// sized is a request with everything that a plan depends on.
func (r *Release) sized(q request.Request, checked *pipeline.Result, image bool) request.Request {
	frames, _ := checked.Settings["frames"].Value.(int)
	var width, height int
	_, _ = fmt.Sscanf(fmt.Sprint(checked.Settings["size"].Value), "%dx%d", &width, &height)
	q.Width, q.Height, q.Frames = width, height, frames
	q.Steps, _ = checked.Settings["steps"].Value.(int)
	if cfg, ok := checked.Settings["cfg"].Value.(string); ok {
		q.CFG = cfg
	}
	if q.Offload.Policy == "" {
		q.Offload.Policy = request.OffloadNone // as a run takes it, where a plan would look for what fits
	}
	q.TokenTimes = image && r.Denoiser().Features().Generator.Image.KeepsFirst
	q.Seed, q.Settings, q.On = 0, r.Settings, r.On
	return q
}

// admit plans a request. Error: ErrTooBig with what fits.
func (r *Release) admit(ctx context.Context, q request.Request, checked *pipeline.Result, image bool, limits Limits) (Planned, error) {
	if !r.On.IsNamed() {
		return Planned{Phases: []PlannedPhase{}}, nil
	}
	q = r.sized(q, checked, image)
	a, err := r.plan(ctx, q)
	if err != nil {
		return Planned{}, err
	}
	switch p := a.Planned; {
	case a.fits == plan.TooBig:
		largest := slices.MaxFunc(p.Phases, func(a, b PlannedPhase) int { return int(min(max(a.Bytes-b.Bytes, -1), 1)) })
		big := TooBig{Bytes: p.Bytes, Limit: p.Limit, Phase: largest.Name}
		if big.Nearest, err = r.nearest(ctx, q); err != nil {
			return p, err
		}
		return p, fault.New(ErrTooBig, big, "%dx%d with %d frames takes %s on a device, in the phase %s, and a device has %s; %s",
			q.Width, q.Height, q.Frames, weft.Bytes(p.Bytes), largest.Name, weft.Bytes(p.Limit), adviseNearest(big.Nearest))
	case limits.Seconds > 0 && p.Seconds > limits.Seconds:
		return p, fault.New(ErrTooBig, TooBig{Seconds: p.Seconds, Most: limits.Seconds, Nearest: []Nearest{}},
			"%dx%d with %d frames and %d steps takes %.0f s by the plan: at most %.0f s are given to one video",
			q.Width, q.Height, q.Frames, q.Steps, p.Seconds, limits.Seconds)
	}
	return a.Planned, nil
}

func adviseNearest(list []Nearest) string {
	if len(list) == 0 {
		return "no size and no number of frames fits: the weights alone are too large for the mesh"
	}
	text := "nearest that fits:"
	for i, n := range list {
		if i > 0 {
			text += " or"
		}
		text += fmt.Sprintf(" %s with %d frames (%s)", n.Size, n.Frames, weft.Bytes(n.Bytes))
	}
	return text
}

// plan plans one request on the release's mesh, or remembers it.
func (r *Release) plan(ctx context.Context, q request.Request) (answer, error) {
	p := &r.plans
	p.once.Do(func() { p.known, p.slots = map[string]answer{}, make(chan struct{}, plansAtATime) })
	key := fmt.Sprint(r.Batch, " ", q)
	p.mu.Lock()
	a, ok := p.known[key]
	p.mu.Unlock()
	if ok {
		return a, nil
	}
	// The work is of all who wait for it, and not of the first alone, who may go away.
	work := context.WithoutCancel(ctx)
	v, err, _ := p.group.Do(key, func() (any, error) {
		p.slots <- struct{}{}
		defer func() { <-p.slots }()
		a, err := r.search(work, q)
		if err == nil && r.Batch > 1 {
			err = r.addBatch(work, q, &a)
		}
		if err != nil {
			return answer{}, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.known) >= plansKept {
			clear(p.known)
		}
		p.known[key] = a
		return a, nil
	})
	a, _ = v.(answer)
	return a, err
}

// search plans a request.
func (r *Release) search(ctx context.Context, q request.Request) (answer, error) {
	if q.Mesh == nil { // one device, as a run takes it
		q.Mesh = request.MustMesh("dp=1,tp=1,sp=1")
	}
	res, err := plan.Search(ctx, r.Denoiser(), plan.Options{Request: q, Machine: r.Machine, Parts: r.Parts()})
	if err != nil {
		return answer{}, err
	}
	if len(res.Plans) == 0 {
		reason := "no split is legal"
		if len(res.Refuse) > 0 {
			reason = res.Refuse[0].Reason
		}
		return answer{}, fault.New(plan.ErrNoPlan, nil, "%s on %s: %s", request.Request{Mesh: q.Mesh}, q.On, reason)
	}
	best := res.Plans[0]
	a := answer{Planned{Bytes: best.HBMBytesPerDevice, Phases: []PlannedPhase{}}, best.Fits}
	if best.HBMLimitBytes != nil {
		a.Limit = *best.HBMLimitBytes
	}
	for _, ph := range best.Phases {
		one := PlannedPhase{Name: ph.Name, Steps: ph.Steps}
		if ph.HBMBytesPerDevice != nil {
			one.Bytes = *ph.HBMBytesPerDevice
		}
		if ph.Seconds != nil {
			one.Seconds = *ph.Seconds
		}
		a.Seconds += one.Seconds
		a.Phases = append(a.Phases, one)
	}
	return a, nil
}

// addBatch adds to the plan of one video what denoising as many at once takes as may be.
func (r *Release) addBatch(ctx context.Context, q request.Request, a *answer) error {
	on, err := q.LocalMesh()
	if err != nil {
		return err
	}
	q.Mesh, q.Batch = slices.Clone(on.Axes()), r.Batch
	for i := range q.Mesh {
		if q.Mesh[i].Name == mesh.DP {
			q.Mesh[i].Size *= r.Batch
		}
	}
	if q.On.Slice.Kind == topology.CPU {
		if q.On.Slice, err = topology.Lookup(fmt.Sprintf("cpu:%d", r.Batch*on.NumDevices())); err != nil {
			return err
		}
	}
	all, err := r.search(ctx, q)
	if errors.Is(err, plan.ErrNoPlan) {
		return nil // videos of this shape go one after another, which the log says
	}
	if err != nil {
		return err
	}
	for i := range a.Phases {
		for _, ph := range all.Phases {
			if one := &a.Phases[i]; one.Name == phases.Denoise && ph.Name == phases.Denoise && ph.Bytes > one.Bytes {
				one.Bytes, a.Bytes = ph.Bytes, max(a.Bytes, ph.Bytes)
				if all.Limit > 0 && ph.Bytes > all.Limit {
					a.Limit, a.fits = all.Limit, plan.TooBig
				}
			}
		}
	}
	return nil
}

// nearest finds the largest video that fits of the same number of frames and nearly the same
// aspect, and the longest one of the same size.
func (r *Release) nearest(ctx context.Context, q request.Request) ([]Nearest, error) {
	g, list := r.grid(), []Nearest{}
	frames := slices.DeleteFunc(g.frameCounts(min(q.Frames, maxFramesTried)), func(n int) bool { return n >= q.Frames })
	for _, videos := range [][]request.Request{g.smaller(q), withFrames(q, frames)} {
		found, err := r.largestThatFits(ctx, videos)
		if err != nil {
			return nil, err
		}
		if found != nil {
			list = append(list, *found)
		}
	}
	return list, nil
}

// maxFramesTried bounds the numbers of frames that are tried.
const maxFramesTried = 1 << 12

func withFrames(q request.Request, counts []int) []request.Request {
	list := make([]request.Request, len(counts))
	for i, n := range counts {
		list[i] = q
		list[i].Frames = n
	}
	return list
}

// smaller lists smaller sizes of nearly the same aspect that the model makes, from the smallest.
func (g grid) smaller(q request.Request) []request.Request {
	var list []request.Request
	for w := g.widthStep; w < q.Width; w += g.widthStep {
		exact := float64(w) * float64(q.Height) / float64(q.Width)
		h := max(1, int(math.Round(exact/float64(g.heightStep)))) * g.heightStep
		if h <= q.Height && g.makes(w, h, q.Frames) {
			one := q
			one.Width, one.Height = w, h
			list = append(list, one)
		}
	}
	return list
}

// largestThatFits finds the last of some videos, the smallest first, that fits; nil for none.
func (r *Release) largestThatFits(ctx context.Context, videos []request.Request) (*Nearest, error) {
	var failed error
	fits := func(i int) (answer, bool) {
		if ctx.Err() != nil {
			failed = ctx.Err()
			return answer{}, false
		}
		a, err := r.plan(ctx, videos[i])
		if err != nil {
			return answer{}, false // refused for another reason than its size
		}
		return a, a.fits != plan.TooBig
	}
	at := sort.Search(len(videos), func(i int) bool { _, ok := fits(i); return !ok }) - 1
	if at < 0 || failed != nil {
		return nil, failed
	}
	a, _ := fits(at)
	v := videos[at]
	return &Nearest{fmt.Sprintf("%dx%d", v.Width, v.Height), v.Frames, a.Bytes}, nil
}

package plan

import (
	"context"
	"fmt"
	"math"
	"slices"

	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/request"
	"weft/strategy"
	"weft/topology"
)

// Offload says which weights of a plan are streamed with the layers that read them. Bytes are
// of one device.
type Offload struct {
	Policy        string `json:"policy"` // as --offload takes it
	Depth         int    `json:"depth"`
	Layers        int    `json:"layers"` // whose weights could be streamed
	Kept          int    `json:"kept"`   // of these, with weights that stay
	Slots         int    `json:"slots"`
	SlotBytes     int64  `json:"slot_bytes"`     // of all slots
	ResidentBytes int64  `json:"resident_bytes"` // of weights that stay
	StepBytes     int64  `json:"step_bytes"`     // streamed in a step
	RequestBytes  int64  `json:"request_bytes"`  // streamed when a request begins
	// HostBytesPerSecond is the rate at which they come.
	HostBytesPerSecond float64 `json:"host_bytes_per_second"`
	// Phases are those beside the transformer whose weights are streamed too.
	Phases []string `json:"phases,omitempty"`

	unasked bool // listed because nothing fits without
}

// streaming is what a graph streams of its weights. The zero value is nothing.
type streaming struct {
	held          graph.WeightMemory
	layers        int              // whose weights could be streamed
	layer         map[string]int64 // bytes of one layer, by the program that reads them
	streamed      map[string]float64
	passes, depth int
}

// measureStreaming says what the graph streams, for all layers that its calls stand for.
func (g *scaledGraph) measureStreaming(held *graph.Residency) (streaming, error) {
	if !g.offload.Stream {
		return streaming{}, nil
	}
	layers, err := g.StreamedLayers(g.asPasses())
	all := 0.0
	out := streaming{held: held.Weights, passes: g.passes, depth: g.offload.Depth, layer: map[string]int64{}, streamed: map[string]float64{}}
	for _, l := range layers {
		if l.First {
			all += l.Layers
		}
		out.layer[l.Program] = max(out.layer[l.Program], l.Bytes)
		out.streamed[l.Program] += l.Layers - l.Kept
	}
	out.layers = int(math.Round(all))
	return out, err
}

// waiting is how long the layers of a program wait in a step for their weights, which take seconds
// for everything else. A layer whose weights are read ahead waits for what the transfer takes
// longer than the layer before.
func (r stepRates) waiting(c *programMeasures, s streaming, seconds float64) float64 {
	n := s.streamed[c.name]
	if n == 0 || r.streamed == 0 {
		return 0
	}
	transfer := float64(s.layer[c.name]) / r.streamed
	if s.depth == 0 {
		return n * transfer
	}
	return n * max(0, transfer-float64(s.passes)*seconds/float64(c.calls))
}

// describeOffload adds to a plan what its split streams.
func (s *search) describeOffload(p *Plan, on topology.Slice, got *splitMeasures) {
	o := p.split.offload
	if !o.Stream {
		return
	}
	m := got.streaming.held
	if p.stage.of > 0 {
		m = got.parts.streamedTo(p.stage)
	}
	kept := min(o.Keep, got.streaming.layers)
	r := ratesOf(on, s.o)
	d := p.Offload // with the phases that stream
	if d == nil {
		d = &Offload{}
		p.Offload = d
	}
	*d = Offload{Policy: (request.Request{}).Streaming(o.Keep).Offload.String(), Depth: o.Depth, Layers: got.streaming.layers, Kept: kept,
		Slots: m.SlotCount, SlotBytes: m.Slots, ResidentBytes: m.Stay, StepBytes: m.Step, RequestBytes: m.Request, HostBytesPerSecond: r.streamed, Phases: d.Phases}
	p.Notes = append(p.Notes, fmt.Sprintf("offload %s: the weights of %d of %d layers are streamed, %s a step to each device, through %d slots of %s",
		d.Policy, d.Layers-d.Kept, d.Layers, formatGigabytes(d.StepBytes), d.Slots, formatGigabytes(d.SlotBytes/int64(max(1, d.Slots)))))
	if r.streamed == 0 {
		p.Notes = append(p.Notes, "the rate from the host's memory is unknown, and the step's time leaves the transfer out")
	}
}

// offloadsWhereNeeded reports whether plans with streamed weights are added where nothing fits
// without.
func (s *search) offloadsWhereNeeded() bool {
	return s.o.As == "" && (s.o.Offload.Policy == "" || s.o.Offload.Policy == request.OffloadAuto)
}

// planOffloaded plans the splits of a slice on which nothing fits once more, each with as many
// layers kept as fit and the others streamed. It adds the plans that fit. resident are the slice's
// plans with all weights on the devices.
func (s *search) planOffloaded(ctx context.Context, res *Result, on topology.Slice, resident []Plan) error {
	splits, err := s.listSplits(on)
	if err != nil {
		return err
	}
	splits = slices.DeleteFunc(splits, func(sp split) bool { return s.isTooBigWithoutWeights(resident, on, sp) })
	plans, errs := make([]*Plan, len(splits)), make([]error, len(splits))
	runParallel(ctx, len(splits), func(i int) { plans[i], errs[i] = s.planStreaming(on, splits[i]) })
	if err := fault.Join(errs...); err != nil || ctx.Err() != nil {
		return fault.Join(err, ctx.Err())
	}
	n := 0
	for _, p := range plans {
		if p != nil && p.Fits == Fits {
			res.Plans = append(res.Plans, *p)
			n++
		}
	}
	if n > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("no split of %s fits with all weights on the devices: %d are listed with layers whose weights are streamed (--offload none leaves them out)", on, n))
	}
	return nil
}

// isTooBigWithoutWeights reports whether a split's plan with all weights on the devices shows
// that streaming them cannot make it fit: a phase holds too much besides its weights.
func (s *search) isTooBigWithoutWeights(resident []Plan, on topology.Slice, sp split) bool {
	limit := s.o.Machine.Memory(on).UsableBytes
	i := slices.IndexFunc(resident, func(p Plan) bool {
		return p.split.meshText() == sp.meshText() && slices.Equal(p.split.shardedOver, sp.shardedOver)
	})
	if i < 0 || limit == nil {
		return false
	}
	b := resident[i].Breakdown
	return slices.ContainsFunc([]*Memory{b.Text.Memory, b.DiT.Memory, b.VAE.Memory}, func(m *Memory) bool {
		return m != nil && m.TotalBytes-m.WeightsBytes > *limit
	})
}

// planStreaming plans a split with as many layers kept as fit; nil where the split is refused or
// none fit.
func (s *search) planStreaming(on topology.Slice, sp split) (*Plan, error) {
	keep, err := s.mostKept(on, sp)
	if err != nil || keep < 0 {
		return nil, err
	}
	sp.offload = graph.Offload{Stream: true, Keep: keep, Depth: s.o.Depth()}
	p, _, err := s.planSplit(on, sp)
	if p != nil && p.Offload != nil {
		p.Offload.unasked = true
	}
	return p, err
}

// mostKept finds how many layers can keep their weights on a device of the slice; -1 for a split
// that is refused or does not fit even with all of them streamed. It keeps the measures of the
// split with so many.
func (s *search) mostKept(on topology.Slice, sp split) (int, error) {
	limit := s.o.Machine.Memory(on).UsableBytes
	_, r, err := s.requestForSplit(on, sp)
	if err != nil || limit == nil || s.checkPipeline(on, sp) != nil {
		return -1, nil
	}
	stage := sp
	stage.pp = 1
	local, err := mesh.Local(axesOf(stage)...)
	if err != nil {
		return -1, err
	}
	built := r
	if s.layers > 0 {
		built.Layers = 2
	}
	g, err := s.m.Graph(local, built)
	if refusesSplit(err) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	got, err := measureGraph(g, s.layers, s.passes, graph.Offload{Stream: true, Depth: s.o.Depth()})
	if err != nil {
		return -1, err
	}
	keep, err := mostThatFit(got.streaming.layers+1, func(keep int) (bool, error) {
		bytes, err := s.bytesWithKept(got, sp, s.r.Batch/r.Batch, keep)
		return bytes <= *limit, err
	})
	if err != nil || keep < 0 {
		return -1, err
	}
	stage.offload = graph.Offload{Stream: true, Keep: keep, Depth: s.o.Depth()}
	kept, err := measureGraph(g, s.layers, s.passes, stage.offload)
	if err != nil {
		return -1, err
	}
	s.keepMeasures(measuresKey(stage, r), kept)
	return keep, nil
}

// bytesWithKept is what a device holds of a split that streams, of which the measures are, if so
// many layers keep their weights.
func (s *search) bytesWithKept(got *splitMeasures, sp split, micro, keep int) (int64, error) {
	if sp.pp > 1 {
		stages, err := strategy.Even(s.layers, sp.pp)
		if err != nil {
			return 0, err
		}
		parts := got.parts
		parts.offload.Keep = keep
		m, _, _ := parts.fullestStage(stages, int64(micro))
		return m.TotalBytes, nil
	}
	whole := got.graph
	whole.offload.Keep = keep
	held, err := whole.Residency(whole.asPasses())
	if err != nil {
		return 0, err
	}
	m, _ := whole.findPeakMemory(held)
	return m.TotalBytes, nil
}

// mostThatFit finds the largest number below n that fits; -1 where not even 0 does. Less than
// what fits does fit.
func mostThatFit(n int, fits func(int) (bool, error)) (int, error) {
	if ok, err := fits(0); err != nil || !ok {
		return -1, err
	}
	lo, hi := 0, n
	for lo+1 < hi {
		mid := (lo + hi) / 2
		ok, err := fits(mid)
		if err != nil {
			return -1, err
		}
		if ok {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, nil
}

// streamCompanion reports whether a phase beside the transformer streams its weights: where all
// of them are streamed as asked, or where it does not fit otherwise.
func (s *search) streamCompanion(p *Plan, on topology.Slice, m *Memory) bool {
	if !p.split.offload.Stream || m == nil {
		return false
	}
	fit, _ := Judge(m.TotalBytes, s.o.Machine.Memory(on).UsableBytes)
	return s.o.Offload.Streams() || fit == TooBig
}

// isOffloadedUnasked reports whether a plan is listed because nothing fits without streaming.
func (p Plan) isOffloadedUnasked() bool { return p.Offload != nil && p.Offload.unasked }

// streamedPhases are the phases beside the transformer whose weights are streamed.
func (p *Plan) streamedPhases() []string {
	if p.Offload == nil {
		return nil
	}
	return p.Offload.Phases
}

// smallestOffloaded finds the best plan with streamed weights on the smallest slice of a row on
// which one fits; nil where none does. resident are the slices' plans with all weights on the
// devices, by slice.
func (s *search) smallestOffloaded(ctx context.Context, row []topology.Slice, resident map[string][]Plan, chips map[string]int) (*Plan, error) {
	for _, on := range row {
		sub := s.newResult(on.String())
		if err := s.planOffloaded(ctx, sub, on, resident[on.String()]); err != nil {
			return nil, err
		}
		if len(sub.Plans) > 0 {
			slices.SortStableFunc(sub.Plans, comparePlans)
			chips[on.String()] = on.Chips
			return &sub.Plans[0], nil
		}
	}
	return nil, nil
}

// waitingForWeights is the part of a step's time in which a program's layers wait for weights.
func (e *explainer) waitingForWeights(r stepRates, of *splitMeasures, c *programMeasures) (Part, bool) {
	seconds := r.secondsOf(c)
	s := of.streaming
	wait := r.waiting(c, s, seconds)
	if wait == 0 {
		return Part{}, false
	}
	bytes := s.layer[c.name]
	rule := fmt.Sprintf("%d B / %.4g B/s, and nothing is read ahead", bytes, r.streamed)
	if s.depth > 0 {
		rule = fmt.Sprintf("%d B / %.4g B/s - %.4g s that a layer takes otherwise", bytes, r.streamed, float64(s.passes)*seconds/float64(c.calls))
	}
	return Part{Value: wait, Program: c.name, Calls: int(s.streamed[c.name]), Op: "transfer", What: "waiting for streamed weights", Rule: rule, Source: e.streamedSource(r)}, true
}

// streamedSource says where the rate of streamed weights is from.
func (e *explainer) streamedSource(r stepRates) string {
	switch {
	case e.on.Kind == topology.CPU:
		return efficiencySource("cpu_read_bytes")
	case r.host == 0:
		return efficiencySource("gpu_pcie_bytes")
	}
	return e.hostSource(r)
}

// secondsOf is what all calls of a program take in a step, without waiting for weights.
func (r stepRates) secondsOf(c *programMeasures) float64 {
	matmul, attention := r.arithmetic(c)
	seconds := max(matmul+attention, r.movement(c))
	for _, t := range c.traffic {
		seconds += r.sending(t, c.calls)
	}
	return seconds
}

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/program/cost"
	"weft/strategy"
	"weft/topology"
)

// A pipeline's stages run the programs of a mesh without the axis pp, on devices of
// their own, a microbatch at a time. So its plan is made of that mesh's: a stage
// holds its layers' part of the weights and of what a request keeps, for every
// microbatch; and the step takes one microbatch through all stages and the others
// behind it at the slowest stage's pace.

// ErrPipeline: a pipeline cannot run what is asked.
var ErrPipeline = models.ErrPipeline

// stageParts holds what the memory of a pipeline's stages follows from: the bytes of all layers,
// and those before and after them, of one microbatch.
type stageParts struct {
	layers  int64 // of the model
	weights [numPlaces]placeWeights
	// Of the weights in layers, what could be streamed with a step's calls and with those of the
	// request.
	stepLayers, requestLayers int64
	leaveStreamed             bool // where layers are streamed, some weights still leave
	offload                   graph.Offload
	slot                      int64 // bytes of one
	calls                     []stageCall
	handed                    int64 // bytes that a layer hands to the next
	lastLayer                 int   // index of the last layer's call; -1 without layers
}

// placeWeights are the bytes of weights that stay, and of those that leave once a request has
// begun, where nothing is streamed; and of those that stay the part that comes only then, where
// nothing is streamed and where all layers are.
type placeWeights struct{ stay, leave, follow, followStreamed int64 }

// follows is what comes once others have left.
func (p placeWeights) follows(streams bool) int64 {
	if streams {
		return p.followStreamed
	}
	return p.follow
}

// stageCall is what a device holds, besides weights, as a call runs.
type stageCall struct {
	program                    string
	request                    bool
	place                      weightPlace
	keptOfLayers, keptOfOthers int64 // what the request keeps by then
	alive                      int64
	temps, attending, gathered int64 // of the program itself
}

// pipelineStage says how a pipeline's figures follow from those of all layers on one stage's
// devices.
type pipelineStage struct {
	of, micro        int64 // layers of the model, microbatches; 0 without a pipeline
	firstLayers      int64 // layers of the first stage, which sends most
	first            stagePlace
	fullest, slowest stagePlace
	streamed         int64   // layers that are streamed, of all stages
	peak             int     // index of the call at which a device of the fullest stage holds most
	copies           int     // hand-overs of a microbatch: each is read and written
	copied           float64 // seconds of one
	waiting          float64 // seconds that one streamed layer waits for its weights
}

// stagePlace is one stage: how many layers it has, whether it is the first or the last, and what
// it streams.
type stagePlace struct {
	layers      int64
	first, last bool
	streams     bool
	kept        int64 // layers whose weights stay
	slots       int64 // in which the others take turns
}

// placeStage describes a stage of layers from lo to hi.
func (s *stageParts) placeStage(lo, hi int) stagePlace {
	at := stagePlace{layers: int64(hi - lo), first: lo == 0, last: int64(hi) == s.layers, kept: int64(hi - lo)}
	if o := s.offload; o.Stream && int64(o.Keep) < s.layers {
		at.streams = true
		at.kept = min(max(int64(o.Keep-lo), 0), at.layers)
		streamed := at.layers - at.kept
		if s.requestLayers > 0 {
			streamed = at.layers
		}
		at.slots = min(int64(o.Depth)+1, streamed)
	}
	return at
}

// measureStageParts adds up the bytes of a graph before, in and after its layers.
func (g *scaledGraph) measureStageParts(held *graph.Residency) (stageParts, error) {
	s := stageParts{layers: int64(g.layers), offload: g.offload, lastLayer: -1}
	if c := held.Weights.SlotCount; c > 0 {
		s.slot = held.Weights.Slots / int64(c)
	}
	for i, c := range g.Calls {
		if c.Request || !g.isLayerProgram(c.Program) {
			continue
		}
		s.lastLayer, s.handed = i, 0
		for _, o := range c.Outs {
			s.handed += held.Values[o]
		}
	}
	whole, streamed := g.Place(graph.Offload{}), g.Place(graph.Offload{Stream: true})
	s.leaveStreamed = streamed.AnyLeaves
	err := g.eachStageWeight(s.lastLayer, func(w graph.Weight, place weightPlace, _, n int64) {
		leaves, streams := whole.Of[w.Name] == graph.Leaves, place == inLayers && streamed.Of[w.Name] == graph.Streams
		if at := &s.weights[place]; leaves {
			at.leave += n
		} else {
			at.stay += n
			if whole.Of[w.Name] == graph.Follows {
				at.follow += n
			}
			if streamed.Of[w.Name] == graph.Follows {
				at.followStreamed += n
			}
		}
		switch {
		case streams && leaves:
			s.requestLayers += n
		case streams:
			s.stepLayers += n
		}
	})
	if err == nil && g.layers > 0 {
		s.calls, err = g.measureStageCalls(held, s.lastLayer)
	}
	return s, err
}

// measureStageCalls says what a device holds as each call runs, besides weights.
func (g *scaledGraph) measureStageCalls(held *graph.Residency, lastLayer int) ([]stageCall, error) {
	var calls []stageCall
	names := newNaming(g)
	for i, call := range g.Calls {
		c := g.costs[call.Program]
		at := stageCall{program: call.Program, request: call.Request, alive: held.Moments[i].Alive, temps: c.temps, attending: c.attending, gathered: c.gathered}
		switch {
		case g.isLayerProgram(call.Program):
			at.place = inLayers
		case i > lastLayer:
			at.place = afterLayers
		}
		there, err := g.ResidentsAt(g.asPasses(), i)
		if err != nil {
			return nil, err
		}
		for _, v := range there.Kept {
			if g.isLayerProgram(names.makers[v.Name].program) {
				at.keptOfLayers += v.Bytes
			} else {
				at.keptOfOthers += v.Bytes
			}
		}
		calls = append(calls, at)
	}
	return calls, nil
}

// stageWeights is what a device of a stage holds of the weights in layers, by how they are
// placed, and of all weights, during a call of the request, or of a step.
func (s *stageParts) stageWeights(at stagePlace, request bool) (fixed, streamed, all int64) {
	in := s.weights[inLayers]
	fixed = in.stay
	if request {
		fixed += in.leave - in.follows(at.streams)
	}
	if at.streams {
		if fixed -= s.stepLayers; request {
			fixed -= s.requestLayers
		}
		if !request || !s.leaveStreamed {
			streamed = s.stepLayers * at.kept / s.layers
		}
	}
	fixed = fixed * at.layers / s.layers
	all = fixed + streamed + at.slots*s.slot
	for place, here := range map[weightPlace]bool{beforeLayers: at.first, afterLayers: at.last} {
		if !here {
			continue
		}
		if all += s.weights[place].stay; request {
			all += s.weights[place].leave - s.weights[place].follows(at.streams)
		}
	}
	return fixed, streamed, all
}

// stageMemory is what a device of a stage holds at its fullest, where so many microbatches are
// under way, and the call at which that is. A value of other calls than the layers' is counted on
// every stage.
func (s *stageParts) stageMemory(at stagePlace, micro int64) (fullest Memory, peak int) {
	for i, c := range s.calls {
		if c.place == beforeLayers && !at.first || c.place == afterLayers && !at.last {
			continue // another stage's
		}
		m := Memory{SlotBytes: at.slots * s.slot, AttentionBytes: micro*(c.keptOfLayers*at.layers/s.layers+c.keptOfOthers) + c.attending,
			ResidualBytes: micro * c.alive, GatheredBytes: c.gathered, TempBytes: c.temps - c.attending - c.gathered, At: c.program}
		_, _, m.WeightsBytes = s.stageWeights(at, c.request)
		m.TotalBytes = m.WeightsBytes + m.ResidualBytes + m.AttentionBytes + m.GatheredBytes + m.TempBytes
		if m.TotalBytes > fullest.TotalBytes {
			fullest, peak = m, i
		}
	}
	return fullest, peak
}

// streamedTo is what a device of the fullest stage of a pipeline holds of the weights, and what is
// streamed to it for all microbatches.
func (s *stageParts) streamedTo(st pipelineStage) graph.WeightMemory {
	at := st.fullest
	_, _, all := s.stageWeights(at, false)
	if !at.streams {
		return graph.WeightMemory{Stay: all}
	}
	return graph.WeightMemory{Stay: all - at.slots*s.slot, Slots: at.slots * s.slot, SlotCount: int(at.slots),
		Step: st.micro * (s.stepLayers * (at.layers - at.kept) / s.layers), Request: s.requestLayers * at.layers / s.layers}
}

// fullestStage finds the stage that holds most.
func (s *stageParts) fullestStage(stages strategy.Stages, micro int64) (fullest Memory, at stagePlace, peak int) {
	for _, r := range stages.Ranges() {
		place := s.placeStage(r.Lo, r.Hi)
		if m, i := s.stageMemory(place, micro); m.TotalBytes > fullest.TotalBytes {
			fullest, at, peak = m, place, i
		}
	}
	return fullest, at, peak
}

// weightPlace says whose stage holds a weight.
type weightPlace int

const (
	beforeLayers weightPlace = iota
	inLayers
	afterLayers
	numPlaces
)

// eachStageWeight visits the weights that some call reads, each with its place, its size on a
// device, and what it counts for with all layers.
func (g *scaledGraph) eachStageWeight(lastLayer int, visit func(w graph.Weight, place weightPlace, once, all int64)) error {
	of := map[string]int{} // by weight: the first call that reads it
	for i, c := range g.Calls {
		for _, r := range c.Args {
			if _, ok := of[r.Name]; r.Weight && !ok {
				of[r.Name] = i
			}
		}
	}
	for _, w := range g.Weights {
		i, ok := of[w.Name]
		if !ok {
			continue
		}
		n, err := w.Bytes(g.Mesh)
		if err != nil {
			return err
		}
		switch {
		case g.isLayerProgram(g.Calls[i].Program):
			visit(w, inLayers, n, g.scaleToModel(g.Calls[i].Program, n))
		case i > lastLayer:
			visit(w, afterLayers, n, n)
		default:
			visit(w, beforeLayers, n, n)
		}
	}
	return nil
}

// isLayerProgram reports whether each call of a program is one layer.
func (g *scaledGraph) isLayerProgram(program string) bool {
	num, den := g.callRatio(program)
	return num != den
}

// allowsPipelines reports whether pipelines are planned on a slice. A stage hands its
// result to the next through the host's memory, so that all devices must belong to one
// host; and the layers must be alike.
func (s *search) allowsPipelines(on topology.Slice) bool { return on.Hosts == 1 && s.layers > 0 }

// checkPipeline says why a split's pipeline is not planned on a slice. Error: ErrPipeline.
func (s *search) checkPipeline(on topology.Slice, sp split) error {
	switch {
	case sp.pp == 1:
	case on.Hosts == 0:
		return fault.New(ErrPipeline, nil, "pp=%d on %s: a pipeline's stages hand over through one host's memory, and the slice's name leaves the number of hosts open", sp.pp, on)
	case on.Hosts > 1:
		return fault.New(ErrPipeline, nil, "pp=%d on %s: a pipeline's stages hand over through one host's memory, the slice has %d hosts", sp.pp, on, on.Hosts)
	case s.layers == 0:
		return fault.New(ErrPipeline, nil, "pp=%d: %s has layers of several kinds, and a pipeline's plan is of layers that are alike", sp.pp, s.m.Name())
	case s.passes > 1:
		return fault.New(ErrPipeline, nil, "pp=%d with --cfg sequential: the passes are a pipeline's microbatches; --cfg batch", sp.pp)
	}
	return nil
}

// planPipeline plans a split over pp. It returns a plan, or why the split is refused.
func (s *search) planPipeline(on topology.Slice, sp split) (*Plan, *Refusal, error) {
	refuse := func(err error) (*Plan, *Refusal, error) {
		r := newRefusal(on, sp, s.adviseOnSplit(on, sp, err))
		return nil, &r, nil
	}
	if err := s.checkPipeline(on, sp); err != nil {
		return refuse(err)
	}
	_, r, err := s.requestForSplit(on, sp)
	if err != nil {
		return refuse(err)
	}
	micro := s.r.Batch / r.Batch
	stage := sp
	stage.pp = 1
	local, err := mesh.Local(axesOf(stage)...)
	if err != nil {
		return refuse(err)
	}
	got, err := s.measureSplit(local, stage, r)
	if refusesSplit(err) {
		return refuse(err)
	}
	if err != nil {
		return nil, nil, err
	}
	stages, err := strategy.Even(s.layers, sp.pp)
	if err != nil {
		return refuse(err)
	}
	p := &Plan{Slice: on.String(), Mesh: sp.meshText(), FSDP: sp.fsdpAxes(), Devices: on.Devices, Attention: got.choices,
		CollectiveBytes: byAxis(got.step), RequestCollectiveBytes: byAxis(got.request), Padding: got.padding, split: sp,
		Notes: append(slices.Clone(got.notes), fmt.Sprintf("pipeline of %d stages with layers %v, %d microbatches of %d; memory is the fullest stage's, what is sent the first one's",
			sp.pp, stages.Ranges(), micro, r.Batch))}
	if err := s.addTimes(p, on, got); err != nil {
		return nil, nil, err
	}
	s.fillPipelinePlan(p, on, got, stages, int64(micro))
	if err := s.addPhases(p, on); err != nil {
		return nil, nil, err
	}
	s.describeOffload(p, on, got)
	s.judgeMemory(p, on)
	s.addCost(p, on)
	return p, nil, s.listPhases(p, on)
}

// fillPipelinePlan turns the plan for all layers on one stage's devices into the plan of
// the pipeline.
func (s *search) fillPipelinePlan(p *Plan, on topology.Slice, got *splitMeasures, stages strategy.Stages, micro int64) {
	n, ranges := int64(s.layers), stages.Ranges()
	parts := &got.parts
	var first, layers, last float64 // seconds of one microbatch
	layerAt := slices.IndexFunc(p.Programs, func(t ProgramTime) bool { return t.Calls > 1 })
	for i, t := range p.Programs {
		switch {
		case t.Calls > 1:
			layers += t.Seconds
		case i < layerAt:
			first += t.Seconds
		default:
			last += t.Seconds
		}
	}
	rates := ratesOf(on, s.o)
	copied := float64(parts.handed) / cmp.Or(rates.host, rates.link)
	st := pipelineStage{of: n, micro: micro, firstLayers: int64(ranges[0].Hi - ranges[0].Lo), copied: copied}
	var places []stagePlace
	for _, r := range ranges {
		at := parts.placeStage(r.Lo, r.Hi)
		places, st.streamed = append(places, at), st.streamed+at.layers-at.kept
	}
	st.first, st.waiting = places[0], p.Time.TransferSeconds/float64(max(1, st.streamed))
	computing := layers - p.Time.TransferSeconds
	total, slowest := 0.0, 0.0
	for i, at := range places {
		seconds := computing*float64(at.layers)/float64(n) + st.waiting*float64(at.layers-at.kept)
		if i == 0 {
			seconds += first
		} else {
			seconds += copied // read by the host and written again
		}
		if i == len(places)-1 {
			seconds += last
		} else {
			seconds += copied
		}
		total += seconds
		if seconds > slowest {
			slowest, st.slowest = seconds, at
		}
	}
	var fullest Memory
	fullest, st.fullest, st.peak = parts.fullestStage(stages, micro)
	p.stage = st
	p.stage.copies = 2 * (len(ranges) - 1)
	p.StepSeconds = total + float64(micro-1)*slowest
	p.RequestSeconds *= float64(micro)
	// The devices of the first stage send most, because no stage has more layers.
	k := int64(ranges[0].Hi - ranges[0].Lo)
	p.Collectives = []cost.Traffic{}
	for i, c := range got.programs {
		switch {
		case c.calls > 1:
			p.Collectives = cost.AddTraffic(p.Collectives, c.traffic, c.calls*int(k*micro)/s.layers)
		case i < layerAt:
			p.Collectives = cost.AddTraffic(p.Collectives, c.traffic, c.calls*int(micro))
		}
	}
	p.CollectiveBytes = byAxis(p.Collectives)
	p.CollectiveBytes[mesh.PP] = parts.handed * micro
	for axis, b := range p.RequestCollectiveBytes {
		p.RequestCollectiveBytes[axis] = b * k * micro / n
	}
	p.Time.TransferSeconds = st.waiting * float64((places[0].layers-places[0].kept)*micro)
	part := float64(k*micro) / float64(n)
	p.Time.MatmulSeconds, p.Time.AttentionSeconds, p.Time.MemorySeconds = p.Time.MatmulSeconds*part, p.Time.AttentionSeconds*part, p.Time.MemorySeconds*part
	busy := p.Time.MatmulSeconds + p.Time.AttentionSeconds + p.Time.MemorySeconds + p.Time.TransferSeconds
	for axis := range p.Time.CollectiveSeconds {
		p.Time.CollectiveSeconds[axis] *= part
		busy += p.Time.CollectiveSeconds[axis]
	}
	p.Time.CollectiveSeconds[mesh.PP] = max(0, p.StepSeconds-busy) // handing over, and waiting for other stages
	p.Breakdown.DiT = Phase{Memory: &fullest}
}

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

// stageParts holds the bytes from which the memory of a pipeline's stages follows: those
// of all layers, and those before and after them. Kept bytes are of one pass.
type stageParts struct {
	layerWeights, firstWeights, lastWeights int64
	layerKept                               int64
	otherKept                               int64
	handed                                  int64 // bytes that a layer hands to the next
	lastLayer                               int   // index of the last layer's call; -1 without layers
}

// pipelineStage says how a pipeline's figures follow from those of all layers on one stage's
// devices.
type pipelineStage struct {
	of, micro        int64 // layers of the model, microbatches; 0 without a pipeline
	firstLayers      int64 // layers of the first stage, which sends most
	fullest, slowest stagePlace
	copies           int     // hand-overs of a microbatch: each is read and written
	copied           float64 // seconds of one
}

// stagePlace is one stage: how many layers it has, and whether it is the first or the last.
type stagePlace struct {
	layers      int64
	first, last bool
}

// measureStageParts adds up the bytes of a graph before, in and after its layers.
func (g *scaledGraph) measureStageParts(held *graph.Residency) (stageParts, error) {
	var s stageParts
	firstLayer, lastLayer := len(g.Calls), -1
	for i, c := range g.Calls {
		if g.isLayerProgram(c.Program) {
			for _, o := range c.Outs {
				if c.Request {
					s.layerKept += g.scaleToModel(c.Program, held.Values[o])
				}
			}
			if !c.Request {
				firstLayer, lastLayer = min(firstLayer, i), max(lastLayer, i)
				s.handed = 0
				for _, o := range c.Outs {
					s.handed += held.Values[o]
				}
			}
		}
	}
	err := g.eachStageWeight(lastLayer, func(_ graph.Weight, part weightPlace, _, n int64) {
		switch part {
		case inLayers:
			s.layerWeights += n
		case afterLayers:
			s.lastWeights += n
		default:
			s.firstWeights += n
		}
	})
	if err != nil {
		return s, err
	}
	s.lastLayer = lastLayer
	if lastLayer >= 0 {
		s.otherKept = held.Moments[lastLayer].Kept - s.layerKept
	}
	return s, nil
}

// weightPlace says whose stage holds a weight.
type weightPlace int

const (
	beforeLayers weightPlace = iota
	inLayers
	afterLayers
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
	case sp.offload.Stream:
		return fault.New(ErrPipeline, nil, "pp=%d with weights that are streamed: a run streams them, each stage its own for each microbatch, but it is not planned; --offload none, or another axis", sp.pp)
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
	s.judgeMemory(p, on)
	s.addCost(p, on)
	return p, nil, s.listPhases(p, on)
}

// fillPipelinePlan turns the plan for all layers on one stage's devices into the plan of
// the pipeline.
func (s *search) fillPipelinePlan(p *Plan, on topology.Slice, got *splitMeasures, stages strategy.Stages, micro int64) {
	n, ranges := int64(s.layers), stages.Ranges()
	parts := got.parts
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
	total, slowest := 0.0, 0.0
	p.stage = pipelineStage{of: n, micro: micro, firstLayers: int64(ranges[0].Hi - ranges[0].Lo), copied: copied}
	var fullest Memory
	for i, r := range ranges {
		k := int64(r.Hi - r.Lo)
		m := got.flatMemory // a stage's weights are counted as if they stayed, the text's too
		m.WeightsBytes = parts.layerWeights * k / n
		seconds := layers * float64(k) / float64(n)
		if i == 0 {
			m.WeightsBytes += parts.firstWeights
			seconds += first
		} else {
			seconds += copied // read by the host and written again
		}
		if i == len(ranges)-1 {
			m.WeightsBytes += parts.lastWeights
			seconds += last
		} else {
			seconds += copied
		}
		attending := m.AttentionBytes - parts.layerKept - parts.otherKept
		m.AttentionBytes = attending + micro*(parts.layerKept*k/n+parts.otherKept)
		m.ResidualBytes *= micro
		m.TotalBytes = m.WeightsBytes + m.ResidualBytes + m.AttentionBytes + m.GatheredBytes + m.TempBytes
		if m.TotalBytes > fullest.TotalBytes {
			fullest = m
			p.stage.fullest = stagePlace{k, i == 0, i == len(ranges)-1}
		}
		total += seconds
		if seconds > slowest {
			slowest, p.stage.slowest = seconds, stagePlace{k, i == 0, i == len(ranges)-1}
		}
	}
	p.stage.copies = 2 * (len(ranges) - 1)
	p.StepSeconds = total + float64(micro-1)*slowest
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
	part := float64(k*micro) / float64(n)
	p.Time.MatmulSeconds, p.Time.AttentionSeconds, p.Time.MemorySeconds = p.Time.MatmulSeconds*part, p.Time.AttentionSeconds*part, p.Time.MemorySeconds*part
	busy := p.Time.MatmulSeconds + p.Time.AttentionSeconds + p.Time.MemorySeconds
	for axis := range p.Time.CollectiveSeconds {
		p.Time.CollectiveSeconds[axis] *= part
		busy += p.Time.CollectiveSeconds[axis]
	}
	p.Time.CollectiveSeconds[mesh.PP] = max(0, p.StepSeconds-busy) // handing over, and waiting for other stages
	p.Breakdown.DiT = Phase{Memory: &fullest}
}

package plan

import (
	"errors"
	"fmt"
	"slices"

	"weft/attention"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/program/cost"
	"weft/sharding"
	"weft/topology"
)

// planSplit plans one split. It returns a plan, or why the split is refused.
func (s *search) planSplit(on topology.Slice, sp split) (*Plan, *Refusal, error) {
	refuse := func(err error) (*Plan, *Refusal, error) {
		r := newRefusal(on, sp, s.adviseOnSplit(on, sp, err))
		return nil, &r, nil
	}
	if sp.pp > 1 && sp.countDevices() == on.Devices {
		return s.planPipeline(on, sp)
	}
	local, r, err := s.requestForSplit(on, sp)
	if err != nil {
		return refuse(err)
	}
	got, err := s.measureSplit(local, sp, r)
	if refusesSplit(err) {
		return refuse(err)
	}
	if err != nil {
		return nil, nil, err
	}
	p := &Plan{Slice: on.String(), Mesh: sp.meshText(), FSDP: sp.fsdpAxes(), Devices: on.Devices, Breakdown: Breakdown{DiT: Phase{Memory: &got.memory}},
		Attention: got.choices, CollectiveBytes: byAxis(got.step), RequestCollectiveBytes: byAxis(got.request), Collectives: got.step,
		CFGParallel: s.o.CFG == CFGBatch && sp.dp%2 == 0, Padding: got.padding, Notes: slices.Clone(got.notes), split: sp}
	if err := s.addPhases(p, on); err != nil {
		return nil, nil, err
	}
	s.describeOffload(p, on, got)
	s.judgeMemory(p, on)
	if p.CFGParallel {
		p.Notes = append(p.Notes, fmt.Sprintf("dp=%d over a batch of %d: the passes with and without the text run on different devices (CFG parallel)", sp.dp, s.r.Batch))
	}
	if on.Kind != topology.CPU && slices.ContainsFunc(got.choices, func(c graph.Choice) bool { return c.Taken == attention.Kernel }) {
		p.Notes = append(p.Notes, kernelNote(on))
	}
	if err := s.addTimes(p, on, got); err != nil {
		return nil, nil, err
	}
	s.addCost(p, on)
	return p, nil, s.listPhases(p, on)
}

// refusesSplit reports whether a graph could not be built because of its split alone: the
// kernel does not take its shapes, or the weights are sharded over an axis that splits them
// already. The search then goes on with the other splits.
func refusesSplit(err error) bool {
	return errors.Is(err, attention.ErrKernelUnavailable) || errors.Is(err, sharding.ErrDuplicateAxis)
}

// adviseOnSplit completes the reason why a split is refused. For a mesh that is asked for
// alone it names the nearest meshes that are legal on the slice. In a search over all
// splits the answer has the legal ones anyway, so that none is named.
func (s *search) adviseOnSplit(on topology.Slice, sp split, err error) error {
	given, e := mesh.Local(axesOf(sp)...)
	if s.o.Mesh == nil || e != nil {
		return models.WithoutChoices(err)
	}
	return models.Advise(err, given, on.Devices, func(candidate *mesh.Mesh) error {
		other := splitOf(candidate.Axes())
		other.shardedOver = sp.shardedOver
		if other.countDevices() == on.Devices {
			if err := s.checkPipeline(on, other); err != nil {
				return err
			}
		}
		_, _, err := s.requestForSplit(on, other)
		return err
	})
}

func newRefusal(on topology.Slice, sp split, err error) Refusal {
	r := Refusal{Slice: on.String(), Mesh: sp.meshText()}
	for i, v := range fault.Violations(err) {
		d := fault.Describe(v)
		r.Violations = append(r.Violations, d)
		if i == 0 {
			r.Kind, r.Reason = d.Kind, d.Message
		} else {
			r.Reason += "; " + d.Message
		}
	}
	return r
}

// judgeMemory compares a plan's memory with the device's and says whether it fits.
func (s *search) judgeMemory(p *Plan, on topology.Slice) {
	p.HBMBytesPerDevice = p.peakBytes()
	p.DeviceMemory = s.o.Machine.Memory(on)
	p.HBMLimitBytes = p.DeviceMemory.UsableBytes
	p.Fits, p.OverBytes = Judge(p.HBMBytesPerDevice, p.HBMLimitBytes)
	if p.Fits == FitUnknown {
		p.Notes = append(p.Notes, UnknownMemory)
	}
}

// addCost adds to a plan what it costs at the user's prices.
func (s *search) addCost(p *Plan, on topology.Slice) {
	if s.o.Prices == nil {
		return
	}
	if p.Cost = s.o.Prices.planCost(on, p.StepSeconds, s.o.Steps, s.o.Batch); p.Cost == nil {
		p.Notes = append(p.Notes, fmt.Sprintf("no price for %s or its generation, %s", on, on.Generation))
	}
}

func byAxis(ts []cost.Traffic) map[string]int64 {
	out := map[string]int64{}
	for _, t := range ts {
		out[t.Axis] += t.Bytes
	}
	return out
}

// kernelNote says what the time of attention by weft's kernel rests on.
func kernelNote(on topology.Slice) string {
	if on.Kind != topology.GPUBox {
		return "attention by weft's kernel: its time is the compiler's figure for the code, and no TPU has run it yet"
	}
	return fmt.Sprintf("attention by weft's kernel: no GPU has run it yet; its time is %.3g of the GPU's peak: %s", on.KernelEfficiency().Value, on.KernelEfficiency().How)
}

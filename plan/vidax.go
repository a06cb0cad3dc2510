package plan

import (
	"context"
	"fmt"
	"slices"

	"weft/internal/numbers"
	"weft/internal/peer"
	"weft/phases"
	"weft/program/cost"
	"weft/topology"
)

// AsVidax plans the program and the residency of vidax, the peer, in place of weft's.
const AsVidax = "vidax"

// ErrPeer: the peer does not run what is asked, or nothing is known of it.
var ErrPeer = peer.ErrPeer

// searchPeer plans the peer's step on a slice: every split of its axes.
func (s *search) searchPeer(ctx context.Context, on topology.Slice) (*Result, error) {
	res := s.newResult(on.String())
	res.As = AsVidax
	res.Notes = []string{
		"the peer as its scripts run it: what they keep on the devices, in which type, and what they compute whole on every device; activations are those of weft's programs on the same split, and what the peer's compiler exchanges is not modelled",
		"a step's matmuls, attention and offloading are calibrated on published rows of other families than this one (plan/data/efficiency.json)"}
	m, err := peer.ModelOf(s.m.Name())
	if err != nil {
		return nil, err
	}
	cal, ok := s.figures.Peer.HeldOut[m.Family]
	if !ok {
		return nil, fmt.Errorf("plan: embedded data: no calibration that leaves out %s", m.Family)
	}
	given := split{}
	if s.o.Mesh != nil {
		list, err := s.listSplits(on)
		if err != nil {
			return nil, err
		}
		given = list[0]
	}
	runs, err := newPeerRuns(s.m.Name())
	if err != nil {
		return nil, err
	}
	passes := s.o.Batch * 2
	for _, dp := range numbers.Divisors(on.Devices, on.Devices) {
		for _, tp := range numbers.Divisors(on.Devices/dp, on.Devices) {
			sp := split{pp: 1, dp: dp, fsdp: 1, tp: tp, sp: on.Devices / dp / tp}
			if s.o.Mesh != nil && (sp.dp != given.dp || sp.tp != given.tp || sp.sp != given.sp) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r := peer.Run{Model: s.m.Name(), Width: s.o.Width, Height: s.o.Height, Frames: s.o.Frames, Steps: s.o.Steps,
				DP: sp.dp, TP: sp.tp, SP: sp.sp, Passes: passes, WeightBytes: s.o.Weights.Size()}
			if err := m.Check(r); err != nil {
				res.Refuse = append(res.Refuse, newRefusal(on, sp, err))
				continue
			}
			p, err := s.peerPlan(on, sp, r, runs, cal)
			if err != nil {
				return nil, err
			}
			res.Plans = append(res.Plans, *p)
		}
	}
	slices.SortStableFunc(res.Plans, comparePlans)
	return res, nil
}

// listPeerPhases fills in the phases of the peer. How long it encodes is not modelled.
func (s *search) listPeerPhases(p *Plan, r peer.Run, mem peer.Memory) error {
	decode, err := r.DecodeSeconds()
	if err != nil {
		return err
	}
	phase := func(name string, weights, beside int64) Phase {
		if beside < 0 {
			return Phase{}
		}
		return Phase{Memory: &Memory{WeightsBytes: weights, TempBytes: beside, TotalBytes: weights + beside, At: name}}
	}
	steps := max(1, s.o.Steps)
	seconds := p.StepSeconds * float64(steps)
	const alone = "dp=1,tp=1,sp=1" // on every device the same
	for _, run := range s.companions.list {
		one := PhaseRun{Model: run.Name, Mesh: alone}
		switch run.Phase {
		case phases.Text:
			one.Mesh, one.Breakdown = p.Mesh, phase(run.Phase, mem.PromptBytes, mem.Working.Text)
			p.Breakdown.Text = one.Breakdown
		case phases.Image:
			one.Breakdown = phase(run.Phase, mem.PromptBytes, mem.Working.Image)
		case phases.Denoise:
			one.Mesh, one.DType, one.Breakdown, one.Seconds, one.Time = p.Mesh, s.o.DType.String(), p.Breakdown.DiT, &seconds, &p.Time
		case phases.Decode:
			one.Breakdown, one.Seconds = phase(run.Phase, mem.DecodeBytes, mem.Working.Decode), &decode
			p.Breakdown.VAE = one.Breakdown
		}
		n := len(p.Phases)
		if n == 0 || p.Phases[n-1].Name != run.Phase {
			p.Phases = append(p.Phases, PhasePlan{Name: run.Phase, Breakdown: one.Breakdown, Seconds: one.Seconds})
			n++
		}
		at := &p.Phases[n-1]
		if at.Runs = append(at.Runs, one); run.Phase == phases.Denoise {
			at.Steps = steps
		}
		if at.Breakdown.Memory != nil {
			at.HBMBytesPerDevice = &at.Breakdown.TotalBytes
		}
	}
	return nil
}

func (s *search) peerPlan(on topology.Slice, sp split, r peer.Run, runs *peerRuns, cal peer.Calibration) (*Plan, error) {
	mem, err := runs.memory(r)
	if err != nil {
		return nil, err
	}
	work, err := r.Work(on)
	if err != nil {
		return nil, err
	}
	p := &Plan{Slice: on.String(), Mesh: sp.meshText(), FSDP: []string{}, Devices: on.Devices, split: sp,
		CollectiveBytes: map[string]int64{}, RequestCollectiveBytes: map[string]int64{}, Collectives: []cost.Traffic{},
		StepSeconds: cal.Seconds(work), Programs: []ProgramTime{}, Padding: []string{}, Notes: []string{}, CFGParallel: sp.dp%2 == 0}
	p.Time = Time{MatmulSeconds: cal[0] * work.Ideal[0], AttentionSeconds: cal[1]*work.Ideal[1] + cal[2]*work.Ideal[2], CollectiveSeconds: map[string]float64{},
		TransferSeconds: cal[3]*work.Ideal[3] + work.Known}
	dit := Memory{WeightsBytes: mem.StepBytes, TempBytes: max(0, mem.Working.Step), At: "step"}
	dit.TotalBytes = dit.WeightsBytes + dit.TempBytes
	p.Breakdown.DiT = Phase{Memory: &dit}
	if err := s.listPeerPhases(p, r, mem); err != nil {
		return nil, err
	}
	s.judgeMemory(p, on)
	p.HBMBytesPerDevice = mem.PeakBytes // the image's phase is in no breakdown
	p.Fits, p.OverBytes = Judge(p.HBMBytesPerDevice, p.HBMLimitBytes)
	if mem.Working.Step < 0 {
		p.Notes = append(p.Notes, "what the step takes beside its weights is not modelled: weft has no program of that split")
	}
	if p.Fits == TooBig {
		p.Change = "no change of the peer's own is modelled"
	}
	s.addCost(p, on)
	return p, nil
}

package plan

import (
	"context"
	"fmt"
	"slices"

	"weft/dtype"
	"weft/internal/numbers"
	"weft/internal/peer"
	"weft/mesh"
	"weft/models"
	"weft/phases"
	"weft/program/cost"
	"weft/request"
	"weft/topology"
)

// AsVidax plans the program and the residency of vidax, the peer, in place of weft's.
const AsVidax = "vidax"

// ErrPeer: the peer does not run what is asked, or nothing is known of it.
var ErrPeer = peer.ErrPeer

// PeerMemory counts the bytes of a device that a run of the peer takes. Error: ErrPeer for an unknown model.
func PeerMemory(r peer.Run) (peer.Memory, error) {
	m, err := peer.ModelOf(r.Model)
	if err != nil {
		return peer.Memory{}, err
	}
	working, err := workingBytes(r, m.TokenTimes)
	if err != nil {
		return peer.Memory{}, err
	}
	return r.Memory(working)
}

// workingBytes gives the bytes that a step takes beside its weights, -1 where they are not
// known. They are those of weft's own program on the same mesh with the residual stream
// replicated, as the peer has it.
func workingBytes(r peer.Run, tokenTimes bool) (int64, error) {
	m, err := models.ByName(r.Model)
	if err != nil {
		return -1, nil // weft does not run it yet
	}
	o := Options{Request: request.Request{Width: r.Width, Height: r.Height, Frames: r.Frames, CFG: CFGBatch, DType: dtype.BF16}}
	s, err := newSearch(m, o)
	if err != nil {
		return -1, err
	}
	sp := split{pp: 1, dp: r.DP, fsdp: 1, tp: r.TP, sp: r.SP}
	on, err := mesh.Local(axesOf(sp)...)
	if err != nil {
		return -1, err
	}
	req := s.r
	req.Batch, req.TokenTimes, req.Times = r.Passes, tokenTimes, 0
	if err := m.Check(on, req); err != nil {
		return -1, nil // weft has no program on this split
	}
	got, err := s.measureSplit(on, sp, req)
	if err != nil {
		return -1, err
	}
	return got.memory.TotalBytes - got.memory.WeightsBytes, nil
}

// searchPeer plans the peer's step on a slice: every split of its axes.
func (s *search) searchPeer(ctx context.Context, on topology.Slice) (*Result, error) {
	res := s.newResult(on.String())
	res.As = AsVidax
	res.Notes = []string{
		"the peer's program and what its scripts keep resident; a text encoder's and the VAE's own activations are not modelled, nor what its compiler exchanges",
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
			p, err := s.peerPlan(on, sp, r, cal)
			if err != nil {
				return nil, err
			}
			res.Plans = append(res.Plans, *p)
		}
	}
	slices.SortStableFunc(res.Plans, comparePlans)
	return res, nil
}

// listPeerPhases fills in the phases of the peer: the weights of its text encoder, and its step.
// How long it encodes, and what it needs to decode, is not modelled.
func (s *search) listPeerPhases(p *Plan) {
	names := s.m.Features().Generator.Companions
	steps := max(1, s.o.Steps)
	seconds := p.StepSeconds * float64(steps)
	p.Phases = []PhasePlan{
		{Name: phases.Text, HBMBytesPerDevice: &p.Breakdown.Text.TotalBytes, Breakdown: p.Breakdown.Text, Runs: []PhaseRun{{Model: names.Text, Mesh: p.Mesh, Breakdown: p.Breakdown.Text}}},
		{Name: phases.Denoise, HBMBytesPerDevice: &p.Breakdown.DiT.TotalBytes, Breakdown: p.Breakdown.DiT, Seconds: &seconds, Steps: steps,
			Runs: []PhaseRun{{Model: s.m.Name(), Mesh: p.Mesh, DType: s.o.DType.String(), Breakdown: p.Breakdown.DiT, Seconds: &seconds, Time: &p.Time}}},
		{Name: phases.Decode, Runs: []PhaseRun{{Model: names.Decoder}}}}
}

func (s *search) peerPlan(on topology.Slice, sp split, r peer.Run, cal peer.Calibration) (*Plan, error) {
	mem, err := PeerMemory(r)
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
	p.Time = Time{MatmulSeconds: cal[0] * work[0], AttentionSeconds: cal[1]*work[1] + cal[2]*work[2], CollectiveSeconds: map[string]float64{}}
	p.Breakdown.Text = Phase{Memory: &Memory{WeightsBytes: mem.PromptBytes, TotalBytes: mem.PromptBytes, At: "weights alone"}}
	dit := Memory{WeightsBytes: mem.StepBytes, TempBytes: max(0, mem.WorkingBytes), At: "step"}
	dit.TotalBytes = dit.WeightsBytes + dit.TempBytes
	p.Breakdown.DiT = Phase{Memory: &dit}
	s.judgeMemory(p, on)
	s.listPeerPhases(p)
	if mem.WorkingBytes < 0 {
		p.Notes = append(p.Notes, "what the step takes beside its weights is not modelled: weft has no program of that split")
	}
	if p.Fits == TooBig {
		p.Change = "no change of the peer's own is modelled"
	}
	if s.o.Steps > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%.2f s a step are the decoder's, spread over %d steps", cal[4]*work[4], s.o.Steps))
	}
	s.addCost(p, on)
	return p, nil
}

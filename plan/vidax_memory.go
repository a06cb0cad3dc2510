package plan

import (
	"context"
	"fmt"
	"slices"

	"weft/dtype"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/models"
	"weft/program/cost"
	"weft/request"
	"weft/topology"
)

// PeerMemory counts the bytes that a device holds when the peer runs.
type PeerMemory struct {
	// PromptBytes and StepBytes are the weights that are resident while the prompt is
	// encoded and while the transformer runs.
	PromptBytes int64 `json:"prompt_bytes"`
	StepBytes   int64 `json:"step_bytes"`
	// WorkingBytes are those that the transformer's step takes beside its weights, counted
	// on weft's own program with the same layout; -1 where weft has no such program.
	WorkingBytes int64 `json:"working_bytes"`
	// PeakBytes is the larger of the two phases. The text encoder's and the decoder's own
	// activations are not modelled.
	PeakBytes int64 `json:"peak_bytes"`
}

// Memory counts the bytes of a device that r takes. Error: ErrPeer for an unknown model.
func (r PeerRun) Memory() (PeerMemory, error) {
	m, err := peerModel(r.Model)
	if err != nil {
		return PeerMemory{}, err
	}
	split, whole := m.countWeights()
	tp, elem := int64(r.TP), r.weightBytes(m)
	blocks := split/tp + whole
	other := m.Params["other_split"]/tp + m.Params["other_whole"]
	experts := int64(max(1, m.Experts))
	dit := blocks + other // one expert is there at a time
	if r.OffloadBlocks > 0 {
		dit = experts*other + blocks*int64(min(r.OffloadBlocks, m.Layers))/int64(m.Layers)
	}
	out := PeerMemory{PromptBytes: dit * elem, StepBytes: dit * elem}
	if m.Experts > 1 && r.OffloadBlocks == 0 {
		out.PromptBytes = 0 // an expert comes with its first step
	}
	for _, p := range m.Resident {
		size := m.componentSizes[p.Component]
		n := size.Split + size.Whole
		if !p.Whole {
			n = size.Split/tp + size.Whole
		}
		n *= p.Bytes
		out.PromptBytes += n
		if p.Until != "prompt" {
			out.StepBytes += n
		}
	}
	if out.WorkingBytes, err = r.workingBytes(m); err != nil {
		return PeerMemory{}, err
	}
	out.PeakBytes = max(out.PromptBytes, out.StepBytes+max(0, out.WorkingBytes))
	return out, nil
}

// workingBytes gives the bytes that a step takes beside its weights, -1 where they are not
// known. They are those of weft's own program on the same mesh with the residual stream
// replicated, as the peer has it.
func (r PeerRun) workingBytes(peer *PeerModel) (int64, error) {
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
	req.Batch, req.TokenTimes, req.Times = r.Passes, peer.TokenTimes, 0
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
	m, err := peerModel(s.m.Name())
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
			r := PeerRun{Model: s.m.Name(), Width: s.o.Width, Height: s.o.Height, Frames: s.o.Frames, Steps: s.o.Steps,
				DP: sp.dp, TP: sp.tp, SP: sp.sp, Passes: passes, WeightBytes: s.o.Weights.Size()}
			if err := m.checkRun(r); err != nil {
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

func (s *search) peerPlan(on topology.Slice, sp split, r PeerRun, cal PeerCalibration) (*Plan, error) {
	mem, err := r.Memory()
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

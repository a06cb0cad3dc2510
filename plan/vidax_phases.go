package plan

import (
	"fmt"

	"weft/dtype"
	"weft/graph"
	"weft/internal/peer"
	"weft/mesh"
	"weft/models"
	"weft/phases"
	"weft/request"
)

// peerRuns measures the phases of the peer, as its scripts run them: one prompt at a time through
// text encoders that tp splits or that every device has whole, images and frames on every device
// alike, and a step on the peer's mesh. Their programs are weft's; what the peer holds more than
// these is told where it is known (peer.Model).
type peerRuns struct {
	model *peer.Model
	known map[string]int64 // bytes beside the weights, by run and mesh
}

// newPeerRuns begins to measure a model's phases. Error: ErrPeer.
func newPeerRuns(name string) (*peerRuns, error) {
	m, err := peer.ModelOf(name)
	return &peerRuns{model: m, known: map[string]int64{}}, err
}

// PeerMemory counts the bytes of a device that a run of the peer takes. Error: ErrPeer for an unknown model.
func PeerMemory(r peer.Run) (peer.Memory, error) {
	runs, err := newPeerRuns(r.Model)
	if err != nil {
		return peer.Memory{}, err
	}
	return runs.memory(r)
}

func (p *peerRuns) memory(r peer.Run) (peer.Memory, error) {
	w, err := p.working(r)
	if err != nil {
		return peer.Memory{}, err
	}
	return r.Memory(w)
}

// working gives what the phases of a run take beside their weights, -1 for a phase that weft has
// no program of on that split.
func (p *peerRuns) working(r peer.Run) (peer.Working, error) {
	w := peer.Working{Text: -1, Step: -1, Decode: -1}
	m, err := models.ByName(r.Model)
	if err != nil {
		return w, nil // weft does not run it
	}
	o := Options{Request: request.Request{Width: r.Width, Height: r.Height, Frames: r.Frames, CFG: CFGBatch, DType: dtype.BF16}}
	if p.model.ComputesInF32(r) {
		o.DType = dtype.F32
	}
	s, err := newSearch(m, o)
	if err != nil {
		return w, err
	}
	if w.Step, err = p.stepBytes(s, r); err != nil {
		return w, err
	}
	for _, run := range s.companions.list {
		into := map[string]*int64{phases.Text: &w.Text, phases.Image: &w.Image, phases.Decode: &w.Decode}[run.Phase]
		if into == nil || run.Model == nil {
			continue
		}
		n, err := p.runBytes(run, r)
		if err != nil {
			return w, err
		}
		*into = max(*into, n)
	}
	if w.Decode >= 0 {
		w.Decode = max(w.Decode, p.model.DecodeWidestBytes(r, p.pictureBytes())) + 2*p.frameBytes(r)
	}
	return w, nil
}

// stepBytes are those of a step beside its weights: weft's own program on the same mesh with the
// residual stream replicated, as the peer has it, in the type of the peer's weights, in which it
// computes.
func (p *peerRuns) stepBytes(s *search, r peer.Run) (int64, error) {
	sp := split{pp: 1, dp: r.DP, fsdp: 1, tp: r.TP, sp: r.SP}
	on, err := mesh.Local(axesOf(sp)...)
	if err != nil {
		return -1, err
	}
	req := s.r
	req.Batch, req.TokenTimes, req.Times = r.Passes, p.model.TokenTimes, 0
	if err := s.m.Check(on, req); err != nil {
		return -1, nil // weft has no program on this split
	}
	got, err := s.measureSplit(on, sp, req)
	if err != nil {
		return -1, err
	}
	return got.memory.TotalBytes - got.memory.WeightsBytes, nil
}

// runBytes are those of a model beside the transformer, beside its weights.
func (p *peerRuns) runBytes(run phases.Run, r peer.Run) (int64, error) {
	req, tp := run.Request, r.TP
	part, _ := p.model.Part(run.Name)
	if req.DType = dtype.BF16; part.Bytes == 4 {
		req.DType = dtype.F32
	}
	switch {
	case run.Phase == phases.Text:
		req.Batch = 1
		if part.Whole {
			tp = 1
		}
	default:
		tp = 1
	}
	if tile := p.model.DecodeTile; run.Phase == phases.Decode && tile[0] > 0 {
		l := req.Latent
		req.Latent = []int{l[0], l[1], min(l[2], tile[0]), min(l[3], tile[1])}
	}
	key := fmt.Sprint(run.Phase, run.Name, tp, req)
	if n, ok := p.known[key]; ok {
		return n, nil
	}
	n, err := measureAlone(run.Model, tp, req)
	p.known[key] = n
	return n, err
}

// measureAlone measures what a model's graph takes beside its weights where tp splits it; -1 where
// weft has no program of that split.
func measureAlone(m models.Model, tp int, r models.Request) (int64, error) {
	on, err := mesh.Local(axesOf(split{pp: 1, dp: 1, fsdp: 1, tp: tp, sp: 1})...)
	if err != nil {
		return -1, err
	}
	if err := m.Check(on, r); err != nil {
		return -1, nil
	}
	g, err := m.Graph(on, r)
	if err != nil {
		return -1, err
	}
	got, err := measureGraph(g, 0, 1, graph.Offload{})
	if err != nil {
		return -1, err
	}
	return got.memory.TotalBytes - got.memory.WeightsBytes, nil
}

// frameBytes are those of all decoded frames, which the scripts keep on every device: as the
// decoder makes them, and joined to a video.
func (p *peerRuns) frameBytes(r peer.Run) int64 {
	return int64(r.Width) * int64(r.Height) * int64(r.Frames) * 3 * p.pictureBytes()
}

// pictureBytes are those of a number in the autoencoder.
func (p *peerRuns) pictureBytes() int64 {
	for _, part := range p.model.Resident {
		if part.Until == "" && part.Bytes == 4 {
			return 4
		}
	}
	return 2
}

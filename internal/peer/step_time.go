package peer

import (
	"encoding/json"
	"fmt"
	"math"

	"weft/fault"
	"weft/topology"
)

// workTerms are the parts of vidax's published times that calibration finds a factor for: four of
// a step, and the programs of a decoder's blocks, which are compiled while the clock runs.
var workTerms = [5]string{"matmul", "flash", "dense", "offload", "block_program"}

// stepTerms is how many of them are a step's own.
const stepTerms = 4

// flashCycles are the cycles that JAX's flash attention takes for one block of 128 queries
// by 128 keys with its default block sizes, with which vidax calls it. They are read from
// the code that libtpu 0.0.52 compiles: from its final bundles without waits for memory (v4)
// and from its static profile (v5p, v5e). No device was measured.
var flashCycles = map[string]float64{"v4": 527, "v5p": 686, "v5e": 975}

// mxuFLOPs are the operations of one TensorCore's matrix units in a cycle on those
// generations: four units of 128x128, each a multiply and an add. A chip's peak rate
// divided by it is the number of cores times their clock.
const mxuFLOPs = 4 * 128 * 128 * 2

// Rates that are read off other figures than a published step time. data/vidax.json says which.
type Rates struct {
	// DecodeSeconds are those of 10^12 multiplications of an autoencoder.
	DecodeSeconds float64 `json:"decode_seconds_per_tera"`
	// HostSeconds are those of a gigabyte of f32 weights that come from the host.
	HostSeconds float64 `json:"f32_offload_seconds_per_gb"`
	// ProgramSeconds are those of compiling one program of a causal autoencoder, LayerSeconds
	// those of compiling one layer of a transformer within its step.
	ProgramSeconds float64 `json:"program_seconds"`
	LayerSeconds   float64 `json:"layer_seconds"`
	// GroupOverlap is how much of a group of offloaded blocks is still there when the next one is.
	GroupOverlap float64 `json:"group_overlap"`
}

// Work is a step of vidax: in Ideal the seconds at the device's peak rates, by term (contractions
// at the peak arithmetic rate; flash attention's blocks at the compiler's cycles; the scores of
// dense attention written once; bf16 weights that come from the host, at 1 GB/s), and in Known the
// seconds that no calibration changes: f32 weights from the host.
type Work struct {
	Ideal [stepTerms]float64 `json:"ideal"`
	Known float64            `json:"known"`
}

// Published is what a published time a step has of each term, and in Known of everything else. It
// is the time of all calls but the first of each compiled function, over the steps: the first
// calls are counted as compiling. So it has one step less, and the later compilations of a
// function that is called with other shapes or placements.
type Published struct {
	Terms [len(workTerms)]float64 `json:"terms"`
	Known float64                 `json:"known"`
}

// Work counts a step of vidax on a slice. Errors: ErrPeer for what is not known.
func (r Run) Work(on topology.Slice) (Work, error) {
	var w Work
	m, err := ModelOf(r.Model)
	if err != nil {
		return w, err
	}
	cycles, ok := flashCycles[on.Generation]
	if !ok {
		return w, fault.New(ErrPeer, nil, "no profile of the peer's attention for %s: there is one for v4, v5e and v5p", on.Generation)
	}
	rates := on.Rates()
	peak, hbm := rates.BF16FLOPs, rates.HBMBytes
	if peak == 0 || hbm == 0 {
		return w, fmt.Errorf("peer: no rates are known for %s", on)
	}
	w.Ideal[0] = 2 * m.rowsTimesWeights(r) / peak
	s, tp, sp := float64(m.countTokens(r)), float64(r.TP), float64(r.SP)
	text, image := float64(m.TextRows), float64(m.ImageRows)
	heads := float64(r.Passes) / float64(r.DP) * float64(m.Heads) * float64(m.Layers) / tp / sp
	blocks := func(n float64) float64 { return math.Ceil(n / 128) }
	keys := s
	if m.Joined {
		keys += text
	}
	if m.Attention == "dense" {
		w.Ideal[2] = heads * s * keys * 4 / hbm
	} else {
		n := blocks(keys) * blocks(keys)
		if !m.Joined {
			n = blocks(s) * (blocks(s) + blocks(text) + blocks(image))
		}
		w.Ideal[1] = heads * n * cycles * mxuFLOPs / peak
	}
	if gb := m.streamedBytes(r) / 1e9; r.weightBytes(m) == 4 {
		w.Known = gb * vidax().Rates.HostSeconds
	} else {
		w.Ideal[3] = gb
	}
	return w, nil
}

// rowsTimesWeights counts the multiplications of a device's contractions by weights. Where the
// script leaves the batch to its compiler (WholeBatch), dp splits attention alone.
func (m *Model) rowsTimesWeights(r Run) float64 {
	s, tp, sp := float64(m.countTokens(r)), float64(r.TP), float64(r.SP)
	text, image := float64(m.TextRows), float64(m.ImageRows)
	p := func(key string) float64 { return float64(m.Params[key]) }
	rows := s/sp*(p("visual_split")/tp+p("visual_whole")) + text*(p("text_split")/tp+p("text_whole")) +
		(s/sp+text)*(p("both_split")/tp+p("both_whole")) + image*(p("image_split")/tp+p("image_whole"))
	if m.TokenTimes {
		rows += s / sp * (p("other_split")/tp + p("other_whole"))
	}
	batch := float64(r.Passes)
	if !m.WholeBatch {
		batch /= float64(r.DP)
	}
	return batch * rows
}

// streamedBytes are those that the host hands out in a step to all devices together, each weight
// once. The first group of blocks does not count: it is on its way before the clock runs, as the
// published sweep over sizes of groups shows.
func (m *Model) streamedBytes(r Run) float64 {
	if r.OffloadBlocks <= 0 {
		return 0
	}
	split, whole := m.countWeights()
	return float64(r.weightBytes(m)) * float64(split+whole) * (1 - float64(min(r.OffloadBlocks, m.Layers))/float64(m.Layers))
}

// DecodeSeconds is how long the autoencoder takes to decode a run's frames on one device, which is
// how vidax decodes: every device computes the same.
func (r Run) DecodeSeconds() (float64, error) {
	m, err := ModelOf(r.Model)
	if err != nil {
		return 0, err
	}
	return r.pixels() * m.DecodeMACs / 1e12 * vidax().Rates.DecodeSeconds, nil
}

// EncodeSeconds is how long it takes to encode a video of as many frames; 0 where the script
// encodes none, or a single frame.
func (r Run) EncodeSeconds() (float64, error) {
	m, err := ModelOf(r.Model)
	if err != nil {
		return 0, err
	}
	return r.pixels() * m.EncodeMACs / 1e12 * vidax().Rates.DecodeSeconds, nil
}

func (r Run) pixels() float64 { return float64(r.Width) * float64(r.Height) * float64(r.Frames) }

// Published counts what the row's published time a step is made of.
func (r Row) Published(on topology.Slice) (Published, error) {
	var p Published
	m, err := ModelOf(r.Model)
	if err != nil {
		return p, err
	}
	w, err := r.Work(on)
	if err != nil {
		return p, err
	}
	steps, rates := float64(r.Steps), vidax().Rates
	for i, x := range w.Ideal {
		p.Terms[i] = x * (steps - 1) / steps
	}
	p.Known = w.Known * (steps - 1)
	p.Terms[4] = float64(m.LaterBlocks) / steps
	p.Terms[2] += r.windowBytes() / on.Rates().HBMBytes / steps
	if m.StepAgain {
		p.Known += float64(m.Layers) * rates.LayerSeconds
	}
	if m.DecodeCounted {
		calls := float64(1 + (r.Frames-1)/m.VAEStride[0]) // one for each frame of latents
		p.Known += r.pixels() * (m.DecodeMACs + m.EncodeMACs) / 1e12 * rates.DecodeSeconds * (calls - 1) / calls
		p.Known += float64(m.LaterPrograms) * rates.ProgramSeconds
	}
	p.Known /= steps
	return p, nil
}

// windowBytes are those of the keys and values that LTX-2.5's diffusion decoder gathers for every
// position: windows of 11 x 11 x 11 positions, in seven blocks after the first, of 256 channels
// over tp in bf16. It works on patches of 4 x 4 pixels, and on frames in whole groups of eight.
func (r Row) windowBytes() float64 {
	if r.Decoder != "diffusion" {
		return 0
	}
	frames := float64((r.Frames + 7) / 8 * 8)
	positions := frames * float64(r.Height/4) * float64(r.Width/4)
	return 7 * positions * (11 * 11 * 11) * float64(256/r.TP) * 2 * 2
}

// Naive is the estimate to beat: FLOPs of tokens times parameters and of attention, over
// the slice's peak rate.
func (r Run) Naive(on topology.Slice) (float64, error) {
	m, err := ModelOf(r.Model)
	if err != nil {
		return 0, err
	}
	params := int64(0)
	for _, n := range m.Params {
		params += n
	}
	s := float64(m.countTokens(r))
	flops := float64(r.Passes) * (2*s*float64(params) + 4*s*s*float64(m.Heads*m.HeadDim*m.Layers))
	return flops / (on.Rates().BF16FLOPs * float64(r.DP*r.TP*r.SP)), nil
}

// countWeights counts the transformer's parameters that multiply tokens, those that tp
// splits and those that are whole on every device. Parameters that multiply a single row,
// as the time's embedding does, are left out.
func (m *Model) countWeights() (split, whole int64) {
	for _, rows := range []string{"visual", "text", "both", "image"} {
		split += m.Params[rows+"_split"]
		whole += m.Params[rows+"_whole"]
	}
	return split, whole
}

func (r Run) weightBytes(m *Model) int64 {
	if r.WeightBytes > 0 {
		return int64(r.WeightBytes)
	}
	return int64(m.WeightBytes)
}

// ComputesInF32 says whether the transformer computes in f32: in the type of its weights.
func (m *Model) ComputesInF32(r Run) bool { return r.weightBytes(m) == 4 }

// Calibration has, for each term, the factor by which it takes longer than its ideal; for the
// programs of a decoder's blocks, the seconds of one.
type Calibration [len(workTerms)]float64

// Seconds is a step's time by a calibration.
func (c Calibration) Seconds(w Work) float64 {
	t := w.Known
	for i, x := range w.Ideal {
		t += c[i] * x
	}
	return t
}

// PublishedSeconds is the published time a step by a calibration.
func (c Calibration) PublishedSeconds(p Published) float64 {
	t := p.Known
	for i, x := range p.Terms {
		t += c[i] * x
	}
	return t
}

// MarshalJSON names the terms.
func (c Calibration) MarshalJSON() ([]byte, error) {
	byName := map[string]float64{}
	for i, name := range workTerms {
		byName[name] = c[i]
	}
	return json.Marshal(byName)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Calibration) UnmarshalJSON(b []byte) error {
	byName := map[string]float64{}
	if err := json.Unmarshal(b, &byName); err != nil {
		return err
	}
	for i, name := range workTerms {
		c[i] = byName[name]
	}
	return nil
}

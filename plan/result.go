package plan

import (
	"encoding/json"

	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/program/cost"
	"weft/topology"
)

// Memory counts the bytes of one device, by kind, at the moment of a phase when it holds
// most.
type Memory struct {
	// WeightsBytes are the weights that are there at that moment, with the slots of those that
	// are streamed; SlotBytes is what of it the slots are.
	WeightsBytes int64 `json:"weights_bytes"`
	SlotBytes    int64 `json:"slot_bytes,omitzero"`
	// ResidualBytes are the values that a step hands from program to program: the residual
	// stream, the latents, the time's embedding.
	ResidualBytes int64 `json:"residual_bytes"`
	// AttentionBytes are the text's keys and values and the position tables, which a
	// request keeps, and the values of attention that are live at the peak.
	AttentionBytes int64 `json:"attention_bytes"`
	// GatheredBytes are the results of all-gathers that are live at the peak.
	GatheredBytes int64 `json:"gathered_bytes"`
	// TempBytes are all others: activations within a program.
	TempBytes  int64 `json:"temp_bytes"`
	TotalBytes int64 `json:"total_bytes"`
	// At is the program that needs it.
	At string `json:"at"`
}

// Phase has the memory of a part of generating a video, and the form that each of its
// attentions takes, with the reason. The zero value is a phase that is not modelled. The
// attention of the transformer stands in Plan.
type Phase struct {
	*Memory
	Attention []graph.Choice `json:"attention,omitempty"`
}

// NotModelled stands in JSON and text for a phase that no program describes.
const NotModelled = "not modelled"

// MarshalJSON writes the memory or "not modelled".
func (p Phase) MarshalJSON() ([]byte, error) {
	if p.Memory == nil {
		return json.Marshal(NotModelled)
	}
	type plain Phase
	return json.Marshal(plain(p))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Phase) UnmarshalJSON(b []byte) error {
	if string(b) == `"`+NotModelled+`"` {
		*p = Phase{}
		return nil
	}
	type plain Phase
	return json.Unmarshal(b, (*plain)(p))
}

// Breakdown has the memory of each phase.
type Breakdown struct {
	Text Phase `json:"text"`
	DiT  Phase `json:"dit"`
	VAE  Phase `json:"vae"`
}

// peakBytes gives the bytes of the phase that takes most.
func (b Breakdown) peakBytes() int64 {
	n := int64(0)
	for _, p := range []Phase{b.Text, b.DiT, b.VAE} {
		if p.Memory != nil {
			n = max(n, p.TotalBytes)
		}
	}
	return n
}

// Plan describes how a step runs with one legal split: its memory, collectives and time.
type Plan struct {
	Slice   string   `json:"slice"`
	Mesh    string   `json:"mesh"`
	FSDP    []string `json:"fsdp"` // axes over which the weights are sharded
	Fits    Fit      `json:"fits"`
	Devices int      `json:"devices"`

	HBMBytesPerDevice int64 `json:"hbm_bytes_per_device"`
	// HBMLimitBytes is DeviceMemory's usable part; nil where it is not known.
	HBMLimitBytes *int64                `json:"hbm_limit_bytes"`
	DeviceMemory  topology.DeviceMemory `json:"device_memory"`
	OverBytes     *int64                `json:"over_bytes"` // beyond the limit; nil where that is not known
	// Change is the smallest change that makes a plan fit that does not, as flags:
	// "--mesh dp=1,tp=1,sp=4 --fsdp sp (12.30 GB)"; or why there is none. Advice is the
	// flags alone, "" for none.
	Change    string    `json:"change,omitempty"`
	Advice    string    `json:"advice,omitempty"`
	Breakdown Breakdown `json:"breakdown"`
	// Phases are all phases of a video in order, with the time of each.
	Phases []PhasePlan `json:"phases"`
	// Attention is the form each attention takes, and why.
	Attention []graph.Choice `json:"attention"`

	// CollectiveBytes are the bytes that a device sends in a step, by axis.
	CollectiveBytes map[string]int64 `json:"collective_bytes"`
	// RequestCollectiveBytes are those of the programs that run once a request.
	RequestCollectiveBytes map[string]int64 `json:"request_collective_bytes"`
	// Collectives is CollectiveBytes by operation, as graph.Traffic has it.
	Collectives []cost.Traffic `json:"collectives"`

	StepSeconds float64 `json:"step_seconds"`
	// RequestSeconds is what the programs take that run once a request, before its first step.
	RequestSeconds float64       `json:"request_seconds"`
	Cost           *Cost         `json:"cost,omitempty"` // at a user's prices
	Time           Time          `json:"time"`
	Programs       []ProgramTime `json:"programs"`

	// Offload says which weights are streamed; nil where none are.
	Offload *Offload `json:"offload,omitempty"`

	CFGParallel bool     `json:"cfg_parallel"`
	Padding     []string `json:"padding"` // what is padded, in words; empty: nothing
	Notes       []string `json:"notes"`

	split split
	stage pipelineStage // the fullest, where there is a pipeline
	runs  []*placedRun  // of the models beside the transformer, in order
}

// Refusal is a split that is not legal, or in a search of all hardware a kind of hardware on which no
// split fits.
type Refusal struct {
	Slice      string         `json:"slice"`
	Mesh       string         `json:"mesh"`
	Kind       string         `json:"kind"`
	Reason     string         `json:"reason"`
	Violations []fault.Report `json:"violations"` // every reason
}

// Result has the plans, best first, and the splits that are refused.
type Result struct {
	Model  string    `json:"model"`
	On     string    `json:"on"`
	As     string    `json:"as,omitempty"` // "vidax" where the peer is planned
	Size   string    `json:"size"`
	Frames int       `json:"frames"`
	Batch  int       `json:"batch"`
	CFG    string    `json:"cfg"`
	DType  string    `json:"dtype"`
	Plans  []Plan    `json:"plans"`
	Refuse []Refusal `json:"refused"`
	// Efficiency says how good the times are: "assumed" or "calibrated".
	Efficiency string   `json:"efficiency"`
	Notes      []string `json:"notes"`
	// Settings are those of the release that a plan depends on, each with where it is from.
	Settings map[string]models.Setting `json:"settings"`
}

// Document is an answer as `weft plan --json` and the explorer have it.
type Document struct {
	*Result
	Assertions []Assertion `json:"assertions"`
}

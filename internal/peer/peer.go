// Package peer is vidax 0.1.0, the JAX package that weft is compared with: which models it runs and
// how, what its scripts keep on the devices, how long its step takes, and what its authors
// published. Package peer/params has the names and the sharding of its parameters. Families do
// not know of it.
package peer

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"weft/fault"
)

// ErrPeer: vidax does not run what is asked, or nothing is known of it.
var ErrPeer = fault.NewKind("peer")

//go:embed data/vidax.json
var vidaxJSON []byte

//go:embed data/vidax-rows.json
var vidaxRowsJSON []byte

// Model is a diffusion transformer as vidax runs it. data/vidax.json says where each value is from.
type Model struct {
	Family    string           `json:"family"`
	VAEStride [3]int           `json:"vae_stride"` // frames, rows, columns
	Patch     [3]int           `json:"patch"`
	TextRows  int              `json:"text_rows"`
	Joined    bool             `json:"joined"` // text rows are in the self-attention
	ImageRows int              `json:"image_rows"`
	Attention string           `json:"attention"` // "flash", or "dense": the scores whole
	Heads     int              `json:"heads"`
	HeadDim   int              `json:"head_dim"`
	Layers    int              `json:"layers"`
	Params    map[string]int64 `json:"params"` // by the rows they multiply, and split or whole over tp
	// WeightBytes is the script's default: of one weight of the transformer on the device.
	WeightBytes int     `json:"weight_bytes"`
	Experts     int     `json:"experts"`
	TokenTimes  bool    `json:"token_times"` // every token has a modulation of its own, text to video too
	DecodeMACs  float64 `json:"decode_macs_per_pixel"`
	EncodeMACs  float64 `json:"encode_macs_per_pixel"`
	Resident    []Part  `json:"resident"`
	// FreesBeforeDecode: the script drops the transformer before it decodes.
	FreesBeforeDecode bool `json:"frees_before_decode"`
	// DecodeTile is the tile that the decoder computes at a time, latent rows and columns; 0 for whole
	// pictures.
	DecodeTile [2]int `json:"decode_tile"`
	// DecodeWidest is, of a decoder that computes all frames of its tile at once, how many channels
	// its widest activation has for each pixel; 0 for one that computes frame by frame.
	DecodeWidest int `json:"decode_widest"`
	// KeptScores: attention adds a bias for padding, and so makes its scores whole, in f32.
	KeptScores bool `json:"kept_scores"`
	// OtherInBlocks is the share of the parameters that multiply one row or none which lie in the
	// blocks, and come and go with them. Pools is in how many parts of their own kind the blocks
	// are streamed; 0 is one.
	OtherInBlocks float64 `json:"other_in_blocks"`
	Pools         int     `json:"pools"`
	// FusedBytes are those that the step's one program keeps for each token of the video, as
	// published needs say; 0 where weft's own program stands for it.
	FusedBytes float64 `json:"fused_bytes_per_token"`
	// WholeBatch: dp splits the batch in attention alone.
	WholeBatch bool `json:"whole_batch"`
	// What published times a step have beside the steps. DecodeCounted: the calls of the
	// autoencoder but the first, because they are compiled functions. LaterPrograms: how many whole
	// programs of it are compiled after the first. LaterBlocks: how many programs of single blocks,
	// of tiles of four sizes. StepAgain: the step is compiled again in its second call, because only
	// then its latents lie on the mesh.
	DecodeCounted bool `json:"decode_counted"`
	LaterPrograms int  `json:"later_programs"`
	LaterBlocks   int  `json:"later_blocks"`
	StepAgain     bool `json:"step_again"`

	SP             bool `json:"sp"`
	TPWithSP       bool `json:"tp_with_sp"`
	componentSizes map[string]componentSize
}

// Part is another network that a script keeps on the devices.
type Part struct {
	Component string `json:"component"`
	Bytes     int64  `json:"bytes"` // of one parameter
	// Until is when it goes: "prompt" once the prompt is encoded, "decode" before decoding, "" never.
	Until string `json:"until"`
	// Whole: on every device whole, whatever its own table could split.
	Whole bool `json:"whole"`
}

type componentSize struct {
	Split int64 `json:"split"`
	Whole int64 `json:"whole"`
}

// Run is one way to run vidax.
type Run struct {
	Model  string `json:"model"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Frames int    `json:"frames"`
	// Steps of a video, over which work that is done once is spread; 0 leaves that out.
	Steps int `json:"steps"`
	DP    int `json:"dp"`
	TP    int `json:"tp"`
	SP    int `json:"sp"`
	// Passes is how many times the transformer's batch is that of the video: 2 with guidance.
	Passes      int `json:"passes"`
	WeightBytes int `json:"weight_bytes"` // of one weight of the transformer; 0 is the script's default
	// OffloadBlocks is how many of the transformer's blocks lie on the devices at a time, fetched
	// from the host for every step; 0 keeps all there.
	OffloadBlocks int `json:"offload_blocks"`
	// Decoder names another decoder than the usual one: "diffusion", of LTX-2.5.
	Decoder string `json:"decoder,omitempty"`
	// KeepsText: the script of the time did not drop the text encoders.
	KeepsText bool `json:"keeps_text,omitempty"`
}

// Row is a published measurement.
type Row struct {
	Slug string `json:"slug"`
	Run
	StepSeconds float64 `json:"step_seconds"`
	PeakGB      float64 `json:"peak_hbm_gb"`
	// NotCalibrated says why nothing is calibrated with the row, which is scored like any other.
	NotCalibrated string `json:"not_calibrated"`
	Source        string `json:"source"`
}

// Statement is a published fit or out-of-memory report.
type Statement struct {
	Text string `json:"text"`
	Run
	Fits      *bool   `json:"fits"` // nil: neither is said
	NeededGiB float64 `json:"needed_gib"`
	LimitGiB  float64 `json:"limit_gib"`
	What      string  `json:"what"`
	Source    string  `json:"source"`
	NotJudged string  `json:"not_judged"` // why nothing can be said
	Why       string  `json:"why"`        // what explains a verdict that is not right
}

type data struct {
	Rates      Rates                    `json:"rates"`
	Models     map[string]*Model        `json:"models"`
	Components map[string]componentSize `json:"components"`
	Rows       []Row                    `json:"rows"`
	Statements []Statement              `json:"statements"`
}

var vidax = sync.OnceValue(func() *data {
	d := &data{}
	for _, text := range [][]byte{vidaxJSON, vidaxRowsJSON} {
		if err := json.Unmarshal(text, d); err != nil {
			panic(fmt.Sprintf("peer: embedded data: %v", err))
		}
	}
	for name, m := range d.Models {
		m.componentSizes = map[string]componentSize{}
		for _, p := range m.Resident {
			size, ok := d.Components[p.Component]
			if !ok {
				panic(fmt.Sprintf("peer: embedded data: %s keeps %q, which has no size", name, p.Component))
			}
			m.componentSizes[p.Component] = size
		}
	}
	return d
})

// Models are the models that vidax runs, by name.
func Models() map[string]*Model { return vidax().Models }

// Rows are vidax's published measurements.
func Rows() []Row { return slices.Clone(vidax().Rows) }

// Statements are vidax's published statements on models that fit or do not.
func Statements() []Statement { return slices.Clone(vidax().Statements) }

// ModelOf returns a model by weft's name. Error: ErrPeer.
func ModelOf(name string) (*Model, error) {
	m := vidax().Models[name]
	if m == nil {
		return nil, fault.New(ErrPeer, nil, "vidax runs no %s that anything is known of here", name)
	}
	return m, nil
}

// Check reports every reason why vidax does not run r.
func (m *Model) Check(r Run) error {
	var l fault.List
	add := func(format string, args ...any) { l.Add(fault.New(ErrPeer, nil, format, args...)) }
	if m.Heads%(r.TP*r.SP) != 0 {
		add("vidax: %d heads do not divide by tp=%d times sp=%d", m.Heads, r.TP, r.SP)
	}
	if r.SP > 1 && !m.SP {
		add("vidax: %s has no sequence parallelism", r.Model)
	}
	if r.SP > 1 && r.TP > 1 && !m.TPWithSP {
		add("vidax: %s takes tp or sp, not both", r.Model)
	}
	if n := m.countTokens(r); n%r.SP != 0 {
		add("vidax: %d tokens do not divide by sp=%d", n, r.SP)
	}
	if r.Passes%r.DP != 0 {
		add("vidax: a batch of %d does not divide by dp=%d", r.Passes, r.DP)
	}
	return l.Err()
}

// Part returns the part of a component that the script keeps; false where it keeps none.
func (m *Model) Part(component string) (Part, bool) {
	i := slices.IndexFunc(m.Resident, func(p Part) bool { return p.Component == component })
	if i < 0 {
		return Part{}, false
	}
	return m.Resident[i], true
}

// scoreBytes are those of attention's whole scores on a device, of one pass.
func (m *Model) scoreBytes(r Run) int64 {
	if !m.KeptScores {
		return 0
	}
	tokens := int64(m.countTokens(r))
	return int64(m.Heads/r.TP) * tokens * (tokens + int64(m.TextRows)) * 4
}

// modulationBytes are those of a modulation of every token in f32, six rows of the model's width:
// it is made for all tokens before sp cuts it, so that the whole and the device's own part are
// there together. 0 for a model whose tokens share one.
func (m *Model) modulationBytes(r Run) int64 {
	if !m.TokenTimes {
		return 0
	}
	whole := int64(r.Passes/r.DP) * int64(m.countTokens(r)) * 6 * int64(m.Heads*m.HeadDim) * 4
	return whole + whole/int64(r.SP)
}

// DecodeWidestBytes are those of the widest activation of a decoder that computes all frames of a
// tile at once, three times: the convolution's operand, the same with its edges, and its result.
// 0 for a decoder that computes frame by frame.
func (m *Model) DecodeWidestBytes(r Run, elem int64) int64 {
	h, w := r.Height, r.Width
	if t := m.DecodeTile; t[0] > 0 {
		h, w = min(h, t[0]*m.VAEStride[1]), min(w, t[1]*m.VAEStride[2])
	}
	return 3 * int64(m.DecodeWidest) * int64(h) * int64(w) * int64(r.Frames) * elem
}

// countTokens counts the patches of the video's latents: frames times rows times columns.
func (m *Model) countTokens(r Run) int {
	frames := 1 + (r.Frames-1)/m.VAEStride[0]
	frames = (frames + m.Patch[0] - 1) / m.Patch[0]
	return frames * (r.Height / (m.VAEStride[1] * m.Patch[1])) * (r.Width / (m.VAEStride[2] * m.Patch[2]))
}

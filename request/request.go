// Package request has the one value that says what is asked of weft: the video, how its
// step is computed, on what, and how the latents are denoised. It is read from text once,
// where it enters (flags, an address, JSON), checked once with every violation, and handed
// on as it is to plan, aot, the root package and the explorer.
//
//	r, err := request.Parse(request.Text{"size": "832x480", "frames": "81", "on": "v4-8"})
//	r = request.Must("--size 832x480 --frames 81 --on v4-8 --mesh tp=4") // in programs
//	fmt.Println(r) // the same flags again
//
// # Fields
//
// Every field is one flag, with one name in flags, addresses and JSON (there with
// underscores). Commands take the flags that mean something to them; a caller in Go sets
// the fields. The zero value of a field says nothing, and its reader then takes what the
// last column has.
//
//	field             flag                read by                   if nothing is said
//	Width, Height     --size              plan, aot, sample, verify forward: its inputs'; verify: a small odd grid
//	Frames            --frames            plan, aot, sample, verify sample: the release's
//	FPS               --fps               sample                    the release's
//	Batch             --batch             plan, aot, verify         1; verify: 2
//	TextLen           --text-len          all                       the configuration's, or the release's
//	DType             --dtype             all                       f32 (weft plan and weft compile say bf16)
//	Weights           --weights           plan                      DType
//	Attention         --attention         all                       auto: the best form that there is
//	Layers            --layers            aot, runs                 all
//	TokenTimes        --token-times       plan, aot                 one timestep for each video
//	SplitResidual     --split-residual    all                       split over sp alone
//	Strict            --strict            all                       padding is reported
//	As                --as                plan                      weft's own program
//	On                --on                plan, aot                 no hardware is named
//	Mesh              --mesh              all                       auto
//	FSDP              --fsdp              all                       the axis fsdp; plan: with and without
//	AutoencoderType   --vae-dtype         plan, aot, pipeline       f32
//	Tiles             --tile              plan, aot, pipeline       pictures are decoded whole
//	Micro             --micro             runs                      as small as dp allows
//	Offload           --offload           all                       none; plan, and a mesh of auto: what fits
//	OffloadDepth      --offload-depth     all                       1
//	LoRA              --lora              plan, runs                none
//	CFG               --cfg               plan, aot, sample         the release's
//	Steps             --steps             plan, sample              sample: the release's
//	Sampler, Shift, IntegerTimesteps, Guidance, Boundary            the release's
//	Seed              --seed              sample                    0
//	Settings          none                plan, aot                 those of the model alone
//
// A mesh of auto, which is nil, means one thing: the best split, as package plan orders
// them, of the hardware that On names. Where On names none, that hardware is one device.
//
// # What is not here
//
// What says how the work is carried out and not what is asked stands beside the request in
// each caller's options: engines and plugins, caches, callbacks, limits of time, prices,
// folders to write to.
//
// # The shapes of a step
//
// A model reads a models.Request. It is derived here and nowhere else: by [Request.OfVideo]
// from the sizes, and by [Request.OfInputs] from the shapes of inputs.
package request

import (
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/spmd"
	"weft/topology"
)

// Kinds of errors. The fields of both are Refused.
var (
	// ErrSyntax: a flag whose text cannot be read, or that is not known.
	ErrSyntax = fault.NewKind("request-syntax")
	// ErrOptions: a value that no model and no hardware could make right.
	ErrOptions = fault.NewKind("plan-options")
)

// Refused names the flag that a violation is of, and its value.
type Refused struct {
	Flag  string `json:"flag"`
	Value string `json:"value"`
}

// Request says what is asked. The package's comment has its fields, and who reads them.
type Request struct {
	Width, Height int // of the video, in pixels
	Frames        int
	FPS           float64 // frames a second, for models whose positions are seconds
	Batch         int     // videos at a time
	TextLen       int     // rows of text where the configuration has no length

	DType dtype.DType // compute type: dtype.F32 or dtype.BF16
	// Weights is the type that devices keep weights in: dtype.F32, dtype.BF16 or dtype.F8E4M3.
	Weights dtype.DType
	// Attention is the form that attention takes: attention.Auto, also as "",
	// attention.Blocked, or attention.Kernel, which is an error where there is none.
	Attention string
	Layers    int // only the first layers
	// TokenTimes gives tokens timesteps of their own, of two among them: a given first
	// frame's and the others', as image-to-video with Wan2.2-TI2V has.
	TokenTimes    bool
	SplitResidual bool   // the residual stream is split over tp as well
	Strict        bool   // padding is refused
	As            string // whose program: "" for weft's, or a peer's that plan knows

	On   Hardware
	Mesh []mesh.Axis // axes that are left out are 1; nil is auto
	// FSDP are axes over which each device keeps a share of every weight and gathers it
	// just in time. An empty list is none of them, where nil leaves the choice open.
	FSDP  []string
	Micro int // microbatches that flow through a pipeline
	// Offload says which layers' weights are streamed; OffloadDepth is how many calls are
	// read ahead, nil for DefaultOffloadDepth.
	Offload      Offload
	OffloadDepth *int

	// LoRA are adapters that are merged into the denoiser's weights as they load.
	LoRA []LoRA

	// AutoencoderType is the type that the autoencoder of a video computes in, dtype.F32 or
	// dtype.BF16. Tiles are the sizes of the tiles that it decodes pictures in; nil decodes them
	// whole.
	AutoencoderType dtype.DType
	Tiles           *models.Tiles

	CFG              string // models.CFGBatch, CFGSequential or CFGNone
	Steps            int    // of the sampler
	Sampler          string // one of sampler.Names
	Shift            float64
	IntegerTimesteps bool
	// Guidance mixes the velocities with and without the text: uncond + Guidance (cond -
	// uncond). It is one scale, or one for each of two experts, first the one that runs first.
	Guidance []float64
	// Boundary is the share of the noise levels above which the first of two experts runs.
	Boundary float64
	Seed     uint64 // of the noise
	// Asked names settings (models.SettingNames) that are asked for though they are zero.
	Asked []string

	// Settings are those of the model's release (models.SettingsOf). No text has them: they
	// come with the model. The zero value finds those of the model alone.
	Settings models.Settings
}

// All is the name that stands for all hardware in --on.
const All = "all"

// Hardware is what a request is for. The zero value names none.
type Hardware struct {
	topology.Slice      // the zero value where none is named, and for All
	All            bool // everything that weft knows
}

// IsNamed reports whether a slice is named, or all hardware.
func (h Hardware) IsNamed() bool { return h.All || h.Kind != "" }

// String is the name as --on takes it, "" where none is named.
func (h Hardware) String() string {
	switch {
	case h.All:
		return All
	case h.Kind == "":
		return ""
	}
	return h.Slice.String()
}

// ParseMesh reads a mesh as flags have it: "dp=1,tp=4,sp=1". "auto" and "" are nil.
// Errors: those of mesh.Parse.
func ParseMesh(text string) ([]mesh.Axis, error) {
	if text == "" || text == Auto {
		return nil, nil
	}
	return mesh.Parse(text)
}

// Auto is the mesh for which weft chooses, and the form of attention.
const Auto = "auto"

// MustMesh is ParseMesh for a text that is known to be right. It panics if it is not.
func MustMesh(text string) []mesh.Axis {
	axes, err := ParseMesh(text)
	if err != nil {
		panic(err)
	}
	return axes
}

// MustMeshes is MustMesh for several.
func MustMeshes(texts ...string) [][]mesh.Axis {
	out := make([][]mesh.Axis, len(texts))
	for i, text := range texts {
		out[i] = MustMesh(text)
	}
	return out
}

// LocalMesh is the mesh on devices in plain order, its axes in their usual order. auto is
// one device. Errors: those of mesh.Local.
func (r Request) LocalMesh() (*mesh.Mesh, error) { return mesh.Local(mesh.Standard(r.Mesh)...) }

// ForMesh is the request for another mesh.
func (r Request) ForMesh(axes []mesh.Axis) Request {
	r.Mesh = axes
	return r
}

// ComputeType is DType, or f32 where nothing is said.
func (r Request) ComputeType() dtype.DType {
	if r.DType == dtype.Invalid {
		return dtype.F32
	}
	return r.DType
}

// Adapt is a target whose attention takes the form that is asked for.
func (r Request) Adapt(t spmd.Target) spmd.Target {
	t.Attention = r.Attention
	return t
}

// isAsked reports whether a setting is asked for though it may be zero.
func (r Request) isAsked(setting string) bool { return slices.Contains(r.Asked, setting) }

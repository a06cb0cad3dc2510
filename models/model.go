// Package models holds what all model families share. Each family is a package in a
// folder below: it describes itself (config, parameters, sharding rules, checkpoint
// names, programs) and registers here. It knows meshes, never devices.
package models

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/internal/bystander"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// What can be wrong with a model, a request, or the two together.
var (
	ErrUnknownModel = fault.NewKind("unknown-model")
	ErrConfig       = fault.NewKind("config")
	ErrVariant      = fault.NewKind("unsupported-variant")
	ErrInputs       = fault.NewKind("inputs")
	ErrBatch        = fault.NewKind("batch-not-divisible")
	ErrFFN          = fault.NewKind("ffn-not-divisible")
	ErrSize         = fault.NewKind("size")
	ErrAxis         = fault.NewKind("axis-unsupported")
	ErrOutput       = fault.NewKind("output-shape")
)

// Param is one parameter of a model.
type Param struct {
	Name  string // official checkpoint name
	Shape []int  // in the official checkpoint
	// View is the shape that programs use, where it differs from Shape: the same
	// elements in the same order.
	View []int
	// Matmul marks weights that are contracted and so take the compute type;
	// the others (biases, norms, modulation) stay f32.
	Matmul bool
	// Pieces lists the tensors that this one stacks along dim 0, in order, where some
	// publishers store them separately, each by the name that Official returns for it.
	Pieces []graph.Piece
}

// Request is everything about a step that decides shapes and programs.
type Request struct {
	Batch  int
	Latent []int // (channels, frames, height, width) of the latent video
	Text   int   // rows of text given, context or ids, before padding; 0 means the model's full length
	// SecondText is rows of a second encoder's text, for a model that reads one beside
	// the first; where Text is 0 too it means the model's full length.
	SecondText int
	// Encode says, of an autoencoder, that a video is turned into latents and not the other
	// way round. Latent is the shape of the latents either way.
	Encode bool
	// Tile says that it is one of several tiles, which are blended before values are bounded.
	Tile   bool
	Masked bool // a mask comes with the text and says which of its rows are real
	Image  int  // rows of image features, for a model that reads them; 0 means as many as its encoder makes, or none where it can do without
	DType  dtype.DType
	// TokenTimes says that every token, or for some models every frame, has a timestep
	// of its own in place of one for each video.
	TokenTimes bool
	// Times is the number of different timesteps of a video's tokens, for models that
	// compute each of a few timesteps once; 0 means one for each token.
	Times int
	// OwnPositions says that each video of the batch has token positions of its own, in
	// place of one set for all.
	OwnPositions bool
	// FPS is the video's frames per second, for models whose positions are seconds; 0
	// means the model's usual rate.
	FPS    float64
	Layers int // run only the first Layers layers; 0 means all
	// SplitResidual splits the residual stream over tp too: reduce-scatter and
	// all-gather in place of each all-reduce.
	SplitResidual bool
	// FSDP names the axes over which weights that the rules replicate are sharded at
	// rest. Devices gather them just before they use them. nil means the axis fsdp,
	// where the mesh has it.
	FSDP []string
	// Target says how the programs adapt to the hardware, for instance in which blocks
	// they cut matmuls; the zero value changes nothing.
	Target spmd.Target
	// Strict refuses any padding instead of reporting it.
	Strict bool
}

// TokenMultiple returns the number of which a device's tokens are a multiple. The target
// wishes for it; a strict request, which refuses padding, does without.
func (r Request) TokenMultiple() int {
	if r.Strict {
		return 1
	}
	return max(1, r.Target.TokenMultiple)
}

// PadTokens returns to how many tokens n are padded, so that parts devices hold equally
// many, and each a multiple of TokenMultiple.
func (r Request) PadTokens(n, parts int) int { return numbers.RoundUp(n, parts*r.TokenMultiple()) }

// Run returns how many of a model's layers the request runs.
func (r Request) Run(layers int) int {
	if r.Layers > 0 {
		return min(r.Layers, layers)
	}
	return layers
}

// Model is one configuration of a family.
type Model interface {
	// Name is the preset's name, or the family's for a configuration of no preset.
	Name() string
	// Config is the configuration as JSON would show it.
	Config() any
	// Params lists the parameters by official name. layers as in Request.
	Params(layers int) []Param
	// Official translates another publisher's tensor name; an official or unknown name comes back as it is.
	Official(name string) string
	// Ignore lists the kinds of tensors that released checkpoints of this family carry
	// and the model does not use. Kinds that occur with any family are not listed.
	Ignore() []bystander.Kind
	// Rules are weft's sharding rules by official name.
	Rules() sharding.Rules
	// Check reports every reason why a mesh cannot run a request.
	Check(m *mesh.Mesh, r Request) error
	// Graph builds the step.
	Graph(m *mesh.Mesh, r Request) (*graph.Graph, error)
	// Inputs names every tensor that Request, Feed or Runs may read, including those
	// that they refuse. No other tensor is read from a file.
	Inputs() []string
	// Request reads shapes off a forward's inputs.
	Request(inputs map[string]*tensor.Tensor) (Request, error)
	// Example makes inputs from a seed for trying a model out; latent as in
	// Request, nil for a small odd grid.
	Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error)
	// Feed turns a forward's inputs into the graph's inputs.
	Feed(g *graph.Graph, r Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)
}

// Resolver is a model whose config.json does not decide everything: the names of the
// tensors do.
type Resolver interface {
	Model
	// Resolve returns the model that a checkpoint with tensors of these official names
	// holds, or an error that names the variant that weft does not run.
	Resolve(names []string) (Model, error)
}

// Tied is a model whose checkpoints store some tensors under several names.
type Tied interface {
	Model
	// Tied lists groups of publishers' names. The names of a group stand for the same
	// tensor.
	Tied() [][]string
}

// Variant is one of several steps that a set of inputs allows.
type Variant struct {
	Suffix string // of its outputs' names: "_uniform_t" makes out_uniform_t
	Inputs map[string]*tensor.Tensor
}

// Variants is a model that can run more than one step on the same set of inputs.
type Variants interface {
	Model
	// Runs lists them, at least one; the first has no suffix.
	Runs(inputs map[string]*tensor.Tensor) []Variant
}

// Runs lists the steps that inputs allow: one, unless the model is a Variants.
func Runs(m Model, inputs map[string]*tensor.Tensor) []Variant {
	if v, ok := m.(Variants); ok {
		return v.Runs(inputs)
	}
	return []Variant{{Inputs: inputs}}
}

// Generator is a model that denoises latents.
type Generator interface {
	Model
	// LatentShape is (channels, frames, height, width) for a video of the given pixels.
	LatentShape(width, height, frames int) ([]int, error)
	// FeedStep makes the inputs that change from step to step: latents x
	// (batch, channels, frames, height, width) at timestep t.
	FeedStep(r Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error)
	// FeedText makes the inputs that stay the same in every step, from text context
	// (batch, rows, dim).
	FeedText(g *graph.Graph, r Request, context *tensor.Tensor) (map[string]*tensor.Tensor, error)
}

// Conditioned is a generator whose steps may read more than latents, a timestep and text.
type Conditioned interface {
	Generator
	// Conditions names those inputs, the same in every step; none for a model that reads none.
	Conditions() []string
	// CheckConditions reports conditions that are missing, not read or of a wrong shape,
	// and adds the sizes that they decide to the request.
	CheckConditions(r Request, in map[string]*tensor.Tensor) (Request, error)
	// FeedConditions makes the graph's inputs from them.
	FeedConditions(g *graph.Graph, r Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)
}

// TextConditioned is a generator with conditions that belong to one text. A negative
// text has its own.
type TextConditioned interface {
	Conditioned
	// TextConditions names these conditions, including those that may be left out.
	TextConditions() []string
}

// Decoder is a model that turns latents into videos. Its Request, Graph and Feed
// describe the decoding of latents z.
type Decoder interface {
	Model
	// VideoShape is (channels, frames, height, width) of the video that latents
	// (channels, frames, height, width) decode to.
	VideoShape(latent []int) ([]int, error)
}

// FrameReader is a model that reads an input one frame after another, so that the frames can be
// made or read as they are needed.
type FrameReader interface {
	Model
	// FrameRequest is Request for the input of that name and shape, (batch, channels, frames,
	// height, width), whose frames come later.
	FrameRequest(input string, shape []int) (Request, error)
	// FeedStatic makes the graph's inputs that are no frames.
	FeedStatic(g *graph.Graph) (map[string]*tensor.Tensor, error)
}

// Companions names the presets that a generator needs to make a video: the encoder of
// its text and the decoder of its latents. weft need not run these models. "" means
// that there is none, for instance because the transformer reads its text itself.
type Companions struct{ Text, Decoder string }

// Accompanied is a generator that says which models it was released with.
type Accompanied interface {
	Generator
	Companions() Companions
}

// Rearranged is a generator whose "out" is not arranged as latents are.
type Rearranged interface {
	Generator
	// Velocity turns a step's "out" into (batch, channels, frames, height, width).
	Velocity(r Request, out *tensor.Tensor) *tensor.Tensor
}

// FrameKeeper is a generator that can be run with given frames beside noisy ones, each
// latent frame with a timestep of its own.
type FrameKeeper interface {
	Generator
	// KeepsFrames reports whether this configuration was trained for that.
	KeepsFrames() bool
	// FeedFrameTimes is FeedStep with a timestep for each latent frame, the same for all
	// videos, for a request with TokenTimes whose Times is at least how many differ.
	FeedFrameTimes(g *graph.Graph, r Request, x *tensor.Tensor, times []float64) (map[string]*tensor.Tensor, error)
}

// TokenReader is a generator that reads token ids (batch, rows) in place of a text
// encoder's rows. FeedText takes the ids. Negative ids are padding, which requires a
// request with Masked.
type TokenReader interface {
	Generator
	ReadsTokens()
}

// Family makes models of one kind.
type Family struct {
	Name string
	// Presets are configurations by the names people use.
	Presets map[string]json.RawMessage
	// Detect says whether a config.json is of this family.
	Detect func(config map[string]any) bool
	// New makes a model from a config.json. name is the preset's, or "" where the
	// configuration is not a preset's. The reader collects what is wrong; the caller
	// does not use the model in that case.
	New func(name string, config *ConfigReader) Model
}

var families []Family

// Register adds a family; families call it from an init function.
func Register(f Family) { families = append(families, f) }

// Presets lists the names of presets.
func Presets() []string {
	names := []string{}
	for _, f := range families {
		for n := range f.Presets {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	return names
}

// PresetConfig returns a preset's config.json. Error: ErrUnknownModel.
func PresetConfig(name string) (json.RawMessage, error) {
	if raw := presetConfig(name); raw != nil {
		return raw, nil
	}
	return nil, unknownModel(name, name)
}

// presetConfig returns a preset's config.json, or nil if no preset has the name.
func presetConfig(name string) json.RawMessage {
	for _, f := range families {
		if c, ok := f.Presets[name]; ok {
			return c
		}
	}
	return nil
}

// ByName makes the model that a name stands for. FindPreset says what names there are.
// Error: ErrUnknownModel.
func ByName(name string) (Model, error) {
	preset, release, err := FindPreset(name)
	if err != nil {
		return nil, err
	}
	for _, f := range families {
		if raw, ok := f.Presets[preset]; ok {
			config, err := ReadConfig(raw)
			if err != nil {
				return nil, err
			}
			m, _, err := f.buildModel(preset, config)
			if err != nil {
				return nil, err
			}
			m, _, err = SettingsOf(m, ReleaseQuery{Name: release})
			return m, err
		}
	}
	return nil, unknownModel(name, preset)
}

// FromConfig makes the model that a config.json describes. Errors begin with where.
// Error: ErrConfig, ErrVariant, ErrUnknownModel, with all violations at once.
func FromConfig(raw []byte, where string) (Model, error) {
	m, _, err := Describe(raw, where)
	return m, err
}

// Describe is FromConfig, and returns notes about keys that nothing reads.
func Describe(raw []byte, where string) (m Model, notes []string, err error) {
	defer func() {
		if err != nil && where != "" {
			err = prefixViolations(where, err)
		}
	}()
	config, err := ReadConfig(raw)
	if err != nil {
		return nil, nil, err
	}
	names := []string{}
	for _, f := range families {
		if f.Detect(config.keys) {
			return f.buildModel("", config)
		}
		names = append(names, f.Name)
	}
	class, _ := config.keys["_class_name"].(string)
	kind, _ := config.keys["model_type"].(string)
	return nil, nil, fault.New(ErrUnknownModel, struct {
		Class string   `json:"class_name"`
		Type  string   `json:"model_type"`
		Known []string `json:"known"`
	}{class, kind, names}, "_class_name %q with model_type %q is no model weft knows; known families: %s", class, kind, strings.Join(names, ", "))
}

// prefixViolations puts where in front of each violation's message.
func prefixViolations(where string, err error) error {
	var l fault.List
	for _, v := range fault.Violations(err) {
		l.Add(fmt.Errorf("%s: %w", where, v))
	}
	return l.Err()
}

// maxElements bounds one parameter: 4 TB of f32.
const maxElements = 1 << 40

// buildModel makes a model from a configuration and checks that the number of elements
// of every parameter is small enough to be counted.
func (f Family) buildModel(name string, config *ConfigReader) (Model, []string, error) {
	m := f.New(name, config)
	if config.OK() && name == "" { // presets are small enough
		for _, p := range m.Params(0) {
			n := 1
			for _, d := range p.Shape {
				if d > 0 && n > maxElements/d {
					config.Refuse("the sizes make %s of shape %v: want at most %d elements", p.Name, p.Shape, int64(maxElements))
					break
				}
				n *= d
			}
		}
	}
	notes, err := config.Finish()
	if err != nil {
		return nil, nil, err
	}
	return m, notes, nil
}

// Specs assigns the rules to a model's parameters.
func Specs(m Model, on *mesh.Mesh, layers int) ([]sharding.Assigned, error) {
	return SpecsOf(m, on, m.Params(layers))
}

// SpecsOf is Specs for parameters that the caller already has.
func SpecsOf(m Model, on *mesh.Mesh, params []Param) ([]sharding.Assigned, error) {
	ps := make([]sharding.Param, len(params))
	for i, p := range params {
		shape := p.Shape
		if p.View != nil {
			shape = p.View
		}
		ps[i] = sharding.Param{Name: p.Name, Shape: shape}
	}
	return m.Rules().Apply(on, ps)
}

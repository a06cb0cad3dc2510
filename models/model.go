// Package models holds what all model families share. Each family is a package in a
// folder below. It registers a Family here, which says what its config.json is, and what
// it has and does: parameters, checkpoint names, sharding rules, inputs, programs. It
// knows meshes, never devices.
package models

import (
	"fmt"

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
	Tile bool
	// TextRows says that a text encoder is given the rows of its token table in place of ids.
	TextRows bool
	Masked   bool // a mask comes with the text and says which of its rows are real
	Image    int  // rows of image features, for a model that reads them; 0 means as many as its encoder makes, or none where it can do without
	DType    dtype.DType
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

// Model is one configuration of a family. FromConfig and ByName make it from the family's
// Declaration.
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
	// Features are what this model has and others do not; fields of what it does not have
	// are empty.
	Features() *Features
}

// Variant is one of several steps that a set of inputs allows.
type Variant struct {
	Suffix string // of its outputs' names: "_uniform_t" makes out_uniform_t
	Inputs map[string]*tensor.Tensor
}

// Runs lists the steps that inputs allow: one, unless the model has Variants. The first
// has no suffix.
func Runs(m Model, inputs map[string]*tensor.Tensor) []Variant {
	if variants := m.Features().Variants; variants != nil {
		return variants(inputs)
	}
	return []Variant{{Inputs: inputs}}
}

// prefixViolations puts where in front of each violation's message.
func prefixViolations(where string, err error) error {
	var l fault.List
	for _, v := range fault.Violations(err) {
		l.Add(fmt.Errorf("%s: %w", where, v))
	}
	return l.Err()
}

// Specs assigns the rules to a model's parameters.
func Specs(m Model, on *mesh.Mesh, layers int) ([]sharding.Assigned, error) {
	return AssignRules(m.Rules(), on, m.Params(layers))
}

// AssignRules assigns rules to parameters.
func AssignRules(rules sharding.Rules, on *mesh.Mesh, params []Param) ([]sharding.Assigned, error) {
	ps := make([]sharding.Param, len(params))
	for i, p := range params {
		shape := p.Shape
		if p.View != nil {
			shape = p.View
		}
		ps[i] = sharding.Param{Name: p.Name, Shape: shape}
	}
	return rules.Apply(on, ps)
}

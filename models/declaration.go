package models

import (
	"weft/graph"
	"weft/internal/bystander"
	"weft/mesh"
	"weft/sharding"
	"weft/tensor"
)

// Declaration is what a family says of one of its configurations. Its fields are in the
// order in which one reads a family: what a model has, how it is split, what it reads,
// what it computes, and, in Features, what not every model has. The methods of Model
// describe the functions.
type Declaration struct {
	// Params lists the parameters. Several runs with the same number of layers give the same list.
	Params func(layers int) []Param
	// Official is nil where all publishers use the same names.
	Official func(name string) string
	Ignore   []bystander.Kind

	Rules func() sharding.Rules
	Check func(m *mesh.Mesh, r Request) error

	Inputs  []string
	Request func(inputs map[string]*tensor.Tensor) (Request, error)
	Example func(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error)
	Feed    func(g *graph.Graph, r Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)

	// Graph is called with a request that has passed Check.
	Graph func(m *mesh.Mesh, r Request) (*graph.Graph, error)

	Features
}

// Features are what some models have and others do not.
type Features struct {
	// Tied lists groups of publishers' names where checkpoints store one tensor under several
	// names. The names of a group stand for the same tensor.
	Tied [][]string
	// CheckSplit reports every reason why a mesh cannot hold the model, whatever the
	// request. It is nil where nothing is known without a request.
	CheckSplit func(m *mesh.Mesh) error
	// Translate returns, for a checkpoint with these names, the translation of its names into
	// official ones. It is nil where Official translates a name whatever the others are: where no
	// two publishers give one name to different tensors.
	Translate func(names []string) func(name string) string
	// Variants lists the steps that inputs allow, at least one, the first without a suffix.
	// It is nil for a model of which inputs allow one.
	Variants func(inputs map[string]*tensor.Tensor) []Variant

	Generator *Generator // of a model that denoises latents
	Decoder   *Decoder   // of a model that turns latents into videos
	// Frames is there for a model that reads an input one frame after another, so that the
	// frames can be made or read as they are needed.
	Frames *FrameReader
	Tiled  *Tiled  // of an autoencoder that may take its input in tiles
	Vision *Vision // of a model that turns images into features

	// TokenTable is, of a text encoder, the official name of the table whose rows token ids
	// look up. Such a model takes the input "rows" (B, L, width) in place of "ids", and then
	// does without the table.
	TokenTable string

	// ImageTower is, of a text encoder that reads images too, the configuration of the model that
	// turns an image into rows of the token table's width; its weights are in the encoder's files.
	// It is "" for others.
	ImageTower string

	// HiddenWidth is, of a text encoder whose output joins the hidden states of its layers, how
	// many channels one of them has.
	HiddenWidth int

	// Resolve returns the model that a checkpoint with tensors of these official names
	// holds, or an error that names the variant that weft does not run. It follows from
	// Family.Resolve, and is nil where config.json decides everything.
	Resolve func(names []string) (Model, error)
	// AsRelease returns the model as a release runs it. It follows from Family.AsRelease,
	// and is nil where no setting of a release changes the programs or the inputs.
	AsRelease func(s Settings) (Model, error)
}

// Generator denoises latents.
type Generator struct {
	// Model is the model itself. Whoever declares a generator leaves it empty.
	Model

	// LatentShape is (channels, frames, height, width) for a video of the given pixels.
	LatentShape func(width, height, frames int) ([]int, error)
	// OnlySize is the width, the height and the number of frames of the only videos that the model
	// makes; zeros for one that makes others too.
	OnlySize [3]int
	// Cuts says what of latents and of frames is cut off; nil where all are shown.
	Cuts *Cuts
	// FeedStep makes the inputs that change from step to step: latents x
	// (batch, channels, frames, height, width) at timestep t.
	FeedStep func(r Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error)
	// FeedText makes the inputs that stay the same in every step, from text context
	// (batch, rows, dim) or, for a model that ReadsTokens, from ids (batch, rows).
	FeedText func(g *graph.Graph, r Request, context *tensor.Tensor) (map[string]*tensor.Tensor, error)
	// FeedFrameTimes is FeedStep with a timestep for each latent frame, the same for all
	// videos, for a request with TokenTimes whose Times is at least how many differ. It is
	// nil for a model that was not trained with given frames beside noisy ones.
	FeedFrameTimes func(g *graph.Graph, r Request, x *tensor.Tensor, times []float64) (map[string]*tensor.Tensor, error)
	// FeedGivenFrames makes the inputs that say which latent frames are given, the same in every
	// step, for a model that reads this besides the timesteps of frames; nil for others.
	FeedGivenFrames func(g *graph.Graph, r Request, frames []int) (map[string]*tensor.Tensor, error)
	// Velocity turns a step's "out" into (batch, channels, frames, height, width). It is
	// nil where "out" is arranged in this way.
	Velocity func(r Request, out *tensor.Tensor) *tensor.Tensor

	// ReadsSigma says that the model reads the noise level itself: FeedStep is given 1000 times
	// it, and not the sampler's timestep, which may be truncated.
	ReadsSigma bool
	// GuidesFromText says that the scale of guidance counts from the text's own velocity v:
	// v + scale (v - negative), in place of negative + scale (v - negative).
	GuidesFromText bool

	// ReadsRate says that positions depend on the frames a second, though no release counts time in
	// two ways (Release.Time).
	ReadsRate bool

	// GuidanceInput names the condition that 1000 times the scale of guidance is given as, for a
	// model into which guidance was distilled: each step is one pass. It is "" for others.
	GuidanceInput string

	// ReadsTokens says that the model reads token ids in place of a text encoder's rows.
	// Negative ids are padding, which requires a request with Masked. Vocabulary is how many ids
	// it knows.
	ReadsTokens bool
	Vocabulary  int
	// PadsText says that the model attends to the zeros with which a text is padded, and
	// that its configuration does not state the length of texts: its release must.
	PadsText bool
	// LatentOrder is how the release's pipelines arrange latents, in files and in what they draw.
	LatentOrder LatentOrder
	// Conditions is nil for a model that reads latents, a timestep and a text alone.
	Conditions *Conditions
	// Image is what the model reads of an image that a video begins with.
	Image ImageUse
	// Control is what the model reads of a control video; nil for a model that reads none.
	Control *ControlUse

	Companions Companions
	// LeftOut says what of the release's videos is not made, for people; "" where all is.
	LeftOut string
	// Texts say how the generator's texts are made of a prompt, the text itself first. It is
	// empty where that is not known: such a generator is run on texts that are given.
	Texts []TextEncoding
	// ReleasedPreset is the preset whose releases a configuration of no preset is run as.
	ReleasedPreset string
	// ReleaseHints are words of the configuration that occur in the names of its releases.
	ReleaseHints []string
	// OwnSettings are the settings that the configuration itself states.
	OwnSettings map[string]any
}

// Conditions are what a generator's steps read besides latents, a timestep and text.
type Conditions struct {
	// Names lists those inputs that a run needs, the same in every step. Optional lists those
	// that it may leave out.
	Names, Optional []string
	// TextNames lists those that belong to one text, including those that may be left out. A
	// negative text has its own.
	TextNames []string
	// ZeroRowsPad says that rows of zeros at a text's end are padding where no mask says what is,
	// so that a text may be shorter than its negative text.
	ZeroRowsPad bool
	// Check reports conditions that are missing, not read or of a wrong shape, and adds the
	// sizes that they decide to the request.
	Check func(r Request, in map[string]*tensor.Tensor) (Request, error)
	// Feed makes the graph's inputs from them.
	Feed func(g *graph.Graph, r Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)
}

// Companions names the presets that a generator needs to make a video: the encoder of
// its text and the decoder of its latents. weft need not run these models. Text is ""
// for a transformer that reads its text itself.
type Companions struct{ Text, Decoder string }

// Decoder turns latents into videos. The Request, Graph and Feed of such a model describe
// the decoding of latents z.
type Decoder struct {
	// VideoShape is (channels, frames, height, width) of the video that latents
	// (channels, frames, height, width) decode to.
	VideoShape func(latent []int) ([]int, error)
	// Statistics say how latents are normalised, for what is done to them in between; nil where
	// nobody needs it.
	Statistics *LatentStatistics
	// Timestep is there for a model that reads how much noise latents have left.
	Timestep *DecodingTimestep
}

// LatentStatistics are those of the latents that an autoencoder makes: the normalised ones, which
// transformers read, are (latents - mean) Scale / std.
type LatentStatistics struct {
	// Mean and Std are the official names of the weights, one number a channel. Where both are
	// empty, means are 0 and deviations 1.
	Mean, Std string
	Scale     float64
}

// DecodingTimestep has a release's own numbers for a decoder that reads the input "timestep" (1).
// Scale noise is mixed into latents before they are decoded: (1 - Scale) latents + Scale noise,
// of those that are not normalised, whose input is Raw.
type DecodingTimestep struct {
	Timestep, Scale float64
	Raw             string
	Source          string // where the numbers were read
}

// FrameReader reads an input one frame after another.
type FrameReader struct {
	// Request is that of the model for the input of a name and shape, (batch, channels,
	// frames, height, width), whose frames come later.
	Request func(input string, shape []int) (Request, error)
	// FeedStatic makes the graph's inputs that are no frames.
	FeedStatic func(g *graph.Graph) (map[string]*tensor.Tensor, error)
}

// declared is the Model that a Declaration describes.
type declared struct {
	name        string
	config      any
	declaration Declaration
}

func (m *declared) Name() string                         { return m.name }
func (m *declared) Config() any                          { return m.config }
func (m *declared) Params(layers int) []Param            { return m.declaration.Params(layers) }
func (m *declared) Ignore() []bystander.Kind             { return m.declaration.Ignore }
func (m *declared) Rules() sharding.Rules                { return m.declaration.Rules() }
func (m *declared) Inputs() []string                     { return m.declaration.Inputs }
func (m *declared) Features() *Features                  { return &m.declaration.Features }
func (m *declared) Check(on *mesh.Mesh, r Request) error { return m.declaration.Check(on, r) }

func (m *declared) Official(name string) string {
	if m.declaration.Official == nil {
		return name
	}
	return m.declaration.Official(name)
}

func (m *declared) Graph(on *mesh.Mesh, r Request) (*graph.Graph, error) {
	if err := m.declaration.Check(on, r); err != nil {
		return nil, err
	}
	return m.declaration.Graph(on, r)
}

func (m *declared) Request(inputs map[string]*tensor.Tensor) (Request, error) {
	return m.declaration.Request(inputs)
}

func (m *declared) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	return m.declaration.Example(batch, latent, seed)
}

func (m *declared) Feed(g *graph.Graph, r Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return m.declaration.Feed(g, r, inputs)
}

package ltx

import (
	"math"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/internal/bystander"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/sharding"
	"weft/strategy"
	"weft/tensor"
)

// ProjectionConfig is the linear layer between LTX-2.5's text encoder and its connector: from all
// hidden states side by side to the width of the video's text, in diffusers' words.
type ProjectionConfig struct {
	Class   string `json:"_class_name"`
	TextDim int    `json:"caption_channels"`    // of one hidden state
	States  int    `json:"text_proj_in_factor"` // side by side
	Dim     int    `json:"video_hidden_dim"`
	Bias    bool   `json:"proj_bias"`
}

const (
	// connectorsClass is diffusers' model of the projections and both connectors.
	connectorsClass = "LTX2TextConnectors"
	projectionClass = "LTX2VideoTextProjection"
	projectionName  = "video_aggregate_embed"
)

func (c ProjectionConfig) features() int { return c.TextDim * c.States }

// scale brings rows whose numbers have a root mean square of 1 from the width of the text to that
// of the video.
func (c ProjectionConfig) scale() float64 {
	return math.Sqrt(float64(c.Dim) / float64(c.TextDim))
}

var projectionWords = []models.Words[ProjectionConfig]{{
	Of:       "diffusers",
	Defaults: ProjectionConfig{TextDim: 3840, States: 49, Dim: 4096},
	Keys: func(c *ProjectionConfig) []models.Key {
		return []models.Key{
			models.Beside(""), // the other keys are the connectors'
			models.Int("caption_channels", &c.TextDim, models.WidthBound),
			models.Int("text_proj_in_factor", &c.States, models.LayerBound),
			models.Int("video_hidden_dim", &c.Dim, models.WidthBound),
			models.Bool("proj_bias", &c.Bias),
		}
	},
	Derive: func(c *ProjectionConfig, r *models.ConfigReader) {
		c.Class = projectionClass
		r.Multiply("caption_channels x text_proj_in_factor", models.WidthBound, c.TextDim, c.States)
	},
}}

func detectProjection(c map[string]any) bool { return c["_class_name"] == projectionClass }

var projectionPresets = map[string]ProjectionConfig{
	"ltx2.5-text-projection": {Class: projectionClass, TextDim: 3840, States: 49, Dim: 4096, Bias: true},
}

// projectionOfShapes reads the configuration off the text encoder's file, which has the projection
// beside the encoder and no configuration of it.
func projectionOfShapes(shapes map[string][]int) (ProjectionConfig, bool) {
	const name = "text_embedding_projection." + projectionName
	weight, table := shapes[name+".weight"], shapes["model.embed_tokens.weight"]
	if len(weight) != 2 || len(table) != 2 || table[1] < 1 || weight[1]%table[1] != 0 {
		return ProjectionConfig{}, false
	}
	_, bias := shapes[name+".bias"]
	return ProjectionConfig{Class: projectionClass, TextDim: table[1], States: weight[1] / table[1], Dim: weight[0], Bias: bias}, true
}

// Projection is the linear layer.
type Projection struct {
	name string
	c    ProjectionConfig
}

// What lies beside the projection and beside the video's connector: in diffusers' file the other
// connector and the projections, in the publisher's the text encoder, the tokenizer and what else
// belongs to it.
var (
	otherConnectors = bystander.Kind{Name: "the connectors", Globs: []string{"video_connector.*", "audio_connector.*"}}
	textEncoder     = bystander.Kind{Name: "the text encoder", Globs: []string{"model.*"}}
	audioProjection = bystander.Kind{Name: "the audio's projection", Globs: []string{"audio_text_proj_in.*", "audio_aggregate_embed.*"}}
	videoProjection = bystander.Kind{Name: "the video's projection", Globs: []string{"video_text_proj_in.*"}}
	audioConnector  = bystander.Kind{Name: "the audio's connector", Globs: []string{"audio_connector.*"}}
)

// declareProjection says what a configuration of the projection has and does.
func declareProjection(name string, c ProjectionConfig) models.Declaration {
	m := &Projection{name, c}
	return models.Declaration{
		Params: m.Params, Official: projectionNames.Official,
		Ignore: []bystander.Kind{otherConnectors, audioProjection, textEncoder, bystander.VisionTower, bystander.AudioTower, bystander.NextToken},
		Rules:  m.Rules, Check: m.Check,

		Inputs:  []string{"context"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,
	}
}

var projectionNames = models.NewRenames([2]string{`^(video_text_proj_in|text_embedding_projection\.` + projectionName + `)\.`, projectionName + "."})

// Params lists the weight and the bias, under their names in the text encoder's file without the
// prefix text_embedding_projection.
func (m *Projection) Params(int) []models.Param {
	return models.LinearParams(projectionName, m.c.Dim, m.c.features(), m.c.Bias)
}

// Rules split the layer by what it reads: the rows are far wider than what it makes of them.
func (m *Projection) Rules() sharding.Rules {
	return sharding.Rules{
		sharding.Rule{Match: projectionName + ".weight", Spec: strategy.RowParallel(strategy.Width), WholeIfUneven: true},
		newRule(projectionName+".bias", whole),
	}
}

// Check reports every reason why a mesh cannot run a request.
func (m *Projection) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(models.CheckAxes(on, m.name))
	l.Add(models.CheckRequest(on, r, 1))
	if r.Text < 0 {
		l.Add(fault.New(models.ErrInputs, nil, "text of %d rows: want 1 or more", r.Text))
	}
	return l.Err()
}

// Request reads batch and rows off context (B, L, hidden states side by side).
func (m *Projection) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	context, err := models.Need(m.name, inputs, "context", 3, []string{"context"})
	if err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: context.Shape[0], Text: context.Shape[1]}
	if context.Shape[2] != m.c.features() || r.Text < 1 || r.Batch < 1 {
		return r, fault.New(models.ErrInputs, nil, "context is %v: want rows of %d, %d hidden states of %d", context.Shape, m.c.features(), m.c.States, m.c.TextDim)
	}
	return r, nil
}

// Example makes seven rows of text.
func (m *Projection) Example(batch int, _ []int, seed uint64) (map[string]*tensor.Tensor, error) {
	return map[string]*tensor.Tensor{"context": step.Normals(seed)(batch, 7, m.c.features())}, nil
}

// Feed makes the graph's input from context.
func (m *Projection) Feed(g *graph.Graph, _ models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	context, err := inputs["context"].As(g.Input("context").DType)
	return map[string]*tensor.Tensor{"context": context}, err
}

// projectionBuild is a projection's graph under construction.
type projectionBuild struct {
	*step.Step
	c    ProjectionConfig
	rows int
}

// Graph builds the one program.
func (m *Projection) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &projectionBuild{Step: base, c: m.c, rows: r.Text}
	if s.rows == 0 {
		s.rows = 1024 // of the release
	}
	s.Input(graph.Input{Name: "context", DType: dtype.F32, Shape: []int{r.Batch, s.rows, m.c.features()},
		Spec: perVideo.WithDim(2, s.Spec(projectionName+".weight").Dim(1)...), Step: true})
	return step.Assemble(base, 1, s.newProgram, []step.Parts[*programBuilder]{
		step.First(step.Part[*programBuilder]{Program: "project", Trace: step.Tokens("projected", r.Batch, s.rows, m.c.Dim), Define: s.build}),
	}, "out")
}

func (s *projectionBuild) newProgram(p *step.ProgramBuilder) *programBuilder {
	return &programBuilder{ProgramBuilder: p}
}

// build builds the program: rows (B, L, F) to (B, L, D).
func (s *projectionBuild) build(p *programBuilder) {
	x := p.Scale(p.Value("context"), s.c.scale())
	p.Output("out", p.Linear(projectionName, p.Compute(x), perVideo), "")
}

// connectorsWords are diffusers' for the video's connector within LTX2TextConnectors.
var connectorsWords = models.Words[ConnectorConfig]{
	Of:        "diffusers",
	Recognize: func(r *models.ConfigReader) bool { return r.Class() == connectorsClass },
	Defaults:  ConnectorConfig{Heads: 30, HeadDim: 128, Layers: 2, MaxPos: [1]float64{4096}, Registers: 128, FFBias: true, Theta: 10000, Eps: 1e-6},
	Keys: func(c *ConnectorConfig) []models.Key {
		return append(models.FixedKeys("LTX-2.5", "per_modality_projections", true, "rope_type", "split", "causal_temporal_positioning", false),
			models.Metadata("caption_channels", "text_proj_in_factor", "video_hidden_dim", "audio_hidden_dim", "proj_bias"),
			models.Beside("audio_connector_", "audio_gated_attn"),
			models.Int("video_connector_num_attention_heads", &c.Heads, models.HeadBound),
			models.Int("video_connector_attention_head_dim", &c.HeadDim, models.WidthBound),
			models.Int("video_connector_num_layers", &c.Layers, models.LayerBound),
			models.Int("video_connector_num_learnable_registers", &c.Registers, models.RowBound),
			models.Float("connector_rope_base_seq_len", &c.MaxPos[0], models.Positive),
			models.Bool("video_gated_attn", &c.Gated),
			models.Float("rope_theta", &c.Theta, models.ThetaSpan))
	},
	Derive: func(c *ConnectorConfig, r *models.ConfigReader) {
		c.Class = connectorClass
		if r.Bool("rope_double_precision", true) {
			c.Precision = "float64"
		}
		checkConnector(c, r)
	},
}

// checkConnector checks that a connector's numbers fit each other, whoever wrote them.
func checkConnector(c *ConnectorConfig, r *models.ConfigReader) {
	heads, dim := "connector_num_attention_heads", "connector_attention_head_dim"
	if r.Class() == connectorsClass {
		heads, dim = "video_"+heads, "video_"+dim
	}
	r.Multiply(heads+" x "+dim, models.WidthBound, c.Heads, c.HeadDim)
	r.MultipleOf(dim, c.HeadDim, 2, "rotary positions turn halves of a head")
}

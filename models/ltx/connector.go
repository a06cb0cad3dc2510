package ltx

import (
	"fmt"
	"slices"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/sharding"
	"weft/tensor"
)

// ConnectorConfig is LTX-2.5's connector, in the words of the transformer's configuration,
// which describes both.
type ConnectorConfig struct {
	Class     string     `json:"_class_name"`
	Heads     int        `json:"connector_num_attention_heads"`
	HeadDim   int        `json:"connector_attention_head_dim"`
	Layers    int        `json:"connector_num_layers"`
	MaxPos    [1]float64 `json:"connector_positional_embedding_max_pos"` // rows of text
	Registers int        `json:"connector_num_learnable_registers"`
	Gated     bool       `json:"connector_apply_gated_attention"`
	FFBias    bool       `json:"connector_ff_bias"`
	Theta     float64    `json:"positional_embedding_theta"`
	Precision string     `json:"frequencies_precision,omitempty"`
	Eps       float64    `json:"norm_eps"`
}

func (c ConnectorConfig) dim() int { return c.Heads * c.HeadDim }

var connectorDefaults = ConnectorConfig{Class: connectorClass, Heads: 32, HeadDim: 128, Layers: 8, MaxPos: [1]float64{4096}, Registers: 128, FFBias: true, Theta: 10000, Eps: 1e-6}

var connectorWords = []models.Words[ConnectorConfig]{connectorsWords, {
	Of:       "Lightricks",
	Within:   transformerSection,
	Defaults: connectorDefaults,
	Keys: func(c *ConnectorConfig) []models.Key {
		return []models.Key{
			models.Beside(""), // the other keys are the transformer's
			models.String("_class_name", &c.Class),
			models.Int("connector_num_attention_heads", &c.Heads, models.HeadBound),
			models.Int("connector_attention_head_dim", &c.HeadDim, models.WidthBound),
			models.Int("connector_num_layers", &c.Layers, models.LayerBound),
			models.Floats("connector_positional_embedding_max_pos", c.MaxPos[:], models.Positive),
			models.Int("connector_num_learnable_registers", &c.Registers, models.RowBound),
			models.Bool("connector_apply_gated_attention", &c.Gated),
			models.Bool("connector_ff_bias", &c.FFBias),
			models.Float("positional_embedding_theta", &c.Theta, models.ThetaSpan),
			models.String("frequencies_precision", &c.Precision),
			models.Float("norm_eps", &c.Eps, models.SmallSpan),
		}
	},
	Derive: func(c *ConnectorConfig, r *models.ConfigReader) {
		c.Class = connectorClass // it is written in the transformer's configuration
		checkConnector(c, r)
	},
}}

func detectConnector(c map[string]any) bool {
	return c["_class_name"] == connectorClass || c["_class_name"] == connectorsClass
}

var connectorPresets = map[string]ConnectorConfig{"ltx2.5-connector": {Class: connectorClass, Heads: 32, HeadDim: 128, Layers: 8, MaxPos: [1]float64{4096},
	Registers: 128, Gated: true, FFBias: true, Theta: 10000, Precision: "float64", Eps: 1e-6}}

// Params lists the parameters under the names that they have in the transformer's file.
func (m *Connector) Params(layers int) []models.Param {
	c, d := m.c, m.c.dim()
	if layers <= 0 || layers > c.Layers {
		layers = c.Layers
	}
	gates := 0
	if c.Gated {
		gates = c.Heads
	}
	var t paramTable
	t.addVector(connectorPrefix+"learnable_registers", c.Registers, d)
	for i := range layers {
		b := fmt.Sprintf("%stransformer_1d_blocks.%d.", connectorPrefix, i)
		t.addAttention(b+"attn1", d, gates)
		t.addFFN(b+"ff", d, c.FFBias)
	}
	return t.ps
}

// Rules shard the blocks in the same way as the transformer's.
func (m *Connector) Rules() sharding.Rules {
	return append(blockRules(connectorPrefix+"transformer_1d_blocks.*"), newRule(connectorPrefix+"learnable_registers", whole))
}

// connectorNames are those of diffusers' file, which has both connectors.
var connectorNames = models.NewRenames([][2]string{
	{`^video_connector\.transformer_blocks\.(\d+)\.attn1\.norm_([qk])\.`, connectorPrefix + "transformer_1d_blocks.$1.attn1.${2}_norm."},
	{`^video_connector\.transformer_blocks\.`, connectorPrefix + "transformer_1d_blocks."},
	{`^video_connector\.`, connectorPrefix},
}...)

// Official adds the prefix that names have in the transformer's file to those of a file with
// the connector alone, and translates diffusers' names.
func (m *Connector) Official(name string) string {
	name = connectorNames.Official(name)
	if strings.HasPrefix(name, "transformer_1d_blocks.") || name == "learnable_registers" {
		return connectorPrefix + name
	}
	return name
}

// Check reports every reason why a mesh cannot run a request.
func (m *Connector) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(models.CheckAxes(on, m.name))
	l.Add(models.CheckHeads(on, m.c.Heads))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	l.Add(models.CheckText(on, r, m.defaultRows()))
	if n := m.c.Registers; r.Text > 0 && r.Text%n != 0 {
		l.Add(fault.New(models.ErrInputs, nil, "text of %d rows: %d registers fill whole multiples; nearest: %s", r.Text, n, models.Nearest(r.Text, n)))
	}
	return l.Err()
}

// defaultRows is the number of text rows of a request that gives none: textLen, rounded up
// to a multiple of the registers.
func (m *Connector) defaultRows() int { return numbers.RoundUp(textLen, m.c.Registers) }

// Request reads batch and rows off context (B, L, D). context_mask (B, L) may come with it;
// its zeros mark rows of padding.
func (m *Connector) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	context, err := models.Need(m.name, inputs, "context", 3, []string{"context", "context_mask (if any)"})
	if err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: context.Shape[0], Text: context.Shape[1], Masked: inputs["context_mask"] != nil}
	var l fault.List
	if d := m.c.dim(); context.Shape[2] != d || r.Text < 1 {
		l.Add(fault.New(models.ErrInputs, nil, "context is %v: want rows of %d", context.Shape, d))
	}
	if mask := inputs["context_mask"]; mask != nil {
		if !slices.Equal(mask.Shape, context.Shape[:2]) {
			l.Add(fault.New(models.ErrInputs, nil, "context_mask is %v: want %v", mask.Shape, context.Shape[:2]))
		} else if _, err := step.MaskOf(mask); err != nil {
			l.Add(fault.New(models.ErrInputs, nil, "context_mask: %w", err))
		}
	}
	return r, l.Err()
}

// Example makes as many rows of text as there are registers. Each text of the batch has one
// row of padding more than the one before.
func (m *Connector) Example(batch int, _ []int, seed uint64) (map[string]*tensor.Tensor, error) {
	rows := m.c.Registers
	mask := tensor.New(dtype.F32, batch, rows)
	for b := range batch {
		for i := range rows - min(b, rows-1) {
			step.Put(mask, b*rows+i, 1)
		}
	}
	return map[string]*tensor.Tensor{"context": step.Normals(seed)(batch, rows, m.c.dim()), "context_mask": mask}, nil
}

// Feed makes the graph's inputs from those Request reads.
func (m *Connector) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	context, err := inputs["context"].As(dtype.F32)
	if err != nil {
		return nil, err
	}
	real := tensor.New(dtype.F32, r.Batch, r.Text, 1)
	mask := slices.Repeat([]float32{1}, r.Batch*r.Text)
	if t := inputs["context_mask"]; t != nil {
		if mask, err = step.MaskOf(t); err != nil {
			return nil, err
		}
	}
	for i, v := range mask {
		if v != 0 {
			step.Put(real, i, 1)
		}
	}
	places := make([][]float64, r.Text)
	for i := range places {
		places[i] = []float64{float64(i)}
	}
	of := rotary{dim: m.c.dim(), heads: m.c.Heads, theta: m.c.Theta, max: m.c.MaxPos[:], halves: true, double: m.c.Precision == "float64"}
	cos, sin := of.makeTables([][][]float64{places}, g.Input("rope_cos").Shape[1])
	return map[string]*tensor.Tensor{"context": context, "real": real, "rope_cos": cos, "rope_sin": sin}, nil
}

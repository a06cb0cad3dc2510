package ltx

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/internal/bystander"
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

// Connector is a transformer over the rows of a text. It replaces rows of padding by learned
// registers; LTX-2.5 attends to its result.
type Connector struct {
	name string
	c    ConnectorConfig
}

func (c ConnectorConfig) dim() int { return c.Heads * c.HeadDim }

var connectorDefaults = ConnectorConfig{Class: connectorClass, Heads: 32, HeadDim: 128, Layers: 8, MaxPos: [1]float64{4096}, Registers: 128, FFBias: true, Theta: 10000, Eps: 1e-6}

const connectorPreset = "ltx2.5-connector"

func parseConnector(r *models.ConfigReader) ConnectorConfig {
	r = transformerSection(r)
	d := connectorDefaults
	c := ConnectorConfig{
		Class: r.String("_class_name", d.Class), Heads: r.Int("connector_num_attention_heads", d.Heads, models.HeadBound),
		HeadDim: r.Int("connector_attention_head_dim", d.HeadDim, models.WidthBound), Layers: r.Int("connector_num_layers", d.Layers, models.LayerBound),
		MaxPos:    [1]float64(r.Floats("connector_positional_embedding_max_pos", d.MaxPos[:], 1, models.Positive)),
		Registers: r.Int("connector_num_learnable_registers", d.Registers, models.RowBound),
		Gated:     r.Bool("connector_apply_gated_attention", d.Gated), FFBias: r.Bool("connector_ff_bias", d.FFBias),
		Theta: r.Float("positional_embedding_theta", d.Theta, models.ThetaSpan), Precision: r.String("frequencies_precision", ""),
		Eps: r.Float("norm_eps", d.Eps, models.SmallSpan),
	}
	r.Beside("") // the other keys are the transformer's
	r.Multiply("connector_num_attention_heads x connector_attention_head_dim", models.WidthBound, c.Heads, c.HeadDim)
	r.MultipleOf("connector_attention_head_dim", c.HeadDim, 2, "rotary positions turn halves of a head")
	return c
}

func init() {
	preset := connectorDefaults
	preset.Gated, preset.Precision = true, "float64"
	models.Register(models.Family{
		Name:    "ltx-connector",
		Presets: map[string]json.RawMessage{connectorPreset: models.Preset(preset)},
		Detect:  func(c map[string]any) bool { return c["_class_name"] == connectorClass },
		New: func(_ string, r *models.ConfigReader) models.Model {
			c, name := parseConnector(r), "ltx-connector"
			if c == preset {
				name = connectorPreset
			}
			return &Connector{name: name, c: c}
		},
	})
}

// Name is the preset's name or the family's.
func (m *Connector) Name() string { return m.name }

// Config is a ConnectorConfig.
func (m *Connector) Config() any { return m.c }

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

// Ignore covers the transformer, since the connector's weights are part of its file.
func (m *Connector) Ignore() []bystander.Kind {
	return []bystander.Kind{bystander.AudioHalf, bystander.Transformer}
}

// Official adds the prefix that names have in the transformer's file to those of a file with
// the connector alone.
func (m *Connector) Official(name string) string {
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

// Inputs lists every input that a forward pass can read.
func (*Connector) Inputs() []string {
	return []string{"context", "context_mask"}
}

// Request reads batch and rows off context (B, L, D). context_mask (B, L) may come with it;
// its zeros mark rows of padding.
func (m *Connector) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	context, err := models.Need(m, inputs, "context", 3, []string{"context", "context_mask (if any)"})
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

var _ models.Model = (*Connector)(nil)

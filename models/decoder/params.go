package decoder

import (
	"fmt"
	"strings"

	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// namePrefix returns the prefix of every parameter's name. It is empty for Llama,
// whose checkpoint holds the decoder alone.
func (m *Model) namePrefix() string {
	if m.c.ModelType == llama {
		return ""
	}
	return "model."
}

// blockPrefix returns the prefix of the names of layer i.
func (m *Model) blockPrefix(i int) string { return fmt.Sprintf("%slayers.%d.", m.namePrefix(), i) }

// Params lists the parameters under their official names.
func (m *Model) Params(layers int) []models.Param {
	c := m.c
	ps := []models.Param{{Name: m.namePrefix() + "embed_tokens.weight", Shape: []int{c.Vocab, c.Dim}, Matmul: true}}
	for i := range (models.Request{Layers: layers}).Run(c.Layers) {
		b := m.blockPrefix(i)
		linear := func(name string, out, in int, bias bool) {
			ps = append(ps, models.LinearParams(b+name, out, in, bias)...)
		}
		norm := func(name string, dim int) {
			ps = append(ps, models.Param{Name: b + name + ".weight", Shape: []int{dim}})
		}
		norm("input_layernorm", c.Dim)
		bias, global := c.ModelType == qwen, c.isGlobal(i)
		kv, dim := c.keyHeads(global)
		linear("self_attn.q_proj", c.Heads*dim, c.Dim, bias)
		linear("self_attn.k_proj", kv*dim, c.Dim, bias)
		if !global {
			linear("self_attn.v_proj", kv*dim, c.Dim, bias)
		}
		linear("self_attn.o_proj", c.Dim, c.Heads*dim, false)
		norm("post_attention_layernorm", c.Dim)
		if c.ModelType == gemma {
			norm("self_attn.q_norm", dim)
			norm("self_attn.k_norm", dim)
			norm("pre_feedforward_layernorm", c.Dim)
			norm("post_feedforward_layernorm", c.Dim)
			ps = append(ps, models.Param{Name: b + "layer_scalar", Shape: []int{1}})
		}
		linear("mlp.gate_proj", c.FFNDim, c.Dim, false)
		linear("mlp.up_proj", c.FFNDim, c.Dim, false)
		linear("mlp.down_proj", c.Dim, c.FFNDim, false)
	}
	return append(ps, models.Param{Name: m.namePrefix() + "norm.weight", Shape: []int{c.Dim}})
}

// Rules shard attention and FFN, and the token table by rows of the vocabulary. README.md
// lists the bytes that this saves.
func (m *Model) Rules() sharding.Rules {
	toHeads, fromHeads := strategy.ColumnParallel(strategy.Heads), strategy.RowParallel(strategy.Heads)
	toFFN, fromFFN := strategy.ColumnParallel(strategy.FFN), strategy.RowParallel(strategy.FFN)
	vocab, whole := strategy.SpecOf(strategy.Vocab), sharding.NewSpec()
	p := m.namePrefix()
	// Where there are fewer key heads than devices of tp, neighbouring devices hold
	// copies of one head. Where the heads and tp do not divide one another, the weights
	// are replicated over tp.
	keys := func(match string, heads int) sharding.Rule {
		return sharding.Rule{Match: match, Spec: toHeads, Layout: sharding.Layout{Heads: []int{heads}}, WholeIfUneven: true}
	}
	var rules sharding.Rules
	for i := range m.c.Layers {
		if m.c.isGlobal(i) {
			rules = append(rules, keys(m.blockPrefix(i)+"self_attn.k_proj.*", m.c.GlobalKVHeads))
		}
	}
	if m.c.ModelType == gemma {
		rules = append(rules, sharding.Rule{Match: p + "layers.*.layer_scalar", Spec: whole})
	}
	return append(rules, sharding.Rules{
		{Match: p + "embed_tokens.weight", Spec: vocab, WholeIfUneven: true}, // a vocabulary need not divide
		{Match: p + "layers.*.self_attn.q_proj.*", Spec: toHeads},
		keys(p+"layers.*.self_attn.k_proj.*", m.c.KVHeads),
		keys(p+"layers.*.self_attn.v_proj.*", m.c.KVHeads),
		{Match: p + "layers.*.self_attn.o_proj.weight", Spec: fromHeads},
		{Match: p + "layers.*.mlp.gate_proj.weight", Spec: toFFN},
		{Match: p + "layers.*.mlp.up_proj.weight", Spec: toFFN},
		{Match: p + "layers.*.mlp.down_proj.weight", Spec: fromFFN},
		{Match: p + "layers.*norm.weight", Spec: whole},
		{Match: p + "norm.weight", Spec: whole},
	}...)
}

// towers lists the prefixes of the decoder's names in checkpoints that also hold other
// towers.
var towers = []string{"model.language_model.", "language_model.model.", "model."}

// Official translates the names of checkpoints that hold more than the decoder.
func (m *Model) Official(name string) string {
	for _, t := range towers {
		if bare, ok := strings.CutPrefix(name, t); ok {
			return m.namePrefix() + bare
		}
	}
	return m.namePrefix() + name
}

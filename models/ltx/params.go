package ltx

import (
	"fmt"

	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// paramTable collects parameters under their official names.
type paramTable struct{ ps []models.Param }

// addVector adds a parameter that no matmul reads.
func (t *paramTable) addVector(name string, shape ...int) {
	t.ps = append(t.ps, models.Param{Name: name, Shape: shape})
}

// addLinear adds the weight (out, in) of a linear layer and its bias, if it has one.
func (t *paramTable) addLinear(name string, out, in int, bias bool) {
	t.ps = append(t.ps, models.LinearParams(name, out, in, bias)...)
}

// addAttention adds an attention of width d. gates is the number of heads if each has a
// gate, else 0.
func (t *paramTable) addAttention(name string, d, gates int) {
	for _, p := range []string{"to_q", "to_k", "to_v"} {
		t.addLinear(name+"."+p, d, d, true)
	}
	t.addLinear(name+".to_out.0", d, d, true)
	t.addVector(name+".q_norm.weight", d)
	t.addVector(name+".k_norm.weight", d)
	if gates > 0 {
		t.addLinear(name+".to_gate_logits", gates, d, true)
	}
}

// addFFN adds an FFN whose hidden width is 4 d.
func (t *paramTable) addFFN(name string, d int, bias bool) {
	t.addLinear(name+".net.0.proj", 4*d, d, bias)
	t.addLinear(name+".net.2", d, 4*d, bias)
}

// addEmbedder adds the embedder of an AdaLN: from the sinusoidal embedding to the width d,
// then to parts vectors of that width.
func (t *paramTable) addEmbedder(name string, d, parts int) {
	for i, in := range []int{timeDim, d} {
		t.addLinear(fmt.Sprintf("%s.emb.timestep_embedder.linear_%d", name, i+1), d, in, true)
	}
	t.addLinear(name+".linear", parts*d, d, true)
}

// Params lists the parameters under their official names, without the prefix that releases
// put before them.
func (m *Model) Params(layers int) []models.Param {
	c, d := m.c, m.c.Dim()
	if layers <= 0 || layers > c.Layers {
		layers = c.Layers
	}
	var t paramTable
	gates := 0
	if c.Gated {
		gates = c.Heads
	}
	t.addLinear("patchify_proj", d, c.InChannels, true)
	t.addEmbedder("adaln_single", d, c.modulationCount())
	if c.CrossAdaLN {
		t.addEmbedder("prompt_adaln_single", d, 2)
	}
	if c.CaptionChannels > 0 {
		t.addLinear("caption_projection.linear_1", d, c.CaptionChannels, true)
		t.addLinear("caption_projection.linear_2", d, d, true)
	}
	if c.Keyframes {
		t.addVector("keyframes_abs_pos_embedding", 1, d)
	}
	for i := range layers {
		b := fmt.Sprintf("transformer_blocks.%d.", i)
		t.addVector(b+"scale_shift_table", c.modulationCount(), d)
		if c.CrossAdaLN {
			t.addVector(b+"prompt_scale_shift_table", 2, d)
		}
		t.addAttention(b+"attn1", d, gates)
		t.addAttention(b+"attn2", d, gates)
		t.addFFN(b+"ff", d, c.FFBias)
	}
	t.addVector("scale_shift_table", 2, d)
	t.addLinear("proj_out", c.OutChannels, d, true)
	return t.ps
}

func newRule(match string, s sharding.Spec) sharding.Rule {
	return sharding.Rule{Match: match, Spec: s}
}

var (
	toHeads, fromHeads = strategy.ColumnParallel(strategy.Heads), strategy.RowParallel(strategy.Heads)
	toFFN, fromFFN     = strategy.ColumnParallel(strategy.FFN), strategy.RowParallel(strategy.FFN)
	toWidth, whole     = strategy.ColumnParallel(strategy.Width), sharding.NewSpec()
)

// blockRules shard attention and FFN of the blocks that match. q, k, v and the first layer
// of the FFN are column-parallel; the norms of q and k and the gates of the heads are sharded
// with them. The output projections are row-parallel and their biases replicated.
func blockRules(blocks string) sharding.Rules {
	return sharding.Rules{
		newRule(blocks+".attn*.*_norm.weight", toHeads),
		newRule(blocks+".attn*.to_out.0.weight", fromHeads),
		newRule(blocks+".attn*.to_out.0.bias", whole),
		newRule(blocks+".attn*.weight", toHeads),
		newRule(blocks+".attn*.bias", toHeads),
		newRule(blocks+".ff.net.0.proj.weight", toFFN),
		newRule(blocks+".ff.net.0.proj.bias", toFFN),
		newRule(blocks+".ff.net.2.weight", fromFFN),
		newRule(blocks+".ff.net.2.bias", whole),
	}
}

// Rules shard the blocks and the projections of the modulation and of the text. README.md
// lists the bytes that this saves.
func (m *Model) Rules() sharding.Rules {
	return append(blockRules("transformer_blocks.*"),
		newRule("*scale_shift_table", whole),
		newRule("*adaln_single.linear.weight", toWidth),
		newRule("*adaln_single.linear.bias", toWidth),
		newRule("*adaln_single.emb.*", whole),
		newRule("caption_projection.linear_1.weight", toFFN),
		newRule("caption_projection.linear_1.bias", toFFN),
		newRule("caption_projection.linear_2.weight", fromFFN),
		newRule("caption_projection.linear_2.bias", whole),
		newRule("keyframes_abs_pos_embedding", whole),
		newRule("patchify_proj.*", whole),
		newRule("proj_out.*", whole),
	)
}

var diffusersNames = models.NewRenames([][2]string{
	{`^proj_in\.`, "patchify_proj."},
	{`^time_embed\.`, "adaln_single."},
	{`^prompt_adaln\.`, "prompt_adaln_single."},
	{`^(transformer_blocks\.\d+\.attn[12])\.norm_([qk])\.`, "$1.${2}_norm."},
}...)

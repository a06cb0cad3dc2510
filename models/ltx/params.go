package ltx

import (
	"fmt"

	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

// paramTable collects parameters under their official names, with the peer's paths.
type paramTable struct{ ps []models.Param }

// addVector adds a parameter that no matmul reads.
func (t *paramTable) addVector(name, flax string, shape ...int) {
	t.ps = append(t.ps, models.Param{Name: name, Shape: shape, Flax: flax})
}

// addLinear adds the weight (out, in) of a linear layer and its bias, if it has one.
func (t *paramTable) addLinear(name, flax string, out, in int, bias bool) {
	t.ps = append(t.ps, models.LinearParams(name, flax, out, in, bias)...)
}

// addAttention adds an attention of width d. gates is the number of heads if each has a
// gate, else 0.
func (t *paramTable) addAttention(name, flax string, d, gates int) {
	for _, p := range []string{"to_q", "to_k", "to_v"} {
		t.addLinear(name+"."+p, flax+"/"+p, d, d, true)
	}
	t.addLinear(name+".to_out.0", flax+"/to_out_0", d, d, true)
	t.addVector(name+".q_norm.weight", flax+"/q_norm_scale", d)
	t.addVector(name+".k_norm.weight", flax+"/k_norm_scale", d)
	if gates > 0 {
		t.addLinear(name+".to_gate_logits", flax+"/to_gate_logits", gates, d, true)
	}
}

// addFFN adds an FFN whose hidden width is 4 d.
func (t *paramTable) addFFN(name, flax string, d int, bias bool) {
	t.addLinear(name+".net.0.proj", flax+"/ff_proj", 4*d, d, bias)
	t.addLinear(name+".net.2", flax+"/ff_out", d, 4*d, bias)
}

// addEmbedder adds the embedder of an AdaLN: from the sinusoidal embedding to the width d,
// then to parts vectors of that width.
func (t *paramTable) addEmbedder(name, flax, linear string, d, parts int) {
	for i, in := range []int{timeDim, d} {
		t.addLinear(fmt.Sprintf("%s.emb.timestep_embedder.linear_%d", name, i+1), fmt.Sprintf("%s_linear_%d", flax, i+1), d, in, true)
	}
	t.addLinear(name+".linear", linear, parts*d, d, true)
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
	t.addLinear("patchify_proj", "patchify_proj", d, c.InChannels, true)
	embedder := "adaln_timestep_embedder"
	if c.Second {
		embedder = "adaln_single_emb_timestep_embedder"
	}
	t.addEmbedder("adaln_single", embedder, "adaln_linear", d, c.modulationCount())
	if c.CrossAdaLN {
		t.addEmbedder("prompt_adaln_single", "prompt_adaln_single_emb_timestep_embedder", "prompt_adaln_single_linear", d, 2)
	}
	if c.CaptionChannels > 0 {
		t.addLinear("caption_projection.linear_1", "caption_projection_linear_1", d, c.CaptionChannels, true)
		t.addLinear("caption_projection.linear_2", "caption_projection_linear_2", d, d, true)
	}
	if c.Keyframes {
		t.addVector("keyframes_abs_pos_embedding", "keyframes_abs_pos_embedding", 1, d)
	}
	for i := range layers {
		b, flax := fmt.Sprintf("transformer_blocks.%d.", i), fmt.Sprintf("blocks_%d/", i)
		t.addVector(b+"scale_shift_table", flax+"scale_shift_table", c.modulationCount(), d)
		if c.CrossAdaLN {
			t.addVector(b+"prompt_scale_shift_table", flax+"prompt_scale_shift_table", 2, d)
		}
		t.addAttention(b+"attn1", flax+"attn1", d, gates)
		t.addAttention(b+"attn2", flax+"attn2", d, gates)
		t.addFFN(b+"ff", flax+"ff", d, c.FFBias)
	}
	t.addVector("scale_shift_table", "scale_shift_table", 2, d)
	t.addLinear("proj_out", "proj_out", c.OutChannels, d, true)
	return t.ps
}

func newRule(match string, s sharding.Spec) sharding.Rule {
	return sharding.Rule{Match: match, Spec: s}
}

var (
	col   = sharding.NewSpec([]string{mesh.TP}, nil)
	row   = sharding.NewSpec(nil, []string{mesh.TP})
	vec   = sharding.NewSpec([]string{mesh.TP})
	whole = sharding.NewSpec()
)

// blockRules shard attention and FFN of the blocks that match. q, k, v and the first layer
// of the FFN are column-parallel; the norms of q and k and the gates of the heads, which the
// peer replicates, are sharded with them. The output projections are row-parallel and their
// biases replicated.
func blockRules(blocks string) sharding.Rules {
	return sharding.Rules{
		newRule(blocks+".attn*.*_norm.weight", vec),
		newRule(blocks+".attn*.to_out.0.weight", row),
		newRule(blocks+".attn*.to_out.0.bias", whole),
		newRule(blocks+".attn*.weight", col),
		newRule(blocks+".attn*.bias", vec),
		newRule(blocks+".ff.net.0.proj.weight", col),
		newRule(blocks+".ff.net.0.proj.bias", vec),
		newRule(blocks+".ff.net.2.weight", row),
		newRule(blocks+".ff.net.2.bias", whole),
	}
}

// Rules shard what the peer shards, and in addition the projections of the modulation and of
// the text, which the peer replicates: README.md lists the bytes saved.
func (m *Model) Rules() sharding.Rules {
	return append(blockRules("transformer_blocks.*"),
		newRule("*scale_shift_table", whole),
		newRule("*adaln_single.linear.weight", col),
		newRule("*adaln_single.linear.bias", vec),
		newRule("*adaln_single.emb.*", whole),
		newRule("caption_projection.linear_1.weight", col),
		newRule("caption_projection.linear_1.bias", vec),
		newRule("caption_projection.linear_2.weight", row),
		newRule("caption_projection.linear_2.bias", whole),
		newRule("keyframes_abs_pos_embedding", whole),
		newRule("patchify_proj.*", whole),
		newRule("proj_out.*", whole),
	)
}

var diffusersNames = models.NewRenames([][2]string{
	{`^proj_in\.`, "patchify_proj."},
	{`^time_embed\.`, "adaln_single."},
	{`^(transformer_blocks\.\d+\.attn[12])\.norm_([qk])\.`, "$1.${2}_norm."},
}...)

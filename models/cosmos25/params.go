package cosmos25

import (
	"fmt"

	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// attentions names the sublayers of a block that are attentions.
var attentions = []string{"self_attn", "cross_attn"}

// Params lists the parameters under their official names, without the prefix
// "net." that checkpoints have. Only the text's projection has a bias.
func (m *Model) Params(layers int) []models.Param {
	c := m.c
	if layers <= 0 || layers > c.Layers {
		layers = c.Layers
	}
	ps := []models.Param{}
	linear := func(name string, out, in int) {
		ps = append(ps, models.LinearParams(name, out, in, false)...)
	}
	norm := func(name string, n int) {
		ps = append(ps, models.Param{Name: name + ".weight", Shape: []int{n}})
	}
	d, patch := c.Width, c.PatchTemporal*c.PatchSpatial*c.PatchSpatial
	linear("x_embedder.proj.1", d, (c.InChannels+masks)*patch)
	linear("t_embedder.1.linear_1", d, d)
	linear("t_embedder.1.linear_2", 3*d, d)
	norm("t_embedding_norm", d)
	linear("crossattn_proj.0", c.ContextDim, c.TextDim)
	ps = append(ps, models.Param{Name: "crossattn_proj.0.bias", Shape: []int{c.ContextDim}})
	for i := range layers {
		b := fmt.Sprintf("blocks.%d.", i)
		for _, sub := range append(attentions, "mlp") {
			linear(b+"adaln_modulation_"+sub+".1", c.LoRADim, d)
			linear(b+"adaln_modulation_"+sub+".2", 3*d, c.LoRADim)
		}
		for j, attn := range attentions {
			in := []int{d, c.ContextDim}[j]
			linear(b+attn+".q_proj", d, d)
			linear(b+attn+".k_proj", d, in)
			linear(b+attn+".v_proj", d, in)
			linear(b+attn+".output_proj", d, d)
			norm(b+attn+".q_norm", c.HeadDim())
			norm(b+attn+".k_norm", c.HeadDim())
		}
		linear(b+"mlp.layer1", c.FFN(), d)
		linear(b+"mlp.layer2", d, c.FFN())
	}
	linear("final_layer.adaln_modulation.1", c.LoRADim, d)
	linear("final_layer.adaln_modulation.2", 2*d, c.LoRADim)
	linear("final_layer.linear", patch*c.OutChannels, d)
	return ps
}

// Rules shard the blocks, the text's projection, the time embedding and the modulations.
// README.md lists the bytes that this saves.
//
// Column-parallel (output rows over tp): q, k, v, mlp.layer1, the first time
// layer and the second half of each modulation. Row-parallel (input columns over
// tp): output_proj, mlp.layer2, the second time layer and the text's projection,
// which is replicated where tp does not divide its width. The norms of heads are
// replicated, because tp never cuts a head.
func (m *Model) Rules() sharding.Rules {
	toHeads, fromHeads := strategy.ColumnParallel(strategy.Heads), strategy.RowParallel(strategy.Heads)
	toFFN, fromFFN := strategy.ColumnParallel(strategy.FFN), strategy.RowParallel(strategy.FFN)
	toWidth, fromWidth, whole := strategy.ColumnParallel(strategy.Width), strategy.RowParallel(strategy.Width), sharding.NewSpec()
	rule := func(match string, s sharding.Spec) sharding.Rule { return sharding.Rule{Match: match, Spec: s} }
	return sharding.Rules{
		rule("*_attn.*_norm.weight", whole),
		rule("*_attn.output_proj.weight", fromHeads),
		rule("*_attn.*_proj.weight", toHeads),
		rule("*.mlp.layer1.weight", toFFN),
		rule("*.mlp.layer2.weight", fromFFN),
		rule("*adaln_modulation*.1.weight", whole),
		rule("*adaln_modulation*.2.weight", toWidth),
		rule("t_embedder.1.linear_1.weight", toFFN),
		rule("t_embedder.1.linear_2.weight", fromFFN),
		rule("t_embedding_norm.weight", whole),
		{Match: "crossattn_proj.0.weight", Spec: fromWidth, WholeIfUneven: true},
		rule("crossattn_proj.0.bias", whole),
		rule("x_embedder.proj.1.weight", whole),
		rule("final_layer.linear.weight", whole),
	}
}

var diffusersNames = models.NewRenames([][2]string{
	{`^patch_embed\.proj\.`, "x_embedder.proj.1."},
	{`^time_embed\.t_embedder\.`, "t_embedder.1."},
	{`^time_embed\.norm\.`, "t_embedding_norm."},
	{`^norm_out\.linear_([12])\.`, "final_layer.adaln_modulation.$1."},
	{`^proj_out\.`, "final_layer.linear."},
	{`^transformer_blocks\.(\d+)\.norm1\.linear_([12])\.`, "blocks.$1.adaln_modulation_self_attn.$2."},
	{`^transformer_blocks\.(\d+)\.norm2\.linear_([12])\.`, "blocks.$1.adaln_modulation_cross_attn.$2."},
	{`^transformer_blocks\.(\d+)\.norm3\.linear_([12])\.`, "blocks.$1.adaln_modulation_mlp.$2."},
	{`^transformer_blocks\.(\d+)\.attn1\.to_([qkv])\.`, "blocks.$1.self_attn.${2}_proj."},
	{`^transformer_blocks\.(\d+)\.attn1\.to_out\.0\.`, "blocks.$1.self_attn.output_proj."},
	{`^transformer_blocks\.(\d+)\.attn1\.norm_([qk])\.`, "blocks.$1.self_attn.${2}_norm."},
	{`^transformer_blocks\.(\d+)\.attn2\.to_([qkv])\.`, "blocks.$1.cross_attn.${2}_proj."},
	{`^transformer_blocks\.(\d+)\.attn2\.to_out\.0\.`, "blocks.$1.cross_attn.output_proj."},
	{`^transformer_blocks\.(\d+)\.attn2\.norm_([qk])\.`, "blocks.$1.cross_attn.${2}_norm."},
	{`^transformer_blocks\.(\d+)\.ff\.net\.0\.proj\.`, "blocks.$1.mlp.layer1."},
	{`^transformer_blocks\.(\d+)\.ff\.net\.2\.`, "blocks.$1.mlp.layer2."},
}...)

package cogvideox

import (
	"fmt"

	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// Params lists the parameters under their official names, which are diffusers'.
func (m *Model) Params(layers int) []models.Param {
	c, d := m.c, m.c.Dim()
	if layers <= 0 || layers > c.Layers {
		layers = c.Layers
	}
	ps := []models.Param{}
	linear := func(name string, out, in int) {
		ps = append(ps, models.LinearParams(name, out, in, true)...)
	}
	norm := func(name string, n int) {
		ps = append(ps, models.Param{Name: name + ".weight", Shape: []int{n}}, models.Param{Name: name + ".bias", Shape: []int{n}})
	}
	linear("patch_embed.text_proj", d, c.TextEmbedDim)
	if c.PatchT > 0 {
		linear("patch_embed.proj", d, c.InChannels*c.PatchT*c.PatchSize*c.PatchSize)
	} else {
		ps = append(ps, models.Param{Name: "patch_embed.proj.weight", Shape: []int{d, c.InChannels, c.PatchSize, c.PatchSize},
			View: []int{d, c.InChannels * c.PatchSize * c.PatchSize}, Matmul: true})
		if c.PatchBias {
			ps = append(ps, models.Param{Name: "patch_embed.proj.bias", Shape: []int{d}})
		}
	}
	if c.Learned {
		// No matmul reads it, but it is large and the reference implementations round
		// it to the compute type.
		ps = append(ps, models.Param{Name: positions, Shape: []int{1, c.TextLen + c.sampleGrid().Tokens(), d}, Matmul: true})
	}
	linear("time_embedding.linear_1", c.TimeEmbedDim, d)
	linear("time_embedding.linear_2", c.TimeEmbedDim, c.TimeEmbedDim)
	if c.OfsEmbedDim > 0 {
		linear("ofs_embedding.linear_1", c.OfsEmbedDim, c.OfsEmbedDim)
		linear("ofs_embedding.linear_2", c.OfsEmbedDim, c.OfsEmbedDim)
	}
	for i := range layers {
		b := fmt.Sprintf("transformer_blocks.%d.", i)
		for _, n := range []string{"norm1", "norm2"} {
			linear(b+n+".linear", 6*d, c.TimeEmbedDim)
			norm(b+n+".norm", d)
		}
		for _, n := range []string{"to_q", "to_k", "to_v", "to_out.0"} {
			linear(b+"attn1."+n, d, d)
		}
		norm(b+"attn1.norm_q", c.HeadDim)
		norm(b+"attn1.norm_k", c.HeadDim)
		linear(b+"ff.net.0.proj", 4*d, d)
		linear(b+"ff.net.2", d, 4*d)
	}
	norm("norm_final", d)
	linear("norm_out.linear", 2*d, c.TimeEmbedDim)
	norm("norm_out.norm", d)
	linear("proj_out", c.PatchSize*c.PatchSize*max(1, c.PatchT)*c.OutChannels, d)
	return ps
}

// positions is the name of 5B-I2V's table of learned positions. The rows of the text
// come first, then those of the video.
const positions = "patch_embed.pos_embedding"

// Rules shard the attention, the FFN, the modulations and the text's projection. README.md
// lists the bytes that this saves.
//
// Column-parallel (output rows over tp): q, k, v, ff.net.0, every AdaLN's
// linear, the text's projection. Row-parallel: to_out, ff.net.2, whose biases
// are replicated. So are the norms of q and k, which have the width of one head. A
// table of learned positions is sharded along the residual stream's width, and the
// patches' projection with it, because their outputs are added.
func (m *Model) Rules() sharding.Rules {
	toHeads, fromHeads := strategy.ColumnParallel(strategy.Heads), strategy.RowParallel(strategy.Heads)
	toFFN, fromFFN := strategy.ColumnParallel(strategy.FFN), strategy.RowParallel(strategy.FFN)
	toWidth, whole := strategy.ColumnParallel(strategy.Width), sharding.NewSpec()
	rule := func(match string, s sharding.Spec) sharding.Rule { return sharding.Rule{Match: match, Spec: s} }
	rules := sharding.Rules{
		rule("transformer_blocks.*.attn1.norm_*", whole),
		rule("transformer_blocks.*.attn1.to_out.0.weight", fromHeads),
		rule("transformer_blocks.*.attn1.to_out.0.bias", whole),
		rule("transformer_blocks.*.attn1.*.weight", toHeads),
		rule("transformer_blocks.*.attn1.*.bias", toHeads),
		rule("transformer_blocks.*.ff.net.0.proj.weight", toFFN),
		rule("transformer_blocks.*.ff.net.0.proj.bias", toFFN),
		rule("transformer_blocks.*.ff.net.2.weight", fromFFN),
		rule("transformer_blocks.*.ff.net.2.bias", whole),
		rule("transformer_blocks.*.norm*.norm.*", whole),
		rule("transformer_blocks.*.norm*.linear.weight", toWidth),
		rule("transformer_blocks.*.norm*.linear.bias", toWidth),
		rule("norm_out.linear.weight", toWidth),
		rule("norm_out.linear.bias", toWidth),
		rule("norm_*", whole),
		rule("patch_embed.text_proj.weight", toWidth),
		rule("patch_embed.text_proj.bias", toWidth),
		rule("time_embedding.*", whole), // 512 wide, as the offset's
		rule("ofs_embedding.*", whole),
		rule("proj_out.*", whole),
	}
	if m.c.Learned {
		return append(rules, rule(positions, strategy.SpecOf(strategy.None, strategy.None, strategy.Width)), rule("patch_embed.proj.weight", toWidth), rule("patch_embed.proj.bias", toWidth))
	}
	return append(rules, rule("patch_embed.proj.*", whole))
}

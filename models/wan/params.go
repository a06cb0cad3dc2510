package wan

import (
	"fmt"

	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// Params lists the parameters under their official names.
func (m *Model) Params(layers int) []models.Param {
	c := m.c
	if layers <= 0 || layers > c.Layers {
		layers = c.Layers
	}
	ps := []models.Param{}
	linear := func(name string, out, in int) {
		ps = append(ps, models.LinearParams(name, out, in, true)...)
	}
	vector := func(name string, shape ...int) { ps = append(ps, models.Param{Name: name, Shape: shape}) }
	pt, ph, pw := c.PatchSize[0], c.PatchSize[1], c.PatchSize[2]
	ps = append(ps, models.Param{Name: "patch_embedding.weight", Shape: []int{c.Dim, c.InDim, pt, ph, pw}, View: []int{c.Dim, c.InDim * pt * ph * pw},
		Matmul: true})
	vector("patch_embedding.bias", c.Dim)
	linear("text_embedding.0", c.Dim, c.TextDim)
	linear("text_embedding.2", c.Dim, c.Dim)
	linear("time_embedding.0", c.Dim, c.FreqDim)
	linear("time_embedding.2", c.Dim, c.Dim)
	linear("time_projection.1", 6*c.Dim, c.Dim)
	if c.ImageRows > 0 {
		vector("img_emb.emb_pos", 1, c.ImageRows, c.ImageDim)
	}
	if c.ImageDim > 0 {
		vector("img_emb.proj.0.weight", c.ImageDim)
		vector("img_emb.proj.0.bias", c.ImageDim)
		linear("img_emb.proj.1", c.ImageDim, c.ImageDim)
		linear("img_emb.proj.3", c.Dim, c.ImageDim)
		vector("img_emb.proj.4.weight", c.Dim)
		vector("img_emb.proj.4.bias", c.Dim)
	}
	for i := range layers {
		ps = append(ps, c.blockParams(fmt.Sprintf("blocks.%d.", i))...)
	}
	ps = append(ps, c.controlParams(layers)...)
	linear("head.head", c.OutDim*pt*ph*pw, c.Dim)
	vector("head.modulation", 1, 2, c.Dim)
	return ps
}

// blockParams lists the parameters of one block.
func (c Config) blockParams(b string) (ps []models.Param) {
	linear := func(name string, out, in int) { ps = append(ps, models.LinearParams(b+name, out, in, true)...) }
	vector := func(name string, shape ...int) { ps = append(ps, models.Param{Name: b + name, Shape: shape}) }
	for _, attn := range []string{"self_attn", "cross_attn"} {
		for _, p := range []string{"q", "k", "v", "o"} {
			linear(attn+"."+p, c.Dim, c.Dim)
		}
		vector(attn+".norm_q.weight", c.Dim)
		vector(attn+".norm_k.weight", c.Dim)
	}
	if c.ImageDim > 0 {
		linear("cross_attn.k_img", c.Dim, c.Dim)
		linear("cross_attn.v_img", c.Dim, c.Dim)
		vector("cross_attn.norm_k_img.weight", c.Dim)
	}
	vector("norm3.weight", c.Dim)
	vector("norm3.bias", c.Dim)
	linear("ffn.0", c.FFNDim, c.Dim)
	linear("ffn.2", c.Dim, c.FFNDim)
	vector("modulation", 1, 6, c.Dim)
	return ps
}

// Rules shard every weight whose width is heads, the FFN or the stream, the projections of
// text, time and image among them. README.md lists the bytes that this saves.
//
// Column-parallel (output rows over tp): q, k, v, the image's k and v, ffn.0,
// the first text, the time, the last image projection and those of VACE's control, with
// their biases and the norms over their outputs.
// Row-parallel (input columns over tp): o, ffn.2 and the second text
// projection, whose biases stay whole and are added after the sum.
func (m *Model) Rules() sharding.Rules {
	toHeads, fromHeads := strategy.ColumnParallel(strategy.Heads), strategy.RowParallel(strategy.Heads)
	toFFN, fromFFN := strategy.ColumnParallel(strategy.FFN), strategy.RowParallel(strategy.FFN)
	toWidth, whole := strategy.ColumnParallel(strategy.Width), sharding.NewSpec()
	rule := func(match string, s sharding.Spec) sharding.Rule { return sharding.Rule{Match: match, Spec: s} }
	block := func(prefix string) sharding.Rules {
		return sharding.Rules{
			rule(prefix+".*_attn.norm_*.weight", toHeads),
			rule(prefix+".*_attn.o.weight", fromHeads),
			rule(prefix+".*_attn.o.bias", whole),
			rule(prefix+".*_attn.*.weight", toHeads),
			rule(prefix+".*_attn.*.bias", toHeads),
			rule(prefix+".*.ffn.0.weight", toFFN),
			rule(prefix+".*.ffn.0.bias", toFFN),
			rule(prefix+".*.ffn.2.weight", fromFFN),
			rule(prefix+".*.ffn.2.bias", whole),
			rule(prefix+".*.norm3.*", whole),
			rule(prefix+".*.modulation", whole),
		}
	}
	rules := append(block("blocks"),
		rule("text_embedding.0.weight", toFFN),
		rule("text_embedding.0.bias", toFFN),
		rule("text_embedding.2.weight", fromFFN),
		rule("text_embedding.2.bias", whole),
		rule("img_emb.proj.3.weight", toWidth),
		rule("img_emb.proj.3.bias", toWidth),
		rule("img_emb.*", whole), // 1280 x 1280 and a few vectors and rows: its width need not divide
		rule("time_embedding.*", whole),
		rule("time_projection.1.weight", toWidth),
		rule("time_projection.1.bias", toWidth),
		rule("patch_embedding.*", whole),
		rule("head.*", whole),
	)
	if m.c.ModelType != vace {
		return rules
	}
	return append(append(rules, block("vace_blocks")...),
		rule("vace_blocks.*_proj.weight", toWidth), // before_proj and after_proj
		rule("vace_blocks.*_proj.bias", toWidth),
		rule("vace_patch_embedding.*", whole),
	)
}

var diffusersNames = models.NewRenames([][2]string{
	{`^vace_blocks\.(\d+)\.proj_in\.`, "vace_blocks.$1.before_proj."},
	{`^vace_blocks\.(\d+)\.proj_out\.`, "vace_blocks.$1.after_proj."},
	{`^(blocks|vace_blocks)\.(\d+)\.attn1\.to_([qkv])\.`, "$1.$2.self_attn.$3."},
	{`^(blocks|vace_blocks)\.(\d+)\.attn1\.to_out\.0\.`, "$1.$2.self_attn.o."},
	{`^(blocks|vace_blocks)\.(\d+)\.attn1\.norm_`, "$1.$2.self_attn.norm_"},
	{`^(blocks|vace_blocks)\.(\d+)\.attn2\.to_([qkv])\.`, "$1.$2.cross_attn.$3."},
	{`^(blocks|vace_blocks)\.(\d+)\.attn2\.to_out\.0\.`, "$1.$2.cross_attn.o."},
	{`^(blocks|vace_blocks)\.(\d+)\.attn2\.add_([kv])_proj\.`, "$1.$2.cross_attn.${3}_img."},
	{`^(blocks|vace_blocks)\.(\d+)\.attn2\.norm_added_k\.`, "$1.$2.cross_attn.norm_k_img."},
	{`^(blocks|vace_blocks)\.(\d+)\.attn2\.norm_`, "$1.$2.cross_attn.norm_"},
	{`^(blocks|vace_blocks)\.(\d+)\.norm2\.`, "$1.$2.norm3."},
	{`^(blocks|vace_blocks)\.(\d+)\.ffn\.net\.0\.proj\.`, "$1.$2.ffn.0."},
	{`^(blocks|vace_blocks)\.(\d+)\.ffn\.net\.2\.`, "$1.$2.ffn.2."},
	{`^(blocks|vace_blocks)\.(\d+)\.scale_shift_table$`, "$1.$2.modulation"},
	{`^scale_shift_table$`, "head.modulation"},
	{`^proj_out\.`, "head.head."},
	{`^condition_embedder\.text_embedder\.linear_1\.`, "text_embedding.0."},
	{`^condition_embedder\.text_embedder\.linear_2\.`, "text_embedding.2."},
	{`^condition_embedder\.time_embedder\.linear_1\.`, "time_embedding.0."},
	{`^condition_embedder\.time_embedder\.linear_2\.`, "time_embedding.2."},
	{`^condition_embedder\.time_proj\.`, "time_projection.1."},
	{`^condition_embedder\.image_embedder\.norm1\.`, "img_emb.proj.0."},
	{`^condition_embedder\.image_embedder\.ff\.net\.0\.proj\.`, "img_emb.proj.1."},
	{`^condition_embedder\.image_embedder\.ff\.net\.2\.`, "img_emb.proj.3."},
	{`^condition_embedder\.image_embedder\.norm2\.`, "img_emb.proj.4."},
	{`^condition_embedder\.image_embedder\.pos_embed$`, "img_emb.emb_pos"},
}...)

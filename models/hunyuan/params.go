package hunyuan

import (
	"fmt"

	"weft/graph"
	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// part is one of several matrices that the official checkpoint stacks in one: its name in
// checkpoints that keep it apart, and its rows.
type part struct {
	name string
	rows int
}

// Params lists the parameters under their official names. layers above 0 limits them to that
// many double and that many single layers.
func (m *Model) Params(layers int) []models.Param {
	c, d, ff := m.c, m.c.Dim, m.c.FFNDim()
	double, single := m.countLayers(layers)
	ps := []models.Param{}
	linear := func(name string, out, in int) { ps = append(ps, models.LinearParams(name, out, in, true)...) }
	// stacked declares a matrix whose parts some publishers keep apart.
	stacked := func(name string, in int, parts ...part) {
		out := 0
		for _, p := range parts {
			out += p.rows
		}
		linear(name, out, in)
		for i, leaf := range [2]string{".weight", ".bias"} {
			p := &ps[len(ps)-2+i]
			for _, x := range parts {
				p.Pieces = append(p.Pieces, graph.Piece{Name: x.name + leaf, Of: x.rows, Rows: x.rows})
			}
		}
	}
	qkv := func(name string) { // 1.5 keeps apart what 1.0 stacks
		parts := []part{}
		for _, x := range []string{"q", "k", "v"} {
			parts = append(parts, part{name + "_" + x, d})
		}
		if !c.Glyphs {
			stacked(name+"_qkv", d, parts...)
			return
		}
		for _, p := range parts {
			linear(p.name, d, d)
		}
	}
	scale := func(name string, n int) {
		ps = append(ps, models.Param{Name: name + ".weight", Shape: []int{n}})
	}
	norm := func(name string, n int) {
		scale(name, n)
		ps = append(ps, models.Param{Name: name + ".bias", Shape: []int{n}})
	}
	embedder := func(name string) {
		linear(name+".mlp.0", d, timeWidth)
		linear(name+".mlp.2", d, d)
	}
	ps = append(ps, models.Param{Name: "img_in.proj.weight", Shape: []int{d, c.embeddedChannels(), c.Patch[0], c.Patch[1], c.Patch[2]},
		View: []int{d, c.embeddedChannels() * c.Patch[0] * c.Patch[1] * c.Patch[2]}, Matmul: true})
	ps = append(ps, models.Param{Name: "img_in.proj.bias", Shape: []int{d}})
	embedder("time_in")
	if c.Guidance {
		embedder("guidance_in")
	}
	if c.Glyphs {
		norm("byt5_in.layernorm", c.GlyphDim)
		linear("byt5_in.fc1", c.GlyphHidden, c.GlyphDim)
		linear("byt5_in.fc2", c.GlyphHidden, c.GlyphHidden)
		linear("byt5_in.fc3", d, c.GlyphHidden)
		norm("vision_in.proj.0", c.VisionDim)
		linear("vision_in.proj.1", c.VisionDim, c.VisionDim)
		linear("vision_in.proj.3", d, c.VisionDim)
		norm("vision_in.proj.4", d)
		ps = append(ps, models.Param{Name: kindTable, Shape: []int{3, d}})
	} else {
		linear("vector_in.in_layer", d, c.PooledDim)
		linear("vector_in.out_layer", d, d)
	}
	linear("txt_in.input_embedder", d, c.TextDim)
	embedder("txt_in.t_embedder")
	linear("txt_in.c_embedder.linear_1", d, c.TextDim)
	linear("txt_in.c_embedder.linear_2", d, d)
	for i := range refiners {
		b := refinerPrefix(i)
		for _, n := range []string{"norm1", "norm2"} {
			norm(b+n, d)
		}
		stacked(b+"self_attn_qkv", d, part{b + "self_attn_q", d}, part{b + "self_attn_k", d}, part{b + "self_attn_v", d})
		linear(b+"self_attn_proj", d, d)
		linear(b+"mlp.fc1", 4*d, d)
		linear(b+"mlp.fc2", d, 4*d)
		linear(b+"adaLN_modulation.1", 2*d, d)
	}
	for i := range double {
		for _, stream := range []string{"img", "txt"} {
			b := fmt.Sprintf("double_blocks.%d.%s_", i, stream)
			linear(b+"mod.linear", 6*d, d)
			qkv(b + "attn")
			scale(b+"attn_q_norm", c.HeadDim())
			scale(b+"attn_k_norm", c.HeadDim())
			linear(b+"attn_proj", d, d)
			linear(b+"mlp.fc1", ff, d)
			linear(b+"mlp.fc2", d, ff)
		}
	}
	for i := range single {
		b := fmt.Sprintf("single_blocks.%d.", i)
		stacked(b+"linear1", d, part{b + "q", d}, part{b + "k", d}, part{b + "v", d}, part{b + "mlp", ff})
		linear(b+"linear2", d, d+ff)
		scale(b+"q_norm", c.HeadDim())
		scale(b+"k_norm", c.HeadDim())
		linear(b+"modulation.linear", 3*d, d)
	}
	linear("final_layer.linear", c.Patch[0]*c.Patch[1]*c.Patch[2]*c.Out, d)
	linear("final_layer.adaLN_modulation.1", 2*d, d)
	for i, leaf := range [2]string{".weight", ".bias"} { // diffusers has the scale before the shift
		ps[len(ps)-2+i].Pieces = []graph.Piece{{Name: swappedModulation + leaf, Of: 2 * d, Row: d, Rows: d}, {Name: swappedModulation + leaf, Of: 2 * d, Rows: d}}
	}
	return ps
}

// timeWidth is the width of the sinusoidal embedding of a timestep.
const timeWidth = 256

// swappedModulation is diffusers' name for final_layer.adaLN_modulation.1; it stores the two
// halves in the opposite order.
const swappedModulation = "norm_out.linear"

// kindTable has an embedding for each kind of rows in the text's stream: the text's, byT5's,
// the image's.
const kindTable = "cond_type_embedding.weight"

// refinerPrefix begins the names of the parameters of refiner layer i.
func refinerPrefix(i int) string { return fmt.Sprintf("txt_in.individual_token_refiner.blocks.%d.", i) }

// countLayers is the number of double and of single layers that a request for n layers of
// each runs; 0 asks for all.
func (m *Model) countLayers(n int) (double, single int) {
	r := models.Request{Layers: n}
	return r.Run(m.c.Double), r.Run(m.c.Single)
}

// Rules shard the blocks, every modulation, the refiner and the large layers of the embedders.
// README.md lists the bytes that this saves.
//
// Column-parallel are q, k, v and the first layer of the FFN (part by part where they are
// stacked) and all modulations. Row-parallel are the projections back to the streams.
func (m *Model) Rules() sharding.Rules {
	toHeads, fromHeads := strategy.ColumnParallel(strategy.Heads), strategy.RowParallel(strategy.Heads)
	toFFN, fromFFN := strategy.ColumnParallel(strategy.FFN), strategy.RowParallel(strategy.FFN)
	toWidth, whole := strategy.ColumnParallel(strategy.Width), sharding.NewSpec()
	d, ff := m.c.Dim, m.c.FFNDim()
	rule := func(match string, s sharding.Spec) sharding.Rule { return sharding.Rule{Match: match, Spec: s} }
	qkv := sharding.Layout{Parts: []int{d, d, d}}
	return sharding.Rules{
		{Match: "*_qkv.*", Spec: toHeads, Layout: qkv},
		{Match: "single_blocks.*.linear1.*", Spec: toHeads, Layout: sharding.Layout{Parts: []int{d, d, d, ff}}},
		{Match: "single_blocks.*.linear2.weight", Spec: fromHeads, Layout: sharding.Layout{Dim: 1, Parts: []int{d, ff}}},
		rule("single_blocks.*.linear2.bias", whole),
		rule("*_proj.weight", fromHeads),
		rule("*_attn_proj.bias", whole),
		rule("*mlp.fc1.*", toFFN),
		rule("*mlp.fc2.weight", fromFFN),
		rule("*mlp.fc2.bias", whole),
		rule("*_norm.weight", whole),
		rule("*_mod.linear.*", toWidth),
		rule("*.modulation.linear.*", toWidth),
		rule("*.adaLN_modulation.1.*", toWidth),
		rule("*.norm1.*", whole),
		rule("*.norm2.*", whole),
		rule("txt_in.input_embedder.*", toWidth),
		rule("txt_in.c_embedder.linear_1.*", toFFN),
		rule("txt_in.c_embedder.linear_2.weight", fromFFN),
		rule("txt_in.c_embedder.linear_2.bias", whole),
		rule("*.mlp.0.*", toFFN), // the embedders of timestep and guidance
		rule("*.mlp.2.weight", fromFFN),
		rule("*.mlp.2.bias", whole),
		rule("vector_in.in_layer.*", toFFN),
		rule("vector_in.out_layer.weight", fromFFN),
		rule("vector_in.out_layer.bias", whole),
		rule("img_in.proj.*", whole),
		rule("*_attn_q.*", toHeads),
		rule("*_attn_k.*", toHeads),
		rule("*_attn_v.*", toHeads),
		rule("byt5_in.fc1.*", toFFN),
		rule("byt5_in.fc2.weight", fromFFN),
		rule("byt5_in.fc2.bias", whole),
		rule("byt5_in.fc3.*", toWidth),
		rule("byt5_in.layernorm.*", whole),
		rule("vision_in.proj.1.*", toFFN),
		rule("vision_in.proj.3.weight", fromFFN),
		rule("vision_in.*", whole),
		rule(kindTable, whole),
		rule("final_layer.linear.*", whole),
	}
}

// diffusersNames are diffusers' names. Matrices that diffusers keeps apart keep names of
// their own, which Params lists as pieces.
var diffusersNames = models.NewRenames([][2]string{
	{`^transformer_blocks\.(\d+)\.attn\.to_([qkv])\.`, "double_blocks.$1.img_attn_$2."},
	{`^transformer_blocks\.(\d+)\.attn\.add_([qkv])_proj\.`, "double_blocks.$1.txt_attn_$2."},
	{`^transformer_blocks\.(\d+)\.attn\.norm_([qk])\.`, "double_blocks.$1.img_attn_${2}_norm."},
	{`^transformer_blocks\.(\d+)\.attn\.norm_added_([qk])\.`, "double_blocks.$1.txt_attn_${2}_norm."},
	{`^transformer_blocks\.(\d+)\.attn\.to_out\.0\.`, "double_blocks.$1.img_attn_proj."},
	{`^transformer_blocks\.(\d+)\.attn\.to_add_out\.`, "double_blocks.$1.txt_attn_proj."},
	{`^transformer_blocks\.(\d+)\.ff\.net\.0\.proj\.`, "double_blocks.$1.img_mlp.fc1."},
	{`^transformer_blocks\.(\d+)\.ff\.net\.2\.`, "double_blocks.$1.img_mlp.fc2."},
	{`^transformer_blocks\.(\d+)\.ff_context\.net\.0\.proj\.`, "double_blocks.$1.txt_mlp.fc1."},
	{`^transformer_blocks\.(\d+)\.ff_context\.net\.2\.`, "double_blocks.$1.txt_mlp.fc2."},
	{`^transformer_blocks\.(\d+)\.norm1\.linear\.`, "double_blocks.$1.img_mod.linear."},
	{`^transformer_blocks\.(\d+)\.norm1_context\.linear\.`, "double_blocks.$1.txt_mod.linear."},
	{`^single_transformer_blocks\.(\d+)\.attn\.to_([qkv])\.`, "single_blocks.$1.$2."},
	{`^single_transformer_blocks\.(\d+)\.proj_mlp\.`, "single_blocks.$1.mlp."},
	{`^single_transformer_blocks\.(\d+)\.proj_out\.`, "single_blocks.$1.linear2."},
	{`^single_transformer_blocks\.(\d+)\.attn\.norm_([qk])\.`, "single_blocks.$1.${2}_norm."},
	{`^single_transformer_blocks\.(\d+)\.norm\.linear\.`, "single_blocks.$1.modulation.linear."},
	{`^context_embedder\.token_refiner\.refiner_blocks\.(\d+)\.attn\.to_([qkv])\.`, "txt_in.individual_token_refiner.blocks.$1.self_attn_$2."},
	{`^context_embedder\.token_refiner\.refiner_blocks\.(\d+)\.attn\.to_out\.0\.`, "txt_in.individual_token_refiner.blocks.$1.self_attn_proj."},
	{`^context_embedder\.token_refiner\.refiner_blocks\.(\d+)\.ff\.net\.0\.proj\.`, "txt_in.individual_token_refiner.blocks.$1.mlp.fc1."},
	{`^context_embedder\.token_refiner\.refiner_blocks\.(\d+)\.ff\.net\.2\.`, "txt_in.individual_token_refiner.blocks.$1.mlp.fc2."},
	{`^context_embedder\.token_refiner\.refiner_blocks\.(\d+)\.norm_out\.linear\.`, "txt_in.individual_token_refiner.blocks.$1.adaLN_modulation.1."},
	{`^context_embedder\.token_refiner\.refiner_blocks\.(\d+)\.norm([12])\.`, "txt_in.individual_token_refiner.blocks.$1.norm$2."},
	{`^context_embedder\.time_text_embed\.text_embedder\.linear_([12])\.`, "txt_in.c_embedder.linear_$1."},
	{`^context_embedder\.time_text_embed\.timestep_embedder\.linear_1\.`, "txt_in.t_embedder.mlp.0."},
	{`^context_embedder\.time_text_embed\.timestep_embedder\.linear_2\.`, "txt_in.t_embedder.mlp.2."},
	{`^context_embedder\.proj_in\.`, "txt_in.input_embedder."},
	{`^time_text_embed\.timestep_embedder\.linear_1\.`, "time_in.mlp.0."},
	{`^time_text_embed\.timestep_embedder\.linear_2\.`, "time_in.mlp.2."},
	{`^time_text_embed\.guidance_embedder\.linear_1\.`, "guidance_in.mlp.0."},
	{`^time_text_embed\.guidance_embedder\.linear_2\.`, "guidance_in.mlp.2."},
	{`^time_text_embed\.text_embedder\.linear_1\.`, "vector_in.in_layer."},
	{`^time_text_embed\.text_embedder\.linear_2\.`, "vector_in.out_layer."},
	{`^time_embed\.timestep_embedder\.linear_1\.`, "time_in.mlp.0."},
	{`^time_embed\.timestep_embedder\.linear_2\.`, "time_in.mlp.2."},
	{`^context_embedder_2\.norm\.`, "byt5_in.layernorm."},
	{`^context_embedder_2\.linear_([123])\.`, "byt5_in.fc$1."},
	{`^image_embedder\.norm_in\.`, "vision_in.proj.0."},
	{`^image_embedder\.linear_1\.`, "vision_in.proj.1."},
	{`^image_embedder\.linear_2\.`, "vision_in.proj.3."},
	{`^image_embedder\.norm_out\.`, "vision_in.proj.4."},
	{`^cond_type_embed\.weight$`, kindTable},
	{`^x_embedder\.proj\.`, "img_in.proj."},
	{`^proj_out\.`, "final_layer.linear."},
}...)

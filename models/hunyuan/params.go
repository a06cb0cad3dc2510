package hunyuan

import (
	"fmt"
	"regexp"
	"strings"

	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

// part is one of several matrices that the official checkpoint stacks in one: its name in
// checkpoints that keep it apart, the peer's name, and its rows.
type part struct {
	name, flax string
	rows       int
}

// Params lists the parameters under their official names. layers above 0 limits them to that
// many double and that many single layers.
func (m *Model) Params(layers int) []models.Param {
	c, d, ff := m.c, m.c.Dim, m.c.FFNDim()
	double, single := m.countLayers(layers)
	ps := []models.Param{}
	linear := func(name, flax string, out, in int) {
		ps = append(ps, models.LinearParams(name, flax, out, in, true)...)
	}
	plain := func(name string, out, in int) { linear(name, flaxPath(name), out, in) }
	// stacked declares a matrix whose parts some publishers keep apart. The peer keeps
	// those parts apart that have a path.
	stacked := func(name string, in int, parts ...part) {
		out := 0
		for _, p := range parts {
			out += p.rows
		}
		linear(name, flaxPath(name), out, in)
		for i, leaf := range [2][2]string{{".weight", "/kernel"}, {".bias", "/bias"}} {
			p := &ps[len(ps)-2+i]
			for _, x := range parts {
				p.Pieces = append(p.Pieces, graph.Piece{Name: x.name + leaf[0], Of: x.rows, Rows: x.rows})
				if x.flax != "" {
					p.FlaxPieces = append(p.FlaxPieces, x.flax+leaf[1])
				}
			}
		}
	}
	qkv := func(name, path string) { // 1.5 keeps apart what 1.0 stacks
		parts := []part{}
		for _, x := range []string{"q", "k", "v"} {
			parts = append(parts, part{name + "_" + x, path + x, d})
		}
		if !c.Glyphs {
			stacked(name+"_qkv", d, parts...)
			return
		}
		for _, p := range parts {
			linear(p.name, p.flax, d, d)
		}
	}
	scale := func(name string, n int) {
		ps = append(ps, models.Param{Name: name + ".weight", Shape: []int{n}, Flax: flaxPath(name) + "/scale"})
	}
	norm := func(name string, n int) {
		scale(name, n)
		ps = append(ps, models.Param{Name: name + ".bias", Shape: []int{n}, Flax: flaxPath(name) + "/bias"})
	}
	embedder := func(name string) {
		plain(name+".mlp.0", d, timeWidth)
		plain(name+".mlp.2", d, d)
	}
	ps = append(ps, models.Param{Name: "img_in.proj.weight", Shape: []int{d, c.embeddedChannels(), c.Patch[0], c.Patch[1], c.Patch[2]},
		View: []int{d, c.embeddedChannels() * c.Patch[0] * c.Patch[1] * c.Patch[2]}, Matmul: true, Flax: "img_in_proj/kernel", FlaxPerm: []int{1, 0}, FlaxView: true})
	ps = append(ps, models.Param{Name: "img_in.proj.bias", Shape: []int{d}, Flax: "img_in_proj/bias"})
	embedder("time_in")
	if c.Guidance {
		embedder("guidance_in")
	}
	if c.Glyphs {
		norm("byt5_in.layernorm", c.GlyphDim)
		plain("byt5_in.fc1", c.GlyphHidden, c.GlyphDim)
		plain("byt5_in.fc2", c.GlyphHidden, c.GlyphHidden)
		plain("byt5_in.fc3", d, c.GlyphHidden)
		norm("vision_in.proj.0", c.VisionDim)
		plain("vision_in.proj.1", c.VisionDim, c.VisionDim)
		plain("vision_in.proj.3", d, c.VisionDim)
		norm("vision_in.proj.4", d)
		ps = append(ps, models.Param{Name: kindTable, Shape: []int{3, d}, Flax: "cond_type_embedding/embedding"})
	} else {
		plain("vector_in.in_layer", d, c.PooledDim)
		plain("vector_in.out_layer", d, d)
	}
	plain("txt_in.input_embedder", d, c.TextDim)
	embedder("txt_in.t_embedder")
	plain("txt_in.c_embedder.linear_1", d, c.TextDim)
	plain("txt_in.c_embedder.linear_2", d, d)
	for i := range refiners {
		b := refinerPrefix(i)
		for _, n := range []string{"norm1", "norm2"} {
			norm(b+n, d)
		}
		stacked(b+"self_attn_qkv", d, part{b + "self_attn_q", "", d}, part{b + "self_attn_k", "", d}, part{b + "self_attn_v", "", d})
		plain(b+"self_attn_proj", d, d)
		plain(b+"mlp.fc1", 4*d, d)
		plain(b+"mlp.fc2", d, 4*d)
		plain(b+"adaLN_modulation.1", 2*d, d)
	}
	for i := range double {
		for _, stream := range []string{"img", "txt"} {
			b := fmt.Sprintf("double_blocks.%d.%s_", i, stream)
			f := flaxPath(b+"attn") + "/attn_"
			plain(b+"mod.linear", 6*d, d)
			qkv(b+"attn", f)
			for _, n := range []string{"q_norm", "k_norm"} {
				ps = append(ps, models.Param{Name: b + "attn_" + n + ".weight", Shape: []int{c.HeadDim()}, Flax: f + n + "/scale"})
			}
			plain(b+"attn_proj", d, d)
			plain(b+"mlp.fc1", ff, d)
			plain(b+"mlp.fc2", d, ff)
		}
	}
	for i := range single {
		b := fmt.Sprintf("single_blocks.%d.", i)
		f := flaxPath(b + "linear1")
		stacked(b+"linear1", d, part{b + "q", f + "_q", d}, part{b + "k", f + "_k", d}, part{b + "v", f + "_v", d}, part{b + "mlp", f + "_mlp", ff})
		plain(b+"linear2", d, d+ff)
		scale(b+"q_norm", c.HeadDim())
		scale(b+"k_norm", c.HeadDim())
		plain(b+"modulation.linear", 3*d, d)
	}
	plain("final_layer.linear", c.Patch[0]*c.Patch[1]*c.Patch[2]*c.Out, d)
	plain("final_layer.adaLN_modulation.1", 2*d, d)
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

// flaxVision maps the numbers of the release's modules in vision_in to the peer's names.
var flaxVision = map[string]string{"0": "ln_0", "1": "linear_1", "3": "linear_3", "4": "ln_4"}

var flaxBlock = regexp.MustCompile(`^(double|single)_blocks\.(\d+)\.(.*)$`)

// flaxPath is the peer's path for a module: double_blocks.3.img_mlp.fc1 is
// double_blocks_3/img_mlp/fc1.
func flaxPath(module string) string {
	module = strings.Replace(module, "txt_in.individual_token_refiner.blocks.", "txt_in.blocks_", 1)
	if b := flaxBlock.FindStringSubmatch(module); b != nil {
		return b[1] + "_blocks_" + b[2] + "/" + strings.ReplaceAll(b[3], ".", "/")
	}
	if n, ok := strings.CutPrefix(module, "vision_in.proj."); ok {
		return "vision_in/" + flaxVision[n]
	}
	parts := strings.Split(module, ".")
	top, rest := parts[0], parts[1:]
	if top == "txt_in" && strings.HasPrefix(rest[0], "blocks_") {
		top, rest = top+"/"+rest[0], rest[1:]
	}
	if n := len(rest); n > 1 { // numbers, and c_embedder's layers, go with the name before
		last := rest[n-1]
		if rest[n-2] == "c_embedder" || last[0] >= '0' && last[0] <= '9' {
			rest = append(rest[:n-2:n-2], rest[n-2]+"_"+last)
		}
	}
	return strings.Join(append([]string{top}, rest...), "/")
}

// Rules shard what the peer shards, and in addition every modulation, the refiner and the
// large layers of the embedders, which the peer replicates: README.md lists the bytes saved.
//
// Column-parallel are q, k, v and the first layer of the FFN (part by part where they are
// stacked) and all modulations. Row-parallel are the projections back to the streams.
func (m *Model) Rules() sharding.Rules {
	first, second, whole := sharding.NewSpec([]string{mesh.TP}), sharding.NewSpec(nil, []string{mesh.TP}), sharding.NewSpec()
	d, ff := m.c.Dim, m.c.FFNDim()
	rule := func(match string, s sharding.Spec) sharding.Rule { return sharding.Rule{Match: match, Spec: s} }
	qkv := sharding.Layout{Parts: []int{d, d, d}}
	return sharding.Rules{
		{Match: "*_qkv.*", Spec: first, Layout: qkv},
		{Match: "single_blocks.*.linear1.*", Spec: first, Layout: sharding.Layout{Parts: []int{d, d, d, ff}}},
		{Match: "single_blocks.*.linear2.weight", Spec: second, Layout: sharding.Layout{Dim: 1, Parts: []int{d, ff}}},
		rule("single_blocks.*.linear2.bias", whole),
		rule("*_proj.weight", second),
		rule("*_attn_proj.bias", whole),
		rule("*mlp.fc1.*", first),
		rule("*mlp.fc2.weight", second),
		rule("*mlp.fc2.bias", whole),
		rule("*_norm.weight", whole),
		rule("*_mod.linear.*", first),
		rule("*.modulation.linear.*", first),
		rule("*.adaLN_modulation.1.*", first),
		rule("*.norm1.*", whole),
		rule("*.norm2.*", whole),
		rule("txt_in.input_embedder.*", first),
		rule("txt_in.c_embedder.linear_1.*", first),
		rule("txt_in.c_embedder.linear_2.weight", second),
		rule("txt_in.c_embedder.linear_2.bias", whole),
		rule("*.mlp.0.*", first), // the embedders of timestep and guidance
		rule("*.mlp.2.weight", second),
		rule("*.mlp.2.bias", whole),
		rule("vector_in.in_layer.*", first),
		rule("vector_in.out_layer.weight", second),
		rule("vector_in.out_layer.bias", whole),
		rule("img_in.proj.*", whole),
		rule("*_attn_q.*", first),
		rule("*_attn_k.*", first),
		rule("*_attn_v.*", first),
		rule("byt5_in.fc1.*", first),
		rule("byt5_in.fc2.weight", second),
		rule("byt5_in.fc2.bias", whole),
		rule("byt5_in.fc3.*", first),
		rule("byt5_in.layernorm.*", whole),
		rule("vision_in.proj.1.*", first),
		rule("vision_in.proj.3.weight", second),
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

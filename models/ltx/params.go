package ltx

import (
	"fmt"
	"regexp"

	"weft/internal/bystander"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

// Model is a configuration of the transformer.
type Model struct {
	name string
	c    Config
	// timeGiven: the configuration says how time is counted, which diffusers' do not.
	timeGiven bool
}

// Name is the preset's name, or the kind of model: ltx-video.
func (m *Model) Name() string { return m.name }

// Config is a Config.
func (m *Model) Config() any { return m.c }

// table collects parameters under official names beside the peer's paths.
type table struct{ ps []models.Param }

func (t *table) vector(name, flax string, shape ...int) {
	t.ps = append(t.ps, models.Param{Name: name, Shape: shape, Flax: flax})
}

func (t *table) linear(name, flax string, out, in int, bias bool) {
	t.ps = append(t.ps, models.LinearParams(name, flax, out, in, bias)...)
}

// attention of d wide queries, with a gate for each of gates heads.
func (t *table) attention(name, flax string, d, gates int) {
	for _, p := range []string{"to_q", "to_k", "to_v"} {
		t.linear(name+"."+p, flax+"/"+p, d, d, true)
	}
	t.linear(name+".to_out.0", flax+"/to_out_0", d, d, true)
	t.vector(name+".q_norm.weight", flax+"/q_norm_scale", d)
	t.vector(name+".k_norm.weight", flax+"/k_norm_scale", d)
	if gates > 0 {
		t.linear(name+".to_gate_logits", flax+"/to_gate_logits", gates, d, true)
	}
}

func (t *table) ffn(name, flax string, d int, bias bool) {
	t.linear(name+".net.0.proj", flax+"/ff_proj", 4*d, d, bias)
	t.linear(name+".net.2", flax+"/ff_out", d, 4*d, bias)
}

// embedder is an AdaLN's: sines to the width, then parts of it.
func (t *table) embedder(name, flax, linear string, d, parts int) {
	for i, in := range []int{timeDim, d} {
		t.linear(fmt.Sprintf("%s.emb.timestep_embedder.linear_%d", name, i+1), fmt.Sprintf("%s_linear_%d", flax, i+1), d, in, true)
	}
	t.linear(name+".linear", linear, parts*d, d, true)
}

// Params lists the parameters under their official names, less the prefix that
// releases have.
func (m *Model) Params(layers int) []models.Param {
	c, d := m.c, m.c.Dim()
	if layers <= 0 || layers > c.Layers {
		layers = c.Layers
	}
	var t table
	gates := 0
	if c.Gated {
		gates = c.Heads
	}
	t.linear("patchify_proj", "patchify_proj", d, c.InChannels, true)
	embedder := "adaln_timestep_embedder"
	if c.Second {
		embedder = "adaln_single_emb_timestep_embedder"
	}
	t.embedder("adaln_single", embedder, "adaln_linear", d, c.modulations())
	if c.CrossAdaLN {
		t.embedder("prompt_adaln_single", "prompt_adaln_single_emb_timestep_embedder", "prompt_adaln_single_linear", d, 2)
	}
	if c.CaptionChannels > 0 {
		t.linear("caption_projection.linear_1", "caption_projection_linear_1", d, c.CaptionChannels, true)
		t.linear("caption_projection.linear_2", "caption_projection_linear_2", d, d, true)
	}
	if c.Keyframes {
		t.vector("keyframes_abs_pos_embedding", "keyframes_abs_pos_embedding", 1, d)
	}
	for i := range layers {
		b, flax := fmt.Sprintf("transformer_blocks.%d.", i), fmt.Sprintf("blocks_%d/", i)
		t.vector(b+"scale_shift_table", flax+"scale_shift_table", c.modulations(), d)
		if c.CrossAdaLN {
			t.vector(b+"prompt_scale_shift_table", flax+"prompt_scale_shift_table", 2, d)
		}
		t.attention(b+"attn1", flax+"attn1", d, gates)
		t.attention(b+"attn2", flax+"attn2", d, gates)
		t.ffn(b+"ff", flax+"ff", d, c.FFBias)
	}
	t.vector("scale_shift_table", "scale_shift_table", 2, d)
	t.linear("proj_out", "proj_out", c.OutChannels, d, true)
	return t.ps
}

func rule(match string, s sharding.Spec) sharding.Rule { return sharding.Rule{Match: match, Spec: s} }

var (
	col   = sharding.NewSpec([]string{mesh.TP}, nil)
	row   = sharding.NewSpec(nil, []string{mesh.TP})
	vec   = sharding.NewSpec([]string{mesh.TP})
	whole = sharding.NewSpec()
)

// blockRules split attention and FFN of the blocks that match: q, k, v and the
// first layer of the FFN column-parallel, with them the norms of q and k and the
// heads' gates, which the peer keeps whole; the outputs row-parallel, their biases whole.
func blockRules(blocks string) sharding.Rules {
	return sharding.Rules{
		rule(blocks+".attn*.*_norm.weight", vec),
		rule(blocks+".attn*.to_out.0.weight", row),
		rule(blocks+".attn*.to_out.0.bias", whole),
		rule(blocks+".attn*.weight", col),
		rule(blocks+".attn*.bias", vec),
		rule(blocks+".ff.net.0.proj.weight", col),
		rule(blocks+".ff.net.0.proj.bias", vec),
		rule(blocks+".ff.net.2.weight", row),
		rule(blocks+".ff.net.2.bias", whole),
	}
}

// Rules split what the peer splits, and the modulation's and the text's
// projections besides: README.md has the bytes.
func (m *Model) Rules() sharding.Rules {
	return append(blockRules("transformer_blocks.*"),
		rule("*scale_shift_table", whole),
		rule("*adaln_single.linear.weight", col),
		rule("*adaln_single.linear.bias", vec),
		rule("*adaln_single.emb.*", whole),
		rule("caption_projection.linear_1.weight", col),
		rule("caption_projection.linear_1.bias", vec),
		rule("caption_projection.linear_2.weight", row),
		rule("caption_projection.linear_2.bias", whole),
		rule("keyframes_abs_pos_embedding", whole),
		rule("patchify_proj.*", whole),
		rule("proj_out.*", whole),
	)
}

// Ignore is what LTX-2.5's single file holds besides the transformer's video
// half: the connector of its text and the audio half.
func (m *Model) Ignore() []bystander.Kind {
	if m.c.Second {
		return []bystander.Kind{bystander.Connector, bystander.AudioHalf}
	}
	return nil
}

var diffusersNames = []struct {
	match *regexp.Regexp
	to    string
}{
	{regexp.MustCompile(`^proj_in\.`), "patchify_proj."},
	{regexp.MustCompile(`^time_embed\.`), "adaln_single."},
	{regexp.MustCompile(`^(transformer_blocks\.\d+\.attn[12])\.norm_([qk])\.`), "$1.${2}_norm."},
}

// Official translates diffusers' names.
func (m *Model) Official(name string) string {
	for _, d := range diffusersNames {
		if d.match.MatchString(name) {
			return d.match.ReplaceAllString(name, d.to)
		}
	}
	return name
}

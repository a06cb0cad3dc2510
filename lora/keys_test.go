package lora

import (
	"reflect"
	"strings"
	"testing"

	"weft/models"
	_ "weft/models/all"
)

// Keys as published files have them.
func TestSplitKey(t *testing.T) {
	for _, c := range []struct {
		key, module string
		role        role
	}{
		{"diffusion_model.blocks.0.self_attn.q.lora_A.weight", "diffusion_model.blocks.0.self_attn.q", down},
		{"diffusion_model.blocks.0.self_attn.q.lora_down.weight", "diffusion_model.blocks.0.self_attn.q", down},
		{"diffusion_model.blocks.39.ffn.2.lora_up.weight", "diffusion_model.blocks.39.ffn.2", up},
		{"transformer.blocks.0.attn1.to_out.0.lora_B.weight", "transformer.blocks.0.attn1.to_out.0", up},
		{"base_model.model.blocks.0.attn1.to_q.lora_B.default.weight", "base_model.model.blocks.0.attn1.to_q", up},
		{"transformer.blocks.0.attn1.to_q.lora_B.bias", "transformer.blocks.0.attn1.to_q", upBias},
		{"blocks.0.self_attn.q.lora.down.weight", "blocks.0.self_attn.q", down},
		{"blocks.0.self_attn.q.lora_A", "blocks.0.self_attn.q", down},
		{"lora_unet_blocks_0_self_attn_q.lora_down.weight", "lora_unet_blocks_0_self_attn_q", down},
		{"lora_unet_blocks_0_self_attn_q.alpha", "lora_unet_blocks_0_self_attn_q", alpha},
		{"diffusion_model.blocks.0.cross_attn.k_img.diff_b", "diffusion_model.blocks.0.cross_attn.k_img", diffBias},
		{"diffusion_model.blocks.0.norm3.diff", "diffusion_model.blocks.0.norm3", diff},
		{"diffusion_model.head.head.diff", "diffusion_model.head.head", diff},
		{"lora_unet_blocks_0_ffn_0.dora_scale", "lora_unet_blocks_0_ffn_0", otherForms},
		{"transformer.blocks.0.attn1.to_q.lora_magnitude_vector.weight", "transformer.blocks.0.attn1.to_q", otherForms},
		{"lycoris_blocks_0_ffn_0.lokr_w1", "lycoris_blocks_0_ffn_0", otherForms},
		{"lora_unet_x.hada_w1_a", "lora_unet_x", otherForms},
		{"lora_unet_x.lora_mid.weight", "lora_unet_x", otherForms},
		{"blocks.0.attn1.to_q.lora_A.bias", "blocks.0.attn1.to_q", otherForms},
		{"blocks.0.self_attn.q.weight", "blocks.0.self_attn.q.weight", noRole},
		{"blocks.0.self_attn.q.lora_Ax.weight", "blocks.0.self_attn.q.lora_Ax.weight", noRole},
		{"alpha", "alpha", noRole},
		{"", "", noRole},
		{".", ".", noRole},
	} {
		if module, r := splitKey(c.key); module != c.module || r != c.role {
			t.Errorf("%q: module %q, role %d: want %q, %d", c.key, module, r, c.module, c.role)
		}
	}
}

// Modules by the names of official files, of diffusers and of kohya, and where their rows belong.
func TestFindModule(t *testing.T) {
	for _, c := range []struct{ preset, module, leaf, want string }{
		{"wan2.1-t2v-14b", "diffusion_model.blocks.3.self_attn.q", "weight", "blocks.3.self_attn.q.weight"},
		{"wan2.1-t2v-14b", "transformer.blocks.3.attn1.to_out.0", "weight", "blocks.3.self_attn.o.weight"},
		{"wan2.1-t2v-14b", "base_model.model.blocks.3.ffn.net.0.proj", "bias", "blocks.3.ffn.0.bias"},
		{"wan2.1-t2v-14b", "lora_unet_blocks_3_cross_attn_v", "weight", "blocks.3.cross_attn.v.weight"},
		{"wan2.1-t2v-14b", "lora_unet_blocks_3_attn1_to_out_0", "weight", "blocks.3.self_attn.o.weight"},
		{"wan2.1-t2v-14b", "lora_transformer_condition_embedder_time_embedder_linear_1", "weight", "time_embedding.0.weight"},
		{"wan2.1-t2v-14b", "diffusion_model.blocks.3.modulation", "weight", "blocks.3.modulation"},
		{"wan2.1-t2v-14b", "diffusion_model.blocks.3.norm3", "weight", "blocks.3.norm3.weight"},
		{"wan2.1-t2v-14b", "diffusion_model.blocks.3.cross_attn.k_img", "weight", ""},
		{"wan2.1-i2v-14b", "lora_unet_blocks_3_cross_attn_k_img", "weight", "blocks.3.cross_attn.k_img.weight"},
		{"wan2.1-t2v-14b", "lora_unet_blocks_99_self_attn_q", "weight", ""},
		{"wan2.1-t2v-14b", "lora_unet_", "weight", ""},
		{"hunyuanvideo-cfgdistill", "transformer.transformer_blocks.2.attn.to_k", "weight", "double_blocks.2.img_attn_qkv.weight"},
		{"hunyuanvideo-cfgdistill", "lora_unet_double_blocks_2_img_attn_qkv", "weight", "double_blocks.2.img_attn_qkv.weight"},
		{"hunyuanvideo-cfgdistill", "lora_unet_single_blocks_7_linear1", "weight", "single_blocks.7.linear1.weight"},
	} {
		m, err := models.ByName(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if at := parametersOf(m).findModule(c.module, c.leaf); len(at) > 0 {
			got = at[0].parameter
		}
		if got != c.want {
			t.Errorf("%s: %s.%s is %q: want %q", c.preset, c.module, c.leaf, got, c.want)
		}
	}
}

// A module of a part of a stack has that part's rows, and one that two parts take rows of has both.
func TestPiecesOfStacks(t *testing.T) {
	m, err := models.ByName("hunyuanvideo-cfgdistill")
	if err != nil {
		t.Fatal(err)
	}
	known := parametersOf(m)
	d := 3072
	rowsOf := func(module string) (rows [][4]int) {
		for _, p := range known.findModule(module, "weight") {
			rows = append(rows, [4]int{p.row, p.rows, p.from, p.of})
		}
		return rows
	}
	for module, want := range map[string][][4]int{
		"double_blocks.0.img_attn_qkv":                     {{0, 3 * d, 0, 3 * d}},
		"transformer.transformer_blocks.0.attn.to_q":       {{0, d, 0, d}},
		"transformer.transformer_blocks.0.attn.to_v":       {{2 * d, d, 0, d}},
		"transformer.single_transformer_blocks.0.proj_mlp": {{3 * d, 4 * d, 0, 4 * d}},
		"transformer.norm_out.linear":                      {{0, d, d, 2 * d}, {d, d, 0, 2 * d}},
	} {
		if got := rowsOf(module); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v: want %v", module, got, want)
		}
	}
}

// No key makes splitKey fail, and what it finds is in the key.
func FuzzSplitKey(f *testing.F) {
	for _, key := range []string{"a.lora_A.weight", "lora_unet_a.alpha", ".lora_B..weight", "x.diff_b", "dora_scale"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		module, r := splitKey(key)
		if !strings.HasPrefix(key, module) || r > otherForms {
			t.Errorf("%q: module %q, role %d", key, module, r)
		}
		_, _ = flatName(module)
		if names := bareNames(module); names[0] != module {
			t.Errorf("%q: %q", module, names)
		}
	})
}

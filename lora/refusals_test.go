package lora_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/lora"
	"weft/request"
	"weft/sharding"
	"weft/tensor"
)

// adapterFile writes an adapter whose tensors have these shapes.
func adapterFile(t testing.TB, name string, meta map[string]string, shapes map[string][]int) string {
	t.Helper()
	all := map[string]*tensor.Tensor{}
	for key, shape := range shapes {
		all[key] = tensor.New(dtype.F32, shape...)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := checkpoint.Write(path, all, meta, checkpoint.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// pair are the shapes of a module of rank r.
func pair(into map[string][]int, module string, out, in, r int) map[string][]int {
	if into == nil {
		into = map[string][]int{}
	}
	into[module+".lora_A.weight"], into[module+".lora_B.weight"] = []int{r, in}, []int{out, r}
	return into
}

// Everything that does not fit is an error of its kind, which names file and keys.
func TestRefusals(t *testing.T) {
	q := "diffusion_model.blocks.0.self_attn.q"
	with := func(more map[string][]int) map[string][]int {
		all := pair(nil, q, 96, 96, 2)
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	one := []int{}
	for _, c := range []struct {
		name   string
		meta   map[string]string
		shapes map[string][]int
		kind   error
		says   []string
	}{
		{"no adapter", nil, map[string][]int{"blocks.0.self_attn.q.weight": {96, 96}}, lora.ErrKeys, []string{"is no LoRA", "blocks.0.self_attn.q.weight"}},
		{"strange key", nil, with(map[string][]int{"epoch": {1}}), lora.ErrKeys, []string{"keys that no LoRA has: epoch"}},
		{"strange module", nil, with(pair(nil, "diffusion_model.blocks.0.self_attn.z", 96, 96, 2)), lora.ErrKeys, []string{"blocks.0.self_attn.z.lora_A.weight", "does not have"}},
		{"layer beyond the model", nil, with(pair(nil, "diffusion_model.blocks.2.self_attn.q", 96, 96, 2)), lora.ErrKeys, []string{"blocks.2.self_attn.q"}},
		{"one half", nil, with(map[string][]int{"diffusion_model.blocks.0.self_attn.k.lora_A.weight": {2, 96}}), lora.ErrKeys, []string{"self_attn.k.lora_A.weight", "belong with"}},
		{"ranks", nil, map[string][]int{q + ".lora_A.weight": {2, 96}, q + ".lora_B.weight": {96, 3}}, lora.ErrShape, []string{"the ranks differ: 2", "3 in"}},
		{"shape", nil, pair(nil, q, 96, 80, 2), lora.ErrShape, []string{"96 x 80", "96 x 96", "blocks.0.self_attn.q.weight"}},
		{"rank 0", nil, pair(nil, q, 96, 96, 0), lora.ErrShape, []string{"shapes [0 96]"}},
		{"shape of a difference", nil, map[string][]int{"blocks.0.norm3.diff": {95}}, lora.ErrShape, []string{"[95]", "[96]"}},
		{"shape of a bias", nil, with(map[string][]int{q + ".diff_b": {97}}), lora.ErrShape, []string{"diff_b has shape [97]"}},
		{"bias of what has none", nil, with(map[string][]int{"blocks.0.self_attn.norm_q.diff_b": {96}}), lora.ErrKeys, []string{"norm_q.diff_b"}},
		{"alpha missing", nil, pair(with(map[string][]int{q + ".alpha": one}), "diffusion_model.blocks.0.self_attn.k", 96, 96, 2), lora.ErrAlpha, []string{"1 modules have an alpha and 1 lack theirs", "self_attn.k"}},
		{"alphas lost", map[string]string{"ss_network_alpha": "16"}, with(nil), lora.ErrAlpha, []string{"trained with alpha 16"}},
		{"alpha of two", nil, with(map[string][]int{q + ".alpha": {2}}), lora.ErrAlpha, []string{"want one number"}},
		{"DoRA", nil, with(map[string][]int{q + ".dora_scale": {96, 1}}), lora.ErrForm, []string{"another form", "dora_scale"}},
		{"LoKr", nil, map[string][]int{"lycoris_blocks_0_ffn_0.lokr_w1": {4, 4}, "lycoris_blocks_0_ffn_0.lokr_w2": {48, 24}}, lora.ErrForm, []string{"lokr_w1"}},
		{"bad metadata", map[string]string{"lora_adapter_metadata": "{"}, with(nil), lora.ErrAlpha, []string{"no configuration"}},
		{"metadata without alpha", map[string]string{"lora_adapter_metadata": `{"transformer.r": 2}`}, with(nil), lora.ErrAlpha, []string{"has no lora_alpha"}},
		{"DoRA by metadata", map[string]string{"lora_adapter_metadata": `{"transformer.lora_alpha": 2, "transformer.use_dora": true}`}, with(nil), lora.ErrForm, []string{"DoRA"}},
		{"of the 14B", nil, pair(pair(nil, q, 5120, 5120, 2), "diffusion_model.blocks.39.ffn.0", 13824, 5120, 2), lora.ErrOtherModel, []string{"0 of its 2 modules fit", "2 fit wan2.1-t2v-14b"}},
		{"of HunyuanVideo", nil, pair(nil, "transformer.single_transformer_blocks.3.attn.to_q", 3072, 3072, 4), lora.ErrOtherModel, []string{"fit hunyuanvideo"}},
	} {
		m := modeltest.Open(t, wanDir)
		_, err := lora.Open(context.Background(), m.Model, []request.LoRA{{Path: adapterFile(t, "a.safetensors", c.meta, c.shapes), Scale: 1}}, "")
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, says := range append(c.says, "a.safetensors") {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v\ndoes not say %q", c.name, err, says)
			}
		}
	}
}

// All that is wrong with several files comes at once, with what is wrong with the split, and before a
// weight is read.
func TestEveryViolationAtOnce(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in := modeltest.Tensors(t, wanDir+"/inputs.safetensors")
	q := "blocks.0.self_attn.q"
	ranks := adapterFile(t, "ranks.safetensors", nil, map[string][]int{q + ".lora_A.weight": {2, 96}, q + ".lora_B.weight": {96, 3}})
	keys := adapterFile(t, "keys.safetensors", nil, pair(pair(nil, q, 96, 96, 2), "blocks.0.self_attn.z", 96, 96, 2))
	_, err := m.Start(context.Background(), in, withAdapters("--mesh tp=3", request.LoRA{Path: ranks, Scale: 1}, request.LoRA{Path: keys, Scale: 1},
		request.LoRA{Path: filepath.Join(t.TempDir(), "none.safetensors"), Scale: 1}))
	for _, kind := range []error{lora.ErrShape, lora.ErrKeys, sharding.ErrHeadsNotDivisible} {
		if !errors.Is(err, kind) {
			t.Errorf("%v is not among: %v", kind, err)
		}
	}
	if n := len(fault.Violations(err)); n < 4 {
		t.Errorf("%d violations: %v", n, err)
	}
	if n := m.Checkpoint.BytesRead(); n != 0 {
		t.Errorf("%d bytes of weights were read", n)
	}
}

// An adapter for one expert needs a pair of them, and one whose name speaks of an expert needs to say which.
func TestExpertsOfAdapters(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	path := adapterFile(t, "x_high_noise.safetensors", nil, pair(nil, "blocks.0.self_attn.q", 96, 96, 2))
	for _, c := range []struct {
		asked, expert string
		files         int // -1 is a refusal
	}{
		{"", "", 1}, {"high", "", -1}, {"", "high", -1}, {"high", "high", 1}, {"high", "low", 0}, {"high", lora.AnyExpert, 1},
	} {
		set, err := lora.Open(context.Background(), m.Model, []request.LoRA{{Path: path, Scale: 1, Expert: c.asked}}, c.expert)
		if c.files < 0 {
			if !errors.Is(err, request.ErrOptions) {
				t.Errorf("%+v: %v", c, err)
			}
		} else if err != nil || len(set.Reports()) != c.files {
			t.Errorf("%+v: %d files, %v", c, len(set.Reports()), err)
		}
		set.Close()
	}
}

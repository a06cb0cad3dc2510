package identify_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/identify"
	"weft/internal/bystander"
	"weft/models"
)

// headerOf reads the header of a released file: its metadata and its tensors.
func headerOf(t testing.TB, name string) (meta map[string]string, list []checkpoint.Entry) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "headers", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var header struct {
		Meta    map[string]string `json:"__metadata__"`
		Tensors [][3]any          `json:"tensors"`
	}
	if err := json.NewDecoder(z).Decode(&header); err != nil {
		t.Fatal(err)
	}
	for _, x := range header.Tensors {
		e := checkpoint.Entry{Name: x[0].(string), Stored: x[1].(string), Shape: []int{}}
		for _, n := range x[2].([]any) {
			e.Shape = append(e.Shape, int(n.(float64)))
		}
		e.DType, _ = dtype.FromSafetensors(e.Stored)
		list = append(list, e)
	}
	return header.Meta, list
}

// sparse writes a checkpoint of holes as model.safetensors of a new folder.
func sparse(t testing.TB, config string, list ...checkpoint.Entry) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := checkpoint.CreateSparse(filepath.Join(dir, "model.safetensors"), list...); err != nil {
		t.Fatal(err)
	}
	if config != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// parameters are a preset's tensors, each name behind a prefix.
func parameters(t testing.TB, preset, prefix string) []checkpoint.Entry {
	t.Helper()
	m, err := models.ByName(preset)
	if err != nil {
		t.Fatal(err)
	}
	var list []checkpoint.Entry
	for _, p := range m.Params(0) {
		list = append(list, checkpoint.Entry{Name: prefix + p.Name, DType: dtype.BF16, Shape: p.Shape})
	}
	return list
}

// small are tensors of one element.
func small(d dtype.DType, names ...string) []checkpoint.Entry {
	var list []checkpoint.Entry
	for _, n := range names {
		list = append(list, checkpoint.Entry{Name: n, DType: d, Shape: []int{1}})
	}
	return list
}

// Every tensor of a released file is a parameter, or the table has a name for it,
// with a config and without.
func TestReleasedLTX(t *testing.T) {
	meta, list := headerOf(t, "ltx-2.5-22b")
	if len(list) != 4349 {
		t.Fatalf("%d tensors", len(list))
	}
	for _, config := range []string{meta["config"], ""} {
		dir := sparse(t, config, list...)
		for _, path := range []string{dir, dir + "/model.safetensors"} {
			m, err := weft.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			notices := strings.Join(m.Notices, "\n")
			if m.Name() != "ltx2.5-22b" || !strings.Contains(notices, "2858 tensors of the audio half") || !strings.Contains(notices, "129 tensors of the text's connector (video_embeddings_connector.*)") {
				t.Errorf("%s: %s\n%s", path, m.Name(), notices)
			}
			m.Close()
		}
	}
	// The connector's own config takes the same file.
	connector, err := models.PresetConfig("ltx2.5-connector")
	if err != nil {
		t.Fatal(err)
	}
	m, err := weft.Open(sparse(t, string(connector), list...))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Name() != "ltx2.5-connector" || !strings.Contains(strings.Join(m.Notices, "\n"), "of the transformer") {
		t.Error(m.Name(), m.Notices)
	}
}

// With a tensor missing, of another shape or too many, the file is not taken for the
// smaller model that is whole in it.
func TestBrokenReleaseKeepsItsReason(t *testing.T) {
	meta, list := headerOf(t, "ltx-2.5-22b")
	at := func(name string) int {
		return slices.IndexFunc(list, func(e checkpoint.Entry) bool { return e.Name == "model.diffusion_model."+name })
	}
	for _, test := range []struct {
		name string
		edit func(list []checkpoint.Entry) []checkpoint.Entry
		kind error
		says string
	}{
		{"missing", func(l []checkpoint.Entry) []checkpoint.Entry {
			i := at("proj_out.bias")
			return slices.Delete(l, i, i+1)
		}, checkpoint.ErrMissingTensors, "proj_out.bias"},
		{"another shape", func(l []checkpoint.Entry) []checkpoint.Entry { l[at("proj_out.bias")].Shape = []int{127}; return l }, checkpoint.ErrShape, "proj_out.bias"},
		{"unexpected", func(l []checkpoint.Entry) []checkpoint.Entry {
			return append(l, small(dtype.BF16, "model.diffusion_model.transformer_blocks.0.control.weight")...)
		}, checkpoint.ErrUnexpectedTensors, "transformer_blocks.0.control.weight"},
	} {
		for _, config := range []string{meta["config"], ""} {
			dir := sparse(t, config, test.edit(slices.Clone(list))...)
			for _, path := range []string{dir, dir + "/model.safetensors"} {
				_, err := weft.Open(path)
				if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "connector") {
					t.Errorf("%s, config %v: %v", test.name, config != "", err)
				}
				if config != "" && !errors.Is(err, test.kind) {
					t.Errorf("%s: %v, want the kind %v", test.name, err, test.kind)
				}
				if config == "" && (!errors.Is(err, models.ErrConfig) || !strings.Contains(err.Error(), "ltx2.5-22b")) {
					t.Errorf("%s: the nearest model is not named: %v", test.name, err)
				}
			}
		}
	}
}

func TestReleasedUMT5(t *testing.T) {
	_, list := headerOf(t, "umt5-xxl-fp8-scaled")
	dir := sparse(t, "", list...)
	m, err := weft.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	notices := strings.Join(m.Notices, "\n")
	if m.Name() != "umt5-xxl" || !strings.Contains(notices, "spiece_model is a tokenizer's file of 4548313 bytes") {
		t.Error(m.Name(), notices)
	}
	roles := map[string]int{}
	for _, e := range m.Checkpoint.Entries() {
		roles[e.Role.String()]++
	}
	if roles["scale"] != 168 || roles["tokenizer"] != 1 || roles["marker"] != 1 {
		t.Error(roles)
	}
	if e, _ := m.Checkpoint.Lookup("encoder.block.0.layer.0.SelfAttention.q.weight"); e.Scale != "encoder.block.0.layer.0.SelfAttention.q.scale_weight" {
		t.Errorf("%+v", e)
	}
}

// One file with everything in it: the model opens, and the rest is named, whatever
// the model's names begin with.
func TestEverythingInOneFile(t *testing.T) {
	const wan, t5 = "wan2.1-t2v-1.3b", "umt5-xxl"
	config, err := models.PresetConfig(wan)
	if err != nil {
		t.Fatal(err)
	}
	encoder := parameters(t, t5, "text_encoders.umt5xxl.transformer.")
	others := slices.Concat(encoder, small(dtype.BF16, "vae.conv1.bias", "vae.decoder.head.0.gamma", "first_stage_model.x", "cond_stage_model.y", "text_encoder_2.z",
		"model_ema.decay", "vocoder.a", "audio_vae.b", "image_encoder.c", "optimizer.state.0.exp_avg"),
		[]checkpoint.Entry{{Name: "text_encoders.umt5xxl.spiece_model", DType: dtype.U8, Shape: []int{1000}}, {Name: "scaled_fp8", DType: dtype.F8E4M3, Shape: []int{0}}})
	for _, prefix := range []string{"", "model.diffusion_model.", "diffusion_model.", "transformer.", "model.", "dit.", "pipe.dit.", "net.", "module.", "student.", "state_dict.", "generator.model.",
		"module._orig_mod.", "model._fsdp_wrapped_module.", "model_ema.", "net_ema."} {
		for _, c := range []string{"", string(config)} {
			if c != "" && prefix != "" && prefix != "model.diffusion_model." && prefix != "transformer." {
				continue // as without
			}
			m, err := weft.Open(sparse(t, c, append(parameters(t, wan, prefix), others...)...))
			if err != nil {
				t.Errorf("%q, config %v: %v", prefix, c != "", err)
				continue
			}
			notices := strings.Join(m.Notices, "\n")
			for _, s := range []string{"244 tensors of a text encoder (cond_stage_model.*, text_encoder*)", "3 tensors of an autoencoder (first_stage_model.*, vae.*)", "spiece_model is a tokenizer", "of a vocoder", "optimizer"} {
				if !strings.Contains(notices, s) {
					t.Errorf("%q: %q is not in\n%s", prefix, s, notices)
				}
			}
			if m.Name() != wan || prefix != "" && !strings.Contains(notices, strings.Split(prefix, ".")[0]) {
				t.Errorf("%q: %s\n%s", prefix, m.Name(), notices)
			}
			if got := m.Stored("head.head.bias"); m.Checkpoint.Prefix() == "" && !strings.Contains(prefix, "_") && got != prefix+"head.head.bias" {
				t.Errorf("%q: head.head.bias is stored as %s", prefix, got)
			}
			m.Close()
		}
	}
	// The same file with another model's config opens as that.
	config, err = models.PresetConfig(t5)
	if err != nil {
		t.Fatal(err)
	}
	m, err := weft.Open(sparse(t, string(config), append(parameters(t, wan, "model.diffusion_model."), others...)...))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if notices := strings.Join(m.Notices, "\n"); m.Name() != t5 || !strings.Contains(notices, "825 tensors of another diffusion model") {
		t.Error(m.Name(), notices)
	}
}

// Both a model and an average of it: the model is taken, and the other is named.
func TestModelBesideItsAverage(t *testing.T) {
	for _, pair := range [][2]string{{"net.", "net_ema."}, {"generator.", "generator_ema."}, {"model.", "ema."}} {
		m, err := weft.Open(sparse(t, "", append(parameters(t, "wan2.1-t2v-1.3b", pair[0]), parameters(t, "wan2.1-t2v-1.3b", pair[1])...)...))
		if err != nil {
			t.Errorf("%v: %v", pair, err)
			continue
		}
		notices := strings.Join(m.Notices, "\n")
		if !strings.Contains(notices, `prefix "`+pair[0]+`" stripped`) || !strings.Contains(notices, "825 tensors of an EMA copy ("+pair[1]+"*)") {
			t.Errorf("%v:\n%s", pair, notices)
		}
		m.Close()
	}
}

// What changes a model's result is never passed over.
func TestNotPassedOver(t *testing.T) {
	for _, test := range []struct {
		name string
		more []checkpoint.Entry
		kind error
		says string
	}{
		{"an adapter", small(dtype.BF16, "blocks.0.self_attn.q.lora_A.weight", "blocks.0.self_attn.q.lora_B.weight"), checkpoint.ErrAdapter, "LoRA"},
		{"a difference", small(dtype.BF16, "blocks.0.self_attn.q.diff"), checkpoint.ErrAdapter, "LoRA"},
		{"nf4", small(dtype.U8, "blocks.0.self_attn.q.weight.quant_state.bitsandbytes__nf4", "blocks.0.self_attn.q.weight.absmax"), checkpoint.ErrQuantized, "nf4"},
		{"gptq", small(dtype.I32, "blocks.0.self_attn.q.qweight", "blocks.0.self_attn.q.qzeros"), checkpoint.ErrQuantized, "GPTQ"},
		{"nvfp4", small(dtype.F32, "blocks.0.self_attn.q.weight_scale_2"), checkpoint.ErrQuantized, "nvfp4"},
		{"8 bits", small(dtype.F32, "blocks.0.self_attn.q.SCB"), checkpoint.ErrQuantized, "8-bit"},
		{"a scale a block", small(dtype.F32, "blocks.0.self_attn.q.weight_scale_inv"), checkpoint.ErrQuantized, "scale a block"},
		{"an unknown tensor", small(dtype.F32, "blocks.0.extra.weight"), models.ErrConfig, "blocks.0.extra.weight"},
		{"an unknown tensor beside the prefix", small(dtype.F32, "something.else"), nil, "something.else"},
	} {
		prefix := ""
		if test.kind == nil {
			prefix, test.kind = "model.diffusion_model.", checkpoint.ErrMixedPrefix
		}
		_, err := weft.Open(sparse(t, "", append(parameters(t, "wan2.1-t2v-1.3b", prefix), test.more...)...))
		if !errors.Is(err, test.kind) || !strings.Contains(fmt.Sprint(err), test.says) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	// In another model of the same file it does not matter.
	m, err := weft.Open(sparse(t, "", append(parameters(t, "wan2.1-t2v-1.3b", "model.diffusion_model."), small(dtype.U8, "text_encoders.umt5xxl.x.quant_state.bitsandbytes__nf4")...)...))
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
}

// The table of what stands beside a model has no name that a model has itself.
func TestBystandersAreNoParameters(t *testing.T) {
	for _, preset := range models.Presets() {
		m, err := models.ByName(preset)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Params(0) {
			if kind, known := bystander.Find(m.Ignore(), p.Name); known {
				t.Errorf("%s: %s is taken for %s", preset, p.Name, kind)
			}
		}
	}
}

// Where several models known by name have the same tensors, the others are named.
func TestAlikeModelsAreNamed(t *testing.T) {
	m, err := weft.Open(sparse(t, "", parameters(t, "wan2.2-t2v-a14b", "")...))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	notices := strings.Join(m.Notices, "\n")
	for _, name := range []string{"wan2.1-t2v-14b", "wan2.2-t2v-a14b"} {
		if !strings.Contains(notices, name) {
			t.Errorf("%s is not in\n%s", name, notices)
		}
	}
	if _, known := fault.Fields[checkpoint.Tensors](err); known {
		t.Error(err)
	}
}

// What releases are known to carry beside their model's tensors is passed over.
func TestReleasedExtras(t *testing.T) {
	for _, test := range []struct {
		preset, prefix string
		extras         []string
	}{
		{"cosmos2.5-2b", "net.", []string{"net.pos_embedder.seq", "net.pos_embedder.dim_spatial_range", "net.pos_embedder.dim_temporal_range", "net.accum_iteration",
			"net.accum_image_sample_counter", "net.accum_video_sample_counter", "net.accum_train_in_hours", "net.blocks.0.self_attn.attn_op._extra_state",
			"net_ema.t_embedding_norm.weight", "net_teacher.t_embedding_norm.weight", "logvar.0.freqs", "logvar.0.phases", "logvar.1.weight", "optimizer.step"}},
		{"ltx-video-2b", "model.diffusion_model.", []string{"vae.encoder.conv_in.conv.weight", "vae.per_channel_statistics.mean-of-means", "vae.decoder.timestep_scale_multiplier"}},
		{"t5-v1.1-xxl", "", []string{"decoder.block.0.layer.0.SelfAttention.q.weight", "lm_head.weight"}},
		{"hunyuan-llama3-8b", "language_model.model.", []string{"language_model.lm_head.weight", "vision_tower.vision_model.post_layernorm.bias", "multi_modal_projector.linear_1.weight"}},
		{"hunyuan-clip-l-text", "", []string{"text_model.embeddings.position_ids", "logit_scale", "text_projection.weight", "vision_model.pre_layrnorm.bias", "visual_projection.weight"}},
		{"wan2.1-clip-vit-h14", "", []string{"log_scale", "textual.token_embedding.weight", "visual.post_norm.weight", "visual.head.0.weight"}},
		{"reason1-7b", "", []string{"lm_head.weight", "visual.patch_embed.proj.weight"}},
		{"hunyuan1.5-qwen-text", "", []string{"lm_head.weight", "visual.patch_embed.proj.weight"}},
		{"hunyuanvideo", "model.", []string{"vae.x", "text_encoders.llama.transformer.model.norm.weight", "text_encoders.clip_l.transformer.text_model.x", "clip_vision.y"}},
		{"cogvideox-5b", "transformer.", []string{"vae.encoder.conv_in.conv.weight", "text_encoder.shared.weight"}},
		{"wan2.2-ti2v-5b", "module.", []string{"n_averaged", "ema.head.head.bias", "step"}},
		{"wan2.1-flf2v-14b", "", []string{"model_type.Wan2_1-FLF2V-14B-720P"}},
		{"wan2.1-vace-1.3b", "model.diffusion_model.", []string{"vae.conv1.weight", "text_encoders.umt5xxl.transformer.shared.weight"}},
		{"wan2.1-vace-14b", "", nil}, // as ComfyUI's repack has it
	} {
		list := append(parameters(t, test.preset, test.prefix), small(dtype.F32, test.extras...)...)
		m, err := weft.Open(sparse(t, "", list...))
		if err != nil {
			t.Errorf("%s: %v", test.preset, err)
			continue
		}
		passed := 0
		for _, n := range m.Notices {
			if strings.Contains(n, "passed over") {
				count := 0
				if _, err := fmt.Sscanf(n, "%d tensor", &count); err != nil {
					t.Errorf("%s: %s", test.preset, n)
				}
				passed += count
			}
		}
		alike := m.Name() == test.preset || strings.Contains(strings.Join(m.Notices, "\n"), "those of "+test.preset+":")
		if !alike || passed != len(test.extras) {
			t.Errorf("%s as %s, %d of %d passed over:\n%s", test.preset, m.Name(), passed, len(test.extras), strings.Join(m.Notices, "\n"))
		}
		m.Close()
	}
}

// Where the tensors are nearly those of another model than the config's, both are said:
// what is wrong with the config's, first, and which other it nearly is.
func TestNearestModelBesideAnothersConfig(t *testing.T) {
	config, err := models.PresetConfig("wan2.1-t2v-1.3b")
	if err != nil {
		t.Fatal(err)
	}
	list := parameters(t, "umt5-xxl", "")
	_, err = weft.Open(sparse(t, string(config), list[:len(list)-1]...))
	if !errors.Is(err, checkpoint.ErrMissingTensors) || !errors.Is(err, models.ErrConfig) {
		t.Fatal(err)
	}
	if f, ok := fault.Fields[identify.Unidentified](err); !ok || f.Nearest != "umt5-xxl" || f.Have != len(list)-1 || f.Want != len(list) {
		t.Errorf("%+v", f)
	}
	if first := fault.Violations(err)[0]; !errors.Is(first, checkpoint.ErrMissingTensors) || !strings.Contains(first.Error(), "missing of 825 needed by wan2.1-t2v-1.3b") {
		t.Errorf("first: %v", first)
	}
	// Its own model's faults stand alone.
	list = parameters(t, "wan2.1-t2v-1.3b", "")
	if _, err = weft.Open(sparse(t, string(config), list[1:]...)); len(fault.Violations(err)) != 1 {
		t.Error(err)
	}
}

package weft_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/identify"
	"weft/internal/modeltest"
	"weft/pipeline"
	"weft/tensor"
)

// publishLTX25 writes the small LTX-2.5 as its publisher's folder has it: the connector in the
// transformer's file, the projection and the tokenizer in the text encoder's, configurations in the
// files' metadata.
func publishLTX25(t *testing.T, dir string) {
	t.Helper()
	from := pipelinesDir + "ltx25_t2v/"
	config := `{"transformer": {"_class_name": "AVTransformer3DModel", "apply_gated_attention": true, "attention_head_dim": 8, "caption_proj_before_connector": true,
		"causal_temporal_positioning": true, "connector_apply_gated_attention": true, "connector_attention_head_dim": 8, "connector_ff_bias": true,
		"connector_num_attention_heads": 4, "connector_num_layers": 2, "connector_num_learnable_registers": 8, "connector_positional_embedding_max_pos": [4096],
		"cross_attention_adaln": true, "cross_attention_dim": 32, "ff_bias": false, "frequencies_precision": "float64", "in_channels": 8, "norm_eps": 1e-06,
		"num_attention_heads": 4, "num_layers": 2, "out_channels": 8, "positional_embedding_max_pos": [20, 2048, 2048], "positional_embedding_theta": 10000.0,
		"rope_type": "split", "timestep_scale_multiplier": 1000, "use_keyframes_abs_pos_embedding": true, "use_middle_indices_grid": true}}`
	transformer := map[string]*tensor.Tensor{}
	maps.Copy(transformer, published(t, from+"transformer", "", "model.diffusion_model."))
	maps.Copy(transformer, published(t, from+"connectors", "ltx2.5-connector", "model.diffusion_model."))
	text := map[string]*tensor.Tensor{}
	for name, x := range modeltest.Tensors(t, from+"text_encoder/model.safetensors") {
		text[strings.Replace(name, "model.language_model.", "model.", 1)] = x
	}
	maps.Copy(text, published(t, from+"connectors", "ltx2.5-text-projection", "text_embedding_projection."))
	words, err := os.ReadFile(from + "tokenizer/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	text["tokenizer_json"] = &tensor.Tensor{DType: dtype.U8, Shape: []int{len(words)}, Data: words}
	gemma, err := os.ReadFile(from + "text_encoder/config.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name string
		ts   map[string]*tensor.Tensor
		meta map[string]string
	}{
		{"diffusion_models/ltx-2.5-22b-dev-transformer-bf16.safetensors", transformer, map[string]string{"config": config}},
		{"text_encoders/gemma4-12b-with-proj-ltx-2.5-bf16.safetensors", text, map[string]string{"gemma_config": string(gemma)}},
	} {
		path := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.Write(path, f.ts, f.meta, checkpoint.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// published are the tensors of a model under its publisher's names: those of a preset's model alone,
// "" for all.
func published(t *testing.T, dir, preset, prefix string) map[string]*tensor.Tensor {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var m *identify.Match
	if preset == "" {
		m, err = identify.Identify(c, "")
	} else {
		m, err = identify.IdentifyPart(c, preset)
	}
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, p := range m.Params(0) {
		own[p.Name] = true
	}
	out := map[string]*tensor.Tensor{}
	for name, x := range modeltest.Tensors(t, filepath.Join(dir, "diffusion_pytorch_model.safetensors")) {
		if official := m.Official(name); own[official] {
			out[prefix+official] = x
		}
	}
	return out
}

// The publisher's folder of LTX-2.5 gives the video that diffusers' gives: its text goes through the
// projection and the connector that lie in the files of other parts, and its tokenizer is a tensor.
func TestLTX25PublishersFolder(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	publishLTX25(t, dir)
	p, err := openPublished(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := p.Settings.Release.Name; got != "ltx2.5-22b-dev" {
		t.Errorf("release %s", got)
	}
	r := familyReleases[slices.IndexFunc(familyReleases, func(r familyRelease) bool { return r.name == "ltx25_t2v" })]
	o := r.options(t, "reference", "tp=1", out)
	if _, err := p.Generate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := modeltest.Tensors(t, pipelinesDir+r.name+"/values.safetensors")
	modeltest.Close(t, "frames", modeltest.Tensors(t, out+"/f")["frames"], want["frames"], r.tolerance)
}

// Without its projection the text encoder's file is refused, by the name of what is missing.
func TestLTX25WithoutItsProjection(t *testing.T) {
	dir := t.TempDir()
	publishLTX25(t, dir)
	path := filepath.Join(dir, "text_encoders/gemma4-12b-with-proj-ltx-2.5-bf16.safetensors")
	ts := modeltest.Tensors(t, path)
	maps.DeleteFunc(ts, func(name string, _ *tensor.Tensor) bool { return strings.HasPrefix(name, "text_embedding_projection.") })
	gemma, err := os.ReadFile(pipelinesDir + "ltx25_t2v/text_encoder/config.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(path, ts, map[string]string{"gemma_config": string(gemma)}, checkpoint.WriteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	p, err := openPublished(dir)
	if err == nil {
		p.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "ltx2.5-text-projection, which the text goes through") || !strings.Contains(err.Error(), "video_aggregate_embed") {
		t.Errorf("%v", err)
	}
}

// openPublished opens the folder, with an autoencoder in diffusers' layout.
func openPublished(dir string) (*weft.Pipeline, error) {
	return weft.OpenPipeline(dir, pipeline.OpenOptions{Files: pipeline.Files{VAE: pipelinesDir + "ltx25_t2v/vae"}})
}

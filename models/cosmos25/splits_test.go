package cosmos25_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/sharding"
	"weft/tensor"
)

// A config of six heads: tp=3 divides neither the LoRA's width, the text's, nor
// what is projected from it.
const odd = `{"_class_name":"MinimalV1LVGDiT","model_channels":96,"num_heads":6,"num_blocks":2,"mlp_ratio":1.5,"in_channels":5,"out_channels":5,
	"adaln_lora_dim":10,"crossattn_proj_in_channels":28,"crossattn_emb_channels":20,"rope_t_extrapolation_ratio":2.0,"timestep_scale":0.01}`

// Batch 2, tokens that do not divide, a timestep for each frame with frames that
// do not divide over sp: every split gives the one-device answer.
func TestSplits(t *testing.T) {
	dir, latent := modeltest.MadeUp(t, odd), []int{5, 3, 2, 10}
	meshes := modeltest.Splits(t, dir, weft.VerifyOptions{Latent: latent})
	for _, on := range []string{"dp=1,tp=1,sp=2", "dp=1,tp=3,sp=2", "dp=1,tp=1,sp=6", "dp=1,tp=6,sp=1", "dp=2,tp=3,sp=1"} {
		if !slices.Contains(meshes, on) {
			t.Errorf("%s is not among %s", on, meshes)
		}
	}
	for _, o := range []weft.Options{{Request: request.Must("--split-residual")}, {Request: request.Must("--dtype bf16")}} {
		modeltest.Splits(t, dir, weft.VerifyOptions{Options: o, Latent: latent, Meshes: request.MustMeshes("tp=3,sp=2", "dp=2,sp=3", "tp=6")})
	}
	eight := modeltest.MadeUp(t, strings.Replace(odd, `"num_heads":6`, `"num_heads":8`, 1))
	modeltest.Splits(t, eight, weft.VerifyOptions{Latent: latent, Meshes: request.MustMeshes("tp=2,sp=4", "sp=8", "tp=8")})
}

// What a width does not allow is said, not done in silence.
func TestWholeIsNoted(t *testing.T) {
	m := modeltest.Open(t, modeltest.MadeUp(t, odd))
	r := models.Request{Batch: 1, Latent: []int{5, 1, 2, 2}, Text: 3, DType: dtype.F32}
	for text, want := range map[string]int{"tp=2": 0, "tp=3": 1} {
		on, err := weft.ParseMesh(text)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Graph(on, r)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, note := range g.Notes {
			if strings.Contains(note, "crossattn_proj.0.weight") && strings.Contains(note, "28") {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d notes on the text's projection in %q, want %d", text, n, g.Notes, want)
		}
	}
}

// B = 1, S = 36 tokens, D = 128, 4 heads, 512 text rows of C = 48; one timestep.
func TestCollectivesOfALayer(t *testing.T) {
	m := modeltest.Config(t, dir)
	r := models.Request{Batch: 1, Latent: []int{16, 3, 6, 8}, Text: 9, DType: dtype.F32}
	modeltest.Moves(t, m, r, []modeltest.Move{
		{Program: "block", Want: ""},
		// Three row-parallel sums of S D; three modulations of 3D gathered together from 3 * 3D/2.
		{On: "tp=2", Program: "block", Want: "all-gather tp 1 576; all-reduce tp 3 13824"},
		{On: "tp=4", Program: "block", Want: "all-gather tp 1 288; all-reduce tp 3 13824"},
		// q, k, v and the result, S D/2 each; the text's keys are everywhere.
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 9216"},
		{On: "tp=2,sp=2", Program: "block", Want: "all-gather tp 1 576; all-reduce tp 3 6912; all-to-all sp 4 4608"},
		// The stream split: S D/2 gathered before each of three matmuls.
		{On: "tp=2", Split: true, Program: "block", Want: "all-gather tp 4 7488; reduce-scatter tp 3 13824"},
		// Norms of heads are local.
		{On: "tp=2", Program: "text_kv", Want: ""},
		// The text's projection sums over tp: 512 C; the time path: 3D.
		{On: "tp=2", Program: "text", Want: "all-reduce tp 1 24576"},
		{On: "sp=2", Program: "text", Want: ""},
		{On: "tp=2", Program: "time", Want: "all-reduce tp 1 384"},
		// One modulation of 2D, from 2D/2.
		{On: "tp=2", Program: "post", Want: "all-gather tp 1 128"},
	})
	r.TokenTimes = true // of three frames
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "tp=2", Program: "block", Want: "all-gather tp 1 1728; all-reduce tp 3 13824"},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 9216"},
		{On: "sp=4", Program: "block", Want: "all-to-all sp 4 4608"}, // 3 frames over 4 devices
	})
	r.DType, r.TokenTimes = dtype.BF16, false
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "tp=2", Program: "block", Want: "all-gather tp 1 576; all-reduce tp 3 13824 bf16"},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 9216 bf16"},
	})
}

// README.md states these.
func TestBytesSavedBesideThePeer(t *testing.T) {
	for name, want := range map[string]string{"cosmos2.5-2b": "0.379", "cosmos2.5-14b": "0.952"} {
		if got := fmt.Sprintf("%.3f", float64(modeltest.Saved(t, name, 4))/1e9); got != want {
			t.Errorf("%s at tp=4: %s GB, README.md says %s", name, got, want)
		}
	}
}

// bf16 is near f32: a matmul's result is rounded to 2^-9 of itself, a few of
// them one after another in each of two layers.
func TestBF16(t *testing.T) {
	near := frames
	near.Tolerance, near.Options = 0.15, weft.Options{Request: request.Must("--dtype bf16")} // of values up to 5
	for _, on := range []string{"", "tp=2,sp=2"} {
		near.On(t, "reference", on)
	}
	if !slices.Contains(modeltest.Devices(), "cpu") {
		return
	}
	near.On(t, "cpu", "tp=2,sp=2")
}

func TestSplitsRefused(t *testing.T) {
	m := modeltest.Config(t, dir)
	r := models.Request{Batch: 3, Latent: []int{16, 3, 6, 8}, Text: 9, DType: dtype.F32}
	for _, c := range []struct {
		on   string
		edit func(*models.Request)
		kind error
		says string
	}{
		{"tp=3", nil, sharding.ErrHeadsNotDivisible, "1 2 4"},
		{"tp=2,sp=4", nil, sharding.ErrHeadsNotDivisible, "1 2"},
		{"dp=2", nil, models.ErrBatch, "batch 3"},
		{"pp=3", nil, nil, ""},
		{"", func(r *models.Request) { r.Latent = []int{16, 3, 7, 8} }, models.ErrSize, "6 or 8"},
		{"", func(r *models.Request) { r.Latent = []int{15, 3, 6, 8} }, models.ErrInputs, "16"},
		{"", func(r *models.Request) { r.Text = 513 }, models.ErrInputs, "at most 512"},
		{"sp=4", func(r *models.Request) { r.Latent, r.Strict = []int{16, 3, 6, 6}, true }, models.ErrSeq, "padding by 1"},
	} {
		on, err := weft.ParseMesh(c.on)
		if err != nil {
			t.Fatal(err)
		}
		r := r
		if c.edit != nil {
			c.edit(&r)
		}
		err = m.Check(on, r)
		if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.on, err, c.kind, c.says)
		}
		if _, err := m.Graph(on, r); err == nil {
			t.Errorf("%s: a graph all the same", c.on)
		}
	}
}

func TestInputsRefused(t *testing.T) {
	m := modeltest.Config(t, dir)
	for name, edit := range map[string]func(map[string]*tensor.Tensor){
		`"x" is missing`:     drop("x"),
		`"t" is missing`:     drop("t", "t_frames"),
		"context of 600":     func(in map[string]*tensor.Tensor) { in["context"] = tensor.New(dtype.F32, 1, 600, 56) },
		"rows of 57":         func(in map[string]*tensor.Tensor) { in["context"] = tensor.New(dtype.F32, 1, 9, 57) },
		"x has 3 frames":     func(in map[string]*tensor.Tensor) { in["t_frames"] = tensor.New(dtype.F32, 1, 4) },
		"want [1 1 3 6 8]":   func(in map[string]*tensor.Tensor) { in["condition_mask"] = tensor.New(dtype.F32, 1, 1, 3, 6, 9) },
		"want 5 dims":        func(in map[string]*tensor.Tensor) { in["padding_mask"] = tensor.New(dtype.F32, 1, 1, 6, 8) },
		"a floating-point":   func(in map[string]*tensor.Tensor) { in["x"] = tensor.New(dtype.I32, 1, 16, 3, 6, 8) },
		"want one number":    func(in map[string]*tensor.Tensor) { in["context"] = tensor.New(dtype.F32, 2, 9, 56) },
		"context of 0 rows":  func(in map[string]*tensor.Tensor) { in["context"] = tensor.New(dtype.F32, 1, 0, 56) },
		"nearest: 6 or 8":    func(in map[string]*tensor.Tensor) { in["x"] = tensor.New(dtype.F32, 1, 16, 3, 7, 8) },
		"latents of 4 chann": func(in map[string]*tensor.Tensor) { in["x"] = tensor.New(dtype.F32, 1, 4, 3, 6, 8) },
	} {
		in := modeltest.Tensors(t, dir+"/inputs.safetensors")
		edit(in)
		if _, err := m.Request(in); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

func TestConfigsRefused(t *testing.T) {
	base := `{"_class_name":"MinimalV1LVGDiT","model_channels":96,"num_heads":4,"num_blocks":2`
	diffusers := `{"_class_name":"CosmosTransformer3DModel","num_attention_heads":4,"attention_head_dim":32`
	for config, want := range map[string]*fault.Kind{
		base + `,"use_crossattn_projection":false}`:   models.ErrVariant,
		base + `,"use_adaln_lora":false}`:             models.ErrVariant,
		base + `,"extra_per_block_abs_pos_emb":true}`: models.ErrVariant,
		base + `,"num_heads":5}`:                      models.ErrConfig,
		base + `,"model_channels":32}`:                models.ErrConfig, // heads of 8
		base + `,"mlp_ratio":-1}`:                     models.ErrConfig,
		base + `,"num_blocks":0}`:                     models.ErrConfig,
		base + `,"model_channels":"x"}`:               models.ErrConfig,
		diffusers + `}`:                               models.ErrVariant,
		diffusers + `,"extra_pos_embed_type":null}`:   models.ErrVariant,
		diffusers + `,"extra_pos_embed_type":null,"use_crossattn_projection":true,"rope_scale":[1]}`:       models.ErrConfig,
		diffusers + `,"extra_pos_embed_type":null,"use_crossattn_projection":true,"img_context_dim_in":9}`: models.ErrVariant,
	} {
		if _, err := models.FromConfig([]byte(config), "config.json"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", config, err, want)
		}
	}
}

// Tensors that are missing, too many, of a wrong shape, of another model or
// variant, and names that lack the prefix of the others, are said in one error
// before any data is read.
func TestTensorsRefused(t *testing.T) {
	config := `{"_class_name":"MinimalV1LVGDiT","model_channels":24,"num_heads":2,"num_blocks":1,"adaln_lora_dim":4,"crossattn_proj_in_channels":8,"crossattn_emb_channels":8}`
	whole := modeltest.Tensors(t, modeltest.MadeUp(t, config)+"/model.safetensors")
	for name, c := range map[string]struct {
		edit func(map[string]*tensor.Tensor)
		kind error
		says []string
	}{
		"missing": {func(ts map[string]*tensor.Tensor) {
			delete(ts, "blocks.0.mlp.layer1.weight")
			delete(ts, "t_embedding_norm.weight")
		}, checkpoint.ErrMissingTensors, []string{"blocks.0.mlp.layer1.weight", "t_embedding_norm.weight"}},
		"too many": {func(ts map[string]*tensor.Tensor) {
			ts["blocks.1.mlp.layer1.weight"] = ts["blocks.0.mlp.layer1.weight"]
		}, nil, []string{"blocks.1.mlp.layer1.weight"}},
		"shape": {func(ts map[string]*tensor.Tensor) {
			ts["x_embedder.proj.1.weight"] = tensor.New(dtype.F32, 24, 68)
		}, nil, []string{"x_embedder.proj.1.weight", "72", "68"}},
		"control": {func(ts map[string]*tensor.Tensor) {
			ts["control_blocks.0.x"] = tensor.New(dtype.F32, 1)
		}, models.ErrVariant, []string{"Transfer2.5"}},
		"prefix": {func(ts map[string]*tensor.Tensor) {
			for n, x := range ts {
				if n != "t_embedding_norm.weight" {
					delete(ts, n)
					ts["net."+n] = x
				}
			}
		}, checkpoint.ErrMixedPrefix, []string{"t_embedding_norm.weight"}},
	} {
		ts := map[string]*tensor.Tensor{}
		for n, x := range whole {
			ts[n] = x
		}
		c.edit(ts)
		m, err := weft.Open(modeltest.Folder(t, config, ts))
		if err == nil {
			m.Close()
			t.Errorf("%s: opened, with notices %q", name, m.Notices)
			continue
		}
		if c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %s", name, err, s)
			}
		}
	}
	if _, err := weft.Open(modeltest.Folder(t, `{"_class_name":"MinimalV1LVGDiT","model_channels":24,"num_heads":2,"num_blocks":1}`,
		modeltest.Tensors(t, "../../testdata/wan21_t2v/model.safetensors"))); err == nil {
		t.Error("Wan's weights opened as Cosmos")
	}
}

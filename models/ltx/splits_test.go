package ltx_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/sharding"
	"weft/tensor"
)

// configs of head counts that the fixtures lack; the widths leave 2 and 4 over 6.
var configs = map[string]string{
	"8 heads": `{"_class_name":"Transformer3DModel","num_attention_heads":8,"attention_head_dim":8,"in_channels":5,"out_channels":5,"num_layers":2,
		"cross_attention_dim":64,"caption_channels":24,"positional_embedding_max_pos":[20,2048,2048]}`,
	"6 heads": `{"_class_name":"Transformer3DModel","num_attention_heads":6,"attention_head_dim":10,"in_channels":5,"out_channels":5,"num_layers":1,
		"cross_attention_dim":60,"caption_channels":24}`,
	"2.5, 8 heads": `{"_class_name":"AVTransformer3DModel","num_attention_heads":8,"attention_head_dim":8,"in_channels":5,"out_channels":5,"num_layers":2,
		"cross_attention_dim":64,"ff_bias":false,"cross_attention_adaln":true,"apply_gated_attention":true,"use_keyframes_abs_pos_embedding":true}`,
	"connector, 8 heads": `{"_class_name":"Embeddings1DConnector","connector_num_attention_heads":8,"connector_attention_head_dim":8,"connector_num_layers":2,
		"connector_num_learnable_registers":5,"connector_apply_gated_attention":true}`,
}

// Batch 2, 45 tokens, text whose last rows are masked: every split gives the
// one-device answer, sp among them, which the peer has not.
func TestSplits(t *testing.T) {
	for name, config := range configs {
		dir := modeltest.MadeUp(t, config)
		both := 0
		for _, on := range modeltest.Splits(t, dir, weft.VerifyOptions{}) {
			if regexp.MustCompile(`tp=[2-8],sp=[2-8]`).MatchString(on) {
				both++
			}
		}
		if both < 2 {
			t.Errorf("%s: %d meshes have tp and sp", name, both)
		}
		some := []string{"dp=2,sp=2", "tp=2"}
		if name != "6 heads" {
			some = append(some, "tp=2,sp=2")
		}
		for _, o := range []weft.Options{{Request: request.Must("--split-residual")}, {Request: request.Must("--dtype bf16")}} {
			modeltest.Splits(t, dir, weft.VerifyOptions{Options: o, Meshes: request.MustMeshes(some...)})
		}
	}
}

func TestPipelineAndFSDP(t *testing.T) {
	for _, c := range []modeltest.Case{oneLevel, tokenLevel} {
		c.On(t, "reference", "pp=2,dp=2")
		c.Options = weft.Options{Request: request.Must("--fsdp sp")}
		c.On(t, "reference", "tp=2,sp=2")
	}
}

func TestBF16(t *testing.T) {
	c := oneLevel
	c.Options, c.Tolerance = weft.Options{Request: request.Must("--dtype bf16")}, 0.1
	c.On(t, "reference", "tp=2")
	c.On(t, "reference", "sp=4")
}

// forward runs the fixture with other inputs.
func forward(t *testing.T, on string, change func(map[string]*tensor.Tensor)) *tensor.Tensor {
	t.Helper()
	in := modeltest.Tensors(t, testdata+"ltx_video/inputs.safetensors")
	change(in)
	return modeltest.Forward(t, modeltest.Open(t, testdata+"ltx_video"), in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})["out"]
}

// Two videos with places of their own give what each gives alone, whether the
// places come over dp or whole.
func TestPlacesOfTheirOwn(t *testing.T) {
	drop := drop("t_tokens")
	other := func(in map[string]*tensor.Tensor) {
		drop(in)
		coords := in["coords"]
		late := modeltest.Tensors(t, testdata+"ltx_video/inputs.safetensors")["coords"].Rows(0, 1)
		fs, err := late.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for i := range fs {
			fs[i] *= 1.5
		}
		moved, err := tensor.FromFloat32s(dtype.F32, fs, late.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		in["coords"] = tensor.Stack([]*tensor.Tensor{coords.Rows(0, 1), moved})
	}
	both := forward(t, "", other)
	for i := range 2 {
		alone := forward(t, "", func(in map[string]*tensor.Tensor) {
			other(in)
			for name, x := range in {
				in[name] = x.Rows(i, i+1)
			}
		})
		modeltest.Close(t, "a video alone", both.Rows(i, i+1), alone, 1e-5)
	}
	modeltest.Close(t, "over dp", forward(t, "dp=2,sp=2", other), both, 1e-5)
	modeltest.Close(t, "over tp", forward(t, "tp=4", other), both, 1e-5)
}

// Rows that the mask lacks weigh nothing: with them cut off the answer is the same.
func TestMaskedTextWeighsNothing(t *testing.T) {
	one := func(rows int) *tensor.Tensor {
		return forward(t, "sp=2", func(in map[string]*tensor.Tensor) {
			drop("t_tokens")(in)
			for name, x := range in {
				in[name] = x.Rows(0, 1)
			}
			in["context"], in["context_mask"] = in["context"].Slice(1, 0, rows), in["context_mask"].Slice(1, 0, rows)
		})
	}
	valid := 0
	mask, err := modeltest.Tensors(t, testdata+"ltx_video/inputs.safetensors")["context_mask"].Rows(0, 1).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range mask {
		valid += int(v)
	}
	if valid == len(mask) || valid < 1 {
		t.Fatalf("the fixture's first mask is %v", mask)
	}
	modeltest.Close(t, "text cut off", one(valid), one(len(mask)), 1e-5)
}

// The weights under diffusers' names and in its config are the same model, and
// so are they alone with the config in their metadata.
func TestOtherPublishers(t *testing.T) {
	names := modeltest.Names(t, testdata+"oracle/mappings/ltx-video-2b.json", prefix)
	ts := map[string]*tensor.Tensor{}
	for name, x := range modeltest.Tensors(t, testdata+"ltx_video/model.safetensors") {
		if other := names[strings.TrimPrefix(name, prefix)]; other != "" {
			ts[other] = x
		}
	}
	in := modeltest.Tensors(t, testdata+"ltx_video/inputs.safetensors")
	drop("t_tokens")(in)
	want := modeltest.Tensors(t, testdata+"ltx_video/expected.safetensors")["out_diffusers"]
	m := modeltest.Open(t, modeltest.Folder(t, `{"_class_name":"LTXVideoTransformer3DModel","num_attention_heads":4,"attention_head_dim":16,"in_channels":32,
		"out_channels":32,"patch_size":1,"patch_size_t":1,"cross_attention_dim":64,"num_layers":2,"activation_fn":"gelu-approximate","qk_norm":"rms_norm_across_heads",
		"norm_elementwise_affine":false,"norm_eps":1e-06,"caption_channels":40,"attention_bias":true,"attention_out_bias":true}`, ts))
	modeltest.Close(t, "diffusers", modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})["out"], want, 2e-4)

	raw, err := os.ReadFile(testdata + "ltx_video/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ltxv.safetensors")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := modeltest.Open(t, file).Config(), modeltest.Config(t, testdata+"ltx_video").Config(); got != want {
		t.Errorf("the metadata's config is %+v, the file's %+v", got, want)
	}
}

// What is missing, too much or of a wrong shape is said before any weight is read.
func TestRefusedInputs(t *testing.T) {
	put := func(name string, shape ...int) func(map[string]*tensor.Tensor) {
		return func(in map[string]*tensor.Tensor) { in[name] = tensor.New(dtype.F32, shape...) }
	}
	for _, c := range []struct {
		change func(in map[string]*tensor.Tensor)
		want   []string
	}{
		{drop("coords", "t", "t_tokens"), []string{`"coords" is missing`, `"t" is missing`}},
		{put("coords", 2, 3, 35), []string{"coords is [2 3 35]", "[2 3 36]"}},
		{put("t_tokens", 2, 35), []string{"t_tokens is [2 35]", "[2 36]"}},
		{put("x", 2, 36, 31), []string{"x is [2 36 31]", "32"}},
		{put("context", 2, 9, 41), []string{"context is [2 9 41]", "40"}},
		{put("context_mask", 2, 8), []string{"context_mask is [2 8]", "[2 9]"}},
		{put("sigma", 2), []string{`"sigma" is given`}},
	} {
		in := modeltest.Tensors(t, testdata+"ltx_video/inputs.safetensors")
		c.change(in)
		_, err := modeltest.Open(t, testdata+"ltx_video").Start(context.Background(), in, weft.Options{Device: "reference"})
		if !errors.Is(err, models.ErrInputs) {
			t.Errorf("want %v, got %v", c.want, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: says nothing of %s", err, w)
			}
		}
	}
	rows := map[string]*tensor.Tensor{"context": tensor.New(dtype.F32, 2, 10, 64)}
	_, err := modeltest.Open(t, testdata+"ltx25_connector").Start(context.Background(), rows, weft.Options{Device: "reference"})
	if !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "8 or 12") { // ten rows, four registers
		t.Errorf("registers that do not fill: %v", err)
	}
	m, err := models.ByName("ltx-video-2b")
	if err != nil {
		t.Fatal(err)
	}
	on, err := weft.ParseMesh("dp=2,tp=5,sp=3")
	if err != nil {
		t.Fatal(err)
	}
	err = m.Check(on, models.Request{Batch: 3, Latent: []int{127, 16, 22, 38}, DType: dtype.I32})
	for _, kind := range []error{sharding.ErrHeadsNotDivisible, models.ErrBatch, models.ErrInputs} {
		if !errors.Is(err, kind) {
			t.Errorf("%v: nothing of %v", err, kind)
		}
	}
	for _, c := range []struct{ width, height, frames int }{{1216, 704, 120}, {1200, 704, 121}} {
		if got, err := m.Features().Generator.LatentShape(c.width, c.height, c.frames); !errors.Is(err, models.ErrSize) {
			t.Errorf("%v: %v %v", c, got, err)
		}
	}
	if got, err := m.Features().Generator.LatentShape(1216, 704, 121); err != nil || !slices.Equal(got, []int{128, 16, 22, 38}) {
		t.Errorf("1216x704, 121 frames: %v %v", got, err)
	}
}

func TestRefusedModels(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		kind   error
		want   []string
	}{
		"another norm":    {`{"_class_name":"Transformer3DModel","num_attention_heads":4,"attention_head_dim":8,"num_layers":1,"cross_attention_dim":32,"caption_channels":4,"qk_norm":"layer_norm","activation_fn":"geglu"}`, models.ErrVariant, []string{`qk_norm is "layer_norm"`, `activation_fn is "geglu"`}},
		"another width":   {`{"_class_name":"Transformer3DModel","num_attention_heads":4,"attention_head_dim":8,"num_layers":1,"cross_attention_dim":48,"caption_channels":4}`, models.ErrConfig, []string{"cross_attention_dim 48", "num_attention_heads x attention_head_dim 32"}},
		"nothing":         {`{"_class_name":"Transformer3DModel"}`, models.ErrConfig, []string{"num_attention_heads is missing", "num_layers is missing", "caption_channels is missing"}},
		"half a position": {`{"transformer":{"_class_name":"Transformer3DModel","num_attention_heads":4,"attention_head_dim":7,"num_layers":1,"cross_attention_dim":28,"caption_channels":4}}`, models.ErrConfig, []string{"attention_head_dim is 7"}},
	} {
		_, err := models.FromConfig([]byte(c.config), "config.json")
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v says nothing of %s", name, err, w)
			}
		}
	}
	weights := modeltest.Tensors(t, testdata+"ltx_video/model.safetensors")
	config := `{"transformer":{"_class_name":"Transformer3DModel","num_attention_heads":4,"attention_head_dim":16,"in_channels":32,"out_channels":32,"num_layers":2,"cross_attention_dim":64,"caption_channels":40}}`
	for name, c := range map[string]struct {
		change func(map[string]*tensor.Tensor)
		want   string
	}{
		"gates": {func(ts map[string]*tensor.Tensor) {
			ts[prefix+"transformer_blocks.0.attn1.to_gate_logits.weight"] = tensor.New(dtype.F32, 4, 64)
		}, "LTX-2.5"},
		"audio": {func(ts map[string]*tensor.Tensor) {
			ts[prefix+"audio_patchify_proj.weight"] = tensor.New(dtype.F32, 64, 8)
		}, "LTX-2 (audio"},
		"mixed prefix": {func(ts map[string]*tensor.Tensor) {
			ts["proj_out.weight"] = ts[prefix+"proj_out.weight"]
			delete(ts, prefix+"proj_out.weight")
		}, "prefix"},
		"missing": {func(ts map[string]*tensor.Tensor) { delete(ts, prefix+"proj_out.weight") }, "proj_out.weight"},
	} {
		ts := maps.Clone(weights)
		c.change(ts)
		m, err := weft.Open(modeltest.Folder(t, config, ts))
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// LTX-2.5 is denoised by Euler's method, its noise level handed to the text too.
func TestSampleSecond(t *testing.T) {
	m := modeltest.Open(t, testdata+"ltx25")
	text := modeltest.Tensors(t, testdata+"ltx25/inputs.safetensors")["context"].Rows(0, 1)
	run := func(on string) *tensor.Tensor {
		out, err := m.Sample(context.Background(), text, nil, weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 96x64 --frames 9 --steps 2 --seed 1 " + "--mesh=" + on)}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Latents
	}
	modeltest.Close(t, "latents", run("tp=2,sp=2"), run(""), 1e-4)
}

// Denoising gives the same latents on a split as on one device, and at another
// frame rate others.
func TestSample(t *testing.T) {
	m := modeltest.Open(t, testdata+"ltx_video")
	text := modeltest.Tensors(t, testdata+"ltx_video/inputs.safetensors")["context"]
	run := func(on string, fps float64) *tensor.Tensor {
		// Of texts of different lengths the shorter is padded and its padding masked.
		out, err := m.Sample(context.Background(), text.Rows(0, 1), text.Rows(1, 2).Slice(1, 0, 4), weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 96x64 --frames 17 --steps 3 --seed 1 " + "--mesh=" + on + " --fps=" + fmt.Sprint(fps))}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Latents
	}
	one := run("", 0)
	if want := []int{1, 32, 3, 2, 3}; !slices.Equal(one.Shape, want) {
		t.Errorf("latents are %v, want %v", one.Shape, want)
	}
	modeltest.Close(t, "latents", run("dp=2,tp=2,sp=2", 25), one, 1e-4)
	a, err := one.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	b, err := run("", 50).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := weft.Difference(a, b); !(d > 1e-3) {
		t.Errorf("twice the frame rate moves the latents by %g", d)
	}
}

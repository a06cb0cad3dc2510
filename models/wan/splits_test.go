package wan_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

func inputs(t *testing.T, dir string) map[string]*tensor.Tensor {
	t.Helper()
	return modeltest.Tensors(t, dir+"/inputs.safetensors")
}

// Head counts that the fixtures lack, batch 2, grids whose tokens do not divide:
// every split gives the one-device answer, tp with sp among them, which the peer
// refuses for i2v. The image features are 20 wide: tp need not divide that.
func TestWanVariantsSplit(t *testing.T) {
	const rest = `"dim":64,"ffn_dim":96,"num_heads":8,"num_layers":2,"freq_dim":32,"text_dim":24,"text_len":16,"patch_size":[1,2,2]`
	for kind, config := range map[string]string{
		"i2v":      `{"model_type":"i2v","in_dim":13,"out_dim":4,"image_dim":20,` + rest + `}`,
		"i2v a14b": `{"model_type":"i2v","in_dim":13,"out_dim":4,` + rest + `}`,
		"ti2v":     `{"model_type":"ti2v","in_dim":6,"out_dim":6,` + rest + `}`,
	} {
		dir := modeltest.MadeUp(t, config)
		for _, o := range []weft.Options{{}, {Request: request.Must("--split-residual")}, {Request: request.Must("--dtype bf16")}} {
			both := 0
			meshes := modeltest.Splits(t, dir, weft.VerifyOptions{Options: o})
			for _, on := range meshes {
				if regexp.MustCompile(`tp=[248],sp=[248]`).MatchString(on) {
					both++
				}
			}
			t.Logf("%s %v %v: %d meshes, %d with tp and sp", kind, o.SplitResidual, o.DType, len(meshes), both)
			if both < 3 {
				t.Errorf("%s: only %d meshes have tp and sp", kind, both)
			}
		}
	}
}

// Stages of a pipeline pass the image's embedding and each token's modulation on.
func TestWanVariantsInAPipeline(t *testing.T) {
	for _, c := range []modeltest.Case{i2v, ti2v, oneTime} {
		c.On(t, "reference", "pp=2")
	}
	shared := i2v
	shared.Options = weft.Options{Request: request.Must("--fsdp sp")}
	shared.On(t, "reference", "sp=3")
}

// The same weights under diffusers' names and in its config are the same model.
func TestWanI2VUnderDiffusersNames(t *testing.T) {
	names := modeltest.Names(t, "../../testdata/oracle/mappings/wan2.1-i2v-14b.json", "")
	ts := map[string]*tensor.Tensor{}
	for name, x := range modeltest.Tensors(t, i2vDir+"/model.safetensors") {
		if names[name] == "" {
			t.Fatalf("the mapping has no %s", name)
		}
		ts[names[name]] = x
	}
	m := modeltest.Open(t, modeltest.Folder(t, `{"_class_name":"WanTransformer3DModel","num_attention_heads":3,"attention_head_dim":32,"in_channels":36,"out_channels":16,
		"text_dim":64,"freq_dim":256,"ffn_dim":192,"num_layers":2,"cross_attn_norm":true,"qk_norm":"rms_norm_across_heads","eps":1e-06,
		"image_dim":48,"added_kv_proj_dim":96,"pos_embed_seq_len":null,"patch_size":[1,2,2]}`, ts))
	in, want := inputs(t, i2vDir), modeltest.Tensors(t, i2vDir+"/expected.safetensors")
	out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=3 --text-len 512")})
	modeltest.Close(t, "out", out["out"], want["out_diffusers"], 1e-4)
}

// What is missing, too much, or another variant is said before any weight is read.
func TestWanVariantsRefusals(t *testing.T) {
	i2v, ti2v := modeltest.Open(t, i2vDir), modeltest.Open(t, ti2vDir)
	iin := inputs(t, i2vDir)
	tin := inputs(t, ti2vDir)
	without := func(in map[string]*tensor.Tensor, names ...string) map[string]*tensor.Tensor {
		out := map[string]*tensor.Tensor{}
		for k, v := range in {
			if !slices.Contains(names, k) {
				out[k] = v
			}
		}
		return out
	}
	with := func(in map[string]*tensor.Tensor, name string, shape ...int) map[string]*tensor.Tensor {
		out := without(in)
		out[name] = tensor.New(dtype.F32, shape...)
		return out
	}
	for _, c := range []struct {
		m    *weft.Model
		in   map[string]*tensor.Tensor
		want []string
	}{
		{i2v, without(iin, "y", "clip_fea"), []string{`"y"`, `"clip_fea"`, "wan2.1-i2v"}},
		{i2v, with(iin, "y", 1, 16, 3, 8, 6), []string{"y is [1 16 3 8 6]", "[1 20 3 8 6]"}},
		{i2v, with(iin, "clip_fea", 1, 17, 40), []string{"clip_fea is [1 17 40]", "48"}},
		{i2v, with(iin, "x", 1, 36, 3, 8, 6), []string{"36 channels", "reads 16"}},
		{ti2v, with(tin, "t_tokens", 1, 35), []string{"[1 35]", "36 tokens"}},
		{ti2v, with(tin, "y", 1, 4, 3, 6, 8), []string{`"y" is given`}},
		{ti2v, without(tin, "t", "t_tokens"), []string{`"t" is missing`}},
	} {
		_, err := c.m.Start(context.Background(), c.in, weft.Options{Device: "reference"})
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
	if _, err := i2v.Sample(context.Background(), iin["context"], nil, weft.SampleOptions{Options: weft.Options{Request: request.Must("--size 64x64 --frames 9 --steps 2")}}); !errors.Is(err, models.ErrInputs) {
		t.Errorf("sampling from an image: %v", err)
	}

	weights := modeltest.Tensors(t, i2vDir+"/model.safetensors")
	config, err := os.ReadFile(i2vDir + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, config string
		ts           map[string]*tensor.Tensor
		kind         error
		want         string
	}{
		{"VACE's tensors", string(config), with(weights, "vace_patch_embedding.weight", 1), models.ErrVariant, "VACE"},
		{"another class", strings.Replace(string(config), "WanModel", "WanAnimateModel", 1), weights, models.ErrVariant, "WanAnimateModel"},
		{"text-to-video's config", regexp.MustCompile(`"image_dim": 48,`).ReplaceAllString(strings.Replace(string(config), `"i2v"`, `"t2v"`, 1), ""), weights, models.ErrVariant, "image-to-video"},
	} {
		_, err := weft.Open(modeltest.Folder(t, c.config, c.ts))
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Official configurations do not say whether there is an image branch; its tensors do.
func TestWanImageBranchByItsTensors(t *testing.T) {
	const config = `{"model_type":"i2v","in_dim":9,"out_dim":4,"dim":32,"ffn_dim":32,"num_heads":2,"num_layers":1,"freq_dim":32,"text_dim":24,"text_len":16`
	with := modeltest.Open(t, modeltest.MadeUp(t, config+`,"image_dim":1280}`))
	raw := map[string]*tensor.Tensor{}
	for name, x := range modeltest.Tensors(t, with.Checkpoint.Files()[0]) {
		raw[name] = x
	}
	silent := modeltest.Open(t, modeltest.Folder(t, config+"}", raw))
	if silent.Name() != "wan2.1-i2v" || len(silent.Params(0)) != len(with.Params(0)) {
		t.Errorf("%s with %d parameters, want the image branch's %d", silent.Name(), len(silent.Params(0)), len(with.Params(0)))
	}
	for name := range raw {
		if strings.Contains(name, "img") {
			delete(raw, name)
		}
	}
	expert := modeltest.Open(t, modeltest.Folder(t, config+"}", raw))
	if expert.Name() != "wan2.2-i2v" {
		t.Errorf("%s, want wan2.2-i2v", expert.Name())
	}
}

// TI2V's latents have 48 channels of 16 x 16 pixels, and sampling gives them one timestep.
func TestWanTI2VSamples(t *testing.T) {
	m := modeltest.Open(t, ti2vDir)
	in := inputs(t, ti2vDir)
	out, err := m.Sample(context.Background(), in["context"], nil, weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 96x64 --frames 9 --steps 2 --seed 1 --mesh sp=2")}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 48, 3, 4, 6}; !slices.Equal(out.Latents.Shape, want) {
		t.Errorf("latents %v, want %v", out.Latents.Shape, want)
	}
	if _, err := m.Sample(context.Background(), in["context"], nil, weft.SampleOptions{Options: weft.Options{Request: request.Must("--size 96x72 --frames 9 --steps 2")}}); !errors.Is(err, models.ErrSize) || !strings.Contains(err.Error(), "multiple of 32") {
		t.Errorf("height 72: %v", err)
	}
}

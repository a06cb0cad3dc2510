package weft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/models"
	"weft/tensor"
)

// madeUp writes a model of a config with weights from a seed: matmuls that keep
// the size of what goes through, everything else near its usual value.
func madeUp(t *testing.T, config string) string {
	t.Helper()
	m, err := models.FromConfig([]byte(config), "config.json")
	if err != nil {
		t.Fatal(err)
	}
	g := rand.New(rand.NewPCG(7, 1))
	ts := map[string]*tensor.Tensor{}
	for _, p := range m.Params(0) {
		fan := 1
		for _, n := range p.Shape[1:] {
			fan *= n
		}
		mean, std := 0.0, 0.1
		switch {
		case p.Matmul:
			std = 1 / math.Sqrt(float64(fan))
		case strings.HasSuffix(p.Name, ".weight"): // of a norm
			mean = 1
		}
		fs := make([]float32, tensor.Elements(p.Shape))
		for i := range fs {
			fs[i] = float32(mean + std*g.NormFloat64())
		}
		if ts[p.Name], err = tensor.FromFloat32s(dtype.F32, fs, p.Shape...); err != nil {
			t.Fatal(err)
		}
	}
	return folder(t, []byte(config), ts)
}

func folder(t *testing.T, config []byte, ts map[string]*tensor.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteTensors(filepath.Join(dir, "model.safetensors"), ts, false); err != nil {
		t.Fatal(err)
	}
	return dir
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
		m := open(t, madeUp(t, config))
		for _, o := range []Options{{}, {SplitResidual: true}, {DType: "bf16"}} {
			o.Device = "reference"
			results, err := m.Verify(context.Background(), VerifyOptions{Options: o})
			if err != nil {
				t.Fatal(kind, err)
			}
			both := 0
			for _, r := range results {
				if !r.OK {
					t.Errorf("%s %+v: %s differs by %g at %s", kind, o, r.Mesh, r.MaxAbsDiff, r.FirstDiffering)
				}
				if regexp.MustCompile(`tp=[248],sp=[248]`).MatchString(r.Mesh) {
					both++
				}
			}
			t.Logf("%s %v %v: %d meshes, %d with tp and sp", kind, o.SplitResidual, o.DType, len(results), both)
			if both < 3 {
				t.Errorf("%s: only %d meshes have tp and sp", kind, both)
			}
		}
	}
}

// Stages of a pipeline pass the image's embedding and each token's modulation on.
func TestWanVariantsInAPipeline(t *testing.T) {
	for _, c := range wanCases {
		m := open(t, c.dir)
		in, want := c.load(t)
		out := forward(t, m, in, Options{Device: "reference", Mesh: "pp=2"})
		compareTo(t, c.dir+" "+c.out, out["out"], want[c.out], 1e-4)
	}
	m := open(t, i2vDir)
	in, want := wanCases[0].load(t)
	out := forward(t, m, in, Options{Device: "reference", Mesh: "sp=3", FSDP: "sp"})
	compareTo(t, "fsdp over sp", out["out"], want["out"], 1e-4)
}

// The same weights under diffusers' names and in its config are the same model.
func TestWanI2VUnderDiffusersNames(t *testing.T) {
	raw, err := os.ReadFile("testdata/oracle/mappings/wan2.1-i2v-14b.json")
	if err != nil {
		t.Fatal(err)
	}
	var mapping struct {
		Entries []struct {
			PT        string `json:"pt"`
			Diffusers string `json:"pt_diffusers"`
			I         string `json:"i"` // the numbers that {i} stands for: "0-39"
		}
	}
	if err := json.Unmarshal(raw, &mapping); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, e := range mapping.Entries {
		if e.Diffusers == "" { // the official name
			e.Diffusers = e.PT
		}
		lo, hi := 0, 0
		if e.I != "" {
			if _, err := fmt.Sscanf(e.I, "%d-%d", &lo, &hi); err != nil {
				t.Fatal(e, err)
			}
		}
		for i := lo; i <= hi; i++ {
			names[strings.ReplaceAll(e.PT, "{i}", fmt.Sprint(i))] = strings.ReplaceAll(e.Diffusers, "{i}", fmt.Sprint(i))
		}
	}
	ts := map[string]*tensor.Tensor{}
	for name, x := range mustTensors(t, i2vDir+"/model.safetensors") {
		if names[name] == "" {
			t.Fatalf("the mapping has no %s", name)
		}
		ts[names[name]] = x
	}
	m := open(t, folder(t, []byte(`{"_class_name":"WanTransformer3DModel","num_attention_heads":3,"attention_head_dim":32,"in_channels":36,"out_channels":16,
		"text_dim":64,"freq_dim":256,"ffn_dim":192,"num_layers":2,"cross_attn_norm":true,"qk_norm":"rms_norm_across_heads","eps":1e-06,
		"image_dim":48,"added_kv_proj_dim":96,"pos_embed_seq_len":null,"patch_size":[1,2,2]}`), ts))
	in, want := wanCases[0].load(t)
	out := forward(t, m, in, Options{Device: "reference", Mesh: "tp=3", TextLen: 512})
	compareTo(t, "out", out["out"], want["out_diffusers"], 1e-4)
}

// What is missing, too much, or another variant is said before any weight is read.
func TestWanVariantsRefusals(t *testing.T) {
	i2v, ti2v := open(t, i2vDir), open(t, ti2vDir)
	iin, _ := wanCases[0].load(t)
	tin, _ := wanCases[1].load(t)
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
		m    *Model
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
		_, err := c.m.Start(context.Background(), c.in, Options{Device: "reference"})
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
	if _, err := i2v.Sample(context.Background(), iin["context"], nil, SampleOptions{Width: 64, Height: 64, Frames: 9, Steps: 2}); !errors.Is(err, models.ErrVariant) {
		t.Errorf("sampling from an image: %v", err)
	}

	weights := mustTensors(t, i2vDir+"/model.safetensors")
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
		{"first-last-frame tensors", string(config), with(weights, "img_emb.emb_pos", 1, 514, 48), models.ErrVariant, "first-last-frame"},
		{"VACE's tensors", string(config), with(weights, "vace_patch_embedding.weight", 1), models.ErrVariant, "VACE"},
		{"VACE's config", strings.Replace(string(config), `"i2v"`, `"vace"`, 1), weights, models.ErrVariant, `"vace"`},
		{"another class", strings.Replace(string(config), "WanModel", "WanAnimateModel", 1), weights, models.ErrVariant, "WanAnimateModel"},
		{"text-to-video's config", regexp.MustCompile(`"image_dim": 48,`).ReplaceAllString(strings.Replace(string(config), `"i2v"`, `"t2v"`, 1), ""), weights, models.ErrVariant, "image-to-video"},
	} {
		_, err := Open(folder(t, []byte(c.config), c.ts))
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Official configurations do not say whether there is an image branch; its tensors do.
func TestWanImageBranchByItsTensors(t *testing.T) {
	const config = `{"model_type":"i2v","in_dim":9,"out_dim":4,"dim":32,"ffn_dim":32,"num_heads":2,"num_layers":1,"freq_dim":32,"text_dim":24,"text_len":16`
	with := open(t, madeUp(t, config+`,"image_dim":1280}`))
	raw := map[string]*tensor.Tensor{}
	for name, x := range mustTensors(t, with.Checkpoint.Files()[0]) {
		raw[name] = x
	}
	silent := open(t, folder(t, []byte(config+"}"), raw))
	if silent.Name() != "wan2.1-i2v" || len(silent.Params(0)) != len(with.Params(0)) {
		t.Errorf("%s with %d parameters, want the image branch's %d", silent.Name(), len(silent.Params(0)), len(with.Params(0)))
	}
	for name := range raw {
		if strings.Contains(name, "img") {
			delete(raw, name)
		}
	}
	expert := open(t, folder(t, []byte(config+"}"), raw))
	if expert.Name() != "wan2.2-i2v" {
		t.Errorf("%s, want wan2.2-i2v", expert.Name())
	}
}

// TI2V's latents have 48 channels of 16 x 16 pixels, and sampling gives them one timestep.
func TestWanTI2VSamples(t *testing.T) {
	m := open(t, ti2vDir)
	in, _ := wanCases[1].load(t)
	out, err := m.Sample(context.Background(), in["context"], nil, SampleOptions{Options: Options{Device: "reference", Mesh: "sp=2"}, Width: 96, Height: 64, Frames: 9, Steps: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 48, 3, 4, 6}; !slices.Equal(out.Latents.Shape, want) {
		t.Errorf("latents %v, want %v", out.Latents.Shape, want)
	}
	if _, err := m.Sample(context.Background(), in["context"], nil, SampleOptions{Width: 96, Height: 72, Frames: 9, Steps: 2}); !errors.Is(err, models.ErrSize) || !strings.Contains(err.Error(), "multiple of 32") {
		t.Errorf("height 72: %v", err)
	}
}

package hunyuan_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const dir15 = testdata + "hunyuan15"

var (
	fixture15 = modeltest.Case{Dir: dir15, Tolerance: 1e-4}
	// Text-to-video, of which the peers' inputs are zeros for the image's.
	text15 = modeltest.Case{Dir: dir15, Want: "out_t2v", Tolerance: 1e-4, Inputs: func(in map[string]*tensor.Tensor) {
		delete(in, "y")
		delete(in, "vision")
	}}
)

func TestPeerSpecsAndNames15(t *testing.T) {
	modeltest.Oracle(t, "hunyuan1.5", testdata+"oracle/hunyuan1.5.json")
	modeltest.Mapping(t, "hunyuan1.5", testdata+"oracle/mappings/hunyuan1.5.json", "")
}

// README.md's figure: bf16 weights that a device keeps less at tp=4.
func TestSaved15(t *testing.T) {
	if got, want := modeltest.Saved(t, "hunyuan1.5", 4), int64(4223321472); got != want {
		t.Errorf("%d bytes, README.md says %d", got, want)
	}
}

// The patches, the time, the refined text and both layers' video. The peers' rows
// of text are in another order, which nothing depends on.
func TestEveryValueAlongTheWay15(t *testing.T) {
	if n := fixture15.Traced(t); n != 5 {
		t.Errorf("%d values along the way, want 5", n)
	}
}

// Four heads, batch 2. The peers sort the text's rows, the real ones first: a mask
// over them where they are gives the same.
func TestFixtureOnEveryLegalMesh15(t *testing.T) {
	if got := fixture15.Meshes(t, 8); len(got) != 12 {
		t.Errorf("legal meshes are %v", got)
	}
	fixture15.Everywhere(t)
	text15.Largely(t)
	split := fixture15
	split.Options = weft.Options{Request: request.Must("--split-residual")}
	for _, on := range []string{"tp=2,sp=2", "dp=2,tp=4"} {
		split.On(t, "reference", on)
	}
}

// A text without letters gives the same result as one whose letters are all masked.
func TestNoLetters15(t *testing.T) {
	in := modeltest.Tensors(t, dir15+"/inputs.safetensors")
	m := modeltest.Open(t, dir15)
	in["byt5_mask"] = tensor.New(dtype.I32, in["byt5_mask"].Shape...)
	masked := modeltest.Forward(t, m, in, weft.Options{Device: "reference"})
	delete(in, "byt5_mask")
	all := modeltest.Forward(t, m, in, weft.Options{Device: "reference"})
	delete(in, "byt5")
	none := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2,sp=2")})
	modeltest.Close(t, "no letters", none["out"], masked["out"], 1e-5)
	a, err := all["out"].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	b, err := masked["out"].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	if abs, _ := weft.Difference(a, b); abs < 0.01 {
		t.Errorf("letters make a difference of %g", abs)
	}
}

// Eight heads, three layers, patches of more than one latent and grids whose tokens do not divide.
const odd15 = `{"_class_name":"HunyuanVideo_1_5_DiffusionTransformer","hidden_size":64,"heads_num":8,"mm_double_blocks_depth":3,"patch_size":[1,2,1],
	"in_channels":4,"out_channels":4,"mlp_width_ratio":2.5,"rope_dim_list":[2,4,2],"text_states_dim":20,"byt5_dim":12,"byt5_hidden":24,"vision_states_dim":40}`

func TestSplits15(t *testing.T) {
	dir := modeltest.MadeUp(t, odd15)
	meshes := modeltest.Splits(t, dir, weft.VerifyOptions{})
	for _, on := range []string{"dp=1,tp=1,sp=2", "dp=1,tp=2,sp=4", "dp=1,tp=1,sp=8", "dp=1,tp=8,sp=1", "dp=2,tp=2,sp=2"} {
		if !slices.Contains(meshes, on) {
			t.Errorf("%s is not among %s", on, meshes)
		}
	}
	for _, o := range []weft.Options{{Request: request.Must("--split-residual")}, {Request: request.Must("--dtype bf16")}, {Request: request.Must("--fsdp sp")}} {
		modeltest.Splits(t, dir, weft.VerifyOptions{Options: o, Meshes: request.MustMeshes("tp=2,sp=2", "dp=2,tp=2,sp=2")})
	}
	modeltest.Splits(t, dir, weft.VerifyOptions{Meshes: request.MustMeshes("pp=3", "pp=2,tp=2")})
}

func TestUnderDiffusersNames15(t *testing.T) {
	raw, err := os.ReadFile(dir15 + "/diffusers.json")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := json.Unmarshal(raw, &names); err != nil {
		t.Fatal(err)
	}
	const config = `{"_class_name":"HunyuanVideo15Transformer3DModel","num_attention_heads":4,"attention_head_dim":8,"num_layers":2,"in_channels":9,
		"out_channels":4,"num_refiner_layers":2,"mlp_ratio":3.0,"patch_size":1,"patch_size_t":1,"text_embed_dim":24,"text_embed_2_dim":20,"byt5_hidden":16,
		"image_embed_dim":12,"rope_theta":256.0,"rope_axes_dim":[2,4,2],"task_type":"i2v","target_size":640,"use_meanflow":false,"qk_norm":"rms_norm"}`
	m := modeltest.Open(t, modeltest.Folder(t, config, apart(t, dir15, names)))
	in, want := modeltest.Tensors(t, dir15+"/inputs.safetensors"), modeltest.Tensors(t, dir15+"/expected.safetensors")
	for _, on := range []string{"", "tp=4", "sp=2"} {
		out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
		modeltest.Close(t, on, out["out"], want["out_diffusers"], 1e-4)
	}
}

// B = 1, S = 30 video tokens, 3 rows of the image, 5 of letters, 7 of text: TT = 15;
// D = 32, 4 heads, F = 96, 16 in the middle of the letters'.
func TestCollectivesOfALayer15(t *testing.T) {
	r := models.Request{Batch: 1, Latent: []int{4, 2, 3, 5}, Text: 7, SecondText: 5, Image: 3, DType: dtype.F32}
	modeltest.Moves(t, modeltest.Config(t, dir15), r, []modeltest.Move{
		{Program: "double", Want: ""},
		// Both streams' o and FFN: 2 (S + TT) D; twelve modulations of D gathered together from halves.
		{On: "tp=2", Program: "double", Want: "all-gather tp 1 192; all-reduce tp 4 2880"},
		// The video's q, k, v and result: 4 S D/2; the text's result gathered over heads from TT D/2.
		{On: "sp=2", Program: "double", Want: "all-gather sp 1 240; all-to-all sp 4 1920"},
		{On: "tp=2,sp=2", Program: "double", Want: "all-gather sp 1 120; all-gather tp 1 192; all-reduce tp 4 1920; all-to-all sp 4 960"},
		// The letters' middle summed, their rows gathered from halves; the image's rows summed.
		{On: "tp=2", Program: "byt5", Want: "all-gather tp 1 80; all-reduce tp 1 80"},
		{On: "tp=2", Program: "vision", Want: "all-reduce tp 1 96"},
		{On: "tp=2,sp=2", Program: "join", Want: ""},
	})
}

func TestRefusals15(t *testing.T) {
	m := modeltest.Open(t, dir15)
	in := modeltest.Tensors(t, dir15+"/inputs.safetensors")
	f32 := func(shape ...int) *tensor.Tensor { return tensor.New(dtype.F32, shape...) }
	for _, c := range []struct {
		change map[string]*tensor.Tensor
		want   string
	}{
		{map[string]*tensor.Tensor{"y": nil}, "of vision and y one is given"},
		{map[string]*tensor.Tensor{"vision": nil}, "of vision and y one is given"},
		{map[string]*tensor.Tensor{"byt5": nil}, "byt5_mask is given without byt5"},
		{map[string]*tensor.Tensor{"byt5": f32(2, 5, 19)}, "byt5 is [2 5 19]"},
		{map[string]*tensor.Tensor{"byt5_mask": f32(2, 4)}, "byt5_mask is [2 4]: want [2 5]"},
		{map[string]*tensor.Tensor{"vision": f32(2, 0, 12)}, "vision is [2 0 12]"},
		{map[string]*tensor.Tensor{"y": f32(2, 4, 2, 3, 5)}, "y is [2 4 2 3 5]: want [2 5 2 3 5]"},
		{map[string]*tensor.Tensor{"pooled": f32(2, 24)}, `"pooled" is given`},
		{map[string]*tensor.Tensor{"guidance": f32(2)}, `"guidance" is given`},
		{map[string]*tensor.Tensor{"context_mask": f32(2, 7)}, "no real row"},
		{map[string]*tensor.Tensor{"x": f32(2, 9, 2, 3, 5)}, "latents of 9 channels"},
	} {
		given := maps.Clone(in)
		for name, x := range c.change {
			if given[name] = x; x == nil {
				delete(given, name)
			}
		}
		_, err := m.Start(context.Background(), given, weft.Options{Device: "reference"})
		if !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
	old := modeltest.Open(t, testdata+"hunyuan_video")
	given := modeltest.Tensors(t, testdata+"hunyuan_video/inputs.safetensors")
	given["byt5"] = f32(1, 5, 20)
	if _, err := old.Start(context.Background(), given, weft.Options{Device: "reference"}); !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), `"byt5" is given`) {
		t.Errorf("byt5 of HunyuanVideo: %v", err)
	}
	on, err := weft.ParseMesh("tp=8")
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := models.FromConfig([]byte(strings.NewReplacer(`"byt5_hidden":24`, `"byt5_hidden":20`, `"vision_states_dim":40`, `"vision_states_dim":36`).Replace(odd15)), "")
	if err != nil {
		t.Fatal(err)
	}
	err = narrow.Check(on, models.Request{Batch: 1, Latent: []int{4, 1, 2, 2}, DType: dtype.F32})
	for _, want := range []string{"byt5_hidden 20 does not divide over tp=8", "vision_states_dim 36 does not divide over tp=8"} {
		if !errors.Is(err, models.ErrFFN) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A config of one version with the other's weights, and variants.
func TestVariants15(t *testing.T) {
	read := func(dir string) (string, map[string]*tensor.Tensor) {
		raw, err := os.ReadFile(dir + "/config.json")
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), modeltest.Tensors(t, dir+"/model.safetensors")
	}
	config, ts := read(dir15)
	oldConfig, oldTs := read(testdata + "hunyuan_video")
	with := func(name string) map[string]*tensor.Tensor {
		out := maps.Clone(ts)
		out[name] = tensor.New(dtype.F32, 1)
		return out
	}
	change := func(from, to string) string {
		if !strings.Contains(config, from) {
			t.Fatalf("config.json has no %s", from)
		}
		return strings.Replace(config, from, to, 1)
	}
	for _, c := range []struct {
		config string
		ts     map[string]*tensor.Tensor
		kind   *fault.Kind
		want   string
	}{
		{config, oldTs, models.ErrVariant, "the HunyuanVideo variant (tensor"},
		{oldConfig, ts, models.ErrVariant, "the HunyuanVideo-1.5 variant (tensor"},
		{config, with("time_r_in.mlp.0.weight"), models.ErrVariant, "mean flow"},
		{change(`"concat_condition": true`, `"concat_condition": false`), ts, models.ErrVariant, "concat_condition is false"},
		{change(`"glyph_byT5_v2": true`, `"glyph_byT5_v2": false`), ts, models.ErrVariant, "glyph_byT5_v2 is false"},
		{change(`"mm_single_blocks_depth": 0`, `"mm_single_blocks_depth": 2`), ts, models.ErrVariant, "mm_single_blocks_depth is 2"},
		{change(`"text_pool_type": null`, `"text_pool_type": "clip"`), ts, models.ErrVariant, `text_pool_type is "clip"`},
		{change(`"qk_norm": true`, `"qk_norm": true, "use_meanflow": true`), ts, models.ErrVariant, "use_meanflow is true"},
		{change(`"vision_states_dim": 12`, `"vision_states_dim": 0`), ts, models.ErrConfig, "vision_states_dim is 0"},
		{change(`HunyuanVideo_1_5_DiffusionTransformer`, `HunyuanImage`), ts, models.ErrUnknownModel, "HunyuanImage"},
	} {
		if _, err := weft.Open(modeltest.Folder(t, c.config, c.ts)); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// Each preset is its own model, whichever config.json says it.
func TestPresetsByConfig(t *testing.T) {
	for _, name := range []string{"hunyuanvideo", "hunyuanvideo-cfgdistill", "hunyuan1.5"} {
		raw, err := models.PresetConfig(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := models.FromConfig(raw, name)
		if err != nil {
			t.Fatal(err)
		}
		if m.Name() != name {
			t.Errorf("%s's config is called %s", name, m.Name())
		}
	}
	for _, raw := range []string{`{"_class_name":"HunyuanVideo15Transformer3DModel"}`, `{"_class_name":"HunyuanVideo_1_5_DiffusionTransformer","text_states_dim_2":null}`} {
		m, err := models.FromConfig([]byte(raw), "")
		if err != nil {
			t.Fatal(err)
		}
		if m.Name() != "hunyuan1.5" {
			t.Errorf("%s is called %s", raw, m.Name())
		}
	}
}

// Denoising gives the same latents on a split as on one device.
func TestSample15(t *testing.T) {
	m := modeltest.Open(t, dir15)
	in := modeltest.Tensors(t, dir15+"/inputs.safetensors")
	first := func(name string) *tensor.Tensor { return in[name].Rows(0, 1) }
	for _, names := range [][]string{{"context_mask"}, {"context_mask", "byt5", "byt5_mask", "vision", "y"}} {
		conditions := map[string]*tensor.Tensor{}
		for _, n := range names {
			conditions[n] = first(n)
		}
		run := func(on string) *tensor.Tensor {
			out, err := m.Sample(context.Background(), first("context"), nil, weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 80x48 --frames 5 --steps 3 --seed 1 " + "--mesh=" + on)}, Conditions: conditions})
			if err != nil {
				t.Fatal(err)
			}
			return out.Latents
		}
		modeltest.Close(t, strings.Join(names, " "), run("tp=2,sp=2"), run(""), 1e-3)
	}
}

// A text is guided away from another that has rows and masks of its own: as one
// batch or as two, and so far that what is left is the other.
func TestGuidance15(t *testing.T) {
	m := modeltest.Open(t, dir15)
	in := modeltest.Tensors(t, dir15+"/inputs.safetensors")
	rows := func(video int, names ...string) map[string]*tensor.Tensor {
		out := map[string]*tensor.Tensor{}
		for _, n := range names {
			out[n] = in[n].Rows(video, video+1)
		}
		return out
	}
	image, own := rows(0, "vision", "y"), []string{"context_mask", "byt5", "byt5_mask"}
	text, negative := rows(0, own...), rows(1, own...)
	both := maps.Clone(image)
	maps.Copy(both, text)
	for name, x := range negative {
		both["negative_"+name] = x
	}
	other := maps.Clone(image)
	maps.Copy(other, negative)
	context0, context1 := in["context"].Rows(0, 1), in["context"].Rows(1, 2)
	sample := func(context, negative *tensor.Tensor, conditions map[string]*tensor.Tensor, o weft.SampleOptions) (*tensor.Tensor, error) {
		o.Device, o.Width, o.Height, o.Frames, o.Steps, o.Seed, o.Conditions = "reference", 80, 48, 5, 2, 1, conditions
		out, err := m.Sample(t.Context(), context, negative, o)
		if err != nil {
			return nil, err
		}
		return out.Latents, nil
	}
	run := func(context, negative *tensor.Tensor, conditions map[string]*tensor.Tensor, o weft.SampleOptions) *tensor.Tensor {
		t.Helper()
		out, err := sample(context, negative, conditions, o)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	batched := run(context0, context1, both, weft.SampleOptions{Options: weft.Options{Request: request.Must("--guidance 3")}})
	modeltest.Close(t, "two passes", run(context0, context1, both, weft.SampleOptions{Options: weft.Options{Request: request.Must("--guidance 3 --cfg sequential")}}), batched, 1e-5)
	modeltest.Close(t, "split", run(context0, context1, both, weft.SampleOptions{Options: weft.Options{Request: request.Must("--guidance 3 --mesh dp=2,tp=2")}}), batched, 1e-3)
	modeltest.Close(t, "the negative text alone", run(context0, context1, both, weft.SampleOptions{Options: weft.Options{Request: request.Must("--guidance 1e-7")}}), run(context1, nil, other, weft.SampleOptions{}), 1e-4)
	usual := run(context0, context1, both, weft.SampleOptions{})
	modeltest.Close(t, "the usual guidance", usual, run(context0, context1, both, weft.SampleOptions{Options: weft.Options{Request: request.Must("--guidance 6")}}), 0)

	missing, wrong, empty := maps.Clone(both), maps.Clone(both), maps.Clone(both)
	delete(missing, "negative_byt5")
	wrong["negative_context_mask"] = tensor.New(dtype.F32, 1, 6)
	empty["negative_context_mask"] = tensor.New(dtype.I32, 1, 7)
	for want, conditions := range map[string]map[string]*tensor.Tensor{
		`"byt5" and "negative_byt5" one is given`:                       missing,
		`"context_mask" is [1 7] and "negative_context_mask" [1 6]`:     wrong,
		"of the negative text: context_mask of video 0 has no real row": empty,
		`condition "negative_y" is given`:                               {"vision": image["vision"], "y": image["y"], "negative_y": image["y"]},
	} {
		if _, err := sample(context0, context1, conditions, weft.SampleOptions{Options: weft.Options{Request: request.Must("--guidance 3")}}); !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := sample(context0, context1.Slice(1, 0, 5), both, weft.SampleOptions{Options: weft.Options{Request: request.Must("--guidance 3")}}); !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "make both as long") {
		t.Errorf("texts of two lengths: %v", err)
	}
}

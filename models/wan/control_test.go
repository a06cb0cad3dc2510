package wan_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
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

const (
	vaceDir  = "../../testdata/pipelines/wan21_vace"
	flf2vDir = "../../testdata/pipelines/wan21_flf2v"
)

// One step of a small VACE, of two videos with timesteps of their own, is diffusers': with
// scales that differ and without any, on one device and split.
func TestControlStepIsDiffusers(t *testing.T) {
	m := modeltest.Open(t, vaceDir+"/transformer")
	in, want := modeltest.Tensors(t, vaceDir+"/step_inputs.safetensors"), modeltest.Tensors(t, vaceDir+"/step_expected.safetensors")
	for _, device := range modeltest.Devices() {
		for i, on := range []string{"", "tp=2", "sp=2", "dp=2", "tp=2,sp=3", "fsdp=2", "pp=2", "pp=3", "tp=3", "sp=6"} {
			if device != "reference" && i > 1 && os.Getenv("WEFT_LONG_TESTS") == "" {
				continue // compiling takes long
			}
			o := weft.Options{Device: device, Request: request.Must("--text-len 512 --mesh=" + on)}
			modeltest.Close(t, device+" "+on, modeltest.Forward(t, m, in, o)["out"], want["out"], 2e-4)
		}
	}
	delete(in, "vace_scale")
	o := weft.Options{Device: "reference", Request: request.Must("--text-len 512")}
	modeltest.Close(t, "without scales", modeltest.Forward(t, m, in, o)["out"], want["out_unscaled"], 2e-4)
}

// VACE and the model of two frames give on every split what one device gives. With
// WEFT_LONG_TESTS each does so in every way.
func TestControlSplits(t *testing.T) {
	const rest = `"dim":64,"ffn_dim":96,"num_heads":8,"num_layers":3,"freq_dim":32,"text_dim":24,"text_len":16,"patch_size":[1,2,2]`
	for _, c := range []struct {
		kind, config string
		usual        []int // of the ways
	}{
		{"vace", `{"model_type":"vace","in_dim":4,"out_dim":4,"vace_in_dim":10,"vace_layers":[0,2],` + rest + `}`, []int{1}},
		{"vace, every layer", `{"model_type":"vace","in_dim":4,"out_dim":4,"vace_in_dim":10,"vace_layers":[0,1,2],` + rest + `}`, nil},
		{"flf2v, 3 rows an image", `{"model_type":"flf2v","in_dim":13,"out_dim":4,"image_dim":20,"pos_embed_seq_len":6,` + rest + `}`, []int{0}},
	} {
		for i, way := range []string{"", "--split-residual", "--dtype bf16"} {
			if !slices.Contains(c.usual, i) && os.Getenv("WEFT_LONG_TESTS") == "" {
				continue
			}
			both := 0
			meshes := modeltest.Splits(t, modeltest.MadeUp(t, c.config), weft.VerifyOptions{Options: weft.Options{Request: request.Must(way)}})
			for _, on := range meshes {
				if regexp.MustCompile(`tp=[248],sp=[248]`).MatchString(on) {
					both++
				}
			}
			if both < 3 {
				t.Errorf("%s %s: %d meshes, only %d have tp and sp", c.kind, way, len(meshes), both)
			}
		}
	}
}

// What a control block exchanges: what a block does, and its projection's channels gathered,
// S x D. B = 1, S = 18, D = 48.
func TestControlCollectives(t *testing.T) {
	m := modeltest.Config(t, vaceDir+"/transformer")
	r := models.Request{Batch: 1, Latent: []int{16, 3, 4, 6}, Text: 9, DType: dtype.F32}
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "tp=2", Program: "block", Want: "all-reduce tp 5 2646"},
		{On: "tp=2", Program: "vace_block", Want: "all-gather tp 1 432; all-reduce tp 5 2646"},
		{On: "tp=2", Program: "vace_pre", Want: "all-gather tp 1 432"},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 1728"},
		{On: "sp=2", Program: "vace_block", Want: "all-to-all sp 4 1728"},
		{On: "sp=2", Program: "vace_pre", Want: ""},
		{On: "tp=2", Program: "vace_text_kv", Want: "all-reduce tp 1 9"},
	})
}

// names reads [official name, diffusers' name, shape] of each weight of a small model.
func names(t *testing.T, dir string) (list [][3]any) {
	t.Helper()
	raw, err := os.ReadFile(dir + "/names.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// The weights are those of Wan's own modules by name and shape, and diffusers' names become them.
func TestOfficialNames(t *testing.T) {
	for _, dir := range []string{vaceDir, flf2vDir} {
		m := modeltest.Config(t, dir+"/transformer")
		shapes := map[string]string{}
		for _, p := range m.Params(0) {
			shapes[p.Name] = strings.ReplaceAll(fmt.Sprint(p.Shape), " ", ", ")
		}
		list := names(t, dir)
		if len(list) != len(shapes) {
			t.Errorf("%s: %d weights, want %d", dir, len(shapes), len(list))
		}
		for _, n := range list {
			official, other := n[0].(string), n[1].(string)
			shape := strings.ReplaceAll(fmt.Sprint(n[2]), " ", ", ")
			if shapes[official] != shape || m.Official(other) != official || m.Official(official) != official {
				t.Errorf("%s %s: shape %s; %s is read as %s", official, shape, shapes[official], other, m.Official(other))
			}
		}
	}
}

// The presets have the weights that Wan's own modules have in the releases' sizes.
func TestPresetsHaveTheReleasesWeights(t *testing.T) {
	raw, err := os.ReadFile(vaceDir + "/released.json")
	if err != nil {
		t.Fatal(err)
	}
	var released map[string]struct {
		Weights int
		SHA256  string `json:"sha256"`
	}
	if err := json.Unmarshal(raw, &released); err != nil || len(released) != 3 {
		t.Fatal(released, err)
	}
	for preset, want := range released {
		m, err := models.ByName(preset)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, p := range m.Params(0) {
			lines = append(lines, p.Name+" "+strings.ReplaceAll(fmt.Sprint(p.Shape), " ", ", ")+"\n")
		}
		slices.Sort(lines)
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, "")))); len(lines) != want.Weights || got != want.SHA256 {
			t.Errorf("%s: %d weights with hash %s, want %d with %s", preset, len(lines), got, want.Weights, want.SHA256)
		}
	}
}

// The releases' configurations, their publisher's and diffusers', are those of the presets.
func TestReleasedConfigs(t *testing.T) {
	const official = `{"_diffusers_version":"0.30.0","dim":5120,"eps":1e-06,"ffn_dim":13824,"freq_dim":256,"num_heads":40,"num_layers":40,"out_dim":16,"text_len":512,`
	const diffusers = `{"_diffusers_version":"0.34.0.dev0","attention_head_dim":128,"cross_attn_norm":true,"eps":1e-06,"ffn_dim":13824,"freq_dim":256,"num_attention_heads":40,"num_layers":40,
		"out_channels":16,"patch_size":[1,2,2],"qk_norm":"rms_norm_across_heads","rope_max_seq_len":1024,"text_dim":4096,`
	small := strings.NewReplacer(`"dim":5120`, `"dim":1536`, "13824", "8960", `"num_heads":40,"num_layers":40`, `"num_heads":12,"num_layers":30`).Replace(official)
	for config, want := range map[string]string{
		official + `"_class_name":"WanModel","in_dim":36,"model_type":"flf2v"}`:                                                                         "wan2.1-flf2v-14b",
		diffusers + `"_class_name":"WanTransformer3DModel","added_kv_proj_dim":5120,"image_dim":1280,"in_channels":36,"pos_embed_seq_len":514}`:         "wan2.1-flf2v-14b",
		diffusers + `"_class_name":"WanTransformer3DModel","added_kv_proj_dim":5120,"image_dim":1280,"in_channels":36,"pos_embed_seq_len":null}`:        "wan2.1-i2v-14b",
		official + `"_class_name":"VaceWanModel","in_dim":16,"model_type":"vace","vace_in_dim":96,"vace_layers":[0,5,10,15,20,25,30,35]}`:               "wan2.1-vace-14b",
		small + `"_class_name":"VaceWanModel","in_dim":16,"model_type":"t2v","vace_in_dim":96,"vace_layers":[0,2,4,6,8,10,12,14,16,18,20,22,24,26,28]}`: "wan2.1-vace-1.3b",
		diffusers + `"_class_name":"WanVACETransformer3DModel","added_kv_proj_dim":null,"image_dim":null,"in_channels":16,"pos_embed_seq_len":null,"vace_in_channels":96,
			"vace_layers":[0,5,10,15,20,25,30,35]}`: "wan2.1-vace-14b",
	} {
		m, notes, err := models.Describe([]byte(config), "config.json")
		if err != nil || m.Name() != want || len(notes) > 0 {
			t.Errorf("%s: %v %q %v, want %s", config, m, notes, err, want)
		}
	}
}

// official is a folder with the weights of a small one under their official names.
func official(t *testing.T, dir, config string) string {
	t.Helper()
	m := modeltest.Open(t, dir+"/transformer")
	ts := map[string]*tensor.Tensor{}
	for name, x := range modeltest.Tensors(t, dir+"/transformer/diffusion_pytorch_model.safetensors") {
		ts[m.Official(name)] = x
	}
	return modeltest.Folder(t, config, ts)
}

// The same weights under their official names, with the configurations that there are of them, are
// the same models.
func TestOfficialFolders(t *testing.T) {
	const rest = `"dim":48,"ffn_dim":96,"freq_dim":256,"text_dim":32,"num_heads":6,"out_dim":16,"text_len":512,"eps":1e-06`
	step, want := modeltest.Tensors(t, vaceDir+"/step_inputs.safetensors"), modeltest.Tensors(t, vaceDir+"/step_expected.safetensors")["out"]
	for _, config := range []string{
		`{"_class_name":"VaceWanModel","_diffusers_version":"0.30.0","model_type":"vace","num_layers":3,"in_dim":16,"vace_layers":[0,2],"vace_in_dim":96,` + rest + `}`,
		`{"_class_name":"VaceWanModel","model_type":"t2v","num_layers":3,"in_dim":16,"vace_layers":null,"vace_in_dim":96,` + rest + `}`, // every second layer
		`{"_class_name":"VaceWanTransformer3DModel","model_type":"t2v","num_layers":3,"in_dim":16,"vace_layers":[0,2],"vace_in_dim":96,` + rest + `}`,
	} {
		m := modeltest.Open(t, official(t, vaceDir, config))
		got := modeltest.Forward(t, m, step, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})["out"]
		modeltest.Close(t, config, got, want, 2e-4)
		if m.Name() != "wan2.1-vace" {
			t.Errorf("%s is %s", config, m.Name())
		}
	}
	values, texts := modeltest.Tensors(t, flf2vDir+"/values.safetensors"), modeltest.Tensors(t, "../../testdata/pipelines/wan21_i2v/values.safetensors")["text_embeds"]
	in := map[string]*tensor.Tensor{"x": modeltest.Tensors(t, flf2vDir+"/inputs.safetensors")["latents"], "t": values["timesteps"].Rows(0, 1),
		"context": texts.Rows(0, 1), "y": values["condition"], "clip_fea": values["image_embeds"]}
	rows := values["image_embeds"].Shape[1]
	for _, kind := range []string{`"flf2v"`, `"flf2v","_class_name":"WanModel"`} {
		config := fmt.Sprintf(`{"model_type":%s,"num_layers":2,"in_dim":36,"image_dim":80,"pos_embed_seq_len":%d,%s}`, kind, rows, rest)
		m := modeltest.Open(t, official(t, flf2vDir, config))
		for _, on := range []string{"", "tp=2", "sp=2", "pp=2"} {
			got := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})["out"]
			modeltest.Close(t, kind+on, got, values["noise_cond"], 2e-4)
		}
		if m.Name() != "wan2.1-flf2v" {
			t.Errorf("%s is %s", config, m.Name())
		}
	}
}

// Configurations of control layers that are none, and features of the wrong number of images.
func TestControlRefusals(t *testing.T) {
	const rest = `"dim":48,"ffn_dim":96,"freq_dim":256,"num_heads":4,"num_layers":3,"out_dim":16`
	for config, says := range map[string]string{
		`{"model_type":"vace","in_dim":16,"vace_layers":[0,3],"vace_in_dim":96,` + rest + `}`:                                                                                                "vace_layers [0 3] of 3 layers",
		`{"model_type":"vace","in_dim":16,"vace_layers":[1,2],"vace_in_dim":96,` + rest + `}`:                                                                                                "from 0 on",
		`{"model_type":"vace","in_dim":16,"vace_layers":[0,2,2],"vace_in_dim":96,` + rest + `}`:                                                                                              "in order",
		`{"model_type":"vace","in_dim":16,"vace_layers":[],"vace_in_dim":96,` + rest + `}`:                                                                                                   "vace_layers []",
		`{"model_type":"vace","in_dim":16,"vace_layers":[0,-1],"vace_in_dim":96,` + rest + `}`:                                                                                               "vace_layers[1]",
		`{"model_type":"vace","in_dim":36,"vace_layers":[0],"vace_in_dim":96,` + rest + `}`:                                                                                                  "in_dim 36",
		`{"model_type":"i2v","in_dim":36,"vace_layers":[0],"vace_in_dim":96,` + rest + `}`:                                                                                                   "only VACE has control blocks",
		`{"model_type":"i2v","in_dim":36,"pos_embed_seq_len":514,` + rest + `}`:                                                                                                              "only one of a first and a last frame",
		`{"model_type":"flf2v","in_dim":36,"pos_embed_seq_len":513,` + rest + `}`:                                                                                                            "an even number",
		`{"_class_name":"WanVACETransformer3DModel","num_attention_heads":4,"attention_head_dim":12,"in_channels":16,"out_channels":16,"ffn_dim":96,"num_layers":40,"added_kv_proj_dim":48}`: "read no image",
	} {
		if _, err := models.FromConfig([]byte(config), "config.json"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", config, err, says)
		}
	}
	m := modeltest.Config(t, vaceDir+"/transformer")
	in, err := m.Example(2, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*tensor.Tensor{"vace_context": tensor.New(dtype.F32, 2, 95, 3, 6, 10), "vace_scale": tensor.New(dtype.F32, 2, 3), "y": tensor.New(dtype.F32, 2, 20, 3, 6, 10)} {
		was := in[name]
		in[name] = x
		if _, err := m.Request(in); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s %v: %v", name, x, err)
		}
		if in[name] = was; was == nil {
			delete(in, name)
		}
	}
	two := modeltest.Config(t, flf2vDir+"/transformer")
	if in, err = two.Example(1, nil, 1); err != nil {
		t.Fatal(err)
	}
	in["clip_fea"] = tensor.New(dtype.F32, 1, 17, 80)
	if _, err := two.Request(in); err == nil || !strings.Contains(err.Error(), "17 rows of image features") {
		t.Errorf("features of one image: %v", err)
	}
}

package hunyuan_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// Eight heads, one layer of the second kind more than of the first, and grids
// whose tokens do not divide.
const odd = `{"_class_name":"HYVideoDiffusionTransformer","hidden_size":64,"heads_num":8,"mm_double_blocks_depth":1,"mm_single_blocks_depth":2,
	"in_channels":4,"out_channels":4,"mlp_width_ratio":2.5,"rope_dim_list":[2,4,2],"text_states_dim":20,"text_states_dim_2":12,"guidance_embed":true}`

func TestSplits(t *testing.T) {
	dir := modeltest.MadeUp(t, odd)
	meshes := modeltest.Splits(t, dir, weft.VerifyOptions{})
	for _, on := range []string{"dp=1,tp=1,sp=2", "dp=1,tp=2,sp=4", "dp=1,tp=1,sp=8", "dp=1,tp=8,sp=1", "dp=2,tp=2,sp=2"} {
		if !slices.Contains(meshes, on) {
			t.Errorf("%s is not among %s", on, meshes)
		}
	}
	for _, o := range []weft.Options{{Request: request.Must("--split-residual")}, {Request: request.Must("--dtype bf16")}, {Request: request.Must("--fsdp sp")}} {
		modeltest.Splits(t, dir, weft.VerifyOptions{Options: o, Meshes: request.MustMeshes("tp=2,sp=2", "dp=2,tp=2,sp=2", "tp=4,sp=2")})
	}
	modeltest.Splits(t, dir, weft.VerifyOptions{Meshes: request.MustMeshes("pp=3", "pp=2,tp=2")})
}

// Both kinds of image-to-video give the one-device answer on every kind of split, also where the
// first frame's tokens lie on several devices.
func TestSplitsOfImages(t *testing.T) {
	for _, kind := range []string{"token_replace", "latent_concat"} {
		dir := modeltest.MadeUp(t, strings.Replace(odd, `"heads_num"`, `"i2v_condition_type":"`+kind+`","heads_num"`, 1))
		meshes := "tp=2,sp=2 sp=8 dp=2,tp=4"
		if os.Getenv("WEFT_LONG_TESTS") != "" {
			meshes += " tp=8 sp=2 dp=2,tp=2,sp=2 pp=3 fsdp=2"
		}
		modeltest.Splits(t, dir, weft.VerifyOptions{Meshes: request.MustMeshes(strings.Fields(meshes)...)})
		modeltest.Splits(t, dir, weft.VerifyOptions{Options: weft.Options{Request: request.Must("--split-residual")}, Meshes: request.MustMeshes("tp=2,sp=2")})
	}
}

// The image's tokens of the peer's single blocks, whose stream is one.
func TestSingleBlocks(t *testing.T) {
	want := modeltest.Tensors(t, testdata+"hunyuan_video/expected.safetensors")
	m := modeltest.Open(t, testdata+"hunyuan_video")
	r, err := m.Start(context.Background(), modeltest.Tensors(t, testdata+"hunyuan_video/inputs.safetensors"), weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seen := 0
	if _, err := r.Trace(context.Background(), func(name string, x *tensor.Tensor) error {
		if whole := want[strings.TrimSuffix(name, "_img")]; strings.HasPrefix(name, "single_") && whole != nil {
			seen++
			modeltest.Close(t, name, x, whole.Slice(1, 0, x.Shape[1]), 1e-4)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen != 2 {
		t.Errorf("%d single blocks, want 2", seen)
	}
}

// apart are a fixture's weights under diffusers' names, of which names lists all:
// what is stacked apart, and the head's shift and scale the other way round.
func apart(t *testing.T, dir string, names []string) map[string]*tensor.Tensor {
	t.Helper()
	official := modeltest.Tensors(t, dir+"/model.safetensors")
	m := modeltest.Open(t, dir)
	out := map[string]*tensor.Tensor{}
	inverse := map[string]string{} // official name or piece to diffusers'
	for _, name := range names {
		inverse[m.Official(name)] = name
	}
	put := func(name string, x *tensor.Tensor) {
		to := inverse[name]
		if to == "" {
			t.Fatalf("diffusers has no name for %s", name)
		}
		out[to] = x
	}
	for _, p := range m.Params(0) {
		x, row := official[p.Name], 0
		if len(p.Pieces) == 0 {
			put(p.Name, x)
			continue
		}
		pieces := map[string][]*tensor.Tensor{}
		for _, piece := range p.Pieces {
			part := x.Slice(0, row, row+piece.Rows)
			row += piece.Rows
			if piece.Of == piece.Rows {
				put(piece.Name, part)
			} else { // a range of a tensor: here the second half comes first
				pieces[piece.Name] = append([]*tensor.Tensor{part}, pieces[piece.Name]...)
			}
		}
		for name, halves := range pieces {
			put(name, tensor.Stack(halves))
		}
	}
	if len(out) != len(names) {
		t.Errorf("%d tensors under %d names", len(out), len(names))
	}
	return out
}

// The same weights under diffusers' names are the same model on every split.
func TestUnderDiffusersNames(t *testing.T) {
	const config = `{"_class_name":"HunyuanVideoTransformer3DModel","num_attention_heads":2,"attention_head_dim":32,"num_layers":2,"num_single_layers":2,
		"num_refiner_layers":2,"mlp_ratio":3.0,"patch_size":2,"patch_size_t":1,"guidance_embeds":true,"text_embed_dim":48,"pooled_projection_dim":24,
		"rope_theta":256.0,"rope_axes_dim":[4,14,14]}`
	dir := modeltest.Folder(t, config, apart(t, testdata+"hunyuan_video", diffusersNames(t)))
	in, want := modeltest.Tensors(t, testdata+"hunyuan_video/inputs.safetensors"), modeltest.Tensors(t, testdata+"hunyuan_video/expected.safetensors")
	for _, on := range []string{"", "tp=2", "sp=2"} {
		out := modeltest.Forward(t, modeltest.Open(t, dir), in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
		modeltest.Close(t, on, out["out"], want["out_diffusers"], 1e-4)
	}
}

// diffusersNames are those of a model of two layers of each kind, from the mapping
// that was checked against diffusers.
func diffusersNames(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(testdata + "oracle/mappings/hunyuanvideo-cfgdistill.json")
	if err != nil {
		t.Fatal(err)
	}
	var mapping struct {
		Entries []struct {
			Names string `json:"pt_diffusers"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(raw, &mapping); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var out []string
	for _, e := range mapping.Entries {
		for _, name := range strings.Split(e.Names, " + ") {
			for _, i := range []string{"0", "1"} {
				n := strings.ReplaceAll(name, "{i}", i)
				if n != "" && !seen[n] {
					seen[n] = true
					out = append(out, n)
				}
			}
		}
	}
	return out
}

// B = 1, S = 18 video tokens, T = 10 text tokens, D = 64, 2 heads, F = 192.
func TestCollectivesOfALayer(t *testing.T) {
	m := modeltest.Config(t, testdata+"hunyuan_video")
	r := models.Request{Batch: 1, Latent: []int{16, 3, 4, 6}, Text: 10, DType: dtype.F32}
	modeltest.Moves(t, m, r, []modeltest.Move{
		{Program: "double", Want: ""},
		// Both streams' o and FFN: 2 (S + T) D; twelve modulations of D gathered together from halves.
		{On: "tp=2", Program: "double", Want: "all-gather tp 1 384; all-reduce tp 4 3584"},
		// The video's q, k, v and result: 4 S D/2; the text's result gathered over heads from T D/2.
		{On: "sp=2", Program: "double", Want: "all-gather sp 1 320; all-to-all sp 4 2304"},
		// One sum of attention and FFN a stream: (S + T) D; three modulations.
		{On: "tp=2", Program: "single", Want: "all-gather tp 1 96; all-reduce tp 2 1792"},
		{On: "sp=2", Program: "single", Want: "all-gather sp 1 320; all-to-all sp 4 2304"},
	})
	eight := r
	eight.Latent = []int{4, 3, 4, 6}
	// 8 heads of 8, F = 160: both axes.
	modeltest.Moves(t, modeltest.Config(t, modeltest.MadeUp(t, odd)), eight, []modeltest.Move{
		{On: "tp=2,sp=2", Program: "single", Want: "all-gather sp 1 160; all-gather tp 1 96; all-reduce tp 2 1216; all-to-all sp 4 1152"},
	})
}

func TestRefusals(t *testing.T) {
	m := modeltest.Open(t, testdata+"hunyuan_video")
	in := modeltest.Tensors(t, testdata+"hunyuan_video/inputs.safetensors")
	change := func(name string, x *tensor.Tensor) map[string]*tensor.Tensor {
		out := map[string]*tensor.Tensor{}
		for k, v := range in {
			out[k] = v
		}
		delete(out, name)
		if x != nil {
			out[name] = x
		}
		return out
	}
	for _, c := range []struct {
		in   map[string]*tensor.Tensor
		want string
	}{
		{change("pooled", nil), `"pooled" is missing`},
		{change("guidance", nil), `"guidance" is missing`},
		{change("pooled", tensor.New(dtype.F32, 1, 23)), "pooled is [1 23]: want [1 24]"},
		{change("context_mask", tensor.New(dtype.F32, 1, 9)), "context_mask is [1 9]"},
		{change("context_mask", tensor.New(dtype.I32, 1, 10)), "no real row"},
		{change("x", tensor.New(dtype.F32, 1, 16, 3, 5, 6)), "does not fill patches"},
	} {
		_, err := m.Start(context.Background(), c.in, weft.Options{Device: "reference"})
		if (!errors.Is(err, models.ErrInputs) && !errors.Is(err, models.ErrSize)) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
	raw, err := os.ReadFile(testdata + "hunyuan_video/config.json")
	if err != nil {
		t.Fatal(err)
	}
	ts := modeltest.Tensors(t, testdata+"hunyuan_video/model.safetensors")
	for _, c := range []struct {
		config string
		tensor string
		kind   error
		want   string
	}{
		{strings.Replace(string(raw), `"qk_norm": true`, `"qk_norm": false`, 1), "", models.ErrVariant, "qk_norm is false"},
		{strings.Replace(string(raw), `"qk_norm"`, `"i2v_condition_type": "reference", "qk_norm"`, 1), "", models.ErrVariant, "token_replace"},
		{strings.Replace(string(raw), `"qk_norm"`, `"i2v_condition_type": "latent_concat", "qk_norm"`, 1), "", checkpoint.ErrShape, "img_in.proj.weight"},
		{strings.Replace(string(raw), `"qk_norm"`, `"glyph_byT5_v2": true, "qk_norm"`, 1), "", models.ErrVariant, "1.5"},
		{string(raw), "byt5_in.fc1.weight", models.ErrVariant, "HunyuanVideo-1.5"},
		{strings.Replace(string(raw), `"guidance_embed": true`, `"guidance_embed": false`, 1), "", checkpoint.ErrUnexpectedTensors, "guidance_in"},
	} {
		with := map[string]*tensor.Tensor{}
		for k, v := range ts {
			with[k] = v
		}
		if c.tensor != "" {
			with[c.tensor] = tensor.New(dtype.F32, 1)
		}
		if _, err := weft.Open(modeltest.Folder(t, c.config, with)); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// Denoising gives the same latents on a split as on one device.
func TestSample(t *testing.T) {
	m := modeltest.Open(t, testdata+"hunyuan_video")
	in := modeltest.Tensors(t, testdata+"hunyuan_video/inputs.safetensors")
	run := func(on string) *tensor.Tensor {
		out, err := m.Sample(context.Background(), in["context"], nil, weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 48x32 --frames 9 --steps 3 --seed 1 " + "--mesh=" + on)}, Conditions: map[string]*tensor.Tensor{"pooled": in["pooled"], "guidance": in["guidance"], "context_mask": in["context_mask"]}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Latents
	}
	modeltest.Close(t, "latents", run("sp=2"), run(""), 1e-3)
	_, err := m.Sample(context.Background(), in["context"], in["context"], weft.SampleOptions{Options: weft.Options{Request: request.Must("--size 48x32 --frames 9 --steps 2 --guidance 3")}, Conditions: map[string]*tensor.Tensor{"pooled": in["pooled"], "guidance": in["guidance"]}})
	if !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), `of the conditions "pooled" and "negative_pooled" one is given`) {
		t.Errorf("a negative text: %v", err)
	}
}

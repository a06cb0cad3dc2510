package cogvideox_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/mesh"
	"weft/models"
	"weft/request"
	"weft/sharding"
	"weft/tensor"
)

// changed is a fixture's config.json with other values.
func changed(t *testing.T, fixture string, change map[string]any) string {
	t.Helper()
	raw, err := os.ReadFile(testdata + fixture + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	c := map[string]any{}
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	maps.Copy(c, change)
	if raw, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Head counts that the fixtures lack, batch 2, grids whose tokens do not divide:
// every split gives the one-device answer; sp without rotary positions and with
// learned ones, and tp with sp, all of which the peer refuses.
func TestSplits(t *testing.T) {
	for name, c := range map[string]struct {
		fixture string
		change  map[string]any
		both    int // meshes with tp and sp
	}{
		"2b, 8 heads":      {"cogvideox_2b", map[string]any{"num_attention_heads": 8, "attention_head_dim": 16, "text_embed_dim": 24}, 3},
		"2b, 6 heads":      {"cogvideox_2b", map[string]any{"num_attention_heads": 6, "attention_head_dim": 16, "text_embed_dim": 24}, 2},
		"1.5 i2v":          {"cogvideox15_i2v", map[string]any{"num_attention_heads": 8}, 3},
		"learned, 8 heads": {"cogvideox_i2v", map[string]any{"num_attention_heads": 8, "text_embed_dim": 32}, 3},
	} {
		dir := modeltest.MadeUp(t, changed(t, c.fixture, c.change))
		options := []weft.Options{{}}
		if c.change["text_embed_dim"] == nil {
			options = append(options, weft.Options{Request: request.Must("--split-residual")}, weft.Options{Request: request.Must("--dtype bf16")})
		}
		for _, o := range options {
			both := 0
			meshes := modeltest.Splits(t, dir, weft.VerifyOptions{Options: o})
			for _, on := range meshes {
				if regexp.MustCompile(`tp=[2-8],sp=[2-8]`).MatchString(on) {
					both++
				}
			}
			if both < c.both {
				t.Errorf("%s %+v: of the meshes %v only %d have tp and sp", name, o, meshes, both)
			}
		}
	}
}

// The smallest grid there is: one token, on as many devices as heads.
func TestOneToken(t *testing.T) {
	dir := modeltest.MadeUp(t, changed(t, "cogvideox_2b", map[string]any{"num_attention_heads": 4, "attention_head_dim": 16, "text_embed_dim": 24}))
	for _, r := range mustVerify(t, dir, weft.VerifyOptions{Meshes: request.MustMeshes("sp=4", "tp=2,sp=2"), Latent: []int{16, 1, 2, 2}, Options: weft.Options{Device: "reference", Request: request.Must("--batch 1")}}) {
		if !r.OK {
			t.Errorf("%s: %s", r.Mesh, r.FirstDiffering)
		}
	}
}

func mustVerify(t *testing.T, dir string, o weft.VerifyOptions) []weft.VerifyResult {
	t.Helper()
	rs, err := modeltest.Open(t, dir).Verify(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return rs.Results
}

// What is missing, too much, or another variant is said before any weight is read.
func TestRefusedInputs(t *testing.T) {
	inputs := func(fixture string, change func(in map[string]*tensor.Tensor)) map[string]*tensor.Tensor {
		in := modeltest.Tensors(t, testdata+fixture+"/inputs.safetensors")
		change(in)
		return in
	}
	put := func(name string, shape ...int) func(map[string]*tensor.Tensor) {
		return func(in map[string]*tensor.Tensor) { in[name] = tensor.New(dtype.F32, shape...) }
	}
	for _, c := range []struct {
		fixture string
		change  func(in map[string]*tensor.Tensor)
		want    []string
	}{
		{"cogvideox_5b", func(in map[string]*tensor.Tensor) { delete(in, "text"); delete(in, "t") }, []string{`"text" is missing`, `"t" is missing`}},
		{"cogvideox_5b", put("ofs", 1), []string{`"ofs" is given`}},
		{"cogvideox_5b", put("text", 1, 9, 40), []string{"text of 9 rows", "max_text_seq_length 10"}},
		{"cogvideox_5b", put("text", 1, 10, 41), []string{"rows of 41", "text_embed_dim 40"}},
		{"cogvideox_5b", put("x", 1, 3, 15, 8, 12), []string{"15 channels", "16"}},
		{"cogvideox_5b", put("x", 1, 3, 16, 7, 12), []string{"height 7", "6 or 8"}},
		{"cogvideox15", put("x", 2, 3, 4, 6, 10), []string{"frames 3", "2 or 4"}},
		{"cogvideox15", put("x", 2, 4, 4, 14, 10), []string{"14 x 10", "12 x 20"}},
		{"cogvideox15_i2v", func(in map[string]*tensor.Tensor) { delete(in, "ofs") }, []string{`"ofs" is missing`}},
		{"cogvideox_i2v", put("y", 2, 3, 5, 6, 10), []string{"8 channels"}},
		{"cogvideox_i2v", put("x", 2, 3, 4, 6, 10), []string{`"y" is missing`}},
		{"cogvideox_i2v", put("x", 2, 2, 8, 6, 10), []string{"2 x 6 x 10", "learned", "3 x 6 x 10"}},
	} {
		m := modeltest.Open(t, testdata+c.fixture)
		_, err := m.Start(context.Background(), inputs(c.fixture, c.change), weft.Options{Device: "reference"})
		if !errors.Is(err, models.ErrInputs) && !errors.Is(err, models.ErrSize) {
			t.Errorf("want %v, got %v", c.want, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: says nothing of %s", err, w)
			}
		}
	}
}

// Every reason why a split is refused comes at once, with what would do.
func TestRefusedSplits(t *testing.T) {
	m, err := models.ByName("cogvideox-2b")
	if err != nil {
		t.Fatal(err)
	}
	on, err := weft.ParseMesh("dp=2,tp=4,sp=7")
	if err != nil {
		t.Fatal(err)
	}
	err = m.Check(on, models.Request{Batch: 3, Latent: []int{16, 13, 60, 91}, Text: 200, DType: dtype.I32})
	for _, kind := range []error{sharding.ErrHeadsNotDivisible, models.ErrBatch, models.ErrSize, models.ErrInputs} {
		if !errors.Is(err, kind) {
			t.Errorf("%v: nothing of %v", err, kind)
		}
	}
	for _, w := range []string{"30", "width 91", "90 or 92", "226", "batch 3"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v: says nothing of %s", err, w)
		}
	}
	odd, err := mesh.Local(mesh.Axis{Name: "expert", Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := models.Request{Batch: 1, Latent: []int{16, 13, 60, 90}, DType: dtype.BF16}
	if err := m.Check(odd, r); !errors.Is(err, models.ErrAxis) {
		t.Errorf("an axis without use: %v", err)
	}
	// 17,550 tokens over sp=4 are padded, or refused where that is asked for.
	five, err := models.ByName("cogvideox-5b")
	if err != nil {
		t.Fatal(err)
	}
	four, err := weft.ParseMesh("sp=4")
	if err != nil {
		t.Fatal(err)
	}
	if err := five.Check(four, r); err != nil {
		t.Error(err)
	}
	r.Strict = true
	if err := five.Check(four, r); !errors.Is(err, models.ErrSeq) {
		t.Errorf("padding where it is refused: %v", err)
	}
}

// Configs and weights that do not belong together, and variants not run.
func TestRefusedModels(t *testing.T) {
	for name, c := range map[string]struct {
		fixture string
		change  map[string]any
		kind    error
		want    []string
	}{
		"learned positions alone": {"cogvideox_5b", map[string]any{"use_rotary_positional_embeddings": false, "use_learned_positional_embeddings": true}, models.ErrVariant, []string{"learned positions without rotary"}},
		"other activation":        {"cogvideox_5b", map[string]any{"activation_fn": "geglu", "freq_shift": 1}, models.ErrVariant, []string{`activation_fn is "geglu"`, "freq_shift is 1"}},
		"other class":             {"cogvideox_5b", map[string]any{"_class_name": "ConsisIDTransformer3DModel"}, models.ErrUnknownModel, []string{"ConsisID"}},
		"no channels":             {"cogvideox_5b", map[string]any{"in_channels": 0, "num_layers": -1}, models.ErrConfig, []string{"in_channels is 0", "num_layers is -1"}},
		"half a head":             {"cogvideox_5b", map[string]any{"attention_head_dim": 24}, models.ErrConfig, []string{"24", "16 or 32"}},
		"offset without room":     {"cogvideox15_i2v", map[string]any{"ofs_embed_dim": 16}, models.ErrConfig, []string{"ofs_embed_dim 16", "time_embed_dim 32"}},
	} {
		_, err := models.FromConfig([]byte(changed(t, c.fixture, c.change)), "config.json")
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
	weights := modeltest.Tensors(t, testdata+"cogvideox_i2v/model.safetensors")
	open := func(config string, change func(ts map[string]*tensor.Tensor)) error {
		ts := maps.Clone(weights)
		change(ts)
		m, err := weft.Open(modeltest.Folder(t, config, ts))
		if err == nil {
			m.Close()
		}
		return err
	}
	same := changed(t, "cogvideox_i2v", nil)
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"the config of text-to-video": {open(changed(t, "cogvideox_i2v", map[string]any{"in_channels": 4, "use_learned_positional_embeddings": false}), func(map[string]*tensor.Tensor) {}),
			[]string{"learned positions", "patch_embed.pos_embedding"}},
		"the config of another family": {open(`{"model_type":"t2v","dim":64,"ffn_dim":96,"num_heads":4,"num_layers":1,"freq_dim":32,"text_dim":24,"text_len":16}`, func(map[string]*tensor.Tensor) {}),
			[]string{"text_embedding.0.weight", "patch_embed.pos_embedding", "40 tensors missing"}},
		"ControlNet": {open(same, func(ts map[string]*tensor.Tensor) { ts["controlnet_x.weight"] = ts["proj_out.weight"] }), []string{"ControlNet"}},
		"three at once": {open(same, func(ts map[string]*tensor.Tensor) {
			delete(ts, "proj_out.bias")
			ts["extra.weight"] = ts["proj_out.weight"]
			ts["norm_final.weight"] = ts["proj_out.weight"]
		}), []string{"proj_out.bias", "extra.weight", "norm_final.weight"}},
	} {
		if c.err == nil {
			t.Errorf("%s: opened", name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(c.err.Error(), w) {
				t.Errorf("%s: %v says nothing of %s", name, c.err, w)
			}
		}
	}
}

// Sizes in pixels and the latents they make.
func TestLatentShape(t *testing.T) {
	for _, c := range []struct {
		preset                string
		width, height, frames int
		want                  []int
	}{
		{"cogvideox-5b", 720, 480, 49, []int{16, 13, 60, 90}},
		{"cogvideox-1.5-5b", 1360, 768, 81, []int{16, 22, 96, 170}}, // 21 latent frames, and one to fill the last patch
		{"cogvideox-1.5-5b", 1360, 768, 85, []int{16, 22, 96, 170}},
		{"cogvideox-5b-i2v", 720, 480, 49, []int{16, 13, 60, 90}},
		{"cogvideox-5b-i2v", 704, 480, 49, nil},
		{"cogvideox-1.5-5b-i2v", 768, 1360, 81, nil}, // rows beyond the tables
		{"cogvideox-5b", 724, 480, 50, nil},
	} {
		m, err := models.ByName(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Features().Generator.LatentShape(c.width, c.height, c.frames)
		if c.want == nil {
			if !errors.Is(err, models.ErrSize) {
				t.Errorf("%s %dx%d, %d frames: %v %v", c.preset, c.width, c.height, c.frames, got, err)
			}
			continue
		}
		if err != nil || len(got) != 4 || [4]int(got) != [4]int(c.want) {
			t.Errorf("%s %dx%d, %d frames: %v %v, want %v", c.preset, c.width, c.height, c.frames, got, err, c.want)
		}
	}
}

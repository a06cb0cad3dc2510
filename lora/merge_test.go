package lora_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/lora"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// randomTensor is one of random numbers.
func randomTensor(g *rand.Rand, shape ...int) *tensor.Tensor {
	values := make([]float32, tensor.Elements(shape))
	for i := range values {
		values[i] = float32(g.NormFloat64()) * 0.3
	}
	t, err := tensor.FromFloat32s(dtype.F32, values, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

func writeTensors(t testing.TB, name string, all map[string]*tensor.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := checkpoint.Write(path, all, nil, checkpoint.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// denseSum is scale * up @ down in f64, (out, in).
func denseSum(t testing.TB, up, down *tensor.Tensor, scale float64) []float64 {
	u, d := modeltest.Floats(t, up), modeltest.Floats(t, down)
	out, r, in := up.Shape[0], down.Shape[0], tensor.Elements(down.Shape[1:])
	sum := make([]float64, out*in)
	for o := range out {
		for k := range r {
			for i := range in {
				sum[o*in+i] += scale * float64(u[o*r+k]) * float64(d[k*in+i])
			}
		}
	}
	return sum
}

// Any run of a weight's elements, of a stack or of a piece of it, gets its part of the product, and the
// same bits wherever the run begins and ends.
func TestAnyRunOfAWeight(t *testing.T) {
	m := modeltest.Config(t, "../testdata/hunyuan_video")
	g := rand.New(rand.NewPCG(3, 4))
	d := 64
	up, down := randomTensor(g, d, 5), randomTensor(g, 5, d)
	path := writeTensors(t, "k.safetensors", map[string]*tensor.Tensor{
		"transformer.transformer_blocks.0.attn.to_k.lora_A.weight": down, "transformer.transformer_blocks.0.attn.to_k.lora_B.weight": up})
	set, err := lora.Open(context.Background(), m, []request.LoRA{{Path: path, Scale: 2}}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	product := denseSum(t, up, down, 2)
	whole := make([]float32, 3*d*d)
	addend := set.Addend("double_blocks.0.img_attn_qkv.weight", 0)
	if err := addend.AddTo(whole, 0); err != nil {
		t.Fatal(err)
	}
	for i, v := range whole {
		want := 0.0
		if i >= d*d && i < 2*d*d {
			want = product[i-d*d]
		}
		if math.Abs(float64(v)-want) > 1e-5 {
			t.Fatalf("element %d is %v: want %v", i, v, want)
		}
	}
	if set.Addend("double_blocks.0.img_attn_qkv.weight", 0) != addend || set.Addend("double_blocks.1.img_attn_qkv.weight", 0) != nil {
		t.Error("a parameter has two addends, or one has some that no adapter changes")
	}
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SampledFrom([]int{0, d, 2 * d}).Draw(t, "row of the piece")
		lo := rapid.IntRange(0, d*d-1).Draw(t, "from")
		hi := rapid.IntRange(lo, d*d).Draw(t, "to")
		part := make([]float32, hi-lo)
		if err := set.Addend("double_blocks.0.img_attn_qkv.weight", row).AddTo(part, int64(lo)); err != nil {
			t.Fatal(err)
		}
		for i, v := range part {
			if v != whole[row*d+lo+i] {
				t.Fatalf("element %d of the piece from row %d is %v: want %v", lo+i, row, v, whole[row*d+lo+i])
			}
		}
	})
}

// An adapter in the names of one publisher is merged into the other's checkpoint: stacked q, k and v on
// one side, three matrices on the other, and halves that are swapped.
func TestStacksAndPieces(t *testing.T) {
	const dir = "../testdata/hunyuan_video"
	ctx := context.Background()
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	g := rand.New(rand.NewPCG(5, 6))
	d, official, pieces := 64, map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}
	stack := func(name string, rows int) { // rank 2 of a stack is rank 2 of each of its pieces
		official[name+".lora_down.weight"], official[name+".lora_up.weight"] = randomTensor(g, 2, d), randomTensor(g, rows, 2)
	}
	part := func(name, of string, lo, hi int) {
		pieces[name+".lora_A.weight"] = official[of+".lora_down.weight"]
		pieces[name+".lora_B.weight"] = official[of+".lora_up.weight"].Rows(lo, hi)
	}
	for b := range 2 {
		s, p := fmt.Sprintf("double_blocks.%d.", b), fmt.Sprintf("transformer.transformer_blocks.%d.attn.", b)
		stack(s+"img_attn_qkv", 3*d)
		stack(s+"txt_attn_qkv", 3*d)
		for i, x := range []string{"q", "k", "v"} {
			part(p+"to_"+x, s+"img_attn_qkv", i*d, (i+1)*d)
			part(p+"add_"+x+"_proj", s+"txt_attn_qkv", i*d, (i+1)*d)
		}
		s, p = fmt.Sprintf("single_blocks.%d.", b), fmt.Sprintf("transformer.single_transformer_blocks.%d.", b)
		stack(s+"linear1", 6*d)
		for i, x := range []string{"q", "k", "v"} {
			part(p+"attn.to_"+x, s+"linear1", i*d, (i+1)*d)
		}
		part(p+"proj_mlp", s+"linear1", 3*d, 6*d)
	}
	stack("final_layer.adaLN_modulation.1", 2*d)
	up := official["final_layer.adaLN_modulation.1.lora_up.weight"]
	pieces["transformer.norm_out.linear.lora_A.weight"] = official["final_layer.adaLN_modulation.1.lora_down.weight"]
	pieces["transformer.norm_out.linear.lora_B.weight"] = tensor.Join(0, []*tensor.Tensor{up.Rows(d, 2*d), up.Rows(0, d)})

	m := modeltest.Open(t, dir)
	run := func(flags, path string) *tensor.Tensor {
		r, err := m.Start(ctx, in, withAdapters(flags, request.LoRA{Path: path, Scale: 0.8}))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		out, err := r.Forward(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return out["out"]
	}
	of, pc := writeTensors(t, "official.safetensors", official), writeTensors(t, "pieces.safetensors", pieces)
	want := run("--mesh dp=1", of)
	if got := run("--mesh dp=1", pc); string(got.Data) != string(want.Data) {
		t.Error("the adapter in diffusers' names gives other bits than in official ones")
	}
	for _, flags := range []string{"--mesh tp=2", "--mesh sp=2"} {
		modeltest.Close(t, flags, run(flags, pc), want, 1e-4)
	}
	merged := mergeByHand(t, dir, official, 0.8)
	plain, err := weft.Open(merged)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	out := modeltest.Forward(t, plain, in, weft.Options{Device: "reference"})
	modeltest.Close(t, "merged by hand", want, out["out"], 1e-4)
}

// mergeByHand writes a model with the products of an adapter in official names added in f64.
func mergeByHand(t *testing.T, dir string, adapter map[string]*tensor.Tensor, scale float64) string {
	all := modeltest.Tensors(t, dir+"/model.safetensors")
	for key, down := range adapter {
		module, is := strings.CutSuffix(key, ".lora_down.weight")
		if !is {
			continue
		}
		w := all[module+".weight"]
		values := modeltest.Floats(t, w)
		for i, x := range denseSum(t, adapter[module+".lora_up.weight"], down, scale) {
			values[i] = float32(float64(values[i]) + x)
		}
		sum, err := tensor.FromFloat32s(dtype.F32, values, w.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		all[module+".weight"] = sum
	}
	config, err := os.ReadFile(dir + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	return modeltest.Folder(t, string(config), all)
}

// Whole differences of norms, tables and kernels are added as they are, times the caller's scale alone, and
// several files one after another.
func TestWholeDifferences(t *testing.T) {
	m := modeltest.Config(t, wanDir)
	g := rand.New(rand.NewPCG(7, 8))
	norm, table, kernel := randomTensor(g, 96), randomTensor(g, 1, 6, 96), randomTensor(g, 96, 16, 1, 2, 2)
	down, up := randomTensor(g, 3, 16, 1, 2, 2), randomTensor(g, 96, 3, 1, 1, 1)
	one := writeTensors(t, "one.safetensors", map[string]*tensor.Tensor{
		"diffusion_model.blocks.1.norm3.diff": norm, "diffusion_model.blocks.1.modulation.diff": table, "diffusion_model.patch_embedding.diff": kernel})
	two := writeTensors(t, "two.safetensors", map[string]*tensor.Tensor{"patch_embedding.lora_down.weight": down, "patch_embedding.lora_up.weight": up})
	set, err := lora.Open(context.Background(), m, []request.LoRA{{Path: one, Scale: 0.5}, {Path: two, Scale: 3}}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	product := denseSum(t, up, down, 3)
	for name, of := range map[string]*tensor.Tensor{"blocks.1.norm3.weight": norm, "blocks.1.modulation": table, "patch_embedding.weight": kernel} {
		values := make([]float32, of.Elements()-3)
		if err := set.Addend(name, 0).AddTo(values, 3); err != nil {
			t.Fatal(err)
		}
		for i, x := range modeltest.Floats(t, of)[3:] {
			want := 0.5 * float64(x)
			if name == "patch_embedding.weight" {
				want += product[i+3]
			}
			if math.Abs(float64(values[i])-want) > 1e-5 {
				t.Fatalf("%s, element %d: %v: want %v", name, i+3, values[i], want)
			}
		}
	}
	if r := set.Reports(); len(r) != 2 || r[0].Parameters != 3 || r[0].MaxRank != 0 || r[1].MaxRank != 3 || r[1].FLOPs != 2*3*96*64 {
		t.Errorf("reports %+v", r)
	}
}

// What is known of a file by its name is how the release is run, below what flags say.
func TestSettingsTravelWithKnownFiles(t *testing.T) {
	m, err := models.ByName("wan2.1-t2v-14b")
	if err != nil {
		t.Fatal(err)
	}
	_, settings, err := models.SettingsOf(m, models.ReleaseQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for name, steps := range map[string]int{
		"Wan21_T2V_14B_lightx2v_cfg_step_distill_lora_rank32.safetensors": 4, "x/Wan2.2-Lightning_T2V-A14B-4steps-lora_HIGH_fp16.safetensors": 4,
		"Wan2.2-T2V-A14B-4steps-lora-rank64-Seko-V1.1/high_noise_model.safetensors": 4, "Wan21_CausVid_14B_T2V_lora_rank32_v2.safetensors": 4,
		"Wan2.1_T2V_14B_FusionX_LoRA.safetensors": 8, "style.safetensors": 50,
	} {
		r := request.Request{LoRA: []request.LoRA{{Path: name, Scale: 1}}}
		s := r.SettingsWithLoRA(r.SettingsWithLoRA(settings))
		got, _ := s.Get("steps")
		if s.Count("steps") != steps || (steps != 50) != (s.Count("passes") == 1) || (steps != 50) != strings.Contains(got.From, filepath.Base(name)) {
			t.Errorf("%s: steps %+v, passes %d", name, got, s.Count("passes"))
		}
	}
}

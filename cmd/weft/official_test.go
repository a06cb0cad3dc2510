package main

import (
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/tensor"
)

// oracleNames has, by official name, the name in diffusers of a release's tensors.
func oracleNames(t *testing.T, preset string) map[string]string {
	t.Helper()
	return modeltest.Names(t, "../../testdata/oracle/mappings/"+preset+".json", "")
}

// renameTensors writes the tensors of diffusers' file under the names of the publisher's own. Every
// tensor must have one.
func renameTensors(t *testing.T, from, to string, names map[string]string) {
	t.Helper()
	given, out := modeltest.Tensors(t, from), map[string]*tensor.Tensor{}
	for official, name := range names {
		if x := given[name]; x != nil {
			out[official] = x
			delete(given, name)
		}
	}
	if len(given) > 0 {
		t.Fatalf("%s: no official name for %q", from, slices.Sorted(maps.Keys(given)))
	}
	if err := weft.WriteTensors(to, out, false); err != nil {
		t.Fatal(err)
	}
}

// joinVision writes diffusers' vision encoder under the names of Wan's own file, which has q, k and
// v in one tensor.
func joinVision(t *testing.T, from, to string) {
	t.Helper()
	given, out := modeltest.Tensors(t, from), map[string]*tensor.Tensor{}
	whole := strings.NewReplacer("embeddings.class_embedding", "cls_embedding", "embeddings.position_embedding.weight", "pos_embedding",
		"embeddings.patch_embedding", "patch_embedding",
		"pre_layrnorm", "pre_norm", "post_layernorm", "post_norm", "encoder.layers", "transformer", "layer_norm", "norm",
		"mlp.fc1", "mlp.0", "mlp.fc2", "mlp.2",
		"self_attn.out_proj", "attn.proj", "self_attn.q_proj", "attn.to_qkv")
	for name, x := range given {
		official := "visual." + whole.Replace(name)
		switch {
		case strings.Contains(name, ".k_proj."), strings.Contains(name, ".v_proj."):
			continue
		case strings.Contains(name, ".q_proj."):
			x = tensor.Join(0, []*tensor.Tensor{x, given[strings.Replace(name, ".q_", ".k_", 1)], given[strings.Replace(name, ".q_", ".v_", 1)]})
		case strings.HasSuffix(official, "_embedding"):
			x = &tensor.Tensor{DType: x.DType, Shape: slices.Concat([]int{1, 1, 1}[:3-len(x.Shape)], x.Shape), Data: x.Data}
		}
		out[official] = x
	}
	if err := weft.WriteTensors(to, out, false); err != nil {
		t.Fatal(err)
	}
}

// officialFolder makes of a small release in diffusers' layout the folder that Wan publishes: the
// transformer at its top with a configuration in Wan's words, and the other parts beside it.
func officialFolder(t *testing.T, release, autoencoder string, config map[string]any) string {
	t.Helper()
	from, dir := pipelinesDir+release+"/", t.TempDir()
	config["_class_name"] = "WanModel"
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o666); err != nil {
		t.Fatal(err)
	}
	renameTensors(t, from+"transformer/diffusion_pytorch_model.safetensors", filepath.Join(dir, "diffusion_pytorch_model.safetensors"), oracleNames(t, "wan2.1-i2v-14b"))
	renameTensors(t, from+"text_encoder/model.safetensors", filepath.Join(dir, "models_t5_umt5-xxl-enc-bf16.safetensors"), oracleNames(t, "umt5-xxl"))
	file := map[string]string{"wan2.1-vae": "Wan2.1_VAE.safetensors", "wan2.2-vae": "Wan2.2_VAE.safetensors"}[autoencoder]
	renameTensors(t, from+"vae/diffusion_pytorch_model.safetensors", filepath.Join(dir, file), oracleNames(t, autoencoder))
	if err := os.CopyFS(filepath.Join(dir, "google", "umt5-xxl"), os.DirFS(from+"tokenizer")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(from + "image_encoder"); err == nil {
		joinVision(t, from+"image_encoder/model.safetensors", filepath.Join(dir, "models_clip_open-clip-xlm-roberta-large-vit-huge-14.safetensors"))
	}
	return dir
}

// officialSigmas are the noise levels of Wan's own code: shift s / (1 + (shift - 1) s) of n levels
// from 0.999 on, and 0 at the end.
func officialSigmas(n int, shift float64) []float64 {
	out := make([]float64, n+1)
	for i := range n {
		s := 0.999 * float64(n-i) / float64(n)
		out[i] = shift * s / (1 + (shift-1)*s)
	}
	return out
}

// checkLevels compares the levels of a generation with those of Wan's own code.
func checkLevels(t *testing.T, doc generated, shift float64) []float64 {
	t.Helper()
	levels := officialSigmas(len(doc.Steps), shift)
	for i, s := range doc.Steps {
		if math.Abs(s.Sigma-levels[i]) > 1e-6 || s.Timestep != math.Floor(1000*levels[i]) {
			t.Errorf("step %d has timestep %g and sigma %g, want %g", i, s.Timestep, s.Sigma, levels[i])
		}
	}
	return levels
}

// eulerStep is x + (to - from) (u + g (c - u)): where a step of first order ends.
func eulerStep(t *testing.T, x, cond, uncond *tensor.Tensor, from, to, g float64) *tensor.Tensor {
	t.Helper()
	var fs [3][]float32
	for i, in := range []*tensor.Tensor{x, cond, uncond} {
		var err error
		if fs[i], err = in.Float32s(); err != nil {
			t.Fatal(err)
		}
	}
	out := slices.Clone(fs[0])
	for i := range out {
		c, u := float64(fs[1][i]), float64(fs[2][i])
		out[i] += float32((to - from) * (u + g*(c-u)))
	}
	y, err := tensor.FromFloat32s(x.DType, out, x.Shape...)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// writePicture writes planes (1, 3, height, width) from -1 to 1, whose values are those of bytes, as
// a PNG.
func writePicture(t *testing.T, path string, planes *tensor.Tensor) {
	t.Helper()
	fs, err := planes.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	h, w := planes.Shape[2], planes.Shape[3]
	im := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range h * w {
		for c := range 3 {
			im.Pix[4*i+c] = byte(math.Round((float64(fs[c*h*w+i]) + 1) * 127.5))
		}
		im.Pix[4*i+3] = 255
	}
	writePNG(t, path, im)
}

func writePNG(t *testing.T, path string, im image.Image) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, im); err != nil {
		t.Fatal(err)
	}
}

// decodeLatents decodes latents to a file of frames.
func decodeLatents(t *testing.T, model, latents, frames, device string) {
	t.Helper()
	if code, stdout, stderr := weftRun(t, "decode", "--model", model, "--latents", latents, "--device", device, "--out", frames, "--json"); code != 0 {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
}

// TI2V-5B in its publisher's folder. Its noise levels begin where diffusers' do, so that the first
// step's model output is the one of diffusers' pipeline, and the step ends where a step of first
// order to the second level does. The image has the video's size, which neither layout resizes.
func TestOfficialFolderOfTI2V(t *testing.T) {
	dir := officialFolder(t, "wan22_ti2v_5b", "wan2.2-vae", map[string]any{"model_type": "ti2v", "dim": 48, "ffn_dim": 96, "freq_dim": 256, "in_dim": 48, "out_dim": 48,
		"num_heads": 3, "num_layers": 2, "eps": 1e-6, "text_dim": 32, "text_len": 512})
	r := released{name: "wan22_ti2v_5b", size: "64x32", frames: 5}
	want := modeltest.Tensors(t, r.folder()+"/values.safetensors")
	picture := filepath.Join(t.TempDir(), "image.png")
	writePicture(t, picture, want["i2v.image"])
	for _, c := range []struct {
		prefix string
		flags  []string
	}{{"", nil}, {"i2v.", []string{"--image", picture}}} {
		out := t.TempDir()
		args := slices.Concat(r.args(t, out, "--device", "reference", "--frames-out", out+"/f", "--latents-out", out+"/l.safetensors", "--trace", "--features-out", out+"/x"), c.flags)
		args[slices.Index(args, "--model")+1] = dir
		doc := generate(t, args...)
		for name, value := range map[string]string{"shift": "5", "guidance": "5", "fps": "24", "sampler": "unipc"} {
			if s := doc.Settings[name]; fmt.Sprint(s.Value) != value && fmt.Sprint(s.Value) != "["+value+"]" || !strings.Contains(s.From, "wan_ti2v_5B.py") {
				t.Errorf("%s%s is %v from %q", c.prefix, name, s.Value, s.From)
			}
		}
		levels := checkLevels(t, doc, 5)
		texts, latents := modeltest.Tensors(t, out+"/x"), modeltest.Tensors(t, out+"/l.safetensors")
		text := want["text_embeds"]
		for i, name := range []string{"context", "negative"} {
			modeltest.Close(t, c.prefix+name, texts[name].Slice(1, 0, text.Shape[1]), text.Rows(i, i+1), 1e-4)
		}
		start := modeltest.Tensors(t, r.folder()+"/inputs.safetensors")["latents"]
		first := eulerStep(t, start, want[c.prefix+"noise_cond"].Rows(0, 1), want[c.prefix+"noise_uncond"].Rows(0, 1), levels[0], levels[1], 5)
		got := latents["latents_0"]
		if c.prefix != "" {
			modeltest.Close(t, "the image's latents", texts["kept"], want["i2v.condition"], 1e-4)
			first, got = first.Slice(2, 1, 2), got.Slice(2, 1, 2) // the image's own are put back
		}
		modeltest.Close(t, c.prefix+"latents after the first step", got, first, 5e-4)
		// The autoencoder of diffusers' folder makes the same frames of the same latents.
		decodeLatents(t, pipelinesDir+r.name, out+"/l.safetensors", out+"/d.safetensors", "reference")
		modeltest.Close(t, c.prefix+"frames", modeltest.Tensors(t, out+"/f")["frames"], modeltest.Tensors(t, out+"/d.safetensors")["frames"], 1e-4)
	}
}

// Wan2.1's i2v in its publisher's folder: what its own code makes of the image, by which the
// latents and the features differ from diffusers'; its noise levels, on which the latents are those
// of the reference; and the frames of the latents.
func TestOfficialFolderOfI2V(t *testing.T) {
	dir := officialFolder(t, "wan21_i2v", "wan2.1-vae", map[string]any{"model_type": "i2v", "dim": 48, "ffn_dim": 96, "freq_dim": 256, "in_dim": 36, "out_dim": 16,
		"num_heads": 3, "num_layers": 2, "eps": 1e-6, "text_dim": 32, "text_len": 512, "image_dim": 80})
	r := released{name: "wan21_i2v", size: "64x32", frames: 9}
	want := modeltest.Tensors(t, r.folder()+"/expected.safetensors")
	out := t.TempDir()
	args := r.args(t, out, "--device", "reference", "--shift", "3", "--image", r.folder()+"/image.png",
		"--frames-out", out+"/f", "--latents-out", out+"/l.safetensors", "--features-out", out+"/x")
	args[slices.Index(args, "--model")+1] = dir
	doc := generate(t, args...)
	checkLevels(t, doc, 3)
	given := modeltest.Tensors(t, out+"/x")
	modeltest.Close(t, "y", given["y"].Slice(1, 4, 20), want["official.image_latents"], 1e-4)
	modeltest.Close(t, "clip_fea", given["clip_fea"], want["official.image_embeds"], 1e-4)
	// The reference's latents on these levels are of diffusers' conditions.
	conditions, last := filepath.Join(out, "c.safetensors"), filepath.Join(out, "s.safetensors")
	if err := weft.WriteTensors(conditions, map[string]*tensor.Tensor{"y": want["condition"], "clip_fea": want["image_embeds"]}, false); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := weftRun(t, "sample", "--model", dir, "--context", out+"/x", "--negative", out+"/x", "--conditions", conditions,
		"--noise", r.folder()+"/inputs.safetensors", "--size", r.size, "--frames", "9", "--steps", "4", "--shift", "3", "--device", "reference", "--out", last)
	if code != 0 {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	steps := want["official.latents"]
	modeltest.Close(t, "latents", modeltest.Tensors(t, last)["latents"], steps.Rows(steps.Shape[0]-1, steps.Shape[0]), 5e-4)
	// The autoencoder of diffusers' folder makes the same frames of the generation's latents.
	decodeLatents(t, pipelinesDir+r.name, out+"/l.safetensors", out+"/d.safetensors", "reference")
	modeltest.Close(t, "frames", modeltest.Tensors(t, out+"/f")["frames"], modeltest.Tensors(t, out+"/d.safetensors")["frames"], 1e-4)
}

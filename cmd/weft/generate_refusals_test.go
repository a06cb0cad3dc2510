package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/checkpoint"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/tensor"
)

// What cannot be done is refused before any weight is read, with what can be done; nothing is
// left behind.
func TestGenerateRefusals(t *testing.T) {
	bare := t.TempDir() // a folder with a transformer alone
	if err := os.CopyFS(bare, os.DirFS(pipelinesDir+"wan21_t2v_official")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Wan2.1_VAE.pth", "models_t5_umt5-xxl-enc-bf16.pth", "google"} {
		if err := os.RemoveAll(filepath.Join(bare, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	noise := filepath.Join(dir, "noise")
	write := func(path string, x *tensor.Tensor) {
		if err := checkpoint.Write(path, map[string]*tensor.Tensor{"latents": x}, nil, checkpoint.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	write(noise, tensor.New(dtype.F32, 1, 16, 2, 4, 3))
	t.Setenv("PATH", "")
	t.Setenv("WEFT_FFMPEG", "")
	for _, c := range []struct {
		name, model string
		flags       []string
		kind        string
		says        []string
	}{
		{"height and frames", t2v, []string{"--size", "1920x1080", "--frames", "80"}, "size", []string{"1072 or 1088", "77 or 81", "nearest in aspect", "--size 1920x1088 --crop 1920x1080"}},
		{"crop", t2v, []string{"--crop", "64x16"}, "size", []string{"64x16", "32x32"}},
		{"crop's form", t2v, []string{"--crop", "64"}, "usage", []string{"WIDTHxHEIGHT"}},
		{"mp4 without ffmpeg", t2v, []string{"--out", "v.mp4"}, "no-ffmpeg", []string{".avi", ".png"}},
		{"gif", t2v, []string{"--out", "v.gif"}, "video-ending", []string{"GIF", ".mp4"}},
		{"no parts", bare, nil, "missing-part", []string{"models_t5_umt5-xxl-enc-bf16.pth", "google/umt5-xxl", "Wan2.1_VAE.pth", "--vae", "--text-encoder", "--tokenizer"}},
		{"2.2's autoencoder for 2.1's latents", t2v, []string{"--vae", pipelinesDir + "wan22_ti2v_5b/vae"}, "wrong-part", []string{"16 channels", "wan2.1-vae (Wan2.1_VAE.pth)"}},
		{"2.1's autoencoder for TI2V", pipelinesDir + "wan22_ti2v_5b", []string{"--vae", t2v + "/vae"}, "wrong-part", []string{"48 channels", "wan2.2-vae (Wan2.2_VAE.pth)"}},
		{"a text encoder as autoencoder", t2v, []string{"--vae", t2v + "/text_encoder"}, "wrong-part", []string{"umt5", "no autoencoder"}},
		{"an autoencoder as text encoder", t2v, []string{"--text-encoder", t2v + "/vae"}, "wrong-part", []string{"umt5-xxl"}},
		{"a text encoder of another width", t2v, []string{"--text-encoder", "../../testdata/umt5"}, "wrong-part", []string{"rows of 64", "rows of 32", "knows 128"}},
		{"another tokenizer", t2v, []string{"--tokenizer", "../../testdata/tokenizers/gemma"}, "", []string{"tokenizer"}},
		{"heads", t2v, []string{"--mesh", "tp=2"}, "heads-not-divisible", []string{"3 heads", "tp=2"}},
		{"noise of another size", t2v, []string{"--noise", noise}, "inputs", []string{"[1 16 2 4 3]", "[1 16 2 4 4]"}},
		{"noise without latents", t2v, []string{"--noise", t2v + "/transformer/diffusion_pytorch_model.safetensors"}, "inputs", []string{`"latents"`}},
		{"guidance", t2v, []string{"--guidance", "4,3"}, "inputs", []string{"one model"}},
		{"sampler and steps", t2v, []string{"--sampler", "magic", "--steps", "2"}, "unknown-sampler", []string{"unipc"}},
		{"trace of nothing", t2v, []string{"--trace"}, "usage", []string{"--latents-out"}},
		{"preview", t2v, []string{"--preview", "-1"}, "inputs", []string{"preview"}},
		{"both prompts", t2v, []string{"--prompts", "/dev/null"}, "usage", []string{"--prompt"}},
		{"a model of no latents", t2v + "/vae", nil, "", []string{"wan-vae"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := t.TempDir()
			t.Chdir(out)
			args := small("generate", absolute(c.model), filepath.Join(out, "v.avi"))
			for _, f := range c.flags {
				args = append(args, absolute(f))
			}
			code, stdout, stderr := weftRun(t, args...)
			doc := decode[failure](t, stdout)
			if code == 0 || c.kind != "" && doc.Error.Kind != c.kind {
				t.Errorf("exit %d: %s%s", code, stdout, stderr)
			}
			for _, s := range c.says {
				if !strings.Contains(stdout, strings.ReplaceAll(s, `"`, `\"`)) {
					t.Errorf("%s does not say %q", stdout, s)
				}
			}
			if left := namesBelow(t, out); len(left) > 0 {
				t.Errorf("left are %q", left)
			}
		})
	}
}

// testDir is where the tests of this package run.
var testDir, _ = os.Getwd()

// absolute makes the name of a file in testdata one that holds in every folder.
func absolute(path string) string {
	if strings.HasPrefix(path, "../") {
		return filepath.Join(testDir, path)
	}
	return path
}

// Latents that are no numbers end a generation at the first step that makes them, and those of
// the step before stay, to look at and to decode.
func TestNaNKeepsTheLastGoodLatents(t *testing.T) {
	// The second of two experts has a weight that is no number: the first one's steps are good.
	broken := t.TempDir()
	if err := os.CopyFS(broken, os.DirFS(pipelinesDir+"wan22_t2v_a14b")); err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(broken, "transformer_2", "diffusion_pytorch_model.safetensors")
	ts := modeltest.Tensors(t, weights)
	w := ts["proj_out.bias"]
	w.Data[len(w.Data)-1] = 0x7f // the high byte of a NaN in bf16, with the one below
	w.Data[len(w.Data)-2] = 0xc0
	if err := checkpoint.Write(weights, ts, nil, checkpoint.WriteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "v.avi")
	code, stdout, _ := weftRun(t, small("generate", broken, out, "--steps", "4", "--seed", "1")...)
	doc := decode[failure](t, stdout)
	if code != 1 || doc.Error.Kind != "non-finite" || !strings.Contains(doc.Error.Message, "last good latents") || !strings.Contains(doc.Error.Message, "usual causes") {
		t.Fatalf("exit %d: %s", code, stdout)
	}
	step, ok := doc.Error.Fields["step"].(float64)
	if !ok || step < 1 {
		t.Fatalf("%+v: want a step after the first", doc.Error.Fields)
	}
	kept := out + ".state/latents.safetensors"
	if count, _ := modeltest.Tensors(t, kept)["latents"].NonFinite(); count > 0 {
		t.Errorf("%d of the latents that are kept are no numbers", count)
	}
}

// Streamed weights, a crop and tiles go through the command too; offloading leaves the bytes as
// they are.
func TestGenerateOtherWays(t *testing.T) {
	dir := t.TempDir()
	frames := func(name string, more ...string) (generated, *tensor.Tensor) {
		path := filepath.Join(dir, name)
		doc := generate(t, small("generate", t2v, path+".avi", append(more, "--seed", "2", "--frames-out", path)...)...)
		return doc, modeltest.Tensors(t, path)["frames"]
	}
	_, whole := frames("whole")
	_, streamed := frames("streamed", "--offload", "all")
	modeltest.Close(t, "streamed", streamed, whole, 0)
	doc, cropped := frames("cropped", "--crop", "20x16")
	modeltest.Close(t, "cropped", cropped, whole.Slice(1, 8, 24).Slice(2, 6, 26), 0)
	if doc.Width != 20 || doc.Height != 16 {
		t.Errorf("%dx%d", doc.Width, doc.Height)
	}
	doc, tiled := frames("tiled", "--tile", "16x16,8x8")
	if tiled.Elements() != whole.Elements() || !strings.Contains(strings.Join(doc.Notes, "\n"), "tiles") {
		t.Errorf("%v in tiles, notes %q", tiled, doc.Notes)
	}
	doc, _ = frames("fps", "--fps", "24")
	if doc.FPS != 24 || !strings.Contains(strings.Join(doc.Notes, "\n"), "trained for 16") {
		t.Errorf("%g frames a second, notes %q", doc.FPS, doc.Notes)
	}
}

package main

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/modeltest"
)

const t2v = pipelinesDir + "wan21_t2v"

// small is a command that makes a small video in the interpreter.
func small(command, model, out string, more ...string) []string {
	args := []string{command, "--model", model, "--prompt", "A cat walks on the grass", "--size", "32x32", "--frames", "5", "--steps", "2",
		"--dtype", "f32", "--device", "reference", "--json", "--out", out}
	return append(args, more...)
}

// readFile reads a file that must be there.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A folder and a prompt are enough: the rest is the release's own, and its source is said. Of
// the text encoder's table only the rows of the prompts' ids are read.
func TestGenerateWithLittle(t *testing.T) {
	out := filepath.Join(t.TempDir(), "v.png")
	doc := generate(t, small("generate", t2v, out)...)
	if doc.Out != out || doc.Frames != 5 || doc.Width != 32 || doc.Height != 32 || doc.FPS != 16 || doc.Engine.Name != "reference" || doc.Peak <= 0 {
		t.Errorf("%+v", doc)
	}
	sources := map[string]string{"negative_prompt": "Wan2.1", "shift": "scheduler_config.json", "guidance": "wan_t2v", "fps": "wan_t2v", "steps": "flag", "prompt": "flag"}
	for name, from := range sources {
		if s := doc.Settings[name]; !strings.Contains(s.From, from) {
			t.Errorf("%s is %v from %q, want from %q", name, s.Value, s.From, from)
		}
	}
	if s := doc.Settings["negative_prompt"].Value; !strings.HasPrefix(fmt.Sprint(s), "色调艳丽") {
		t.Errorf("negative prompt %v", s)
	}
	names := []string{}
	for _, p := range doc.Phases {
		names = append(names, p.Name)
		if p.Mesh == "" || p.Seconds <= 0 || p.Peak <= 0 || p.BytesRead <= 0 {
			t.Errorf("phase %+v", p)
		}
	}
	if !slices.Equal(names, []string{"text", "denoise", "decode"}) {
		t.Errorf("phases %v", names)
	}
	info, err := os.Stat(t2v + "/text_encoder/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	// The table has 2900 rows of 32 numbers of two bytes; the texts have some 130 ids.
	if read, table := doc.Phases[0].BytesRead, int64(2900*32*2); read > info.Size()-table+200*64 || read < info.Size()-table-20000 {
		t.Errorf("%d bytes of a text encoder of %d are read, with a table of %d", read, info.Size(), table)
	}
	if left := namesBelow(t, filepath.Dir(out)); !slices.Equal(left, []string{"v.png"}) {
		t.Errorf("left are %q", left)
	}
}

// Encoding, sampling and decoding by themselves give what all of it gives.
func TestPhasesByThemselves(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	whole := generate(t, small("generate", t2v, path("v.avi"), "--seed", "5", "--latents-out", path("l"), "--features-out", path("x"), "--frames-out", path("f"))...)
	if whole.Seed != 5 {
		t.Errorf("seed %d", whole.Seed)
	}
	must := func(args ...string) {
		t.Helper()
		if code, stdout, stderr := weftRun(t, args...); code != 0 {
			t.Fatalf("%q: exit %d, %s%s", args, code, stdout, stderr)
		}
	}
	must("encode", "--model", t2v, "--prompt", "A cat walks on the grass", "--dtype", "f32", "--device", "reference", "--json", "--out", path("x2"))
	must("sample", "--model", t2v+"/transformer", "--context", path("x2"), "--negative", path("x2"), "--conditions", path("x2"), "--size", "32x32", "--frames", "5", "--steps", "2",
		"--seed", "5", "--device", "reference", "--out", path("l2"))
	must("decode", "--model", t2v, "--latents", path("l2"), "--device", "reference", "--out", path("v2.avi"), "--json")
	must("decode", "--model", t2v, "--latents", path("l2"), "--device", "reference", "--out", path("f2.safetensors"), "--json")
	for a, b := range map[string]string{"x": "x2", "l": "l2", "f": "f2.safetensors"} {
		if !bytes.Equal(readFile(t, path(a)), readFile(t, path(b))) {
			t.Errorf("%s and %s differ", a, b)
		}
	}
	if a, b := len(readFile(t, path("v.avi"))), len(readFile(t, path("v2.avi"))); a < 1000 || b < 1000 {
		t.Errorf("videos of %d and %d bytes", a, b)
	}
	code, stdout, _ := weftRun(t, "decode", "--model", t2v, "--latents", path("x2"), "--device", "reference", "--out", path("v3.avi"), "--json")
	if doc := decode[failure](t, stdout); code != 2 || !strings.Contains(doc.Error.Message, "latents") {
		t.Errorf("a file without latents: exit %d, %s", code, stdout)
	}
}

// One seed is one video, on every mesh; without one, two videos differ.
func TestSeeds(t *testing.T) {
	dir := t.TempDir()
	latents := func(name string, more ...string) (string, uint64) {
		path := filepath.Join(dir, name)
		doc := generate(t, small("generate", t2v, filepath.Join(dir, name+".avi"), append(more, "--latents-out", path)...)...)
		return path, doc.Seed
	}
	one, _ := latents("one", "--seed", "9")
	meshes := []string{"sp=3"}
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		meshes = append(meshes, "tp=3", "dp=2")
	}
	for _, mesh := range meshes {
		other, _ := latents(mesh, "--seed", "9", "--mesh", mesh)
		modeltest.Close(t, mesh, modeltest.Tensors(t, other)["latents"], modeltest.Tensors(t, one)["latents"], 1e-4)
	}
	_, a := latents("drawn", "--steps", "1")
	drawn, b := latents("drawn again", "--steps", "1")
	if a == b {
		t.Errorf("seed %d is drawn twice", a)
	}
	again, c := latents("by name", "--steps", "1", "--seed", fmt.Sprint(b))
	if b != c || !bytes.Equal(readFile(t, drawn), readFile(t, again)) {
		t.Errorf("the seed %d that was drawn gives other latents", b)
	}
}

// A file of prompts gives a video of each, as the prompts by themselves would.
func TestListOfPrompts(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "prompts.jsonl")
	lines := `"A cat walks on the grass"` + "\n\n" + `{"prompt": "Two lines\nof text", "negative": "", "seed": 3}` + "\n"
	if err := os.WriteFile(list, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	args := small("generate", t2v, filepath.Join(dir, "v.avi"), "--prompts", list, "--seed", "7", "--latents-out", filepath.Join(dir, "l.safetensors"))
	args = slices.Delete(args, 3, 5) // --prompt
	code, stdout, stderr := weftRun(t, args...)
	if code != 0 {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	doc := decode[struct{ Videos []generated }](t, stdout)
	if len(doc.Videos) != 2 || doc.Videos[0].Seed != 7 || doc.Videos[1].Seed != 3 ||
		doc.Videos[1].Out != filepath.Join(dir, "v-002.avi") || doc.Videos[1].Phases[0].Name != "denoise" {
		t.Errorf("%+v", doc)
	}
	alone := filepath.Join(dir, "alone")
	generate(t, append(small("generate", t2v, filepath.Join(dir, "alone.avi")), "--prompt", "Two lines\nof text", "--negative", "", "--seed", "3", "--latents-out", alone)...)
	if !bytes.Equal(readFile(t, alone), readFile(t, filepath.Join(dir, "l-002.safetensors"))) {
		t.Error("the second video differs from its prompt's own")
	}
	// What is there is passed over when the list is gone on with.
	if err := os.Remove(filepath.Join(dir, "v-002.avi")); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "l-002.safetensors"))
	_, stdout, _ = weftRun(t, append(args, "--resume")...)
	again := decode[struct {
		Videos  []generated
		Skipped int
	}](t, stdout)
	if len(again.Videos) != 1 || again.Skipped != 1 || again.Videos[0].Out != doc.Videos[1].Out {
		t.Errorf("gone on with: %s", stdout)
	}
	for text, says := range map[string]string{"": "no prompt", "{}\n": "prompt", `"a` + "\n": "line 1", `{"prompt":"a","style":"b"}`: "style", `{"prompt":"a","seed":-1}`: "seed"} {
		if err := os.WriteFile(list, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if code, stdout, _ := weftRun(t, args...); code != 2 || !strings.Contains(stdout, says) {
			t.Errorf("%q: exit %d, %s", text, code, stdout)
		}
	}
}

// A preview is a picture of the latent frames beside each other.
func TestPreview(t *testing.T) {
	out := filepath.Join(t.TempDir(), "v.avi")
	doc := generate(t, small("generate", t2v, out, "--preview", "2", "--frames", "9")...)
	f, err := os.Open(doc.Files["preview"])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	im, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if size := im.Bounds().Size(); size.X != 3*4 || size.Y != 4 {
		t.Errorf("a picture of %v", size)
	}
	shades := map[any]bool{}
	for x := range 12 {
		shades[im.At(x, 0)] = true
	}
	if len(shades) < 6 {
		t.Errorf("%d colours in 12 latents of noise", len(shades))
	}
}

// Of more than the text encoder reads the rest is cut, and it is said where.
func TestLongPrompts(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100) + "Then it rests."
	doc := generate(t, small("generate", t2v, filepath.Join(dir, "v.avi"), "--prompt", long)...)
	notes := strings.Join(doc.Notes, "\n")
	if doc.Text.Used != 512 || doc.Text.Tokens <= 512 || !strings.Contains(doc.Text.CutAt, " | ") || !strings.Contains(notes, "cut at") {
		t.Errorf("%+v, notes %s", doc.Text, notes)
	}
	code, stdout, _ := weftRun(t, small("generate", t2v, filepath.Join(dir, "w.avi"), "--prompt", long, "--no-truncate")...)
	if doc := decode[failure](t, stdout); code != 2 || doc.Error.Kind != "prompt-too-long" || doc.Error.Fields["used"] != 512. {
		t.Errorf("exit %d, %s", code, stdout)
	}
	for _, empty := range []string{"", " \t\n", "\u200b"} {
		doc := generate(t, small("generate", t2v, filepath.Join(dir, "v.avi"), "--prompt", empty, "--force", "--steps", "1")...)
		if notes := strings.Join(doc.Notes, "\n"); doc.Text.Tokens > 2 || empty != "\u200b" && !strings.Contains(notes, "empty") {
			t.Errorf("%q has %d tokens, notes %s", empty, doc.Text.Tokens, notes)
		}
	}
}

// A14B's own folder has its experts in folders and the other parts beside them. It is run with
// the release's own settings, of which diffusers' copy has another shift.
func TestOfficialFolderOfTwoExperts(t *testing.T) {
	dir := t.TempDir()
	copyTo := func(from, to string) {
		t.Helper()
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	copyTo(pipelinesDir+"wan22_t2v_a14b/transformer", "high_noise_model")
	copyTo(pipelinesDir+"wan22_t2v_a14b/transformer_2", "low_noise_model")
	copyTo(pipelinesDir+"wan21_t2v_official/google", "google")
	for _, name := range []string{"Wan2.1_VAE.pth", "models_t5_umt5-xxl-enc-bf16.pth"} {
		if err := os.WriteFile(filepath.Join(dir, name), readFile(t, pipelinesDir+"wan21_t2v_official/"+name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	doc := generate(t, small("generate", dir, filepath.Join(t.TempDir(), "v.avi"), "--steps", "8")...)
	high := 0
	for _, s := range doc.Steps {
		if s.Expert == "high noise" {
			high++
		}
	}
	if shift := doc.Settings["shift"].Value; shift != 12. || high < 4 || high == 8 || fmt.Sprint(doc.Settings["guidance"].Value) != "[4 3]" {
		t.Errorf("shift %v, %d of 8 steps of high noise, settings %v", shift, high, doc.Settings)
	}
	// It wants Wan2.1's autoencoder, and not the one that came with TI2V-5B.
	code, stdout, _ := weftRun(t, small("generate", dir, filepath.Join(t.TempDir(), "v.avi"), "--vae", pipelinesDir+"wan22_ti2v_5b/vae")...)
	if doc := decode[failure](t, stdout); code != 2 || doc.Error.Kind != "wrong-part" || !strings.Contains(doc.Error.Message, "Wan2.1_VAE.pth") {
		t.Errorf("exit %d, %s", code, stdout)
	}
}

// Parts that lie elsewhere are named one by one, in whichever layout they are.
func TestPartsByName(t *testing.T) {
	dir := t.TempDir()
	official := pipelinesDir + "wan21_t2v_official/"
	latents := func(name string, more ...string) []byte {
		path := filepath.Join(dir, name)
		generate(t, small("generate", t2v, filepath.Join(dir, name+".avi"), append(more, "--seed", "1", "--negative", "", "--frames-out", path)...)...)
		return readFile(t, path)
	}
	own := latents("own")
	for name, flags := range map[string][]string{
		"all":    {"--text-encoder", official + "models_t5_umt5-xxl-enc-bf16.pth", "--tokenizer", official + "google/umt5-xxl", "--vae", official + "Wan2.1_VAE.pth"},
		"spiece": {"--tokenizer", "../../testdata/tokenizers/umt5/spiece.model"},
	} {
		if !bytes.Equal(own, latents(name, flags...)) {
			t.Errorf("%s: other frames", name)
		}
	}
}

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft/internal/modeltest"
	"weft/tensor"
)

// pipelinesDir has small releases with every value on the way to their videos, by diffusers
// 0.42.1 in f32.
const pipelinesDir = "../../testdata/pipelines/"

// released is a release in testdata that a video is made with.
type released struct {
	name   string // of the folder
	texts  string // the folder that has its text's values and request; "" is its own
	values string // the file with its values; "" is "values"
	prefix string // of the values' names
	size   string
	frames int
	flags  []string
	noise  string // the file of its noise; "" is "inputs"
	// negative says that the text's negative prompt is not the release's own, and is asked for.
	negative bool
}

// i2vParts are the parts that the folder of wan22_i2v_a14b lacks: wan21_i2v has them.
var i2vParts = []string{"--text-encoder", pipelinesDir + "wan21_i2v/text_encoder", "--tokenizer", pipelinesDir + "wan21_i2v/tokenizer", "--vae", pipelinesDir + "wan21_i2v/vae"}

// controlParts are the parts that the folders of wan21_flf2v and wan21_vace lack.
var controlParts = slices.Concat(i2vParts, []string{"--image-encoder", pipelinesDir + "wan21_i2v/image_encoder"})

var wanReleases = []released{
	{name: "wan21_t2v", size: "64x32", frames: 9},
	{name: "wan21_t2v_official", texts: "wan21_t2v", prefix: "official.", size: "64x32", frames: 9, flags: []string{"--shift", "3"}},
	{name: "wan22_t2v_a14b", size: "48x32", frames: 9},
	{name: "wan22_t2v_a14b", prefix: "shift_12.", size: "48x32", frames: 9, flags: []string{"--shift", "12"}},
	{name: "wan22_ti2v_5b", size: "64x32", frames: 5},
	{name: "wan21_i2v", size: "64x32", frames: 9, flags: []string{"--image", pipelinesDir + "wan21_i2v/image.png"}},
	{name: "wan22_ti2v_5b", prefix: "i2v.", size: "64x32", frames: 5, flags: []string{"--image", pipelinesDir + "wan22_ti2v_5b/image.png"}},
	{name: "wan22_i2v_a14b", texts: "wan21_i2v", values: "expected", size: "48x32", frames: 9,
		flags: slices.Concat(i2vParts, []string{"--image", pipelinesDir + "wan21_i2v/image.png"})},
	{name: "wan22_i2v_a14b", texts: "wan21_i2v", values: "expected", prefix: "last.", size: "48x32", frames: 9,
		flags: slices.Concat(i2vParts, []string{"--image", pipelinesDir + "wan21_i2v/image.png", "--last-image", pipelinesDir + "wan22_ti2v_5b/image.png"})},
	{name: "wan21_flf2v", texts: "wan21_i2v", values: "values", size: "48x32", frames: 9, negative: true,
		flags: slices.Concat(controlParts, []string{"--image", pipelinesDir + "wan21_i2v/image.png", "--last-image", pipelinesDir + "wan21_flf2v/last.png"})},
	{name: "wan21_vace", texts: "wan21_i2v", values: "values", prefix: "control.", size: "48x32", frames: 9, flags: slices.Concat(controlParts, controlFlags)},
	{name: "wan21_vace", texts: "wan21_i2v", values: "values", prefix: "text.", size: "48x32", frames: 9, flags: controlParts, noise: "text_inputs"},
}

// controlFlags are the control video, its mask and the images that wan21_vace's video refers to.
var controlFlags = []string{"--video", pipelinesDir + "wan21_vace/video.png", "--mask", pipelinesDir + "wan21_vace/mask", "--reference", pipelinesDir + "wan21_vace/reference_1.png",
	"--reference", pipelinesDir + "wan21_vace/reference_2.png", "--conditioning-scale", "0.75,1.25"}

// prompts reads the texts of a release's request.
func (r released) prompts(t testing.TB) (prompt, negative string) {
	t.Helper()
	raw, err := os.ReadFile(r.textsFolder() + "/request.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Prompt   string
		Negative string `json:"negative_prompt"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Prompt, doc.Negative
}

// textsFolder is the folder of the text's values and of the request.
func (r released) textsFolder() string { return pipelinesDir + cmp.Or(r.texts, r.name) }

// folder has the release's noise, and its values.
func (r released) folder() string {
	if r.texts != "" && r.values == "" {
		return r.textsFolder()
	}
	return pipelinesDir + r.name
}

// args is the command that makes the release's video into a folder.
func (r released) args(t testing.TB, out string, more ...string) []string {
	t.Helper()
	prompt, negative := r.prompts(t)
	args := []string{"generate", "--model", pipelinesDir + r.name, "--prompt", prompt, "--size", r.size, "--frames", fmt.Sprint(r.frames), "--steps", "4",
		"--noise", r.folder() + "/" + cmp.Or(r.noise, "inputs") + ".safetensors", "--dtype", "f32", "--json", "--out", out + "/v.avi"}
	if r.negative {
		args = append(args, "--negative", negative)
	}
	return slices.Concat(args, r.flags, more)
}

// generated is the JSON of a generation.
type generated struct {
	Out                   string
	Frames, Width, Height int
	FPS                   float64
	Seed                  uint64
	Settings              map[string]struct {
		Value any
		From  string
	}
	Text struct {
		Tokens, Used int
		CutAt        string `json:"cut_at"`
	}
	Phases []struct {
		Name, Mesh string
		Seconds    float64
		Peak       int64 `json:"peak_rss_bytes"`
		BytesRead  int64 `json:"bytes_read"`
	}
	Steps []struct {
		Step            int
		Timestep, Sigma float64
		Expert          string
	}
	Resumed *int  `json:"resumed_at_step"`
	Peak    int64 `json:"peak_rss_bytes"`
	Engine  struct{ Name string }
	Files   map[string]string
	Notes   []string
}

// generate runs a command that must succeed.
func generate(t testing.TB, args ...string) generated {
	t.Helper()
	code, stdout, stderr := weftRun(t, args...)
	if code != 0 {
		t.Fatalf("%q: exit %d, %s%s", args, code, stdout, stderr)
	}
	return decode[generated](t, stdout)
}

// Every value on the way to the video is the release's: text, timesteps, latents after each step,
// frames before and after rounding. The interpreter runs every release on two devices, the first
// of them on one device too; XLA runs one mesh, since compiling takes long. With WEFT_LONG_TESTS both
// run all on every mesh. (The small transformers have three heads.)
func TestGenerateGivesTheReleasesValues(t *testing.T) {
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	for i, r := range wanReleases {
		for _, device := range modeltest.Devices() {
			for _, mesh := range []string{"tp=1", "sp=3", "dp=2", "tp=3", "dp=2,sp=3"} {
				wanted := device == "reference" && (i == 0 && mesh == "tp=1" || mesh == "dp=2") || device == "cpu" && i == 0 && mesh == "tp=3"
				if !wanted && !long {
					continue
				}
				t.Run(r.name+r.prefix+" "+device+" "+mesh, func(t *testing.T) {
					out := t.TempDir()
					doc := generate(t, r.args(t, out, "--device", device, "--mesh", mesh, "--frames-out", out+"/f", "--latents-out", out+"/l", "--trace", "--features-out", out+"/x")...)
					r.compare(t, doc, out)
				})
			}
		}
	}
}

// compare holds what a generation wrote against the release's values.
func (r released) compare(t *testing.T, doc generated, out string) {
	t.Helper()
	want := modeltest.Tensors(t, r.folder()+"/"+cmp.Or(r.values, "values")+".safetensors")
	texts, latents, frames := modeltest.Tensors(t, out+"/x"), modeltest.Tensors(t, out+"/l"), modeltest.Tensors(t, out+"/f")
	text := modeltest.Tensors(t, r.textsFolder()+"/values.safetensors")["text_embeds"]
	rows := text.Shape[1]
	for i, name := range []string{"context", "negative"} {
		modeltest.Close(t, name, texts[name].Slice(1, 0, rows), text.Rows(i, i+1), 1e-4)
		modeltest.Close(t, name+" behind its end", texts[name].Slice(1, rows, 512), tensor.New(text.DType, 1, 512-rows, text.Shape[2]), 0)
	}
	steps := want[r.prefix+"latents"]
	for i := range steps.Shape[0] {
		modeltest.Close(t, fmt.Sprint("latents after step ", i), latents[fmt.Sprint("latents_", i)], steps.Rows(i, i+1), 5e-4)
	}
	if want[r.prefix+"timesteps"] == nil {
		return
	}
	times, _ := want[r.prefix+"timesteps"].Float32s()
	sigmas, _ := want[r.prefix+"sigmas"].Float32s()
	if len(doc.Steps) != len(times) {
		t.Fatalf("%d steps, want %d", len(doc.Steps), len(times))
	}
	for i, s := range doc.Steps {
		if s.Timestep != float64(times[i]) || math.Abs(s.Sigma-float64(sigmas[i])) > 1e-6 {
			t.Errorf("step %d has timestep %g and sigma %g, want %g and %g", i, s.Timestep, s.Sigma, times[i], sigmas[i])
		}
	}
	if experts := want[r.prefix+"expert"]; experts != nil {
		numbers, _ := experts.Int64s()
		for i, s := range doc.Steps {
			if name := []string{"high noise", "low noise"}[numbers[i]]; s.Expert != name {
				t.Errorf("step %d is the expert's of %s, want %s", i, s.Expert, name)
			}
		}
	}
	if f := want[r.prefix+"frames"]; f != nil {
		modeltest.Close(t, "frames", frames["frames"], f, 1e-3)
		compareBytes(t, frames["frames_u8"].Data, want[r.prefix+"frames_u8"].Data)
	}
	if info, err := os.Stat(filepath.Join(out, "v.avi")); err != nil || info.Size() < 1000 {
		t.Errorf("the video: %v %v", info, err)
	}
	if left := namesBelow(t, out); !slices.Equal(left, []string{"f", "l", "v.avi", "x"}) {
		t.Errorf("left are %q", left)
	}
}

// compareBytes asks for bytes that differ by at most 1, and at most 1 % of them.
func compareBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	differ, most := 0, 0
	for i := range got {
		if d := max(int(got[i]), int(want[i])) - min(int(got[i]), int(want[i])); d > 0 {
			differ, most = differ+1, max(most, d)
		}
	}
	if most > 1 || differ*100 > len(got) {
		t.Errorf("%d of %d bytes differ, by %d at most", differ, len(got), most)
	}
}

// jsonNumber is a seed as a flag takes it.
func jsonNumber(n uint64) string { return fmt.Sprint(n) }

package weft_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/pipeline"
	"weft/request"
	"weft/sampler"
	"weft/tensor"
)

const pipelinesDir = "testdata/pipelines/"

// familyRelease is a small release of a family other than Wan's, with every value on the way to its
// video by diffusers in f32.
type familyRelease struct {
	name      string
	flags     string
	noise     string // the file with its draws; "" is inputs
	mesh      string // the mesh of two devices that it is split over
	tolerance float64
	release   string // "" is the one that the folder points to
	negated   bool   // what stands behind a negative prompt differs from what stands behind a prompt
}

var familyReleases = []familyRelease{
	{"cosmos25_t2w", "--size 48x32 --frames 9", "", "tp=2", 1e-3, "", false},
	{"hunyuan_video", "--size 48x32 --frames 9", "", "sp=2", 5e-4, "", false},
	{"cogvideox_2b", "--size 48x32 --frames 9", "", "tp=2", 5e-4, "", false},
	{"cogvideox_5b", "--size 32x48 --frames 17", "", "dp=2", 5e-4, "", false},
	{"ltx_090", "--size 96x32 --frames 9", "noise", "sp=2", 5e-4, "", false},
	{"ltx_095_i2v", "--size 32x64 --frames 9", "", "tp=2", 5e-4, "", false},
	{"cogvideox_5b_i2v", "", "", "tp=2", 5e-4, "", false}, // of the only size and number of frames that its positions are made for
	{"cogvideox15_5b", "--size 32x16 --frames 17", "", "sp=2", 5e-4, "", false},
	{"cogvideox15_5b_i2v", "--size 16x48 --frames 9", "", "dp=2", 5e-4, "", false},
	{"hunyuan_i2v", "--size 48x16 --frames 9", "", "sp=2", 5e-4, "", false},
	{"hunyuan_i2v_33ch", "--size 16x48 --frames 5", "", "tp=2", 5e-4, "", false}, // 9 frames are decoded
	// HunyuanVideo-1.5's thousand rows of text, most of them padding that nothing reads, take the
	// interpreter long: these have fewer.
	{"hunyuan15_t2v", "--size 32x16 --frames 9 --text-len 170", "", "dp=2", 5e-4, "", false},
	{"hunyuan15_i2v", "--frames 5 --text-len 170", "", "sp=2", 5e-4, "", false}, // of the size that the image's aspect makes
	{"ltx25_t2v", "--size 64x32 --frames 9 --text-len 48", "", "sp=2", 5e-4, "ltx2.5-22b-dev", false},
	{"cosmos3_nano_t2v", "--size 64x32 --frames 5 --fps 16", "", "tp=2", 1e-3, "", true},
}

// splitAlone are releases that run on one device in long tests alone.
var splitAlone = []string{"cogvideox_5b_i2v", "cogvideox15_5b", "cogvideox15_5b_i2v", "hunyuan_i2v", "hunyuan_i2v_33ch", "hunyuan15_t2v", "hunyuan15_i2v"}

// texts reads the prompts of a release's request; negative is nil where it has none.
func (r familyRelease) texts(t *testing.T) (prompt string, negative *string) {
	t.Helper()
	raw, err := os.ReadFile(pipelinesDir + r.name + "/request.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Prompt   string
		Negative *string `json:"negative_prompt"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Prompt, doc.Negative
}

// image is the picture that the release's video begins with, "" for none.
func (r familyRelease) image() string {
	path := pipelinesDir + r.name + "/image.png"
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// options are those of the release's video, of which everything is written into a folder.
func (r familyRelease) options(t *testing.T, device, mesh, out string) weft.GenerateOptions {
	t.Helper()
	prompt, negative := r.texts(t)
	req := request.Must(r.flags + " --steps 4 --dtype f32 --mesh=" + mesh)
	noise := "inputs"
	if r.noise != "" {
		noise = r.noise
	}
	return weft.GenerateOptions{Run: weft.Options{Device: device, Request: req}, Video: pipeline.Options{
		Image:   r.image(),
		Request: req, Prompt: prompt, Negative: negative, Noise: pipelinesDir + r.name + "/" + noise + ".safetensors",
		FramesOut: out + "/f", LatentsOut: out + "/l", FeaturesOut: out + "/x", Trace: true,
	}}
}

// generateFamily makes the release's video.
func (r familyRelease) generate(t *testing.T, o weft.GenerateOptions) *weft.Generated {
	t.Helper()
	p, err := weft.OpenPipeline(pipelinesDir+r.name, pipeline.OpenOptions{Release: r.release})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	doc, err := p.Generate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// Every value on the way to the video of every family is the release's: text, timesteps, latents
// after each step in the release's order, frames before and after rounding; on one device and
// split. What decode makes of the latents are the same frames.
func TestFamiliesGiveTheReleasesValues(t *testing.T) {
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	for _, r := range familyReleases {
		for _, device := range modeltest.Devices() {
			for _, mesh := range []string{"tp=1", r.mesh} {
				if (device != "reference" || slices.Contains(splitAlone, r.name) && mesh == "tp=1") && !long {
					continue // compiling takes long
				}
				t.Run(r.name+" "+device+" "+mesh, func(t *testing.T) {
					out := t.TempDir()
					r.compare(t, r.generate(t, r.options(t, device, mesh, out)), out)
				})
			}
		}
	}
}

// compare holds what a generation wrote against the release's values.
func (r familyRelease) compare(t *testing.T, doc *weft.Generated, out string) {
	t.Helper()
	want := modeltest.Tensors(t, pipelinesDir+r.name+"/values.safetensors")
	features, latents, frames := modeltest.Tensors(t, out+"/x"), modeltest.Tensors(t, out+"/l"), modeltest.Tensors(t, out+"/f")
	if embeds := want["text_embeds"]; embeds != nil {
		for i, name := range []string{"context", "negative"}[:embeds.Shape[0]] {
			rows := embeds.Rows(i, i+1)
			modeltest.Close(t, name, features[name].Slice(1, 0, rows.Shape[1]), rows, 1e-4) // those of padding may not be kept
		}
	}
	for name, ids := range map[string]string{"context": "ids", "negative": "negative_ids"} { // of a transformer that reads tokens
		if w := want[ids]; want["text_embeds"] == nil && (w == nil || !bytes.Equal(features[name].Data, w.Data)) {
			t.Errorf("the ids of %s are %v, want %v", name, features[name], w)
		}
	}
	compareImage(t, features, want)
	if w := want["pooled_embeds"]; w != nil {
		modeltest.Close(t, "pooled", features["pooled"], w, 1e-4)
	}
	if w := want["text_mask"]; w != nil && !bytes.Equal(features["context_mask"].Data, w.Data) {
		t.Errorf("the mask of the text is %v, want %v", features["context_mask"], w)
	}
	steps := want["latents"]
	for i := range steps.Shape[0] {
		got, own := latents[fmt.Sprint("latents_", i)], steps.Rows(i, i+1)
		if kept := latents["kept"]; kept != nil && len(own.Shape) == len(got.Shape) && own.Shape[2] < got.Shape[2] {
			got = got.Slice(2, kept.Shape[2], got.Shape[2]) // the release steps the frames that are not given
		}
		modeltest.Close(t, fmt.Sprint("latents after step ", i), got, own, r.tolerance)
	}
	r.compareLevels(t, doc, want)
	modeltest.Close(t, "frames", frames["frames"], want["frames"], 1e-3)
	differ := 0
	for i, b := range frames["frames_u8"].Data {
		if d := int(b) - int(want["frames_u8"].Data[i]); d != 0 {
			if differ++; d < -1 || d > 1 {
				t.Fatalf("byte %d differs by %d", i, d)
			}
		}
	}
	if differ*100 > len(want["frames_u8"].Data) {
		t.Errorf("%d of %d bytes differ", differ, len(want["frames_u8"].Data))
	}
	r.compareDecoded(t, out, frames["frames"])
}

// compareImage holds what the image became, and the second text, against the release's values.
func compareImage(t *testing.T, features, want map[string]*tensor.Tensor) {
	t.Helper()
	if w := want["condition"]; w != nil {
		got := features["y"]
		if got == nil {
			got = features["kept"]
		}
		modeltest.Close(t, "the image's latents", got, w, 1e-4)
	}
	if w := want["image_embeds"]; w != nil {
		modeltest.Close(t, "the image's rows", features["vision"], w, 1e-4)
	}
	if w := want["byt5_embeds"]; w != nil {
		modeltest.Close(t, "the letters' rows", features["byt5"].Slice(1, 0, w.Shape[1]), w, 1e-4)
	}
}

// compareLevels holds timesteps and noise levels against the release's, which has them in f32.
func (r familyRelease) compareLevels(t *testing.T, doc *weft.Generated, want map[string]*tensor.Tensor) {
	t.Helper()
	times, err := want["timesteps"].Float32s()
	if err != nil || len(times) != len(doc.Steps) {
		t.Fatalf("%d steps, want those of %v: %v", len(doc.Steps), times, err)
	}
	for i, s := range doc.Steps {
		if math.Abs(s.Timestep-float64(times[i])) > 1e-3 {
			t.Errorf("step %d has timestep %g, want %g", i, s.Timestep, times[i])
		}
	}
	if want["sigmas"] == nil {
		return
	}
	sigmas, _ := want["sigmas"].Float32s()
	for i, s := range doc.Steps {
		if math.Abs(s.Sigma-float64(sigmas[i])) > 1e-6 {
			t.Errorf("step %d has sigma %g, want %g", i, s.Sigma, sigmas[i])
		}
	}
}

// compareDecoded decodes the latents that a generation wrote.
func (r familyRelease) compareDecoded(t *testing.T, out string, frames *tensor.Tensor) {
	t.Helper()
	p, err := weft.OpenPipeline(pipelinesDir+r.name, pipeline.OpenOptions{Need: []pipeline.Part{pipeline.Autoencoder}, Release: r.release})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o := r.options(t, "reference", "tp=1", out)
	o.Video = pipeline.Options{FramesOut: out + "/again", Noise: o.Video.Noise}
	if _, err := p.Decode(t.Context(), out+"/l", o); err != nil {
		t.Fatal(err)
	}
	modeltest.Close(t, "frames decoded again", modeltest.Tensors(t, out+"/again")["frames"], frames, 1e-4)
}

// The model's output in the first step, for the prompt and for the negative prompt, is the
// release's. It is found from the latents after the step without guidance, since they are linear
// in it.
func TestFamiliesGiveTheReleasesVelocities(t *testing.T) {
	for _, r := range familyReleases {
		if r.image() != "" {
			continue // its first frame is no result of the model's output
		}
		t.Run(r.name, func(t *testing.T) {
			want := modeltest.Tensors(t, pipelinesDir+r.name+"/values.safetensors")
			prompt, negative := r.texts(t)
			for name, text := range map[string]*string{"noise_cond": &prompt, "noise_uncond": negative} {
				if want[name] == nil || r.negated && name == "noise_uncond" {
					continue
				}
				out := t.TempDir()
				o := r.options(t, "reference", "tp=1", out)
				o.Video.Prompt, o.Video.Negative, o.Video.FramesOut = *text, nil, ""
				if want["noise_uncond"] != nil {
					o.Video.CFG, o.Run.CFG = models.CFGNone, models.CFGNone
				}
				doc := r.generate(t, o)
				got := r.velocity(t, doc, modeltest.Tensors(t, o.Video.Noise), modeltest.Tensors(t, out+"/l")["latents_0"])
				modeltest.Close(t, name, got, want[name].Rows(0, 1), 2e-4)
			}
		})
	}
}

// velocity is the model's output that took latents from the draws to those after the first step.
func (r familyRelease) velocity(t *testing.T, doc *weft.Generated, draws map[string]*tensor.Tensor, after *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	number := func(name string) float64 {
		v, _ := doc.Settings[name].Value.(float64)
		return v
	}
	floats := func(x *tensor.Tensor) []float32 {
		fs, err := x.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		return fs
	}
	o := sampler.Options{Steps: 4, Shift: number("shift"), Tokens: doc.Width / 32 * (doc.Height / 32) * ((doc.Frames-1)/8 + 1),
		Noise: func(_, _ int, dst []float32) { copy(dst, floats(draws["noise.0"])) }}
	name := doc.Settings["sampler"].Value.(string)
	if !sampler.TakesShift(name) {
		o.Shift = 0
	}
	step := func(v float32) []float32 {
		s, err := sampler.New(name, o)
		if err != nil {
			t.Fatal(err)
		}
		x := slices.Clone(floats(draws["latents"]))
		if err := s.Step(0, x, slices.Repeat([]float32{v}, len(x))); err != nil {
			t.Fatal(err)
		}
		return x
	}
	none, one, x := step(0), step(1), slices.Clone(floats(after))
	for i := range x {
		x[i] = (x[i] - none[i]) / (one[i] - none[i])
	}
	out, err := tensor.FromFloat32s(after.DType, x, after.Shape...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

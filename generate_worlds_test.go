package weft_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"weft"
	"weft/footage"
	"weft/internal/modeltest"
	"weft/models"
	"weft/pipeline"
	"weft/pipeline/conditions"
	"weft/pipeline/control"
	"weft/request"
)

// worldsDir has the image and the video that videos of Cosmos go on from, and those that
// Cosmos-Predict2.5 made; its weights are those of text to world. nanoDir has Cosmos3's.
const (
	worldsDir = pipelinesDir + "cosmos25_worlds/"
	nanoDir   = pipelinesDir + "cosmos3_nano_t2v/"
)

// world is a video that goes on from an image or from another video.
type world struct {
	folder string // of the weights
	values string // by diffusers: the file without its ending
	flags  string
	video  pipeline.Options
	mesh   string // of two devices
}

var worlds = []world{
	{"cosmos25_t2w", worldsDir + "i2w", "--size 48x32 --frames 9", pipeline.Options{Image: worldsDir + "image.png"}, "tp=2"},
	{"cosmos25_t2w", worldsDir + "v2w", "--size 48x32 --frames 13", pipeline.Options{Video: worldsDir + "video"}, "sp=2"},
	{"cosmos25_t2w", worldsDir + "v2w_one", "--size 48x32 --frames 9", pipeline.Options{Video: worldsDir + "video", VideoLatents: 1}, "dp=2"},
	{"cosmos3_nano_t2v", nanoDir + "i2v", "--size 64x32 --frames 5 --fps 16", pipeline.Options{Image: nanoDir + "i2v.png"}, "tp=2"},
	{"cosmos3_nano_t2v", nanoDir + "v2v", "--size 64x32 --frames 9 --fps 16", pipeline.Options{Video: worldsDir + "video"}, "dp=2"},
}

// options are those of the world's video, of which everything is written into a folder.
func (w world) options(t *testing.T, device, mesh, out string) weft.GenerateOptions {
	t.Helper()
	prompt, negative := familyRelease{name: w.folder}.texts(t)
	req := request.Must(fmt.Sprintf("%s --steps 4 --dtype f32 --mesh=%s", w.flags, mesh))
	v := w.video
	v.Request, v.Prompt, v.Negative, v.Noise = req, prompt, negative, w.values+"_inputs.safetensors"
	v.FramesOut, v.LatentsOut, v.FeaturesOut, v.Trace = out+"/f", out+"/l", out+"/x", true
	return weft.GenerateOptions{Run: weft.Options{Device: device, Request: req}, Video: v}
}

// A video that goes on from an image or from another video is diffusers': the latents that are
// given, those after each step, the frames; on one device and split. What decode makes of the
// latents are the same frames.
func TestWorldsAreTheReleases(t *testing.T) {
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	for _, w := range worlds {
		for _, device := range modeltest.Devices() {
			for _, mesh := range []string{"tp=1", w.mesh} {
				if device != "reference" && !long {
					continue // compiling takes long
				}
				t.Run(w.folder+" "+path.Base(w.values)+" "+device+" "+mesh, func(t *testing.T) {
					out := t.TempDir()
					o := w.options(t, device, mesh, out)
					familyRelease{name: w.folder}.generate(t, o)
					w.compare(t, out)
				})
			}
		}
	}
}

// compare holds what a generation wrote against diffusers' values.
func (w world) compare(t *testing.T, out string) {
	t.Helper()
	want := modeltest.Tensors(t, w.values+".safetensors")
	latents, frames := modeltest.Tensors(t, out+"/l"), modeltest.Tensors(t, out+"/f")
	modeltest.Close(t, "given latents", modeltest.Tensors(t, out+"/x")["kept"], want["kept"], 1e-4)
	steps := want["latents"]
	for i := range steps.Shape[0] {
		modeltest.Close(t, fmt.Sprint("latents after step ", i), latents[fmt.Sprint("latents_", i)], steps.Rows(i, i+1), 1e-3)
	}
	if want["frames"] != nil {
		modeltest.Close(t, "frames", frames["frames"], want["frames"], 1e-3)
	}
	if bytes := want["frames_u8"]; bytes != nil {
		for i, b := range frames["frames_u8"].Data {
			if d := int(b) - int(bytes.Data[i]); d < -1 || d > 1 {
				t.Fatalf("byte %d of the frames differs by %d", i, d)
			}
		}
	}
	if latents["kept"] != nil {
		t.Error("the given latents stand beside the denoised ones, which go to them by themselves")
	}
	p, err := weft.OpenPipeline(pipelinesDir+w.folder, pipeline.OpenOptions{Need: []pipeline.Part{pipeline.Autoencoder}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o := weft.GenerateOptions{Run: weft.Options{Device: "reference"}, Video: pipeline.Options{FramesOut: out + "/again"}}
	if _, err := p.Decode(t.Context(), out+"/l", o); err != nil {
		t.Fatal(err)
	}
	modeltest.Close(t, "frames decoded again", modeltest.Tensors(t, out+"/again")["frames"], frames["frames"], 1e-4)
}

// A video is given to a model that goes on from one, alone, and with as many frames as it takes.
func TestWorldsRefuse(t *testing.T) {
	short := t.TempDir()
	raw, err := os.ReadFile(worldsDir + "video/1.png")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(short+"/1.png", raw, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder string
		frames int
		video  pipeline.Options
		kind   error
		says   []string
	}{
		{"cosmos25_t2w", 13, pipeline.Options{Video: short}, conditions.ErrVideo, []string{"--video has 1 frames", "of 5", "--video-latents 1"}},
		{"cosmos25_t2w", 13, pipeline.Options{Video: worldsDir + "video", Image: worldsDir + "image.png"}, conditions.ErrVideo, []string{"--image and --video"}},
		{"cosmos25_t2w", 13, pipeline.Options{Video: worldsDir + "video", VideoLatents: 3}, models.ErrInputs, []string{"--video-latents 3", "1 to 2"}},
		{"cosmos25_t2w", 13, pipeline.Options{VideoLatents: 1}, models.ErrInputs, []string{"--video-latents 1 without --video"}},
		{"cosmos25_t2w", 5, pipeline.Options{Video: worldsDir + "video"}, models.ErrSize, []string{"2 latent frames", "nearest: 9"}},
		{"cosmos25_t2w", 1, pipeline.Options{Image: worldsDir + "image.png"}, models.ErrSize, []string{"the image is the first latent frame"}},
		{"cosmos25_t2w", 13, pipeline.Options{Video: worldsDir + "image.png"}, footage.ErrFormat, []string{"one picture"}},
		{"wan21_t2v", 5, pipeline.Options{Video: worldsDir + "video"}, control.ErrControl, []string{"--video", "cosmos2.5-2b", "cosmos3-nano", "wan2.1-vace-1.3b"}},
	} {
		p, err := weft.OpenPipeline(pipelinesDir+c.folder, pipeline.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o := c.video
		o.Request = request.Must(fmt.Sprintf("--size 48x32 --frames %d --steps 2 --dtype f32", c.frames))
		o.Prompt, o.LatentsOut = "a cat", t.TempDir()+"/l"
		_, err = p.Generate(t.Context(), weft.GenerateOptions{Run: weft.Options{Device: "reference", Request: o.Request}, Video: o})
		p.Close()
		if !errors.Is(err, c.kind) {
			t.Errorf("%v: %v, want %v", c.says, err, c.kind)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%v does not say %q", err, s)
			}
		}
	}
}

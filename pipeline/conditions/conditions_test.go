package conditions_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/picture"
	"weft/pipeline"
	"weft/pipeline/conditions"
	"weft/request"
	"weft/tensor"
)

const (
	pipelines = "../../testdata/pipelines/"
	i2v       = pipelines + "wan21_i2v"
	a14b      = pipelines + "wan22_i2v_a14b"
	ti2v      = pipelines + "wan22_ti2v_5b"
	flf2v     = pipelines + "wan21_flf2v"
)

// openImage opens a picture for the length of a test.
func openImage(t testing.TB, path string) *picture.Image {
	t.Helper()
	im, _, err := picture.Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// place says where a part runs.
type place struct{ device, mesh string }

// on puts the model in a folder on devices.
func on(t testing.TB, folder string, at place) *conditions.Part {
	t.Helper()
	r := request.Must("--mesh=" + at.mesh)
	d, err := weft.NewPhaseDevices(weft.Options{Device: at.device, Request: r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return pipeline.ConditionPart(d, modeltest.Open(t, folder).Match, pipeline.Placement{Mesh: r.Mesh, DType: r.ComputeType()})
}

// parts are the models in a pipeline's folder. The vision encoder has one head here, so that it
// runs on one device.
func parts(t testing.TB, folder, transformer string, at place) conditions.Parts {
	t.Helper()
	p := conditions.Parts{Generator: modeltest.Open(t, filepath.Join(folder, transformer)).Model}
	vae := folder
	if folder == a14b || folder == flf2v {
		vae = i2v
	}
	p.Autoencoder = on(t, filepath.Join(vae, "vae"), at)
	if folder == i2v || folder == flf2v {
		p.Vision = on(t, i2v+"/image_encoder", place{at.device, ""})
	}
	return p
}

// run checks a request and computes its features.
func run(t testing.TB, p conditions.Parts, r conditions.Request) *conditions.Features {
	t.Helper()
	ph, err := conditions.Check(p, r)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ph.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// places are where the tests of values run: one device and an uneven split in the interpreter,
// and one split through XLA; with WEFT_LONG_TESTS all of them on both.
func places() []place {
	var out []place
	for _, mesh := range []string{"", "tp=2", "sp=2", "sp=3"} {
		for _, device := range modeltest.Devices() {
			if (device == "reference") == (mesh == "" || mesh == "sp=3") && mesh != "sp=2" || os.Getenv("WEFT_LONG_TESTS") != "" {
				out = append(out, place{device, mesh})
			}
		}
	}
	return out
}

// Wan2.1 i2v in both layouts: the mask, the latents of the image followed by grey, and CLIP's
// features.
func TestFeaturesOfWan21(t *testing.T) {
	want := modeltest.Tensors(t, i2v+"/expected.safetensors")
	mask := want["condition"].Slice(1, 0, 4)
	official := tensor.Join(1, []*tensor.Tensor{mask, want["official.image_latents"]})
	for _, at := range places() {
		p := parts(t, i2v, "transformer", at)
		r := conditions.Request{Layout: conditions.Diffusers, Image: openImage(t, i2v+"/image.png"), Width: 64, Height: 32, Frames: 9}
		got := run(t, p, r)
		what := at.device + " " + at.mesh
		modeltest.Close(t, what+" y", got.Conditions["y"], want["condition"], 1e-4)
		modeltest.Close(t, what+" clip_fea", got.Conditions["clip_fea"], want["image_embeds"], 1e-4)
		if got.Kept != nil || len(got.Conditions) != 2 {
			t.Errorf("%s: kept %v, conditions %v", what, got.Kept, got.Conditions)
		}
		r.Layout = conditions.Official
		got = run(t, p, r)
		modeltest.Close(t, what+" official y", got.Conditions["y"], official, 1e-4)
		modeltest.Close(t, what+" official clip_fea", got.Conditions["clip_fea"], want["official.image_embeds"], 1e-4)
	}
}

// A14B's i2v reads no features, and takes a last image.
func TestFeaturesOfA14B(t *testing.T) {
	want := modeltest.Tensors(t, a14b+"/expected.safetensors")
	for _, at := range places() {
		p := parts(t, a14b, "transformer", at)
		r := conditions.Request{Layout: conditions.Diffusers, Image: openImage(t, i2v+"/image.png"), Width: 48, Height: 32, Frames: 9}
		what := at.device + " " + at.mesh
		got := run(t, p, r)
		modeltest.Close(t, what+" y", got.Conditions["y"], want["condition"], 1e-4)
		if len(got.Conditions) != 1 || got.Kept != nil {
			t.Errorf("%s: kept %v, conditions %v", what, got.Kept, got.Conditions)
		}
		r.Last = openImage(t, ti2v+"/image.png")
		modeltest.Close(t, what+" y with a last image", run(t, p, r).Conditions["y"], want["last.condition"], 1e-4)
		// A last image leaves nothing behind for the next request.
		r.Last = nil
		modeltest.Close(t, what+" y again", run(t, p, r).Conditions["y"], got.Conditions["y"], 0)
	}
}

// Wan2.1's model of two frames reads the mask and the latents of both, and CLIP's features of both,
// in both layouts.
func TestFeaturesOfTwoFrames(t *testing.T) {
	want := modeltest.Tensors(t, flf2v+"/values.safetensors")
	for _, at := range places() {
		p := parts(t, flf2v, "transformer", at)
		r := conditions.Request{Layout: conditions.Diffusers, Image: openImage(t, i2v+"/image.png"), Last: openImage(t, flf2v+"/last.png"), Width: 48, Height: 32, Frames: 9}
		for prefix, layout := range map[string]conditions.Layout{"": conditions.Diffusers, "official.": conditions.Official} {
			r.Layout = layout
			got := run(t, p, r)
			what := prefix + at.device + " " + at.mesh
			modeltest.Close(t, what+" y", got.Conditions["y"], want[prefix+"condition"], 1e-4)
			modeltest.Close(t, what+" clip_fea", got.Conditions["clip_fea"], want[prefix+"image_embeds"], 1e-4)
		}
	}
}

// TI2V keeps the image's latents.
func TestFeaturesOfTI2V(t *testing.T) {
	want := modeltest.Tensors(t, ti2v+"/image.safetensors")["i2v.condition"]
	for _, at := range places() {
		p := parts(t, ti2v, "transformer", at)
		got := run(t, p, conditions.Request{Layout: conditions.Diffusers, Image: openImage(t, ti2v+"/image.png"), Width: 64, Height: 32, Frames: 5})
		if got.Kept == nil || len(got.Kept.Frames) != 1 || got.Kept.Frames[0] != 0 || len(got.Conditions) != 0 {
			t.Fatalf("kept %v, conditions %v", got.Kept, got.Conditions)
		}
		modeltest.Close(t, at.device+" "+at.mesh+" kept", got.Kept.Latents, want, 1e-4)
	}
}

// Several videos begin with the same image: each has the features of one.
func TestFeaturesOfSeveralVideos(t *testing.T) {
	at := place{"reference", ""}
	for _, c := range []struct {
		folder        string
		width, frames int
	}{{i2v, 64, 9}, {ti2v, 64, 5}} {
		p := parts(t, c.folder, "transformer", at)
		r := conditions.Request{Layout: conditions.Official, Image: openImage(t, i2v+"/image.png"), Width: c.width, Height: 32, Frames: c.frames}
		whole := run(t, p, r)
		one := whole.Tensors()
		if back := conditions.FromTensors(one); !reflect.DeepEqual(back.Conditions, whole.Conditions) || !reflect.DeepEqual(back.Kept, whole.Kept) {
			t.Errorf("from their tensors, the features are %v and %v", back.Conditions, back.Kept)
		}
		r.Batch = 3
		three := run(t, p, r).Tensors()
		if len(one) != len(three) || len(one) == 0 {
			t.Fatalf("%d features, %d of three videos", len(one), len(three))
		}
		for name, x := range three {
			if x.Shape[0] != 3 {
				t.Fatalf("%s is %v", name, x)
			}
			for b := range 3 {
				modeltest.Close(t, name, x.Rows(b, b+1), one[name], 0)
			}
		}
	}
}

// countingDevices count the frames that are alive between the source and the encoder, and fail
// where they are told to.
type countingDevices struct {
	conditions.Devices
	asked []*tensor.Tensor
	parts int
	fail  error
}

func (d *countingDevices) Stream(ctx context.Context, input string, shape []int, frames conditions.FrameSource, visit conditions.Visit) error {
	counted := func(ctx context.Context, i int) (*tensor.Tensor, error) {
		x, err := frames(ctx, i)
		d.asked = append(d.asked, x)
		return x, err
	}
	return d.Devices.Stream(ctx, input, shape, counted, func(output string, frame int, part *tensor.Tensor) error {
		d.parts++
		if d.fail != nil {
			return d.fail
		}
		return visit(output, frame, part)
	})
}

// Memory does not grow with the number of frames: all grey frames are one tensor, and latents
// come frame by frame.
func TestFramesAreMadeAsTheyAreAsked(t *testing.T) {
	p := parts(t, a14b, "transformer", place{"reference", ""})
	counting := &countingDevices{Devices: p.Autoencoder.Devices}
	p.Autoencoder.Devices = counting
	im := openImage(t, i2v+"/image.png")
	run(t, p, conditions.Request{Layout: conditions.Diffusers, Image: im, Last: im, Width: 48, Height: 32, Frames: 17})
	different := map[*tensor.Tensor]bool{}
	for _, x := range counting.asked {
		different[x] = true
	}
	if len(counting.asked) != 17 || len(different) != 3 || counting.parts < 5 {
		t.Errorf("%d frames of %d tensors, %d parts", len(counting.asked), len(different), counting.parts)
	}
	counting.fail = errors.New("no room")
	ph, err := conditions.Check(p, conditions.Request{Layout: conditions.Diffusers, Image: im, Width: 48, Height: 32, Frames: 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ph.Run(t.Context()); !errors.Is(err, counting.fail) {
		t.Errorf("an error of the devices: %v", err)
	}
}

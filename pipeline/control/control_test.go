package control_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/picture"
	"weft/pipeline"
	"weft/pipeline/conditions"
	"weft/pipeline/control"
	"weft/request"
)

const (
	pipelines = "../../testdata/pipelines/"
	vace      = pipelines + "wan21_vace"
)

// parts are a small VACE, and the autoencoder on devices.
func parts(t testing.TB, device, mesh string) conditions.Parts {
	t.Helper()
	r := request.Must("--mesh=" + mesh)
	d, err := weft.NewPhaseDevices(weft.Options{Device: device, Request: r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	place := pipeline.Placement{Mesh: r.Mesh, DType: r.ComputeType()}
	return conditions.Parts{Generator: modeltest.Open(t, vace+"/transformer").Model,
		Autoencoder: pipeline.ConditionPart(d, modeltest.Open(t, pipelines+"wan21_i2v/vae").Match, place)}
}

func openVideo(t testing.TB, path string) *picture.Video {
	t.Helper()
	v, _, err := picture.OpenVideo(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// references are the two images that the fixture refers to.
func references(t testing.TB) (out []*picture.Image) {
	t.Helper()
	for i := range 2 {
		im, _, err := picture.Open(fmt.Sprintf("%s/reference_%d.png", vace, i+1), 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, im)
	}
	return out
}

// What the loop reads of a control video, a mask and references is the release's, in both
// layouts; without a mask all of the video is made anew, and without a video it is grey.
func TestContextIsTheReleases(t *testing.T) {
	want := modeltest.Tensors(t, vace+"/values.safetensors")
	video, mask, refs := openVideo(t, vace+"/video.png"), openVideo(t, vace+"/mask"), references(t)
	for _, c := range []struct {
		name      string
		layout    conditions.Layout
		given     control.Given
		tolerance float64
	}{
		{"control.", conditions.Diffusers, control.Given{Video: video, Mask: mask, References: refs, Scales: []float64{0.75, 1.25}}, 1e-4},
		{"video.", conditions.Diffusers, control.Given{Video: video, References: refs[:1], Scales: []float64{0.5}}, 1e-4},
		{"text.", conditions.Diffusers, control.Given{}, 1e-4},
		// PyTorch's own resizing of bytes differs by one of some bytes.
		{"official.", conditions.Official, control.Given{Video: video, Mask: mask, References: refs}, 2e-2},
	} {
		for _, device := range modeltest.Devices() {
			for i, mesh := range []string{"", "sp=2", "tp=2"} {
				if (device == "reference") == (i == 2) && os.Getenv("WEFT_LONG_TESTS") == "" || device != "reference" && c.name != "control." {
					continue
				}
				ph, err := control.Check(parts(t, device, mesh), control.Request{Given: c.given, Layout: c.layout, Width: 48, Height: 32, Frames: 9})
				if err != nil {
					t.Fatal(c.name, err)
				}
				got, _, err := ph.Run(t.Context())
				if err != nil {
					t.Fatal(c.name, err)
				}
				x, whole := got["vace_context"], want[c.name+"vace_context"]
				if c.name == "text." { // the file has its first frame alone
					x = x.Slice(2, 0, 1)
				}
				modeltest.Close(t, c.name+" "+device+" "+mesh, x, whole, c.tolerance)
				scales, err := got["vace_scale"].Float32s()
				if wanted := [][]float64{{1, 1}, {0.5, 0.5}, {0.75, 1.25}}[len(c.given.Scales)]; err != nil || len(scales) != 2 || float64(scales[0]) != wanted[0] || float64(scales[1]) != wanted[1] {
					t.Errorf("%s: scales %v, want %v, %v", c.name, scales, wanted, err)
				}
			}
		}
	}
}

// noDevices accept every split and run nothing.
type noDevices struct{ conditions.Devices }

func (noDevices) CheckSplit(models.Request) error { return nil }

func preset(t testing.TB, name string) models.Model {
	t.Helper()
	m, err := models.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What is wrong is said by name, all of it, before any weight is read.
func TestRefusals(t *testing.T) {
	video := func(frames, width, height int) *picture.Video {
		v := &picture.Video{Width: width, Height: height}
		for range frames {
			v.Frames = append(v.Frames, &picture.Image{Width: width, Height: height, Pix: make([]byte, 3*width*height)})
		}
		return v
	}
	im := video(1, 20, 30).Frames
	own := conditions.Parts{Generator: preset(t, "wan2.1-vace-14b"), Autoencoder: &conditions.Part{Model: preset(t, "wan2.1-vae"), Devices: noDevices{}}}
	with := func(change func(*conditions.Parts)) conditions.Parts {
		p := own
		change(&p)
		return p
	}
	for _, c := range []struct {
		name  string
		parts conditions.Parts
		asked control.Request
		kinds []error
		says  []string
	}{
		{"everything for text to video", with(func(p *conditions.Parts) { p.Generator = preset(t, "wan2.1-t2v-14b") }),
			control.Request{Given: control.Given{Video: video(9, 8, 8), Mask: video(9, 8, 8), References: im, Scales: []float64{1}}, Width: 832, Height: 480, Frames: 9}, []error{control.ErrControl},
			[]string{"--video: wan2.1-t2v-14b takes no control video", "--mask:", "--reference:", "--conditioning-scale:", "these do: wan2.1-vace-1.3b, wan2.1-vace-14b, wan2.2-vace-fun-a14b"}},
		{"a mask alone", own, control.Request{Given: control.Given{Mask: video(9, 8, 8)}, Width: 832, Height: 480, Frames: 9}, []error{control.ErrControl}, []string{"--mask", "no --video is given"}},
		{"a shorter mask", own, control.Request{Given: control.Given{Video: video(9, 8, 8), Mask: video(8, 8, 8)}, Width: 832, Height: 480, Frames: 9}, []error{control.ErrControl}, []string{"8 frames, and the video has 9"}},
		{"too few frames", own, control.Request{Given: control.Given{Video: video(8, 8, 8)}, Width: 832, Height: 480, Frames: 9}, []error{control.ErrControl}, []string{"8 frames for a video of 9", "nearest: --frames 5"}},
		{"scales", own, control.Request{Given: control.Given{Scales: []float64{1, 2}}, Width: 832, Height: 480, Frames: 9}, []error{control.ErrControl}, []string{"2 scales", "8 control blocks"}},
		{"no number", own, control.Request{Given: control.Given{Scales: []float64{math.NaN()}}, Width: 832, Height: 480, Frames: 9}, []error{control.ErrControl}, []string{"no finite number"}},
		{"no autoencoder, and a size", with(func(p *conditions.Parts) { p.Autoencoder = nil }), control.Request{Width: 833, Height: 480, Frames: 9, Fit: "squeeze"},
			[]error{models.ErrSize, picture.ErrFit}, []string{"width 833", `--fit "squeeze"`}},
		{"no autoencoder", with(func(p *conditions.Parts) { p.Autoencoder = nil }), control.Request{Width: 832, Height: 480, Frames: 9}, []error{conditions.ErrPart}, []string{"its own is wan2.1-vae"}},
		{"the other autoencoder", with(func(p *conditions.Parts) {
			p.Autoencoder = &conditions.Part{Model: preset(t, "wan2.2-vae"), Devices: noDevices{}}
		}),
			control.Request{Width: 832, Height: 480, Frames: 9}, []error{conditions.ErrPart}, []string{"wan2.2-vae makes latents [48 3 30 52]", "reads [16 3 60 104]"}},
	} {
		ph, err := control.Check(c.parts, c.asked)
		if err == nil || ph != nil {
			t.Errorf("%s: %v, %v", c.name, ph, err)
			continue
		}
		for _, kind := range c.kinds {
			if !errors.Is(err, kind) {
				t.Errorf("%s: no %v in: %v", c.name, kind, err)
			}
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in: %v", c.name, want, err)
			}
		}
	}
	if ph, err := control.Check(with(func(p *conditions.Parts) { p.Generator = preset(t, "wan2.1-t2v-14b") }), control.Request{Width: 832, Height: 480, Frames: 9}); ph != nil || err != nil {
		t.Errorf("nothing for text to video: %v, %v", ph, err)
	}
}

// More frames than are asked for are said, and what is squeezed; the size is the control video's.
func TestNotesAndSizes(t *testing.T) {
	p := parts(t, "reference", "")
	v := openVideo(t, vace+"/video.png")
	ph, err := control.Check(p, control.Request{Given: control.Given{Video: v}, Layout: conditions.Diffusers, Width: 32, Height: 32, Frames: 5})
	if err != nil {
		t.Fatal(err)
	}
	_, notes, err := ph.Run(t.Context())
	if text := strings.Join(notes, "\n"); err != nil || !strings.Contains(text, "--video has 9 frames: the first 5 are taken") || !strings.Contains(text, "75x53 pixels and the video 32x32: it is squeezed") {
		t.Errorf("%q, %v", notes, err)
	}
	m := preset(t, "wan2.1-vace-1.3b")
	for _, c := range []struct {
		layout        conditions.Layout
		width, height int
		frames        int
		wantW, wantH  int
		ownW, ownH    int
	}{
		{conditions.Diffusers, 832, 480, 81, 832, 480, 832, 480},
		{conditions.Diffusers, 1920, 1080, 81, 832, 464, 832, 480}, // scaled by its width to 832x468
		{conditions.Diffusers, 100, 70, 81, 96, 64, 832, 480},      // never larger than it is
		{conditions.Diffusers, 7, 9, 81, 16, 16, 832, 480},
		{conditions.Official, 832, 480, 81, 832, 480, 832, 480},
		{conditions.Official, 1920, 1080, 81, 832, 480, 832, 480},
		{conditions.Official, 1080, 1920, 81, 464, 848, 832, 480},
		{conditions.Official, 832, 480, 161, 608, 336, 832, 480}, // half the area of twice the frames
		{conditions.Official, 100, 70, 81, 96, 64, 832, 480},
	} {
		v := &picture.Video{Width: c.width, Height: c.height, Frames: make([]*picture.Image, c.frames)}
		if w, h := control.VideoSize(m, c.layout, v, c.ownW, c.ownH); w != c.wantW || h != c.wantH {
			t.Errorf("%s, %d frames of %dx%d: %dx%d, want %dx%d", c.layout, c.frames, c.width, c.height, w, h, c.wantW, c.wantH)
		}
	}
	if w, h := control.VideoSize(preset(t, "wan2.1-t2v-14b"), conditions.Official, v, 832, 480); w != 832 || h != 480 {
		t.Errorf("text to video takes the size %dx%d of a control video", w, h)
	}
	if shapes := control.BlankConditions(m, []int{16, 5, 60, 104}); !slices.Equal(shapes["vace_context"], []int{1, 96, 5, 60, 104}) || !slices.Equal(shapes["vace_scale"], []int{1, 15}) {
		t.Errorf("conditions of shapes %v", shapes)
	}
}

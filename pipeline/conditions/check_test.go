package conditions_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/modeltest"
	"weft/models"
	"weft/picture"
	"weft/pipeline/conditions"
	"weft/sharding"
)

// noDevices accept every split and run nothing.
type noDevices struct{ conditions.Devices }

func (noDevices) CheckSplit(models.Request) error { return nil }

// named is the part of a preset, on no devices.
func named(t testing.TB, preset string) *conditions.Part {
	t.Helper()
	return &conditions.Part{Model: presetModel(t, preset), Devices: noDevices{}}
}

func presetModel(t testing.TB, preset string) models.Model {
	t.Helper()
	m, err := models.ByName(preset)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// plain is a picture of one colour.
func plain(width, height int) *picture.Image {
	return &picture.Image{Width: width, Height: height, Pix: slices.Repeat([]byte{10, 128, 250}, width*height)}
}

// Every preset of Wan says what it does with an image.
func TestUseOfImages(t *testing.T) {
	for _, c := range []struct {
		preset string
		want   models.ImageUse
	}{
		{"wan2.1-t2v-1.3b", models.ImageUse{StepWidth: 16, StepHeight: 16}},
		{"wan2.1-t2v-14b", models.ImageUse{StepWidth: 16, StepHeight: 16}},
		{"wan2.1-i2v-14b", models.ImageUse{MaskChannels: 4, LatentChannels: 16, FeatureWidth: 1280, Needed: true, StepWidth: 16, StepHeight: 16, Vision: "wan2.1-clip-vit-h14"}},
		{"wan2.1-flf2v-14b", models.ImageUse{MaskChannels: 4, LatentChannels: 16, FeatureWidth: 1280, Needed: true, TakesLast: true, NeedsLast: true, StepWidth: 16, StepHeight: 16,
			Vision: "wan2.1-clip-vit-h14"}},
		{"wan2.1-vace-14b", models.ImageUse{StepWidth: 16, StepHeight: 16}},
		{"wan2.2-t2v-a14b", models.ImageUse{StepWidth: 16, StepHeight: 16}},
		{"wan2.2-i2v-a14b", models.ImageUse{MaskChannels: 4, LatentChannels: 16, Needed: true, TakesLast: true, StepWidth: 16, StepHeight: 16}},
		{"wan2.2-ti2v-5b", models.ImageUse{KeepsFirst: true, StepWidth: 32, StepHeight: 32}},
		{"cogvideox-2b", models.ImageUse{}},
		{"cogvideox-1.5-5b-i2v", models.ImageUse{LatentChannels: 16, Alone: true, Sampled: true, Needed: true, StepWidth: 16, StepHeight: 16, Offset: 2}},
		{"hunyuanvideo-i2v", models.ImageUse{KeepsFirst: true, Needed: true, StepWidth: 16, StepHeight: 16, NoiseShare: 0.999}},
		{"hunyuanvideo-i2v-33ch", models.ImageUse{LatentChannels: 16, MaskChannels: 1, Alone: true, MaskBehind: true, Needed: true, StepWidth: 16, StepHeight: 16, NoiseShare: 0.999}},
	} {
		m := presetModel(t, c.preset)
		g := m.Features().Generator
		use := g.Image
		if use != c.want {
			t.Errorf("%s: %+v, want %+v", c.preset, use, c.want)
		}
		if use.StepWidth == 0 {
			continue
		}
		if _, err := g.LatentShape(7*use.StepWidth, 5*use.StepHeight, 5); err != nil {
			t.Errorf("%s: %v", c.preset, err)
		}
		if _, err := g.LatentShape(7*use.StepWidth+1, 5*use.StepHeight, 5); err == nil {
			t.Errorf("%s makes videos of a width that is no multiple of %d", c.preset, use.StepWidth)
		}
	}
}

// What is wrong is said by name, all of it, before any weight is read.
func TestRefusals(t *testing.T) {
	im := plain(64, 48)
	wan21 := conditions.Parts{Generator: presetModel(t, "wan2.1-i2v-14b"), Autoencoder: named(t, "wan2.1-vae"), Vision: named(t, "wan2.1-clip-vit-h14")}
	other := modeltest.Open(t, i2v+"/image_encoder").Model // of another width
	with := func(change func(*conditions.Parts)) conditions.Parts {
		p := wan21
		change(&p)
		return p
	}
	generator := func(preset string) conditions.Parts {
		return with(func(p *conditions.Parts) { p.Generator = presetModel(t, preset) })
	}
	size := func(r conditions.Request) conditions.Request {
		r.Width, r.Height, r.Frames = 832, 480, 81
		return r
	}
	for _, c := range []struct {
		name  string
		parts conditions.Parts
		asked conditions.Request
		kinds []error
		says  []string
	}{
		{"an image for text to video", generator("wan2.1-t2v-1.3b"), size(conditions.Request{Image: im}), []error{conditions.ErrImage},
			[]string{"--image: wan2.1-t2v-1.3b", "takes no image", "wan2.1-flf2v-14b, wan2.1-i2v-14b, wan2.2-i2v-a14b, wan2.2-ti2v-5b"}},
		{"two images for text to video", generator("wan2.2-t2v-a14b"), size(conditions.Request{Image: im, Last: im}), []error{conditions.ErrImage},
			[]string{"--image: wan2.2-t2v-a14b", "--last-image: wan2.2-t2v-a14b takes no image of the last frame", "these do: wan2.1-flf2v-14b, wan2.2-i2v-a14b"}},
		{"an image for another family", generator("cogvideox-2b"), size(conditions.Request{Image: im}), []error{conditions.ErrImage}, []string{"takes no image"}},
		{"an image for a release of text alone", generator("hunyuan1.5"), size(conditions.Request{Image: im}), []error{conditions.ErrImage}, []string{"takes no image"}},
		{"no image for CogVideoX", generator("cogvideox-1.5-5b-i2v"), size(conditions.Request{}), []error{conditions.ErrImage}, []string{"makes a video of an image"}},
		{"no image", wan21, size(conditions.Request{}), []error{conditions.ErrImage}, []string{"--image: wan2.1-i2v-14b makes a video of an image, which is not given"}},
		{"a last image alone", generator("wan2.2-i2v-a14b"), size(conditions.Request{Last: im}), []error{conditions.ErrImage}, []string{"--image: wan2.2-i2v-a14b"}},
		{"a last image for one image branch", wan21, size(conditions.Request{Image: im, Last: im}), []error{conditions.ErrImage},
			[]string{"--last-image: wan2.1-i2v-14b", "the features of one image", "wan2.2-i2v-a14b"}},
		{"one of two images", generator("wan2.1-flf2v-14b"), size(conditions.Request{Image: im}), []error{conditions.ErrImage},
			[]string{"--last-image: wan2.1-flf2v-14b makes a video between a first and a last image"}},
		{"none of two images", generator("wan2.1-flf2v-14b"), size(conditions.Request{}), []error{conditions.ErrImage},
			[]string{"--image: wan2.1-flf2v-14b", "--last-image: wan2.1-flf2v-14b"}},
		{"an image for a control video", generator("wan2.1-vace-14b"), size(conditions.Request{Image: im}), []error{conditions.ErrImage},
			[]string{"wan2.1-vace-14b begins with no image", "--reference", "--mask"}},
		{"a last image that is kept", generator("wan2.2-ti2v-5b"), size(conditions.Request{Last: im}), []error{conditions.ErrImage}, []string{"keeps the first latent frame alone"}},
		{"no autoencoder, no image encoder", with(func(p *conditions.Parts) { p.Autoencoder, p.Vision = nil, nil }), size(conditions.Request{Image: im}),
			[]error{conditions.ErrPart}, []string{"no autoencoder is given: its own is wan2.1-vae", "no image encoder is given: its own is wan2.1-clip-vit-h14"}},
		{"the other autoencoder", with(func(p *conditions.Parts) { p.Autoencoder = named(t, "wan2.2-vae") }), size(conditions.Request{Image: im}),
			[]error{conditions.ErrPart}, []string{"wan2.2-vae makes latents [48 21 30 52]", "wan2.1-i2v-14b reads [16 21 60 104]", "its own autoencoder is wan2.1-vae"}},
		{"the other autoencoder of TI2V", generator("wan2.2-ti2v-5b"), conditions.Request{Image: im, Width: 1280, Height: 704, Frames: 121},
			[]error{conditions.ErrPart}, []string{"wan2.1-vae makes latents [16 1 88 160]", "reads [48 1 44 80]", "its own autoencoder is wan2.2-vae"}},
		{"no autoencoder but a transformer", with(func(p *conditions.Parts) { p.Autoencoder = named(t, "wan2.1-t2v-1.3b") }), size(conditions.Request{Image: im}),
			[]error{conditions.ErrPart}, []string{"wan2.1-t2v-1.3b encodes no video"}},
		{"features of another width", with(func(p *conditions.Parts) { p.Vision = &conditions.Part{Model: other, Devices: noDevices{}} }), size(conditions.Request{Image: im}),
			[]error{conditions.ErrPart}, []string{"features of 80 numbers", "reads image_dim 1280", "its own image encoder is wan2.1-clip-vit-h14"}},
		{"a tower of text", with(func(p *conditions.Parts) { p.Vision = named(t, "hunyuan-clip-l-text") }), size(conditions.Request{Image: im}),
			[]error{conditions.ErrPart}, []string{"hunyuan-clip-l-text encodes no image"}},
		{"sizes, the way to fit and a part at once", with(func(p *conditions.Parts) { p.Vision = nil }),
			conditions.Request{Image: im, Width: 833, Height: 480, Frames: 82, Fit: "squeeze"}, []error{models.ErrSize, picture.ErrFit, conditions.ErrPart},
			[]string{"width 833", "832 or 848", "frames 82", "81 or 85", `--fit "squeeze"`, "no image encoder"}},
		{"nothing left to denoise", with(func(p *conditions.Parts) {
			p.Generator, p.Autoencoder = presetModel(t, "wan2.2-ti2v-5b"), named(t, "wan2.2-vae")
		}),
			conditions.Request{Image: im, Width: 1280, Height: 704, Frames: 1}, []error{models.ErrSize}, []string{"frames 1", "nearest: 5"}},
		{"two images in one frame", generator("wan2.2-i2v-a14b"), conditions.Request{Image: im, Last: im, Width: 832, Height: 480, Frames: 1},
			[]error{models.ErrSize}, []string{"two frames"}},
		{"fewer than no videos", wan21, size(conditions.Request{Image: im, Batch: -1}), []error{models.ErrBatch}, []string{"batch -1"}},
		{"pixels that the encoder does not read", wan21, size(conditions.Request{Image: im, VisionPreparation: &picture.VisionPreparation{Size: 336}}),
			[]error{conditions.ErrPart}, []string{"336x336", "reads 224x224"}},
	} {
		c.asked.Layout = conditions.Diffusers
		ph, err := conditions.Check(c.parts, c.asked)
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
	_, err := conditions.Check(with(func(p *conditions.Parts) { p.Vision = nil }), size(conditions.Request{Image: im}))
	if f, ok := fault.Fields[conditions.WrongPart](err); !ok || f != (conditions.WrongPart{Part: "image encoder", Want: "wan2.1-clip-vit-h14"}) {
		t.Errorf("fields %+v", f)
	}
	_, err = conditions.Check(generator("wan2.1-t2v-1.3b"), size(conditions.Request{Image: im}))
	if f, ok := fault.Fields[conditions.ImageRefused](err); !ok || f.Flag != "--image" || f.Model != "wan2.1-t2v-1.3b" || !slices.Contains(f.Models, "wan2.2-ti2v-5b") {
		t.Errorf("fields %+v", f)
	}
}

// The devices' own reasons are part of the same error.
func TestSplitsAreChecked(t *testing.T) {
	p := parts(t, i2v, "transformer", place{"reference", ""})
	p.Autoencoder = on(t, i2v+"/vae", place{"reference", "pp=2"})
	p.Vision = on(t, i2v+"/image_encoder", place{"reference", "tp=2"})
	_, err := conditions.Check(p, conditions.Request{Layout: conditions.Diffusers, Image: plain(8, 8), Width: 64, Height: 32, Frames: 9})
	if !errors.Is(err, models.ErrAxis) || !errors.Is(err, sharding.ErrHeadsNotDivisible) {
		t.Errorf("%v", err)
	}
}

// Requests without an image are no phase, for models that can do without.
func TestNoPhaseWithoutAnImage(t *testing.T) {
	for _, preset := range []string{"wan2.1-t2v-1.3b", "wan2.2-ti2v-5b", "cogvideox-2b"} {
		ph, err := conditions.Check(conditions.Parts{Generator: presetModel(t, preset)}, conditions.Request{Layout: conditions.Official, Width: 832, Height: 480, Frames: 81})
		if ph != nil || err != nil {
			t.Errorf("%s: %v, %v", preset, ph, err)
		}
	}
}

// Where nobody asks for a size, a release's own code gives the video the image's aspect.
func TestVideoSize(t *testing.T) {
	wan21, ti := conditions.Parts{Generator: presetModel(t, "wan2.1-i2v-14b")}, conditions.Parts{Generator: presetModel(t, "wan2.2-ti2v-5b")}
	for i, c := range []struct {
		layout        conditions.Layout
		parts         conditions.Parts
		image         *picture.Image
		width, height int
		want          string
	}{
		// In the release's code the square root of 832*480*(480/832) falls just short of 480.
		{conditions.Official, wan21, plain(832, 480), 832, 480, "832x464"},
		{conditions.Official, wan21, plain(1280, 720), 1280, 720, "1280x720"},
		{conditions.Official, wan21, plain(480, 832), 832, 480, "480x832"},
		{conditions.Official, wan21, plain(1000, 1000), 832, 480, "624x624"},
		{conditions.Official, ti, plain(704, 1280), 1280, 704, "704x1280"},
		{conditions.Official, ti, nil, 1280, 704, "1280x704"},
		{conditions.Diffusers, wan21, plain(480, 832), 832, 480, "832x480"},
		{conditions.Official, conditions.Parts{Generator: presetModel(t, "wan2.1-t2v-14b")}, plain(480, 832), 832, 480, "832x480"},
	} {
		w, h := c.layout.VideoSize(c.parts, c.image, c.width, c.height)
		if got := fmt.Sprintf("%dx%d", w, h); got != c.want {
			t.Errorf("%s, size %d: %s, want %s", c.layout, i, got, c.want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		im := &picture.Image{Width: rapid.IntRange(1, 6000).Draw(rt, "width"), Height: rapid.IntRange(1, 6000).Draw(rt, "height")}
		p := rapid.SampledFrom([]conditions.Parts{wan21, ti}).Draw(rt, "parts")
		w, h := conditions.Official.VideoSize(p, im, 832, 480)
		if max(im.Width, im.Height) > 8*min(im.Width, im.Height) {
			return // sizes beyond those that a model makes
		}
		if _, err := p.Generator.Features().Generator.LatentShape(w, h, 5); err != nil {
			rt.Fatalf("an image of %dx%d gives %dx%d: %v", im.Width, im.Height, w, h, err)
		}
	})
}

// A distorted image is never silent, and each is filled in the same way.
func TestFit(t *testing.T) {
	p := parts(t, a14b, "transformer", place{"reference", ""})
	r := conditions.Request{Layout: conditions.Diffusers, Image: plain(96, 64), Width: 48, Height: 32, Frames: 5}
	if f := run(t, p, r); len(f.Notes) != 0 {
		t.Errorf("an image of the video's aspect: %v", f.Notes)
	}
	r.Last = plain(30, 90)
	var seen []string
	for _, c := range []struct {
		fit  picture.Fit
		says string
	}{{"", "squeezed"}, {picture.FitRelease, "squeezed"}, {picture.FitStretch, "squeezed"}, {picture.FitCrop, "cut off"}, {picture.FitPad, "black"}} {
		r.Fit = c.fit
		f := run(t, p, r)
		for _, want := range []string{"--last-image has 30x90 pixels and the video 48x32", c.says, "16x64"} {
			if len(f.Notes) != 1 || !strings.Contains(f.Notes[0], want) {
				t.Errorf("%s: %q do not say %q", c.fit, f.Notes, want)
			}
		}
		seen = append(seen, string(f.Conditions["y"].Data))
	}
	if seen[0] != seen[1] || seen[0] != seen[2] || seen[3] != seen[0] || seen[4] == seen[0] {
		t.Error("of one colour stretched and cropped are the same, padded is not")
	}
}

// The mask counts video frames: the first frame four times, the last one in its own channel.
func TestMask(t *testing.T) {
	p := parts(t, a14b, "transformer", place{"reference", ""})
	for _, frames := range []int{1, 5, 13} {
		for _, last := range []*picture.Image{nil, plain(16, 16)} {
			if frames == 1 && last != nil {
				continue
			}
			f := run(t, p, conditions.Request{Layout: conditions.Official, Image: plain(16, 16), Last: last, Width: 16, Height: 16, Frames: frames})
			mask, err := f.Conditions["y"].Slice(1, 0, 4).Float32s()
			if err != nil {
				t.Fatal(err)
			}
			latents := (frames-1)/4 + 1
			for c := range 4 {
				for l := range latents {
					want := float32(0)
					if l == 0 || last != nil && l == latents-1 && c == 3 {
						want = 1
					}
					for _, got := range mask[(c*latents+l)*4:][:4] {
						if got != want {
							t.Errorf("%d frames, last image %v: channel %d of latent frame %d is %g", frames, last != nil, c, l, got)
						}
					}
				}
			}
		}
	}
}

// Of two images of different sizes the release's own code makes what nobody means: they are
// refused in its layout, unless it is said how they fill the frames.
func TestTwoSizesOfTwoFrames(t *testing.T) {
	p := conditions.Parts{Generator: presetModel(t, "wan2.1-flf2v-14b"), Autoencoder: named(t, "wan2.1-vae"), Vision: named(t, "wan2.1-clip-vit-h14")}
	r := conditions.Request{Layout: conditions.Official, Image: plain(64, 48), Last: plain(48, 64), Width: 832, Height: 480, Frames: 81}
	if _, err := conditions.Check(p, r); !errors.Is(err, conditions.ErrImage) || !strings.Contains(err.Error(), "48x64 pixels and the first image 64x48") || !strings.Contains(err.Error(), "--fit crop") {
		t.Errorf("two sizes: %v", err)
	}
	for _, change := range []func(){func() { r.Fit = picture.FitCrop }, func() { r.Fit, r.Layout = "", conditions.Diffusers }, func() { r.Last, r.Layout = plain(64, 48), conditions.Official }} {
		change()
		if ph, err := conditions.Check(p, r); err != nil || ph == nil {
			t.Errorf("fit %q, %s: %v", r.Fit, r.Layout, err)
		}
	}
}

package main

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
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

// shades is a picture whose pixels all differ.
func shades(width, height int) *image.NRGBA {
	im := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			im.SetNRGBA(x, y, color.NRGBA{byte(3 * x), byte(5 * y), byte(x*y + 40), 255})
		}
	}
	return im
}

// --fit says how a picture of another aspect fills the frames. A picture that is cut, or has bars
// added, without being resized is the same as one that was cut, or had bars added, beforehand.
func TestFitOfAnImage(t *testing.T) {
	const model = pipelinesDir + "wan22_ti2v_5b"
	dir := t.TempDir()
	encoded := func(im image.Image, flags ...string) ([]byte, string) {
		t.Helper()
		path, out := filepath.Join(dir, "im.png"), filepath.Join(dir, "x.safetensors")
		writePNG(t, path, im)
		code, stdout, stderr := weftRun(t, slices.Concat([]string{"encode", "--model", model, "--prompt", "A cat", "--image", path, "--size", "64x32", "--frames", "5", "--dtype", "f32",
			"--device", "reference", "--text-len", "24", "--force", "--json", "--out", out}, flags)...)
		if code != 0 {
			t.Fatalf("%q: exit %d, %s%s", flags, code, stdout, stderr)
		}
		doc := decode[generated](t, stdout)
		return modeltest.Tensors(t, out)["kept"].Data, strings.Join(doc.Notes, "\n")
	}
	tall, narrow := shades(64, 48), shades(32, 32)
	middle := image.NewNRGBA(image.Rect(0, 0, 64, 32))
	draw.Draw(middle, middle.Bounds(), tall, image.Pt(0, 8), draw.Src)
	barred := image.NewNRGBA(image.Rect(0, 0, 64, 32))
	draw.Draw(barred, barred.Bounds(), image.Black, image.Point{}, draw.Src)
	draw.Draw(barred, image.Rect(16, 0, 48, 32), narrow, image.Point{}, draw.Src)
	results := map[string][]byte{}
	for _, c := range []struct {
		fit        string
		im, fitted image.Image
		says       string
	}{
		{"crop", tall, middle, "cut off"},
		{"pad", narrow, barred, "black"},
	} {
		got, notes := encoded(c.im, "--fit", c.fit)
		want, quiet := encoded(c.fitted)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the latents are not those of the picture that is fitted beforehand", c.fit)
		}
		if !strings.Contains(notes, c.says) || strings.Contains(quiet, c.says) {
			t.Errorf("%s: notes %q, and %q of the picture that fits", c.fit, notes, quiet)
		}
		results[c.fit] = got
	}
	stretched, notes := encoded(tall, "--fit", "stretch")
	released, _ := encoded(tall)
	if bytes.Equal(stretched, results["crop"]) || !bytes.Equal(stretched, released) || !strings.Contains(notes, "squeezed") {
		t.Errorf("diffusers' layout stretches: notes %q", notes)
	}
	code, stdout, _ := weftRun(t, small("generate", model, filepath.Join(dir, "v.avi"), "--image", filepath.Join(dir, "im.png"), "--fit", "cover")...)
	if doc := decode[failure](t, stdout); code != 2 || doc.Error.Kind != "fit" || !strings.Contains(doc.Error.Message, "release, crop, pad, stretch") {
		t.Errorf("exit %d, %s", code, stdout)
	}
}

// A14B's i2v has two heads, which more splits divide: each gives the reference's latents after
// every step, and the timesteps of its own shift. The frames are those that the other engine,
// where there is one, decodes of the reference's last latents.
func TestImageToVideoOfTwoExperts(t *testing.T) {
	r := wanReleases[slices.IndexFunc(wanReleases, func(r released) bool { return r.name == "wan22_i2v_a14b" })]
	want := modeltest.Tensors(t, r.folder()+"/expected.safetensors")
	last := want["latents"]
	path := filepath.Join(t.TempDir(), "z.safetensors")
	if err := weft.WriteTensors(path, map[string]*tensor.Tensor{"latents": last.Rows(last.Shape[0]-1, last.Shape[0])}, false); err != nil {
		t.Fatal(err)
	}
	devices := modeltest.Devices()
	decoded := filepath.Join(t.TempDir(), "f.safetensors")
	decodeLatents(t, pipelinesDir+"wan21_i2v", path, decoded, devices[len(devices)-1])
	frames := modeltest.Tensors(t, decoded)["frames"]
	meshes := []string{"tp=2", "sp=2"}
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		meshes = append(meshes, "dp=2", "dp=2,tp=2", "tp=1")
	}
	for _, mesh := range meshes {
		out := t.TempDir()
		doc := generate(t, r.args(t, out, "--device", "reference", "--mesh", mesh,
			"--frames-out", out+"/f", "--latents-out", out+"/l", "--trace", "--features-out", out+"/x")...)
		r.compare(t, doc, out)
		given := modeltest.Tensors(t, out+"/x")
		modeltest.Close(t, mesh+" y", given["y"], want["condition"], 1e-4)
		modeltest.Close(t, mesh+" frames", modeltest.Tensors(t, out+"/f")["frames"], frames, 1e-3)
		for i, s := range doc.Steps {
			// diffusers' levels from 1 on, of which the first is lowered, by the folder's shift of 5.
			level := 1 - float64(i)*0.999/4
			level = 5 * level / (1 + 4*level)
			if i == 0 {
				level -= 1e-6
			}
			if math.Abs(s.Sigma-level) > 1e-6 || s.Timestep != math.Floor(1000*level) {
				t.Errorf("%s: step %d has timestep %g and sigma %g, want sigma %g", mesh, i, s.Timestep, s.Sigma, level)
			}
		}
	}
}

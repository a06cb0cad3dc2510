package phases

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/attention"
	"weft/dtype"
	"weft/mesh"
	"weft/models"
	_ "weft/models/all"
	"weft/request"
	"weft/spmd"
)

// runsOf lists the runs of a preset by flags.
func runsOf(t rapid.TB, name, flags string) []Run {
	t.Helper()
	m, err := models.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := Of(m, request.Must(flags))
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// Each run's request is that of its phase: texts in pairs unless nothing guides, one image for
// all videos, latents of the whole video or of the image alone.
func TestRequests(t *testing.T) {
	type want struct {
		phase, name string
		batch       int
		frames      int // latent; 0 without latents
		encode      bool
		dtype       dtype.DType
	}
	const asked = "--size 480x832 --frames 9 --dtype bf16 --batch 2"
	for _, c := range []struct {
		model, flags string
		want         []want
	}{
		{"wan2.1-i2v-14b", asked, []want{
			{Text, "umt5-xxl", 4, 0, false, dtype.BF16}, {Image, "wan2.1-clip-vit-h14", 1, 0, false, dtype.BF16}, {Image, "wan2.1-vae", 1, 3, true, dtype.F32},
			{Denoise, "wan2.1-i2v-14b", 4, 3, false, dtype.BF16}, {Decode, "wan2.1-vae", 2, 3, false, dtype.F32}}},
		{"wan2.2-i2v-a14b", asked + " --vae-dtype bf16", []want{
			{Text, "umt5-xxl", 4, 0, false, dtype.BF16}, {Image, "wan2.1-vae", 1, 3, true, dtype.BF16},
			{Denoise, "wan2.2-i2v-a14b", 4, 3, false, dtype.BF16}, {Decode, "wan2.1-vae", 2, 3, false, dtype.BF16}}},
		{"wan2.2-ti2v-5b", asked + " --token-times --cfg none", []want{
			{Text, "umt5-xxl", 2, 0, false, dtype.BF16}, {Image, "wan2.2-vae", 1, 1, true, dtype.F32},
			{Denoise, "wan2.2-ti2v-5b", 2, 3, false, dtype.BF16}, {Decode, "wan2.2-vae", 2, 3, false, dtype.F32}}},
		{"wan2.1-t2v-1.3b", asked + " --cfg sequential", []want{
			{Text, "umt5-xxl", 4, 0, false, dtype.BF16}, {Denoise, "wan2.1-t2v-1.3b", 2, 3, false, dtype.BF16}, {Decode, "wan2.1-vae", 2, 3, false, dtype.F32}}},
	} {
		runs := runsOf(t, c.model, c.flags)
		var got []want
		for _, r := range runs {
			w := want{r.Phase, r.Name, r.Request.Batch, 0, r.Request.Encode, r.Request.DType}
			if r.Request.Latent != nil {
				w.frames = r.Request.Latent[1]
			}
			got = append(got, w)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s:\n%+v, want\n%+v", c.model, c.flags, got, c.want)
		}
		if last := runs[len(runs)-2]; c.flags == asked+" --cfg sequential" && last.Passes != 2 {
			t.Errorf("%d passes of a step, one text after the other", last.Passes)
		}
	}
}

// Runs come in the order of the phases, the transformer is placed by who asks, and every other
// run on the first mesh that its model takes, whatever the devices.
func TestPlaces(t *testing.T) {
	var names []string
	for _, name := range models.Presets() {
		if m, err := models.ByName(name); err == nil && m.Features().Generator != nil {
			if _, err := Of(m, request.Must("--size 512x512 --frames 17")); err == nil {
				names = append(names, name)
			}
		}
	}
	if len(names) < 5 {
		t.Fatalf("only %q make such videos", names)
	}
	rapid.Check(t, func(t *rapid.T) {
		name, devices := rapid.SampledFrom(names).Draw(t, "model"), rapid.IntRange(1, 64).Draw(t, "devices")
		at := 0
		for _, r := range runsOf(t, name, "--size 512x512 --frames 17") {
			i := slices.Index(Names(), r.Phase)
			if i < at {
				t.Errorf("%s: %s comes late", name, r.Phase)
			}
			at = i
			axes := r.Place(devices, r.Request)
			if r.Phase == Denoise || r.Model == nil {
				if axes != nil {
					t.Errorf("%s on %v", r.Phase, axes)
				}
				continue
			}
			on, err := mesh.Local(axes...)
			if err != nil {
				t.Fatal(err)
			}
			if devices%on.NumDevices() != 0 || r.Model.Check(on, r.Request) != nil {
				t.Errorf("%s: %s on %s of %d devices", name, r.Name, on, devices)
			}
		}
	})
}

// The meshes of known cases, and that none comes before a better one.
func TestMeshes(t *testing.T) {
	picture := models.Request{Batch: 1, Latent: []int{16, 21, 60, 104}}
	pair := picture
	pair.Batch = 2
	for _, c := range []struct {
		what string
		list func(int) [][]mesh.Axis
		n    int
		want string
	}{
		{"a text takes all devices along tp", TextMeshes, 8, "dp=1,tp=8,sp=1"},
		{"one device", TextMeshes, 1, "dp=1,tp=1,sp=1"},
		{"60 x 104 in parts of 30 x 52", picturesOf(picture), 4, "dp=1,tp=2,sp=2"},
		{"60 x 104 in parts of 60 x 35, which pads one column", picturesOf(picture), 3, "dp=1,tp=1,sp=3"},
		{"videos first", picturesOf(pair), 2, "dp=2,tp=1,sp=1"},
	} {
		if got := mesh.FormatAxes(c.list(c.n)[0]); got != c.want {
			t.Errorf("%s: %s on %d devices, want %s", c.what, got, c.n, c.want)
		}
	}
	for _, axes := range PictureMeshes(6, picture) {
		if axes[0].Size != 1 {
			t.Errorf("one video over %v", axes)
		}
	}
}

// A kernel that is demanded is the transformer's.
func TestTarget(t *testing.T) {
	for _, c := range []struct{ phase, asked, want string }{
		{Denoise, attention.Kernel, attention.Kernel}, {Text, attention.Kernel, attention.Auto}, {Decode, attention.Blocked, attention.Blocked},
	} {
		if got := (Run{Phase: c.phase}).Target(spmd.Target{Attention: c.asked}).Attention; got != c.want {
			t.Errorf("%s: attention %s where %s is asked, want %s", c.phase, got, c.asked, c.want)
		}
	}
}

// Every phase of every release's video is computed by a model, but for those that are known not to
// be: a plan says "not modelled" of these.
func TestEveryPhaseHasItsModel(t *testing.T) {
	unmodelled := map[string][]string{
		"cogvideox-5b-i2v":     {"image cogvideox-vae"},
		"cogvideox-1.5-5b-i2v": {"image cogvideox-vae"},
	}
	for _, e := range must(models.Catalogue()) {
		if e.Kind != models.KindDenoiser {
			continue
		}
		r := e.Releases[0].Settings
		flags := fmt.Sprintf("--size %v --frames %v", r["size"].Value, r["frames"].Value)
		if m := must(models.ByName(e.Name)); m.Features().Generator.Image.KeepsFirst {
			flags += " --token-times"
		}
		seen := map[string]bool{}
		for _, run := range runsOf(t, e.Name, flags) {
			seen[run.Phase] = true
			if what := run.Phase + " " + run.Name; run.Model == nil && !slices.Contains(unmodelled[e.Name], what) {
				t.Errorf("%s: nothing computes %s", e.Name, what)
			}
		}
		for _, phase := range []string{Text, Denoise, Decode} {
			if !seen[phase] && (phase != Text || e.Text != "") {
				t.Errorf("%s has no phase %s", e.Name, phase)
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

package denoise_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/denoise"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/nonfinite"
	"weft/request"
	"weft/tensor"
)

const ti2vDir = "../testdata/pipelines/wan22_ti2v_5b"

// keepingLoop prepares the loop of a model that keeps frames.
func keepingLoop(t testing.TB, change func(*weft.SampleOptions)) (*weft.Denoising, error) {
	t.Helper()
	m := modeltest.Open(t, ti2vDir+"/transformer")
	text := modeltest.Tensors(t, ti2vDir+"/context.safetensors")["context"]
	negative := modeltest.Tensors(t, ti2vDir+"/negative.safetensors")["context"]
	in := modeltest.Tensors(t, ti2vDir+"/inputs.safetensors")
	o := weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 64x32 --frames 5 --steps 4 --guidance 5")}, Noise: in["latents"], Kept: &denoise.Kept{Frames: []int{0}, Latents: in["condition"]}}
	change(&o)
	d, err := m.Denoise(text, negative, o)
	if err == nil {
		t.Cleanup(d.Close)
	}
	return d, err
}

// The latents after each step are diffusers', with and without a given first frame, and
// however the passes and the tokens are split.
func TestKeptFramesAgainstDiffusers(t *testing.T) {
	want := modeltest.Tensors(t, ti2vDir+"/expected.safetensors")
	condition := modeltest.Tensors(t, ti2vDir+"/inputs.safetensors")["condition"]
	for name, change := range map[string]func(*weft.SampleOptions){
		"latents":                func(o *weft.SampleOptions) { o.Kept = nil },
		"i2v.latents":            func(*weft.SampleOptions) {},
		"i2v.latents sequential": func(o *weft.SampleOptions) { o.CFG = "sequential" },
		"i2v.latents on meshes":  func(o *weft.SampleOptions) { o.Mesh = request.MustMesh("dp=2,tp=3") },
		"i2v.latents in stages":  func(o *weft.SampleOptions) { o.Mesh = request.MustMesh("pp=2") },
	} {
		d, err := keepingLoop(t, change)
		if err != nil {
			t.Fatal(name, err)
		}
		trace, _, _ := strings.Cut(name, " ")
		for !d.Done() {
			s, err := d.Step(t.Context())
			if err != nil {
				t.Fatal(name, err)
			}
			x, err := d.Latents()
			if err != nil {
				t.Fatal(err)
			}
			modeltest.Close(t, fmt.Sprintf("%s after step %d", name, s.Step), x, want[trace].Rows(s.Step, s.Step+1), 5e-4)
		}
		own, err := d.Latents()
		if err != nil {
			t.Fatal(err)
		}
		video, err := d.VideoLatents()
		if err != nil {
			t.Fatal(err)
		}
		given := string(video.Slice(2, 0, 1).Data) == string(condition.Data)
		rest := string(video.Slice(2, 1, 2).Data) == string(own.Slice(2, 1, 2).Data)
		if given != (trace == "i2v.latents") || !rest {
			t.Errorf("%s: after the last step the video does not have the given frame before the loop's own", name)
		}
	}
}

// A loop that keeps a frame goes on from its states with the same bits, and its states are
// those of no other frame.
func TestKeptFramesAreOfTheRequest(t *testing.T) {
	whole, err := keepingLoop(t, func(*weft.SampleOptions) {})
	if err != nil {
		t.Fatal(err)
	}
	states := []*denoise.State{}
	keep := func(denoise.Step) error {
		s, err := whole.State()
		states = append(states, s)
		return err
	}
	if err := whole.Run(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	for i, s := range states {
		again, err := keepingLoop(t, func(*weft.SampleOptions) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Restore(throughFile(t, s)); err != nil {
			t.Fatal(err)
		}
		if err := again.Run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if latentsOf(t, again) != latentsOf(t, whole) {
			t.Errorf("stopped after step %d: other bits", i)
		}
	}
	for _, change := range []func(*weft.SampleOptions){
		func(o *weft.SampleOptions) { o.Kept = nil },
		func(o *weft.SampleOptions) { o.Kept.Frames = []int{1} },
		func(o *weft.SampleOptions) {
			o.Kept.Latents = tensor.New(dtype.F32, o.Kept.Latents.Shape...)
		},
	} {
		other, err := keepingLoop(t, change)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Restore(states[1]); !errors.Is(err, denoise.ErrState) {
			t.Errorf("the state of another frame: %v", err)
		}
	}
}

// Any frames may be kept: what the model sees of them is what is given, so the loop's own
// noise there changes nothing.
func TestKeptFramesHideTheirNoise(t *testing.T) {
	for _, frames := range [][]int{{0}, {1}, {0, 2}, {1, 2}} {
		run := func(noise float32) *tensor.Tensor {
			d, err := keepingLoop(t, func(o *weft.SampleOptions) {
				o.Frames = 9 // 3 latent frames
				given := slices.Repeat([]float32{0.25, -0.5, 1, 2}, 48*len(frames)*8/4)
				fs := make([]float32, 48*3*8)
				for i := range fs {
					fs[i] = float32(i%7)/7 - 0.5
					if slices.Contains(frames, i/8%3) {
						fs[i] = noise
					}
				}
				o.Noise, o.Kept = floats(t, fs, 1, 48, 3, 2, 4), &denoise.Kept{Frames: frames, Latents: floats(t, given, 1, 48, len(frames), 2, 4)}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			x, err := d.VideoLatents()
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		one, other := run(0), run(3)
		if string(one.Data) != string(other.Data) {
			t.Errorf("frames %v are kept, and their noise changed the latents", frames)
		}
		fs, err := one.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for f := range 3 {
			if got := slices.Equal(fs[f*8:f*8+4], []float32{0.25, -0.5, 1, 2}); got != slices.Contains(frames, f) {
				t.Errorf("frames %v are kept: frame %d begins with %v", frames, f, fs[f*8:f*8+4])
			}
		}
	}
}

func floats(t testing.TB, fs []float32, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32s(dtype.F32, fs, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Frames that cannot be kept are refused before any weight is read.
func TestKeptFramesRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		kept denoise.Kept
		says []string
	}{
		{"none", denoise.Kept{Latents: tensor.New(dtype.F32, 1, 48, 0, 2, 4)}, []string{"0 of 2 frames are to be kept: want 1 to 1"}},
		{"all", denoise.Kept{Frames: []int{0, 1}, Latents: tensor.New(dtype.F32, 1, 48, 2, 2, 4)}, []string{"2 of 2 frames"}},
		{"behind the end", denoise.Kept{Frames: []int{2}, Latents: tensor.New(dtype.F32, 1, 48, 1, 2, 4)}, []string{"ascending numbers from 0 to 1"}},
		{"before the start", denoise.Kept{Frames: []int{-1}, Latents: tensor.New(dtype.F32, 1, 48, 1, 2, 4)}, []string{"ascending"}},
		{"twice", denoise.Kept{Frames: []int{0, 0}, Latents: tensor.New(dtype.F32, 1, 48, 2, 2, 4)}, []string{"ascending", "2 of 2"}},
		{"another size", denoise.Kept{Frames: []int{0}, Latents: tensor.New(dtype.F32, 1, 48, 1, 4, 4)}, []string{"F32[1 48 1 4 4]: want [1 48 1 2 4]"}},
		{"integers", denoise.Kept{Frames: []int{0}, Latents: tensor.New(dtype.I32, 1, 48, 1, 2, 4)}, []string{"floating-point"}},
		{"no latents", denoise.Kept{Frames: []int{0}}, []string{"floating-point"}},
	} {
		_, err := keepingLoop(t, func(o *weft.SampleOptions) { o.Kept = &c.kept })
		if !errors.Is(err, models.ErrInputs) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(want)) {
				t.Errorf("%s: %q is not in %v", c.name, want, err)
			}
		}
	}
	bad := tensor.New(dtype.F32, 1, 48, 1, 2, 4)
	copy(bad.Data, []byte{0, 0, 0xc0, 0x7f})
	if _, err := keepingLoop(t, func(o *weft.SampleOptions) { o.Kept.Latents = bad }); !errors.Is(err, nonfinite.Err) {
		t.Errorf("NaN: %v", err)
	}
	s, err := weft.OpenSampling(expertsDir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text := modeltest.Tensors(t, expertsDir+"/context.safetensors")["context"]
	_, err = s.Denoise(text, nil, weft.SampleOptions{Options: weft.Options{Request: request.Must("--size 48x32 --frames 5")}, Kept: &denoise.Kept{Frames: []int{0}}})
	if !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "one timestep for all frames") {
		t.Errorf("a model that keeps none: %v", err)
	}
}

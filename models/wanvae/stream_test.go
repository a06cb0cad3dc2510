package wanvae_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// parts collects what a run hands over.
type parts struct {
	names  []string
	frames map[string][]int
	all    map[string][]*tensor.Tensor
}

func (p *parts) visit(name string, frame int, t *tensor.Tensor) error {
	if p.all == nil {
		p.all, p.frames = map[string][]*tensor.Tensor{}, map[string][]int{}
	}
	if p.all[name] == nil {
		p.names = append(p.names, name)
	}
	p.all[name], p.frames[name] = append(p.all[name], t), append(p.frames[name], frame)
	return nil
}

// equalWhole compares the parts of each output with the outputs of a whole run, byte by byte.
func (p *parts) equalWhole(t *testing.T, what string, whole map[string]*tensor.Tensor) {
	t.Helper()
	for _, name := range p.names {
		got := tensor.Join(2, p.all[name])
		if want := whole[name]; !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: the parts of %s %v are not the whole %v", what, name, got, want)
		}
		for i, frame := range p.frames[name] {
			if frame != i {
				t.Errorf("%s: part %d of %s is frame %d", what, i, name, frame)
			}
		}
	}
}

// A video that is handed over frame by frame has the bytes of the whole decoding, and so have
// latents of frames that come one by one. The frame that is asked for is never more than one
// group of a latent ahead of what came out.
func TestStreamedIsTheWhole(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	ctx := context.Background()
	for _, device := range modeltest.Devices() {
		for _, on := range []string{"", "tp=2,sp=2"} {
			m, o := modeltest.Open(t, dir), weft.Options{Device: device, Request: request.Must("--mesh=" + on)}
			for name, outputs := range map[string]string{"z": "[out]", "video": "[encode encode_mean encode_logvar]"} {
				if device == "cpu" && (on != "" || name == "z" || os.Getenv("WEFT_LONG_TESTS") == "") {
					continue // compiling takes long
				}
				what := device + " " + on + " " + name
				r, err := m.Start(ctx, only(in, name, name), o)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				whole, err := r.Forward(ctx)
				if err != nil {
					t.Fatal(err)
				}
				var p parts
				if err := r.Stream(ctx, p.visit); err != nil {
					t.Fatal(err)
				}
				p.equalWhole(t, what, whole)
				if got := fmt.Sprint(p.names); got != outputs {
					t.Errorf("%s: outputs %s, want %s", what, got, outputs)
				}
				if device != "reference" {
					continue
				}
				// The same with frames as they are asked for.
				asked, came := 0, parts{}
				fr, err := m.StartFrames(ctx, name, in[name].Shape, func(_ context.Context, frame int) (*tensor.Tensor, error) {
					if frame != asked {
						t.Errorf("%s: frame %d is asked for after %d", what, frame, asked-1)
					}
					asked++
					group := 1
					if name == "video" {
						group = 4
					}
					if out := len(came.frames[strings.Fields(strings.Trim(outputs, "[]"))[0]]); name == "video" && frame > group*(out+1)+1 {
						t.Errorf("%s: frame %d is asked for when %d latent frames are out", what, frame, out)
					}
					return in[name].Slice(2, frame, frame+1), nil
				}, o)
				if err != nil {
					t.Fatal(err)
				}
				defer fr.Close()
				if err := fr.Stream(ctx, came.visit); err != nil {
					t.Fatal(err)
				}
				came.equalWhole(t, what+" by frames", whole)
				if asked != in[name].Shape[2] {
					t.Errorf("%s: %d frames were asked for", what, asked)
				}
				asked = 0
				again, err := fr.Forward(ctx)
				if err != nil {
					t.Fatal(err)
				}
				p.equalWhole(t, what+" by frames, whole", again)
			}
		}
	}
}

// Host memory does not grow with the number of frames that are streamed: live memory at the
// last frame of a longer video is what it is at the last one of a shorter one.
func TestStreamingKeepsNoFrame(t *testing.T) {
	m := modeltest.Open(t, modeltest.MadeUp(t, `{"z_dim":3,"dim":2,"dim_mult":[1],"num_res_blocks":1,"temperal_downsample":[],"latents_mean":[1,0,-1],"latents_std":[2,1,0.5]}`))
	live := func(frames int) uint64 {
		r, err := m.StartFrames(context.Background(), "z", []int{16, 3, frames, 12, 12}, func(context.Context, int) (*tensor.Tensor, error) {
			return tensor.New(dtype.F32, 16, 3, 1, 12, 12), nil
		}, weft.Options{Device: "reference"})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var most uint64
		seen := 0
		if err := r.Stream(context.Background(), func(string, int, *tensor.Tensor) error {
			seen++
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			most = max(most, s.HeapAlloc)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if seen != frames {
			t.Errorf("%d frames, want %d", seen, frames)
		}
		return most
	}
	live(3)
	short, long := live(3), live(103)
	// 100 frames of 16 x 3 x 12 x 12 in f32 are 2.8 MB, and their latents are as many. What the
	// graph says of its calls grows, by a few kB for each.
	if grown := int64(long) - int64(short); grown > 1_400_000 {
		t.Errorf("live memory is %d bytes with 3 frames and %d with 103", short, long)
	} else {
		t.Logf("%d bytes more", grown)
	}
}

func TestFramesRefused(t *testing.T) {
	m := modeltest.Open(t, dir)
	ctx := context.Background()
	broken := errors.New("broken")
	good := func(context.Context, int) (*tensor.Tensor, error) { return tensor.New(dtype.F32, 1, 16, 1, 4, 3), nil }
	for _, c := range []struct {
		input  string
		shape  []int
		source weft.FrameSource
		is     error
		want   string
	}{
		{"x", []int{1, 16, 3, 4, 3}, good, models.ErrInputs, `input "x"`},
		{"z", []int{16, 3, 4, 3}, good, models.ErrInputs, "[16 3 4 3]"},
		{"z", []int{1, 16, 2, 4, 3}, func(context.Context, int) (*tensor.Tensor, error) { return nil, broken }, broken, `frame 0 of "z": broken`},
		{"z", []int{1, 16, 2, 4, 3}, func(context.Context, int) (*tensor.Tensor, error) { return tensor.New(dtype.F32, 1, 16, 1, 4, 2), nil }, models.ErrInputs, `frame 0 of "z" is f32[1 16 1 4 2]`},
		{"z", []int{1, 16, 2, 4, 3}, func(context.Context, int) (*tensor.Tensor, error) { return nil, nil }, models.ErrInputs, `frame 0 of "z"`},
		{"z", []int{1, 16, 2, 4, 3}, func(_ context.Context, frame int) (*tensor.Tensor, error) {
			x, _ := good(ctx, frame)
			x.Data[3], x.Data[2] = 0x7f, 0xc0
			return x, nil
		}, weft.ErrNonFinite, `"z, frame 0"`},
	} {
		r, err := m.StartFrames(ctx, c.input, c.shape, c.source, weft.Options{Device: "reference"})
		if err == nil {
			err = r.Stream(ctx, func(string, int, *tensor.Tensor) error { return nil })
			r.Close()
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %s", c.input, c.shape, err, c.want)
		}
	}
	// The visitor's own error ends the run.
	r, err := m.StartFrames(ctx, "z", []int{1, 16, 2, 4, 3}, good, weft.Options{Device: "reference"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	if err := r.Stream(ctx, func(string, int, *tensor.Tensor) error { n++; return broken }); !errors.Is(err, broken) || n != 1 {
		t.Errorf("%v after %d parts", err, n)
	}
	generator := modeltest.Open(t, "../../testdata/wan21_t2v")
	if _, err := generator.StartFrames(ctx, "x", []int{1, 16, 2, 4, 4}, good, weft.Options{}); !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "no input frame by frame") {
		t.Error(err)
	}
}

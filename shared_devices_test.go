package weft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft"
	"weft/engine"
	"weft/internal/modeltest"
	"weft/pipeline"
	"weft/request"
)

// sharedVideo is a video of a test.
type sharedVideo struct{ prompt, flags string }

// optionsOf are a video's options with an output of its own.
func (v sharedVideo) optionsOf(t *testing.T, flags, image string) pipeline.Options {
	t.Helper()
	if !strings.Contains(v.flags, "--frames") {
		flags += " --frames 5"
	}
	return pipeline.Options{Request: request.Must("--size 64x32 --text-len 24 " + flags + " " + v.flags), Prompt: v.prompt, Image: image,
		Out: filepath.Join(t.TempDir(), "v.avi")}
}

// Videos that are made at once on the same devices have the bytes of those that are made alone on
// the mesh of one, whatever joins them when, and say how they were made.
func TestVideosAtOnceHaveTheBytesOfThoseAlone(t *testing.T) {
	same := []sharedVideo{{"A cat", "--seed 1 --steps 3"}, {"Rain", "--seed 2 --steps 2"}, {"A ship", "--seed 3 --steps 4"}, {"A dog", "--seed 4 --steps 3"}}
	mixed := append(slices.Clone(same), sharedVideo{"Fog", "--seed 5 --steps 2 --guidance 1"}, sharedVideo{"Sun", "--seed 6 --steps 2 --frames 9"})
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	for i, c := range []struct {
		dir, image, flags string
		videos            []sharedVideo
		batch             int
		note              string // that some video has
	}{
		{"wan21_t2v", "", "", mixed, 2, "denoised at once with up to 1 other videos of its shape, over dp=2"},
		{"wan21_t2v", "", "--mesh tp=3 --cfg sequential", same[:3], 2, "denoised at once with up to 1 other videos of its shape, over dp=2,tp=3"},
		{"wan21_t2v", "", "--mesh dp=2", same, 2, "denoised at once with up to 1 other videos of its shape, over dp=4"},
		{"wan21_t2v", "", "", mixed, 1, ""},
		{"wan21_t2v", "", "--mesh pp=2", same[:2], 2, "are denoised one after another, and not 2 at once"},
		{"wan22_t2v_a14b", "", "", same[:3], 2, "denoised at once"}, // two experts
		{"wan21_i2v", "testdata/pipelines/wan21_i2v/image.png", "", same[:2], 2, "denoised at once"},
		{"wan22_ti2v_5b", "testdata/pipelines/wan22_ti2v_5b/image.png", "", same[:2], 2, "denoised at once"},
	} {
		if i > 1 && !long {
			continue
		}
		t.Run(fmt.Sprintf("%s %s batch %d", c.dir, c.flags, c.batch), func(t *testing.T) {
			for _, device := range modeltest.Devices() {
				if device != engine.RefDevice && (c.image != "" || c.flags != "" || !long) {
					continue // each compiles programs of its own
				}
				p, err := weft.OpenPipeline(filepath.Join("testdata/pipelines", c.dir), pipeline.OpenOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				run := weft.Options{Device: device}
				kept := weft.KeepDevices(weft.Keep{Batch: c.batch})
				defer kept.Close()
				results := make([]*weft.Generated, len(c.videos))
				var all sync.WaitGroup
				for i, v := range c.videos {
					o := weft.GenerateOptions{Video: v.optionsOf(t, c.flags, c.image), Run: run, Devices: kept}
					all.Go(func() {
						var err error
						if results[i], err = p.Generate(context.Background(), o); err != nil {
							t.Errorf("%s: %v", v.prompt, err)
						}
					})
				}
				all.Wait()
				var notes []string
				for i, v := range c.videos {
					if results[i] == nil {
						continue
					}
					notes = append(notes, results[i].Notes...)
					alone := weft.GenerateOptions{Video: v.optionsOf(t, c.flags, c.image), Run: run}
					if _, err := p.Generate(context.Background(), alone); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(read(t, results[i].Out), read(t, alone.Video.Out)) {
						t.Errorf("on %s video %d, %s %s, has other bytes than alone", device, i, v.prompt, v.flags)
					}
				}
				if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, c.note) }) {
					t.Errorf("no note has %q: %q", c.note, notes)
				}
			}
		})
	}
}

// read reads a file.
func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A video that is cancelled in the middle leaves those that are made with it as they are, and frees
// its place for the next one.
func TestCancelledVideoLeavesTheOthers(t *testing.T) {
	p, err := weft.OpenPipeline("testdata/pipelines/wan21_t2v", pipeline.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	run := weft.Options{Device: engine.RefDevice}
	kept := weft.KeepDevices(weft.Keep{Batch: 2})
	defer kept.Close()
	var all sync.WaitGroup
	videos := []sharedVideo{{"A cat", "--seed 1 --steps 6"}, {"Rain", "--seed 2 --steps 40"}, {"A ship", "--seed 3 --steps 3"}}
	made := make([]string, len(videos))
	for i, v := range videos {
		o := v.optionsOf(t, "", "")
		made[i] = o.Out
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o.OnProgress = func(pr pipeline.Progress) {
			if i == 1 && pr.Phase == "denoise" && pr.Done == 2 {
				cancel()
			}
		}
		all.Go(func() {
			_, err := p.Generate(ctx, weft.GenerateOptions{Video: o, Run: run, Devices: kept})
			if wrong := err != nil; wrong != (i == 1) || wrong && !errors.Is(err, context.Canceled) {
				t.Errorf("video %d: %v", i, err)
			}
		})
	}
	all.Wait()
	for i, v := range videos {
		if i == 1 {
			continue
		}
		alone := v.optionsOf(t, "", "")
		if _, err := p.Generate(t.Context(), weft.GenerateOptions{Video: alone, Run: run}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(t, made[i]), read(t, alone.Out)) {
			t.Errorf("video %d has other bytes than alone", i)
		}
	}
}

// A NaN of one video ends that video alone.
func TestNonFiniteVideoFailsAlone(t *testing.T) {
	p, err := weft.OpenPipeline("testdata/pipelines/wan21_t2v", pipeline.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	run := weft.Options{Device: engine.RefDevice}
	// Guidance of this scale makes the latents larger than f32 has numbers.
	videos := []sharedVideo{{"A cat", "--seed 1 --steps 3"}, {"Rain", "--seed 2 --steps 3 --guidance 3e38"}}
	var want [2]error
	for i, v := range videos {
		_, want[i] = p.Generate(t.Context(), weft.GenerateOptions{Video: v.optionsOf(t, "", ""), Run: run})
	}
	if want[0] != nil || !errors.Is(want[1], weft.ErrNonFinite) {
		t.Fatalf("alone: %v", want)
	}
	kept := weft.KeepDevices(weft.Keep{Batch: 2})
	defer kept.Close()
	var got [2]error
	var all sync.WaitGroup
	for i, v := range videos {
		o := v.optionsOf(t, "", "")
		all.Go(func() {
			_, got[i] = p.Generate(t.Context(), weft.GenerateOptions{Video: o, Run: run, Devices: kept})
		})
	}
	all.Wait()
	if got[0] != nil || !errors.Is(got[1], weft.ErrNonFinite) || weft.FailedTogether(got[1]) {
		t.Fatalf("together: %v", got)
	}
}

// While a video is decoded the next one is denoised where there is memory for both by plan, and else
// behind it. Both have the bytes that they have alone.
func TestDecodingBesideDenoising(t *testing.T) {
	p, err := weft.OpenPipeline("testdata/pipelines/wan21_t2v", pipeline.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	run := weft.Options{Device: engine.RefDevice}
	videos := []sharedVideo{{"A cat", "--seed 1 --steps 2"}, {"Rain", "--seed 2 --steps 3"}}
	var want [2][]byte
	for i, v := range videos {
		o := v.optionsOf(t, "", "")
		if _, err := p.Generate(t.Context(), weft.GenerateOptions{Video: o, Run: run}); err != nil {
			t.Fatal(err)
		}
		want[i] = read(t, o.Out)
	}
	for _, memory := range []int64{1 << 40, 1} {
		t.Run(weft.Bytes(memory), func(t *testing.T) {
			weft.SetAvailableMemory(t, memory)
			room := memory > 1
			kept := weft.KeepDevices(weft.Keep{Batch: 1})
			defer kept.Close()
			first, second := videos[0].optionsOf(t, "", ""), videos[1].optionsOf(t, "", "")
			denoised, told := make(chan struct{}), make(chan struct{})
			var once sync.Once
			second.OnProgress = func(pr pipeline.Progress) {
				if pr.Phase == "denoise" && pr.Done > 0 {
					once.Do(func() { close(denoised) })
				}
			}
			first.OnFrame = func([]float32) error {
				if !room {
					return nil
				}
				select {
				case <-denoised:
					return nil
				case <-time.After(20 * time.Second):
					return errors.New("the next video is not denoised while this one is decoded")
				}
			}
			var all sync.WaitGroup
			all.Go(func() {
				if room {
					<-told
				}
				if _, err := p.Generate(t.Context(), weft.GenerateOptions{Video: second, Run: run, Devices: kept}); err != nil {
					t.Error(err)
				}
			})
			var say sync.Once
			if _, err := p.Generate(t.Context(), weft.GenerateOptions{Video: first, Run: run, Devices: kept, OnBeside: func() {
				if !room {
					t.Error("room beside the decoding is told that there is not")
				}
				say.Do(func() { close(told) })
			}}); err != nil {
				t.Error(err)
			}
			say.Do(func() {
				if close(told); room {
					t.Error("that there is room beside the decoding is not told")
				}
			})
			all.Wait()
			for i, o := range []pipeline.Options{first, second} {
				if !bytes.Equal(read(t, o.Out), want[i]) {
					t.Errorf("video %d has other bytes than alone", i)
				}
			}
		})
	}
}

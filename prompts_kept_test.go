package weft_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/pipeline"
	"weft/request"
)

// severalVideos makes a video of each prompt and gives the results, with the bytes of the videos.
func severalVideos(t *testing.T, dir string, prompts []string, image, flags string, run weft.Options, together bool) ([]*weft.Generated, [][]byte) {
	t.Helper()
	p, err := weft.OpenPipeline(dir, pipeline.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var videos []pipeline.Options
	for i, prompt := range prompts {
		o := pipeline.Options{Request: request.Must("--size 64x32 --frames 5 --steps 2 --text-len 24 " + flags), Prompt: prompt, Image: image}
		o.Seed = uint64(i + 1)
		o.Out = filepath.Join(t.TempDir(), "v.avi")
		videos = append(videos, o)
	}
	var results []*weft.Generated
	if together {
		if results, err = p.GenerateAll(t.Context(), videos, run); err != nil {
			t.Fatal(err)
		}
	} else {
		for _, v := range videos {
			r, err := p.Generate(t.Context(), weft.GenerateOptions{Video: v, Run: run})
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, r)
		}
	}
	var made [][]byte
	for _, v := range videos {
		b, err := os.ReadFile(v.Out)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, b)
	}
	return results, made
}

// phaseOf is a phase of a result; nil where it did not run.
func phaseOf(r *weft.Generated, name string) *pipeline.Phase {
	i := slices.IndexFunc(r.Phases, func(p pipeline.Phase) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Phases[i]
}

// Of a list of prompts, the programs and weights of all phases but the text's stay for the videos
// that follow: these read nothing, say so, and are the same to the byte as videos that are made
// alone.
func TestWeightsStayForMorePrompts(t *testing.T) {
	prompts := []string{"A cat runs over a meadow.", "Rain.", "A ship at night"}
	for _, c := range []struct{ dir, image, flags string }{
		{"testdata/pipelines/wan21_t2v", "", ""},
		{"testdata/pipelines/wan21_t2v", "", "--mesh tp=3 --cfg sequential"},
		{"testdata/pipelines/wan21_t2v", "", "--offload all"},
		{"testdata/pipelines/wan22_t2v_a14b", "", "--mesh sp=3"}, // two experts
		{"testdata/pipelines/wan21_i2v", "testdata/pipelines/wan21_i2v/image.png", ""},
		{"testdata/pipelines/wan22_ti2v_5b", "testdata/pipelines/wan22_ti2v_5b/image.png", "--mesh dp=2"},
	} {
		if c.image != "" {
			if _, err := os.Stat(c.image); err != nil {
				t.Fatal(err)
			}
		}
		for _, device := range modeltest.Devices() {
			if device != "reference" && (c.flags != "" || c.image != "") {
				continue // each compiles programs of its own
			}
			prompts := prompts
			if c.flags != "" || c.image != "" {
				prompts = prompts[:2]
			}
			run := weft.Options{Device: device}
			_, want := severalVideos(t, c.dir, prompts, c.image, c.flags, run, false)
			results, got := severalVideos(t, c.dir, prompts, c.image, c.flags, run, true)
			for i := range prompts {
				if !bytes.Equal(want[i], got[i]) {
					t.Errorf("%s %s on %s: video %d has other bytes than one that is made alone", c.dir, c.flags, device, i+1)
				}
				for _, name := range []string{"image", "denoise", "decode"} {
					p := phaseOf(results[i], name)
					if p == nil {
						continue
					}
					reads := i == 0 || name == "denoise" && strings.Contains(c.flags, "offload") // which streams
					if (p.BytesRead > 0) != reads {
						t.Errorf("%s %s on %s: phase %s of video %d reads %d bytes", c.dir, c.flags, device, name, i+1, p.BytesRead)
					}
				}
				if stayed := slices.ContainsFunc(results[i].Notes, func(n string) bool { return strings.HasSuffix(n, "programs and weights stayed from the video before") }); stayed != (i > 0) {
					t.Errorf("%s %s on %s: video %d: %q", c.dir, c.flags, device, i+1, results[i].Notes)
				}
			}
		}
	}
}

// Where there is no memory for all phases' weights, those stay that there is memory for, by the
// plan's count, and the notes say which are read again and why.
func TestWeightsStayAsFarAsMemoryAllows(t *testing.T) {
	const dir = "testdata/pipelines/wan21_t2v"
	prompts := []string{"A cat", "Rain"}
	run := weft.Options{Device: "reference"}
	_, want := severalVideos(t, dir, prompts, "", "", run, false)
	seen := map[int]bool{}
	for limit := int64(1); ; limit += limit/2 + 8<<10 {
		weft.SetAvailableMemory(t, limit)
		results, got := severalVideos(t, dir, prompts, "", "", run, true)
		read := 0
		for _, name := range []string{"denoise", "decode"} {
			if phaseOf(results[1], name).BytesRead > 0 {
				read++
			}
		}
		again := slices.ContainsFunc(append(results[0].Notes, results[1].Notes...), func(n string) bool { return strings.Contains(n, "are read again for each video: there is no memory") })
		if again != (read == 2) && read != 1 { // of one phase the text K/V may be read alone
			t.Errorf("%d bytes: %d phases read weights again: %q, %q", limit, read, results[0].Notes, results[1].Notes)
		}
		for i := range want {
			if !bytes.Equal(want[i], got[i]) {
				t.Errorf("%d bytes: video %d has other bytes", limit, i+1)
			}
		}
		if seen[read] = true; read == 0 {
			break
		}
		if limit > 1<<30 {
			t.Fatal("with a gigabyte weights are read again")
		}
	}
	if !seen[2] {
		t.Error("with hardly any memory weights stay")
	}
}

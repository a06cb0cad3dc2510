package generate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weft"
	"weft/engine"
	"weft/jobs"
	"weft/jobs/generate"
	"weft/pipeline"
	"weft/request"
)

// Jobs of one shape are denoised at once and say so; each has the bytes of weft generate.
func TestJobsOfOneShapeAreDenoisedAtOnce(t *testing.T) {
	p := open(t)
	s, err := jobs.Open(t.Context(), jobs.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	asked := request.Must("--size 64x32 --frames 1 --steps 16 --text-len 24 --guidance 1") // steps enough for one to come while others are under way
	raw, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	prompts := []string{"a cat", "a dog", "a ship"}
	var made []string
	for _, prompt := range prompts {
		one := spec(t, p)
		one.Prompt, one.Request, one.Preview = prompt, raw, 0
		j, _, err := s.Create(t.Context(), jobs.New{Spec: one})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, j.ID)
	}
	r := generate.New(p, weft.Options{Device: engine.RefDevice}, 2)
	defer r.Release()
	ctx, end := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = jobs.NewWorker(s, jobs.WorkerOptions{Parallel: 2}).Run(ctx, r) })
	defer done.Wait()
	defer end()
	notes := ""
	for i, id := range made {
		j, err := s.Wait(t.Context(), id)
		if err != nil || j.State != jobs.Completed {
			t.Fatalf("%v, %s %+v", err, j.State, j.Error)
		}
		notes += strings.Join(j.Notes, "\n")
		f, _, err := s.OpenFile(t.Context(), id, "video")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		o := weft.GenerateOptions{Run: weft.Options{Device: engine.RefDevice}, Video: pipeline.Options{Request: asked, Prompt: prompts[i], Out: filepath.Join(t.TempDir(), "v.avi"), Weft: weft.Version()}}
		o.Video.Seed = seed
		if _, err := p.Generate(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(o.Video.Out); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the video of %q has other bytes than alone, %v", prompts[i], err)
		}
		for name, setting := range j.Settings {
			if strings.Contains(setting.From, "testdata") {
				t.Errorf("the source of %s has the folder: %s", name, setting.From)
			}
		}
	}
	if !strings.Contains(notes, "denoised at once with up to 1 other videos of its shape, over dp=2") {
		t.Errorf("notes %q", notes)
	}
}

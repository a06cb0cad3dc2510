package weft_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"weft"
	"weft/engine"
	"weft/pipeline"
	"weft/request"
)

// Generations on devices that stay have the bytes of those on devices of their own, whatever was
// made before; and what stayed is not read again.
func TestKeptDevicesGiveTheSameBytes(t *testing.T) {
	const small = "--size 64x32 --frames 5 --steps 2 --seed "
	type video struct {
		flags, prompt string
		again         bool // with the model and the text of the one before
	}
	for _, c := range []struct {
		name, dir string
		keep      weft.Keep
		videos    []video
	}{
		{"all that fits", "wan21_t2v", weft.Keep{}, []video{
			{small + "1", "a cat", false}, {small + "2", "a cat", true}, {"--size 32x64 --frames 5 --steps 3 --guidance 1", "a dog", false}, {small + "1", "a cat", false}}},
		{"two experts", "wan22_t2v_a14b", weft.Keep{}, []video{{small + "1", "a cat", false}, {small + "1", "a cat", true}}},
		{"nothing", "wan21_t2v", weft.Keep{NoWeights: true, Outputs: -1}, []video{{small + "1", "a cat", false}, {small + "1", "a cat", false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := weft.OpenPipeline(filepath.Join("testdata/pipelines", c.dir), pipeline.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			kept := weft.KeepDevices(c.keep)
			defer kept.Close()
			generate := func(v video, on *weft.KeptDevices) (read int64, made []byte) {
				o := weft.GenerateOptions{Run: weft.Options{Device: engine.RefDevice}, Devices: on,
					Video: pipeline.Options{Request: request.Must(v.flags), Prompt: v.prompt, Out: filepath.Join(t.TempDir(), "v.avi")}}
				r, err := p.Generate(context.Background(), o)
				if err != nil {
					t.Fatal(err)
				}
				for _, ph := range r.Phases {
					read += ph.BytesRead
				}
				if made, err = os.ReadFile(o.Video.Out); err != nil {
					t.Fatal(err)
				}
				return read, made
			}
			alone := map[video][]byte{}
			var first int64
			for i, v := range c.videos {
				read, made := generate(v, kept)
				same := video{flags: v.flags, prompt: v.prompt}
				if alone[same] == nil {
					_, alone[same] = generate(v, nil)
				}
				if !bytes.Equal(made, alone[same]) {
					t.Errorf("video %d of %q, %s differs", i, v.prompt, v.flags)
				}
				if i == 0 {
					first = read
				}
				// What only the text's part of a step reads leaves the devices, and comes again.
				if stayed := read < first/4; stayed != v.again {
					t.Errorf("video %d read %d bytes, the first %d", i, read, first)
				}
			}
		})
	}
}

package weft_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/internal/userfile"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// Tiles that are streamed give, frame by frame and in order, the very bytes that they give
// together, and leave no file behind.
func TestStreamedTiles(t *testing.T) {
	m := modeltest.Open(t, "testdata/wan21_vae")
	in := modeltest.Tensors(t, "testdata/wan21_vae/inputs.safetensors")
	tiles := models.Tiles{Height: 16, Width: 16, StrideHeight: 8, StrideWidth: 8}
	for _, c := range []struct{ input, output string }{{"z", "out"}, {"video", "encode"}} {
		for _, mesh := range []string{"", "sp=2"} {
			o := weft.Options{Device: "reference", Request: request.Must("--mesh=" + mesh)}
			inputs := map[string]*tensor.Tensor{c.input: in[c.input]}
			want, said, err := m.ForwardTiled(t.Context(), inputs, tiles, o)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			parts := map[string][]*tensor.Tensor{}
			report, err := m.StreamTiled(t.Context(), inputs, tiles, dir, o, func(name string, frame int, part *tensor.Tensor) error {
				next := 0
				for _, p := range parts[name] {
					next += p.Shape[2]
				}
				if frame != next {
					t.Errorf("%s: frame %d comes as number %d", name, frame, next)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
					t.Errorf("the folder has %q", left)
				}
				parts[name] = append(parts[name], part)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(parts[c.output]) < 2 {
				t.Errorf("%s came in %d parts", c.output, len(parts[c.output]))
			}
			for name, list := range parts {
				modeltest.Close(t, c.input+" "+mesh+" "+name, tensor.Join(2, list), want[name], 0)
			}
			if a, b := strings.Join(report.Notes, "\n"), strings.Join(said.Notes, "\n"); a != b || !strings.Contains(a, "tiles of 16 x 16") || report.BytesRead != said.BytesRead {
				t.Errorf("notes %q, want %q; %d bytes read, want %d", a, b, report.BytesRead, said.BytesRead)
			}
		}
	}
}

// What cannot be kept on the way ends the run, as does who takes the frames.
func TestStreamedTilesFail(t *testing.T) {
	m := modeltest.Open(t, "testdata/wan21_vae")
	in := map[string]*tensor.Tensor{"z": modeltest.Tensors(t, "testdata/wan21_vae/inputs.safetensors")["z"]}
	tiles := models.Tiles{Height: 16, Width: 16, StrideHeight: 8, StrideWidth: 8}
	o := weft.Options{Device: "reference"}
	none := func(string, int, *tensor.Tensor) error { t.Error("a frame"); return nil }
	if _, err := m.StreamTiled(t.Context(), in, tiles, filepath.Join(t.TempDir(), "none"), o, none); !errors.Is(err, userfile.ErrOutput) {
		t.Errorf("a folder that is not there: %v", err)
	}
	full := errors.New("full")
	if _, err := m.StreamTiled(t.Context(), in, tiles, t.TempDir(), o, func(string, int, *tensor.Tensor) error { return full }); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if _, err := m.StreamTiled(t.Context(), in, models.Tiles{Height: 7, Width: 16, StrideHeight: 7, StrideWidth: 8}, t.TempDir(), o, none); !errors.Is(err, models.ErrSize) {
		t.Errorf("tiles of no latents: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	frames := 0
	if _, err := m.StreamTiled(ctx, in, tiles, t.TempDir(), o, func(string, int, *tensor.Tensor) error { frames++; cancel(); return nil }); !errors.Is(err, context.Canceled) || frames != 1 {
		t.Errorf("%d frames after the end was asked for: %v", frames, err)
	}
}

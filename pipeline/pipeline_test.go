package pipeline

import (
	"errors"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/checkpoint"
	"weft/mesh"
	"weft/video"
)

// Meshes of a phase are of equal shares of the devices, the largest first, and end with one
// device, so that a legal one is always found.
func TestMeshesOfPhases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 64).Draw(t, "devices")
		rows, cols := rapid.IntRange(1, 90).Draw(t, "rows"), rapid.IntRange(1, 160).Draw(t, "cols")
		for _, meshes := range [][][]mesh.Axis{textMeshes(n), pictureMeshes(n, rows, cols)} {
			before, seen := n, map[string]bool{}
			for _, axes := range meshes {
				m, err := mesh.Local(axes...)
				if err != nil {
					t.Fatal(err)
				}
				if k := m.NumDevices(); n%k != 0 || k > before || seen[m.String()] {
					t.Errorf("%v of %d devices after one of %d", m, n, before)
				}
				before, seen[m.String()] = m.NumDevices(), true
			}
			if before != 1 {
				t.Errorf("the last mesh of %d devices has %d", n, before)
			}
		}
	})
	for _, c := range []struct {
		n, rows, cols int
		want          string
	}{{4, 60, 104, "dp=1,tp=2,sp=2"}, {2, 60, 104, "dp=1,tp=2,sp=1"}, {3, 4, 9, "dp=1,tp=3,sp=1"}, {4, 4, 1, "dp=1,tp=1,sp=4"}, {1, 1, 1, "dp=1,tp=1,sp=1"}} {
		if got := mesh.FormatAxes(pictureMeshes(c.n, c.rows, c.cols)[0]); got != c.want {
			t.Errorf("%d devices, pictures of %dx%d: %s, want %s", c.n, c.rows, c.cols, got, c.want)
		}
	}
	if got := mesh.FormatAxes(textMeshes(4)[0]); got != "dp=1,tp=4,sp=1" {
		t.Errorf("a text encoder on 4 devices: %s", got)
	}
}

// Frames that come one by one are the file that frames at once would be; more or fewer of them
// leave no file.
func TestFramesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.safetensors")
	shape := []int{3, 1, 2, 3}
	frame := func(i int) []float32 { return []float32{0, 1, 0.5, float32(i) / 10, 0.002, 0.998} }
	fill := func(n int) func(func([]float32) error) error {
		return func(add func([]float32) error) error {
			for i := range n {
				if err := add(frame(i)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, n := range []int{0, 2, 4} {
		if err := writeFramesFile(path, false, shape, fill(n)); !errors.Is(err, video.ErrFrame) {
			t.Errorf("%d frames: %v", n, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("%d frames made a file", n)
		}
	}
	if err := writeFramesFile(path, false, shape, fill(3)); err != nil {
		t.Fatal(err)
	}
	got, _, err := checkpoint.LoadFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	values, err := got["frames"].Float32s()
	if err != nil || !slices.Equal(got["frames"].Shape, shape) || !slices.Equal(values[6:12], frame(1)) {
		t.Errorf("%v %v %v", got["frames"], values, err)
	}
	if b := got["frames_u8"]; !slices.Equal(b.Shape, shape) || !slices.Equal(b.Data[12:], []byte{0, 255, 128, 51, 1, 254}) {
		t.Errorf("%v %v", b, b.Data)
	}
}

// A preview has a picture of each of a few latent frames, in the colours that the map gives.
func TestDrawLatents(t *testing.T) {
	for _, channels := range []int{16, 48} {
		m := rgbMaps[channels]
		if len(m.weights) != channels || m.source == "" {
			t.Fatalf("%d channels: %d weights", channels, len(m.weights))
		}
		for _, frames := range []int{1, 3, 9} {
			shape := []int{channels, frames, 2, 3}
			x := make([]float32, channels*frames*6)
			for f := range frames { // one latent of one channel says which frame it is
				x[(2*frames+f)*6+4] = float32(f)
			}
			im := drawLatents(x, shape)
			shown := min(frames, 4)
			if size := im.Bounds().Size(); size.X != 3*shown || size.Y != 2 {
				t.Fatalf("%d frames: %v", frames, size)
			}
			for i := range shown {
				f := 0
				if shown > 1 {
					f = i * (frames - 1) / (shown - 1)
				}
				want := color.RGBA{A: 255}
				for k, c := range []*uint8{&want.R, &want.G, &want.B} {
					*c = uint8(math.Round(float64(255 * min(max((m.bias[k]+m.weights[2][k]*float32(f)+1)/2, 0), 1))))
				}
				if got := im.At(3*i+1, 1); got != want {
					t.Errorf("%d channels, frame %d: %v, want %v", channels, f, got, want)
				}
			}
		}
	}
}

// A state's request is read, or refused; nothing else.
func FuzzReadStateRequest(f *testing.F) {
	f.Add([]byte(`{"version":1,"seed":"5","asked":{"steps":"4"},"new":["v.avi"]}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"version":1}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := readStateRequest(raw)
		if err == nil && r.Version != stateVersion || err != nil && !errors.Is(err, ErrState) {
			t.Errorf("%+v %v", r, err)
		}
	})
}

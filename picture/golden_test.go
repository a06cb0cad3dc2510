package picture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readJSONLines[T any](t testing.TB, path string) (out []T) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %d lines, %v", path, len(out), err)
	}
	return out
}

// largestDifference of two pictures' bytes.
func largestDifference(a, b []byte) int {
	d := 0
	for i := range a {
		d = max(d, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return d
}

// Every file becomes what Pillow makes of it, turned upright: to the byte, and within what
// another inverse transform of JPEG rounds otherwise.
func TestFilesBecomeWhatPillowReads(t *testing.T) {
	b, err := os.ReadFile("testdata/decoded.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Width, Height int
		RGB           []byte
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("testdata/images")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %d results, %v", len(files), len(want), err)
	}
	for name, w := range want {
		im, _, err := Open(filepath.Join("testdata/images", name), 0)
		if err != nil {
			t.Error(err)
			continue
		}
		if im.Width != w.Width || im.Height != w.Height || len(im.Pix) != len(w.RGB) {
			t.Errorf("%s: %dx%d, want %dx%d", name, im.Width, im.Height, w.Width, w.Height)
			continue
		}
		limit := 0
		if strings.HasSuffix(name, ".jpg") {
			limit = jpegTolerance
		}
		if d := largestDifference(im.Pix, w.RGB); d > limit {
			t.Errorf("%s: off by %d, want at most %d", name, d, limit)
		} else {
			t.Logf("%s: off by %d", name, d)
		}
	}
}

// jpegTolerance is how far two exact inverse transforms of JPEG are apart at most here:
// each rounds its own intermediate values, and a channel adds two planes.
const jpegTolerance = 3

func TestResizeIsPillowsToTheByte(t *testing.T) {
	type line struct {
		Width, Height              int
		RGB                        []byte
		To                         [2]int
		Bilinear, Bicubic, Lanczos []byte
	}
	for _, l := range readJSONLines[line](t, "testdata/resized.json.gz") {
		im := &Image{l.Width, l.Height, l.RGB}
		for f, want := range map[Filter][]byte{Bilinear: l.Bilinear, Bicubic: l.Bicubic, Lanczos: l.Lanczos} {
			got := im.Resize(l.To[0], l.To[1], f)
			if got.Width != l.To[0] || got.Height != l.To[1] || !bytes.Equal(got.Pix, want) {
				t.Errorf("%dx%d to %v, %s: off by %d", l.Width, l.Height, l.To, f, largestDifference(got.Pix, want))
			}
		}
	}
}

func TestResizeBicubicIsPyTorchs(t *testing.T) {
	type line struct {
		Width, Height int
		RGB           []byte
		To            [2]int
		Planes        []byte
	}
	for _, l := range readJSONLines[line](t, "testdata/bicubic.json.gz") {
		got := (&Image{l.Width, l.Height, l.RGB}).ResizeBicubic(l.To[0], l.To[1])
		if 4*len(got.Data) != len(l.Planes) {
			t.Fatalf("%d values, want %d", len(got.Data), len(l.Planes)/4)
		}
		d := 0.0
		for i, v := range got.Data {
			d = max(d, math.Abs(float64(v)-float64(math.Float32frombits(binary.LittleEndian.Uint32(l.Planes[4*i:])))))
		}
		t.Logf("%dx%d to %v: off by %.2g", l.Width, l.Height, l.To, d)
		if !(d <= 2e-6) {
			t.Errorf("%dx%d to %v: off by %g, want at most 2e-6", l.Width, l.Height, l.To, d)
		}
	}
}

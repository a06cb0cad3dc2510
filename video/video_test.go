package video

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/fault"
	"weft/internal/userfile"
)

// frameOf makes a frame with a gradient, some noise, and a mark that moves with its number.
func frameOf(i, width, height int) []byte {
	r := rand.New(rand.NewPCG(14, uint64(i)))
	var pix []byte
	for y := range height {
		for x := range width {
			mark := 0
			if (x+y+3*i)%16 < 4 {
				mark = 80
			}
			pix = append(pix, byte(x*150/width+mark), byte(y*150/height+r.IntN(8)), byte(100+mark-i%40))
		}
	}
	return pix
}

func request(path string, width, height, frames int) Request {
	return Request{Path: path, Width: width, Height: height, Frames: frames, Rate: Rate{24, 1},
		Made: Made{Weft: "1.2.3", Model: "wan2.1-t2v-1.3b", ModelHash: "sha256:00ff", Seed: 1<<64 - 1, Settings: []byte(`{"prompt":"猫 = \"cat\"; #1 \\ 😀","steps":4}`)}}
}

// writeFrames writes a video of frameOf's frames.
func writeFrames(t testing.TB, r Request) *Plan {
	t.Helper()
	p, err := Check(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	writePlanned(t, p)
	return p
}

func writePlanned(t testing.TB, p *Plan) {
	t.Helper()
	r := p.request
	result, err := Write(t.Context(), p, func(s *Sink) error {
		for i := range r.Frames {
			if err := s.RGB(frameOf(i, r.Width, r.Height)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || result != (Result{Frames: r.Frames}) {
		t.Fatalf("%+v, %v", result, err)
	}
}

func TestParseRate(t *testing.T) {
	for s, want := range map[string]Rate{
		"16": {16, 1}, "24": {24, 1}, "8": {8, 1}, "23.976": {24000, 1001}, "23.98": {24000, 1001}, "29.97": {30000, 1001}, "59.94": {60000, 1001},
		"30000/1001": {30000, 1001}, "12.5": {25, 2}, "48/2": {24, 1}, "0.5": {1, 2}, "23.5": {47, 2}, "1000": {1000, 1}, "24.0": {24, 1},
	} {
		if got, err := ParseRate(s); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "1001", "nan", "inf", "1e3", "24/0", "24/1.5", "0.001", "1.00001", "/", "24 ", "0x10", "1/65536", strings.Repeat("1", 100)} {
		if got, err := ParseRate(s); !errors.Is(err, ErrRate) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestRoundIsHalfToEven(t *testing.T) {
	half := func(n float64) float32 { return float32(n / 255) }
	in := []float32{0, 1, 0.5, half(2.4), half(2.6), -0.25, 1.5, math.Nextafter32(1, 2), float32(math.Copysign(0, -1))}
	want := []byte{0, 255, 128, 2, 3, 0, 255, 255, 0}
	got := make([]byte, len(in))
	if clamped, err := Round(got, in); err != nil || clamped != 3 || !bytes.Equal(got, want) {
		t.Errorf("%v, %d clamped, %v, want %v", got, clamped, err, want)
	}
	// 0.5 is 127.5, which goes to the even 128; 0.1 is 25.5 by f32's product, to 26; 0.3 is
	// 76.5, to 76.
	got = make([]byte, 3)
	if _, err := Round(got, []float32{0.5, 0.1, 0.3}); err != nil || !bytes.Equal(got, []byte{128, 26, 76}) {
		t.Errorf("halves: %v, %v", got, err)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := Round(make([]byte, 1), []float32{float32(v)}); !errors.Is(err, ErrFrame) {
			t.Errorf("%v: %v", v, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("there.avi"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(at("others/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	good := func(name string, change func(*Request)) Request {
		r := request(at(name), 32, 16, 2)
		r.FFmpeg = at("no-ffmpeg")
		change(&r)
		return r
	}
	as := func(*Request) {}
	for _, test := range []struct {
		name string
		r    Request
		kind error
		says []string
	}{
		{"gif", good("a.gif", as), ErrEnding, []string{"256 colours", "a.mp4 (H.264)", "a.png (animated, lossless)", "a/ (a folder of PNGs)"}},
		{"mov", good("a.MOV", as), ErrEnding, []string{"QuickTime"}},
		{"unknown", good("a.xyz", as), ErrEnding, []string{".xyz is no kind of video"}},
		{"none", good("a", as), ErrEnding, []string{"no ending"}},
		{"empty", good("x.avi", func(r *Request) { r.Path = "" }), ErrEnding, []string{"name is empty"}},
		{"mp4 without ffmpeg", good("a.mp4", as), ErrNoFFmpeg, []string{"install it, or write", "a.avi (Motion JPEG), ", "a.png", "a/"}},
		{"webm without ffmpeg", good("a.webm", as), ErrNoFFmpeg, []string{"a.avi"}},
		{"codec", good("a.avi", func(r *Request) { r.Codec = "h264" }), ErrCodec, []string{"there it is mjpeg"}},
		{"codec that is none", good("a.mp4", func(r *Request) { r.Codec = "mpeg1" }), ErrCodec, []string{"h264 or av1"}},
		{"odd width", good("a.mp4", func(r *Request) { r.Width = 33 }), ErrSize, []string{"33x16", "crop to 32x16", "a.avi"}},
		{"odd height", good("a.webm", func(r *Request) { r.Height = 1 }), ErrSize, []string{"crop to 32x2"}},
		{"no width", good("a.avi", func(r *Request) { r.Width = 0 }), ErrSize, []string{"0x16"}},
		{"too wide", good("a.png", func(r *Request) { r.Width = 20000 }), ErrSize, []string{"16384"}},
		{"no frames", good("a.png", func(r *Request) { r.Frames = 0 }), ErrSize, []string{"0 frames"}},
		{"too long", good("a.avi", func(r *Request) { r.Width, r.Height, r.Frames = 1920, 1080, 1<<20 }), ErrSize, []string{"surely"}},
		{"no rate", good("a.avi", func(r *Request) { r.Rate = Rate{} }), ErrRate, []string{"0/0"}},
		{"there", good("there.avi", as), userfile.ErrExists, []string{"--force"}},
		{"no folder", good("no/a.avi", as), userfile.ErrOutput, nil},
		{"read by this command", good("there.avi", func(r *Request) { r.Force, r.Keep = true, []string{r.Path} }), userfile.ErrExists, []string{"read by"}},
		{"another's folder", good("others", func(r *Request) { r.Force = true }), userfile.ErrExists, []string{`"x"`}},
	} {
		before := namesBelow(t, dir)
		p, err := Check(t.Context(), test.r)
		if p != nil || !errors.Is(err, test.kind) {
			t.Errorf("%s: %v, want %v", test.name, err, test.kind)
			continue
		}
		for _, says := range test.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q, want %q in it", test.name, err, says)
			}
		}
		if after := namesBelow(t, dir); !slices.Equal(before, after) {
			t.Errorf("%s: left %q", test.name, after)
		}
	}
	_, err := Check(t.Context(), good("there.avi", func(r *Request) { r.Width, r.Codec, r.Rate.Num = -1, "vp9", 0 }))
	if n := len(fault.Violations(err)); n != 4 {
		t.Errorf("%d violations at once, want 4: %v", n, err)
	}
	t.Setenv(ffmpegVariable, at("elsewhere"))
	if _, err := Check(t.Context(), request(at("a.mp4"), 32, 16, 1)); !errors.Is(err, ErrNoFFmpeg) || !strings.Contains(err.Error(), ffmpegVariable) {
		t.Errorf("a program that is named and not there: %v", err)
	}
}

// namesBelow are all files and folders below dir.
func namesBelow(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// every is a video of each kind that can be written here.
func every(t *testing.T, dir string, width, height, frames int) map[string]*Plan {
	t.Helper()
	plans := map[string]*Plan{}
	for name, r := range map[string]Request{
		"a.avi": {}, "a.png": {}, "a/": {}, "h264.mp4": {}, "av1.mp4": {Codec: "av1"}, "av1.webm": {Codec: "av1"}, "vp9.webm": {Codec: "vp9"},
	} {
		codec := r.Codec
		r = request(filepath.Join(dir, name), width, height, frames)
		if strings.HasSuffix(name, "/") {
			r.Path += "/"
		}
		if r.Codec = codec; forms[endingOf(r.Path)].needsFFmpeg() && !hasProgram(t, "ffmpeg") {
			continue
		}
		p, err := Check(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		plans[name] = p
	}
	return plans
}

// Whatever goes wrong, the file that was there stays, and nothing else is left.
func TestWrittenWholeOrNotAtAll(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	broken := errors.New("the decoder failed")
	for name, p := range every(t, dir, 64, 64, 2) {
		frame := frameOf(0, 64, 64)
		for what, fill := range map[string]func(*Sink) error{
			"a caller that fails": func(s *Sink) error { return errors.Join(s.RGB(frame), broken) },
			"one frame too few":   func(s *Sink) error { return s.RGB(frame) },
			"one too many":        func(s *Sink) error { return errors.Join(s.RGB(frame), s.RGB(frame), s.RGB(frame)) },
			"another size":        func(s *Sink) error { return s.RGB(frame[3:]) },
			"not a number":        func(s *Sink) error { return s.Floats(append(make([]float32, len(frame)-1), float32(math.NaN()))) },
		} {
			before := namesBelow(t, dir)
			_, err := Write(t.Context(), p, fill)
			if !errors.Is(err, ErrFrame) && !errors.Is(err, broken) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if after := namesBelow(t, dir); !slices.Equal(before, after) {
				t.Errorf("%s, %s: left %q, before %q", name, what, after, before)
			}
		}
		writePlanned(t, p)
		if _, err := Check(t.Context(), p.request); !errors.Is(err, userfile.ErrExists) {
			t.Errorf("%s is replaced without --force: %v", name, err)
		}
		again := p.request
		again.Force = true
		if replaced, err := Check(t.Context(), again); err != nil {
			t.Error(err)
		} else {
			writePlanned(t, replaced)
		}
	}
	if left := namesBelow(t, os.Getenv("TMPDIR")); len(left) != 1 {
		t.Errorf("temporary files are left: %q", left)
	}
}

func TestCancelled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	for name, p := range every(t, dir, 64, 64, 5) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Write(ctx, p, func(s *Sink) error {
			for i := range 5 {
				if i == 2 {
					cancel()
				}
				if err := s.RGB(frameOf(i, 64, 64)); err != nil {
					return err
				}
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if names := namesBelow(t, dir); len(names) != 1 {
		t.Errorf("left %q", names)
	}
	if left := namesBelow(t, os.Getenv("TMPDIR")); len(left) != 1 {
		t.Errorf("temporary files are left: %q", left)
	}
}

package video

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weft/fault"
	"weft/internal/userfile"
)

// hasProgram says whether a program is there. Without it a test has less to do, or fails
// where WEFT_NEED_FFMPEG is set.
func hasProgram(t testing.TB, name string) bool {
	t.Helper()
	_, err := exec.LookPath(name)
	if err != nil && os.Getenv("WEFT_NEED_FFMPEG") != "" {
		t.Fatal(err)
	}
	return err == nil
}

func needProgram(t testing.TB, name string) {
	t.Helper()
	if !hasProgram(t, name) {
		t.Skipf("%s is not installed: what is written is not read by another program", name)
	}
}

func output(t testing.TB, name string, args ...string) []byte {
	t.Helper()
	var said bytes.Buffer
	c := exec.CommandContext(t.Context(), name, args...)
	c.Stderr = &said
	b, err := c.Output()
	if err != nil || said.Len() > 0 {
		t.Fatalf("%s %q: %v: %s", name, args, err, said.String())
	}
	return b
}

// inputOf is how ffmpeg is told to read a video.
func inputOf(p *Plan) []string {
	if p.Container == "folder" {
		return []string{"-framerate", p.request.Rate.String(), "-i", filepath.Join(p.Path, "frame_%05d.png")}
	}
	return []string{"-i", p.Path}
}

// ffprobe reads every kind of file without a complaint, and finds in it what was asked for.
func TestFFprobeReadsThem(t *testing.T) {
	needProgram(t, "ffprobe")
	for name, p := range every(t, t.TempDir(), 96, 64, 7) {
		p.request.Rate = Rate{30000, 1001}
		writePlanned(t, p)
		args := append([]string{"-v", "warning", "-of", "json", "-count_frames", "-show_streams", "-show_format"}, inputOf(p)...)
		var doc struct {
			Streams []map[string]any
			Format  struct{ Tags map[string]string }
		}
		if err := json.Unmarshal(output(t, "ffprobe", args...), &doc); err != nil || len(doc.Streams) != 1 {
			t.Fatalf("%s: %d streams, %v", name, len(doc.Streams), err)
		}
		want := map[string]any{"width": 96.0, "height": 64.0, "nb_read_frames": "7", "r_frame_rate": "30000/1001", "codec_name": p.Codec}
		switch p.Container {
		case "mp4", "webm":
			for _, tag := range []string{"color_space", "color_primaries", "color_transfer"} {
				want[tag] = "bt709"
			}
			want["color_range"], want["pix_fmt"] = "tv", "yuv420p"
		case "avi":
			want["pix_fmt"], want["color_range"], want["color_space"], want["nb_frames"] = "yuvj420p", "pc", "bt470bg", "7"
		case "png":
			want["codec_name"] = "apng"
		}
		for key, value := range want {
			if got := doc.Streams[0][key]; got != value {
				t.Errorf("%s: %s is %v, want %v", name, key, got, value)
			}
		}
		for key, value := range doc.Format.Tags {
			if strings.EqualFold(key, "comment") {
				checkComment(t, value)
				want = nil
			}
		}
		if want != nil && p.Container != "png" && p.Container != "folder" { // of PNGs it reads no text
			t.Errorf("%s: no comment in %v", name, doc.Format.Tags)
		}
		if p.Container == "mp4" {
			b, err := os.ReadFile(p.Path)
			if err != nil || bytes.Index(b, []byte("moov")) > bytes.Index(b, []byte("mdat")) {
				t.Errorf("%s cannot be played before it is loaded: its index comes after its frames, %v", name, err)
			}
		}
	}
}

// ffmpeg reads all frames of an AVI of several RIFFs.
func TestFFprobeReadsLongAVIs(t *testing.T) {
	needProgram(t, "ffprobe")
	p, err := Check(t.Context(), request(filepath.Join(t.TempDir(), "a.avi"), 64, 48, 40))
	if err != nil {
		t.Fatal(err)
	}
	whole := riffBytes
	riffBytes = 30_000
	writePlanned(t, p)
	riffBytes = whole
	b, err := os.ReadFile(p.Path)
	if err != nil || bytes.Count(b, []byte("AVIX")) < 3 {
		t.Fatalf("%d further RIFFs, %v", bytes.Count(b, []byte("AVIX")), err)
	}
	got := output(t, "ffprobe", "-v", "warning", "-count_frames", "-show_entries", "stream=nb_read_frames,duration", "-of", "csv=p=0", p.Path)
	if want := "1.666667,40\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// patches are flat colours of one frame, by fives.
var patches = [][3]byte{{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}, {0, 0, 0}, {128, 128, 128}, {255, 255, 0}, {200, 120, 80}, {30, 90, 60}, {60, 20, 140}}

const patchEdge = 64

func patchFrame() (pix []byte, width, height int) {
	width, height = 5*patchEdge, 2*patchEdge
	for y := range height {
		for x := range width {
			c := patches[y/patchEdge*5+x/patchEdge]
			pix = append(pix, c[:]...)
		}
	}
	return pix, width, height
}

// writePatches writes three frames of patches in every kind of file.
func writePatches(t *testing.T, dir string) map[string]*Plan {
	pix, width, height := patchFrame()
	plans := every(t, dir, width, height, 3)
	for _, p := range plans {
		if _, err := Write(t.Context(), p, func(s *Sink) error { return errors.Join(s.RGB(pix), s.RGB(pix), s.RGB(pix)) }); err != nil {
			t.Fatal(err)
		}
	}
	return plans
}

// colourTolerance is how far a flat colour may be from the one that was given, of 255.
const colourTolerance = 2

// checkPatches compares the middle of each patch; at gives a pixel.
func checkPatches(t *testing.T, name string, at func(x, y int) [3]byte) {
	t.Helper()
	worst := 0
	for i, want := range patches {
		got := at(i%5*patchEdge+patchEdge/2, i/5*patchEdge+patchEdge/2)
		for c := range 3 {
			d := max(int(got[c])-int(want[c]), int(want[c])-int(got[c]))
			if worst = max(worst, d); d > colourTolerance {
				t.Errorf("%s: patch %v is %v", name, want, got)
				break
			}
		}
	}
	t.Logf("%s: colours off by %d at most", name, worst)
}

func TestColoursAsFFmpegDecodesThem(t *testing.T) {
	needProgram(t, "ffmpeg")
	_, width, height := patchFrame()
	for name, p := range writePatches(t, t.TempDir()) {
		args := append([]string{"-v", "error"}, inputOf(p)...)
		raw := output(t, "ffmpeg", append(args, "-f", "rawvideo", "-pix_fmt", "rgb24", "-")...)
		if len(raw) != 3*3*width*height {
			t.Errorf("%s: %d bytes", name, len(raw))
			continue
		}
		for frame := range 3 {
			pix := raw[frame*3*width*height:]
			checkPatches(t, fmt.Sprintf("%s, frame %d", name, frame), func(x, y int) [3]byte { return [3]byte(pix[3*(y*width+x):]) })
		}
	}
}

// script makes a program that stands in for ffmpeg.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ffmpeg")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// An ffmpeg without the encoder is found before the first frame, and what it said is in
// the error.
func TestEncodersThatFailAreFoundBefore(t *testing.T) {
	dir := t.TempDir()
	r := request(filepath.Join(dir, "a.webm"), 32, 16, 1)
	r.FFmpeg = script(t, "echo \"Unknown encoder for $*\" >&2; exit 3")
	_, err := Check(t.Context(), r)
	if !errors.Is(err, ErrNoEncoder) {
		t.Fatal(err)
	}
	for _, says := range []string{"libsvtav1", "libvpx-vp9", "libaom-av1", "Unknown encoder", "a.avi (Motion JPEG)", "a.mp4"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in %v", says, err)
		}
	}
	if names := namesBelow(t, dir); len(names) != 1 {
		t.Errorf("left %q", names)
	}
}

// One that fails on the way is told with its status and what it said. The frames that it
// did not encode are taken to the end and kept, and the command that the error names makes
// the video of them.
func TestEncodersThatFailOnTheWay(t *testing.T) {
	needProgram(t, "ffmpeg")
	t.Setenv("TMPDIR", t.TempDir())
	for what, text := range map[string]string{
		"at once":      "echo No space left on device >&2; exit 3",
		"after a bit":  "head -c 100000 >/dev/null; echo No space left on device >&2; exit 3",
		"at the end":   "cat >/dev/null; echo No space left on device >&2; exit 3",
		"by a signal":  "echo No space left on device >&2; kill -9 $$",
		"with a flood": "cat >/dev/null; yes | head -c 1000000 >&2; echo No space left on device >&2; exit 3",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "it's a.mp4")
		p, err := Check(t.Context(), request(path, 128, 128, 20))
		if err != nil {
			t.Fatal(err)
		}
		p.Program = script(t, text)
		var all []byte
		fill := func(s *Sink) error {
			all = nil
			for i := range 20 {
				frame := frameOf(i, 128, 128)
				all = append(all, frame...)
				if err := s.RGB(frame); err != nil {
					return err
				}
			}
			return nil
		}
		result, err := Write(t.Context(), p, fill)
		f, ok := fault.Fields[Failure](err)
		if !errors.Is(err, ErrEncoder) || !ok || !strings.Contains(f.Stderr, "No space left on device") || f.Status == "" || len(f.Stderr) > tailBytes || result.Frames != 20 {
			t.Fatalf("%s: %v, fields %+v, %+v", what, err, f, result)
		}
		if kept, err := os.ReadFile(path + ".rgb"); err != nil || !bytes.Equal(kept, all) {
			t.Errorf("%s: %d bytes of frames are kept, want %d, %v", what, len(kept), len(all), err)
		}
		if names := namesBelow(t, dir); len(names) != 2 {
			t.Errorf("%s: left %q", what, names)
		}
		// As a user would: the command from the message, in a shell.
		_, command, _ := strings.Cut(err.Error(), "this encodes them: ")
		output(t, "sh", "-c", strings.Replace(command, p.Program, "ffmpeg", 1))
		got := output(t, "ffprobe", "-v", "warning", "-count_frames", "-show_entries", "stream=nb_read_frames,color_space", "-of", "csv=p=0", path)
		if string(got) != "bt709,20\n" {
			t.Errorf("%s: the command made %q", what, got)
		}
		// Without room for frames the first that fails ends it.
		p.request.Force, p.keeps = true, false
		if result, err = Write(t.Context(), p, fill); !errors.Is(err, ErrEncoder) || strings.Contains(err.Error(), ".rgb") {
			t.Errorf("%s, no frames kept: %v, %+v", what, err, result)
		}
	}
	if left := namesBelow(t, os.Getenv("TMPDIR")); len(left) != 1 {
		t.Errorf("left %q", left)
	}
}

// The file for frames that are not needed is never seen, and one that is there is not lost.
func TestKeptFramesReplaceNothing(t *testing.T) {
	needProgram(t, "ffmpeg")
	dir := t.TempDir()
	r := request(filepath.Join(dir, "a.mp4"), 32, 16, 2)
	if err := os.WriteFile(r.Path+".rgb", []byte("of yesterday"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), r); !errors.Is(err, userfile.ErrExists) || !strings.Contains(err.Error(), "a.mp4.rgb") {
		t.Errorf("%v", err)
	}
	r.Force = true
	writeFrames(t, r)
	if b, err := os.ReadFile(r.Path + ".rgb"); err != nil || string(b) != "of yesterday" {
		t.Errorf("%q, %v", b, err)
	}
}

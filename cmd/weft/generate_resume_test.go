//go:build unix

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft"
	"weft/internal/modeltest"
	"weft/tensor"
)

// resumed is the command whose generation is ended and gone on with.
func resumed(dir string, more ...string) []string {
	return small("generate", t2v, filepath.Join(dir, "v.avi"), append(more, "--steps", "6", "--frames", "9", "--seed", "4",
		"--frames-out", filepath.Join(dir, "f"), "--latents-out", filepath.Join(dir, "l"))...)
}

// A generation that is killed at any instant goes on to the same bytes, and leaves nothing else.
func TestKilledAndResumed(t *testing.T) {
	want := t.TempDir()
	began := time.Now()
	generate(t, resumed(want)...)
	took := time.Since(began)
	rounds := 3
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		rounds = 30
	}
	for range rounds {
		dir := t.TempDir()
		kills := 0
		for done := false; !done; {
			s := start(t, nil, resumed(dir, "--resume")...)
			if kills < 4 {
				time.Sleep(time.Duration(rand.Int64N(int64(took))) + took/10)
				s.Process.Signal(syscall.SIGKILL)
			}
			switch code := s.end(t); {
			case code == 0:
				done = true
			case code == 128+int(syscall.SIGKILL):
				kills++
			case strings.Contains(s.out.String(), `"exists"`) && !strings.Contains(strings.Join(namesBelow(t, dir), " "), ".state"):
				done = true // it was killed when all was done
			default:
				t.Fatalf("after %d kills: exit %d, %s%s", kills, code, &s.out, &s.err)
			}
		}
		for _, name := range []string{"v.avi", "f", "l"} {
			if !bytes.Equal(readFile(t, filepath.Join(dir, name)), readFile(t, filepath.Join(want, name))) {
				t.Errorf("%s differs after %d kills", name, kills)
			}
		}
		if left := namesBelow(t, dir); !slices.Equal(left, []string{"f", "l", "v.avi"}) {
			t.Errorf("left are %q", left)
		}
	}
}

// stopped leaves a state after some steps: Ctrl-C ends a generation in good order.
func stopped(t *testing.T, dir string) {
	t.Helper()
	interruptSteps(t, dir, append(resumed(dir), "--steps", "400"))
}

// interruptSteps begins a generation of dir/v.avi, and presses Ctrl-C after its first step.
func interruptSteps(t *testing.T, dir string, args []string) {
	t.Helper()
	s := start(t, nil, args...)
	state := filepath.Join(dir, "v.avi.state", "latents.safetensors")
	for range 2000 {
		if _, err := os.Stat(state); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Process.Signal(syscall.SIGINT)
	code := s.end(t)
	doc := decode[failure](t, s.out.String())
	if code != 130 || doc.Error.Kind != "interrupted" || !strings.Contains(doc.Error.Message, "--resume goes on from") {
		t.Fatalf("exit %d: %s%s", code, &s.out, &s.err)
	}
}

// A state goes on only with the request that it is of; another mesh is said. A state is never
// lost by accident.
func TestStatesAreOfARequest(t *testing.T) {
	dir := t.TempDir()
	stopped(t, dir)
	same := append(resumed(dir), "--steps", "400")
	for _, c := range []struct {
		flags []string
		says  []string
	}{
		{nil, []string{"--resume", "--force", "--state"}},
		{[]string{"--resume", "--prompt", "A dog"}, []string{"prompt", "A dog", "A cat walks"}},
		{[]string{"--resume", "--seed", "5", "--guidance", "2", "--size", "48x32"}, []string{"seed", "guidance", "size", "48x32"}},
		{[]string{"--resume", "--negative", "ugly"}, []string{"negative prompt", "ugly"}},
		{[]string{"--resume", "--dtype", "bf16"}, []string{"dtype", "bf16"}},
		{[]string{"--resume", "--lora", writeLoRA(t, "style.safetensors", 48) + ":2"}, []string{"lora", "style.safetensors:2"}},
		{[]string{"--resume", "--model", pipelinesDir + "wan22_ti2v_5b"}, []string{"the transformer", "the autoencoder"}},
	} {
		code, stdout, _ := weftRun(t, append(slices.Clone(same), c.flags...)...)
		if doc := decode[failure](t, stdout); code != 2 || doc.Error.Kind != "generation-state" {
			t.Errorf("%q: exit %d, %s", c.flags, code, stdout)
		}
		for _, s := range c.says {
			if !strings.Contains(stdout, s) {
				t.Errorf("%q: %s does not say %q", c.flags, stdout, s)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "v.avi.state", "latents.safetensors")); err != nil {
		t.Fatal(err)
	}
	// Another number of steps is another request: this state is only begun anew with --force.
	doc := generate(t, append(resumed(dir), "--force")...)
	if doc.Resumed != nil || len(doc.Steps) != 6 {
		t.Errorf("%+v", doc)
	}
}

// The latents of a state are decoded by themselves, with the first frame that an image gave.
func TestStateWithKeptFrameIsDecoded(t *testing.T) {
	const ti2v = pipelinesDir + "wan22_ti2v_5b"
	dir := t.TempDir()
	interruptSteps(t, dir, small("generate", ti2v, filepath.Join(dir, "v.avi"), "--image", ti2v+"/image.png", "--size", "64x32", "--steps", "400", "--seed", "4"))
	state := filepath.Join(dir, "v.avi.state", "latents.safetensors")
	frames := func(latents string) *tensor.Tensor {
		out := filepath.Join(t.TempDir(), "f.safetensors")
		if code, stdout, stderr := weftRun(t, "decode", "--model", ti2v, "--latents", latents, "--device", "reference", "--out", out, "--json"); code != 0 {
			t.Fatalf("exit %d, %s%s", code, stdout, stderr)
		}
		return modeltest.Tensors(t, out)["frames"]
	}
	z, image := modeltest.Tensors(t, state)["latents"], modeltest.Tensors(t, ti2v+"/image.safetensors")["i2v.condition"]
	file := func(z *tensor.Tensor) string {
		path := filepath.Join(t.TempDir(), "z.safetensors")
		if err := weft.WriteTensors(path, map[string]*tensor.Tensor{"latents": z}, false); err != nil {
			t.Fatal(err)
		}
		return path
	}
	got := frames(state)
	modeltest.Close(t, "frames of a state", got, frames(file(tensor.Join(2, []*tensor.Tensor{image, z.Slice(2, 1, z.Shape[2])}))), 1e-3)
	a, _ := got.Float32s()
	b, _ := frames(file(z)).Float32s()
	if abs, _ := weft.Difference(a, b); abs < 1e-2 {
		t.Errorf("the frames differ by %g from those of the latents without the image", abs)
	}
}

// On another mesh a generation goes on within the arithmetic's tolerance, and says so. Without
// --seed it goes on with the seed that was drawn.
func TestResumedOnAnotherMesh(t *testing.T) {
	dir, whole := t.TempDir(), t.TempDir()
	args := func(dir string) []string {
		a := small("generate", t2v, filepath.Join(dir, "v.avi"), "--steps", "60", "--latents-out", filepath.Join(dir, "l"))
		return a
	}
	s := start(t, nil, args(dir)...)
	state := filepath.Join(dir, "v.avi.state", "latents.safetensors")
	for range 3000 {
		if _, err := os.Stat(state); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.Process.Signal(syscall.SIGKILL)
	if code := s.end(t); code == 0 {
		t.Skip("it was done before it could be killed")
	}
	doc := generate(t, append(args(dir), "--resume", "--mesh", "tp=3")...)
	if doc.Resumed == nil || *doc.Resumed < 1 || !strings.Contains(strings.Join(doc.Notes, "\n"), "tolerance") {
		t.Errorf("resumed at %v, notes %q", doc.Resumed, doc.Notes)
	}
	again := generate(t, append(args(whole), "--seed", jsonNumber(doc.Seed))...)
	modeltest.Close(t, "on two meshes", modeltest.Tensors(t, filepath.Join(dir, "l"))["latents"], modeltest.Tensors(t, filepath.Join(whole, "l"))["latents"], 1e-3)
	if again.Seed != doc.Seed {
		t.Errorf("seeds %d and %d", again.Seed, doc.Seed)
	}
}

package plugin

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/fault"
)

func TestMain(m *testing.M) {
	if arg := os.Getenv("WEFT_PLUGIN_CHILD"); arg != "" {
		installChild(arg)
	}
	os.Exit(m.Run())
}

// fakeWheel makes a wheel with a "library" of random bytes in dir, and its pin.
// No network is needed: pip is pointed at dir.
func fakeWheel(t testing.TB, dir string, size int) Pin {
	t.Helper()
	lib := make([]byte, size)
	r := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range lib {
		lib[i] = byte(r.Uint32())
	}
	const file = "weft_fake_engine-1.0-py3-none-any.whl"
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, m := range []struct{ name, text string }{
		{"weft_fake_engine/engine.so", string(lib)},
		{"weft_fake_engine/__init__.py", "print('never run')\n"},
		{"weft_fake_engine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: weft-fake-engine\nVersion: 1.0\n"},
		{"weft_fake_engine-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"weft_fake_engine-1.0.dist-info/RECORD", ""},
	} {
		w, err := z.Create(m.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, m.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(buf.Bytes())
	return Pin{Name: "fake", Device: "cpu", Platform: runtime.GOOS + "/" + runtime.GOARCH, Version: "1.0", API: "0.1",
		Library: "weft_fake_engine/engine.so",
		Wheels: []Wheel{{Name: "weft-fake-engine", Version: "1.0", File: file, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(buf.Len()),
			Take: []string{"weft_fake_engine/engine.so"}}}}
}

func setup(t testing.TB) (wheels string, o Options) {
	t.Helper()
	t.Setenv("WEFT_ENGINE_DIR", filepath.Join(t.TempDir(), "engines"))
	t.Setenv("WEFT_PLUGIN", "")
	wheels = t.TempDir()
	return wheels, Options{Fetch: copyFrom(wheels)}
}

// copyFrom is a fetcher that needs no pip.
func copyFrom(dir string) func(context.Context, Wheel, string, func(int64)) (string, error) {
	return func(_ context.Context, w Wheel, to string, progress func(int64)) (string, error) {
		b, err := os.ReadFile(filepath.Join(dir, w.File))
		if err != nil {
			return "", err
		}
		progress(int64(len(b)))
		path := filepath.Join(to, w.File)
		return path, os.WriteFile(path, b, 0o644)
	}
}

// leavings are what an install leaves beside the engine; there should be a lock file only.
func leavings(t *testing.T) []string {
	t.Helper()
	var out []string
	list, _ := os.ReadDir(Root())
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".lock") {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestPins(t *testing.T) {
	names := map[string]bool{}
	for _, p := range Pins() {
		if names[p.Name] {
			t.Errorf("two pins are called %s", p.Name)
		}
		names[p.Name] = true
		if p.Publisher == "" || p.Licence == "" || p.Library == "" || len(p.Wheels) == 0 || p.API == "" && p.Unpinned == "" {
			t.Errorf("%s: something is missing: %+v", p.Name, p)
		}
		for _, w := range p.Wheels {
			if b, err := hex.DecodeString(w.SHA256); err != nil || len(b) != 32 {
				t.Errorf("%s: %q is no SHA-256", p.Name, w.SHA256)
			}
			if _, _, _, err := w.pipTags(); err != nil || w.Bytes == 0 || len(w.Take) == 0 {
				t.Errorf("%s: wheel %+v (%v)", p.Name, w, err)
			}
		}
	}
	for _, n := range []string{"cpu", "cpu-openxla", "cpu-compat", "tpu", "cuda"} {
		if !names[n] {
			t.Errorf("no pin %s", n)
		}
	}
	if Pins()[0].Name != Default {
		t.Error("the default is not the first")
	}
	// A change of the default engine must be made on purpose.
	if p, _ := Lookup("cpu"); p.Wheels[0].SHA256 != "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1" {
		t.Error("the default engine's hash has changed")
	}
}

func TestInstall(t *testing.T) {
	wheels, o := setup(t)
	pin := fakeWheel(t, wheels, 9<<20)
	o.Pin = &pin
	stages := map[string]bool{}
	o.Progress = func(p Progress) {
		if p.Done > p.Total || p.Name != "fake" {
			t.Errorf("progress %+v", p)
		}
		stages[p.Stage] = true
	}
	if len(List()) != 0 {
		t.Error("an empty folder lists engines")
	}
	i, err := Install(t.Context(), "fake", o)
	if err != nil {
		t.Fatal(err)
	}
	sum, n, err := hashFile(i.Path, nil)
	if err != nil || n != 9<<20 || sum != i.SHA256 || i.Name != "fake" || i.Version != "1.0" || i.API != "0.1" {
		t.Errorf("%+v, hash %s of %d bytes (%v)", i, sum, n, err)
	}
	for _, s := range []string{"wait", "fetch", "check", "unpack"} {
		if !stages[s] {
			t.Errorf("no progress of stage %q", s)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(i.Path), "__init__.py")); err == nil {
		t.Error("more was taken than was asked for")
	}
	if l := List(); len(l) != 1 || l[0] != i {
		t.Errorf("list: %+v", l)
	}
	if b, _ := json.Marshal(i); !strings.HasPrefix(string(b), `{"name":"fake","version":"1.0","path":"`) {
		t.Error(string(b))
	}
	// Again: nothing is fetched.
	o.Fetch = func(context.Context, Wheel, string, func(int64)) (string, error) {
		return "", errors.New("fetched again")
	}
	if again, err := Install(t.Context(), "fake", o); err != nil || again != i {
		t.Errorf("%+v (%v)", again, err)
	}
	if l := leavings(t); len(l) > 0 {
		t.Errorf("left: %v", l)
	}
	// A library cut short is no engine, and is replaced.
	if err := os.Truncate(i.Path, 100); err != nil {
		t.Fatal(err)
	}
	if l := List(); len(l) != 0 {
		t.Errorf("a broken engine is listed: %+v", l)
	}
	o.Fetch = copyFrom(wheels)
	if again, err := Install(t.Context(), "fake", o); err != nil || again != i {
		t.Errorf("%+v (%v)", again, err)
	}
}

func TestBadHash(t *testing.T) {
	wheels, o := setup(t)
	pin := fakeWheel(t, wheels, 1000)
	file := filepath.Join(wheels, pin.Wheels[0].File)
	good, _ := os.ReadFile(file)
	bad := bytes.Clone(good)
	bad[len(bad)/2] ^= 1
	if err := os.WriteFile(file, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	var fetched string
	o.Pin = &pin
	o.Fetch = func(ctx context.Context, w Wheel, dir string, p func(int64)) (string, error) {
		var err error
		fetched, err = copyFrom(wheels)(ctx, w, dir, p)
		return fetched, err
	}
	_, err := Install(t.Context(), "fake", o)
	f, _ := fault.Fields[Engine](err)
	if !errors.Is(err, ErrBadHash) || f.Want != pin.Wheels[0].SHA256 || len(f.Have) != 64 || f.Have == f.Want {
		t.Errorf("%v %+v", err, f)
	}
	if _, err := os.Stat(fetched); err == nil {
		t.Error("the bad file is still there")
	}
	if l := leavings(t); len(l) > 0 || len(List()) > 0 {
		t.Errorf("left: %v, %v", l, List())
	}
	// pip refuses it as well, with the same kind.
	if _, err := findPip(t.Context()); err == nil {
		o = Options{Pin: &pin, PipArgs: []string{"--no-index", "--find-links", wheels}}
		if _, err := Install(t.Context(), "fake", o); !errors.Is(err, ErrBadHash) {
			t.Errorf("pip: %v", err)
		}
	}
}

// TestPip fetches through the real pip, from a folder.
func TestPip(t *testing.T) {
	if _, err := findPip(t.Context()); err != nil {
		t.Skip("no pip here")
	}
	wheels, _ := setup(t)
	pin := fakeWheel(t, wheels, 1<<20)
	o := Options{Pin: &pin, PipArgs: []string{"--no-index", "--find-links", wheels}}
	if i, err := Install(t.Context(), "fake", o); err != nil || i.Name != "fake" {
		t.Errorf("%+v (%v)", i, err)
	}
	missing := pin
	missing.Version = "2.0"
	missing.Wheels = []Wheel{pin.Wheels[0]}
	missing.Wheels[0].Version = "2.0"
	o.Pin = &missing
	if _, err := Install(t.Context(), "fake", o); !errors.Is(err, ErrFetch) || !strings.Contains(err.Error(), "weft-fake-engine") {
		t.Errorf("a version that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Install(ctx, "fake", o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestNoPip(t *testing.T) {
	wheels, _ := setup(t)
	pin := fakeWheel(t, wheels, 1000)
	t.Setenv("PATH", t.TempDir())
	_, err := Install(t.Context(), "fake", Options{Pin: &pin})
	if !errors.Is(err, ErrNoPip) {
		t.Fatal(err)
	}
	for _, want := range []string{pin.Wheels[0].File, pin.Wheels[0].SHA256, "WEFT_PLUGIN", pin.Library} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

func TestRefused(t *testing.T) {
	wheels, o := setup(t)
	if _, err := Install(t.Context(), "no-such", Options{}); !errors.Is(err, ErrUnknownEngine) || !strings.Contains(err.Error(), "cpu-openxla") {
		t.Error(err)
	}
	pin := fakeWheel(t, wheels, 1000)
	pin.Unpinned = "nobody has tried it"
	if _, err := Install(t.Context(), "fake", Options{Pin: &pin}); !errors.Is(err, ErrNotPinned) {
		t.Error(err)
	}
	pin = fakeWheel(t, wheels, 1000)
	o.Pin = &pin
	pin.Platform = "plan9/mips"
	if _, err := Install(t.Context(), "fake", o); !errors.Is(err, ErrPlatform) {
		t.Error(err)
	}
	pin = fakeWheel(t, wheels, 1000)
	pin.Wheels[0].Take = []string{"somewhere/else.so"}
	if _, err := Install(t.Context(), "fake", o); !errors.Is(err, ErrBadWheel) {
		t.Error(err)
	}
	pin = fakeWheel(t, wheels, 1000)
	pin.Wheels[0].SHA256 = ""
	if _, err := Install(t.Context(), "fake", o); !errors.Is(err, ErrNotPinned) {
		t.Error(err)
	}
	if err := os.MkdirAll(Root(), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Get("cpu"); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "weft engine install cpu") {
		t.Error(err)
	}
}

func TestResolve(t *testing.T) {
	wheels, o := setup(t)
	pin := fakeWheel(t, wheels, 1000)
	pin.Name = "cpu"
	p, _ := Lookup("cpu")
	pin.Version = p.Version
	o.Pin = &pin
	i, err := Install(t.Context(), "cpu", o)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "libother.so")
	if err := os.WriteFile(other, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct{ env, name, path, is string }{
		{"", "", i.Path, "cpu"},
		{"", "cpu", i.Path, "cpu"},
		{"", i.Path, i.Path, "cpu"},
		{other, "", other, "libother"},
		{other, "cpu", i.Path, "cpu"},
		{"cpu", "", i.Path, "cpu"},
	} {
		t.Setenv("WEFT_PLUGIN", k.env)
		if got, err := Resolve(k.name); err != nil || got.Path != k.path || got.Name != k.is {
			t.Errorf("%+v: %+v (%v)", k, got, err)
		}
	}
	if _, err := Resolve("/nowhere/x.so"); !errors.Is(err, ErrNotInstalled) {
		t.Error(err)
	}
	if _, err := Resolve("nonsense"); !errors.Is(err, ErrUnknownEngine) {
		t.Error(err)
	}
}

// TestTwoInstalls: the second waits for the first, and fetches nothing.
func TestTwoInstalls(t *testing.T) {
	wheels, o := setup(t)
	pin := fakeWheel(t, wheels, 1<<20)
	o.Pin = &pin
	var mu sync.Mutex
	fetches := 0
	o.Fetch = func(ctx context.Context, w Wheel, dir string, p func(int64)) (string, error) {
		mu.Lock()
		fetches++
		mu.Unlock()
		return copyFrom(wheels)(ctx, w, dir, p)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := Install(t.Context(), "fake", o); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if fetches != 1 {
		t.Errorf("fetched %d times", fetches)
	}
}

func installChild(arg string) {
	var pin Pin
	file, wheels, _ := strings.Cut(arg, "|")
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &pin)
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("begin")
	_, err = Install(context.Background(), "fake", Options{Pin: &pin, Fetch: copyFrom(wheels)})
	fmt.Println("end", err)
	os.Exit(0)
}

// TestKill: an install killed at any moment leaves a whole engine or none, and
// the next one succeeds and sweeps up.
func TestKill(t *testing.T) {
	wheels, o := setup(t)
	pin := fakeWheel(t, wheels, 8<<20)
	o.Pin = &pin
	file := filepath.Join(t.TempDir(), "pin.json")
	b, _ := json.Marshal(pin)
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	want, _, err := func() (Installed, time.Duration, error) { // how long a whole one takes
		start := time.Now()
		i, err := Install(t.Context(), "fake", o)
		return i, time.Since(start), err
	}()
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := 30
	if testing.Short() {
		rounds = 6
	}
	whole := 0
	for range rounds {
		os.RemoveAll(filepath.Dir(filepath.Dir(want.Path)))
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "WEFT_PLUGIN_CHILD="+file+"|"+wheels)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.IntN(120_000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, i := range List() {
			whole++
			if sum, _, err := hashFile(i.Path, nil); err != nil || sum != want.SHA256 {
				t.Errorf("seed %d: a listed engine has hash %s (%v)", seed, sum, err)
			}
		}
	}
	t.Logf("%d of %d were whole when killed", whole, rounds)
	i, err := Install(t.Context(), "fake", o)
	if err != nil || i != want {
		t.Errorf("seed %d: %+v (%v)", seed, i, err)
	}
	os.RemoveAll(filepath.Dir(filepath.Dir(want.Path)))
	if _, err := Install(t.Context(), "fake", o); err != nil {
		t.Error(err)
	}
	if l := leavings(t); len(l) > 0 {
		t.Errorf("seed %d: left: %v", seed, l)
	}
}

// TestExamine: the hash and the names, found once and remembered until the file changes.
func TestExamine(t *testing.T) {
	setup(t)
	file := filepath.Join(t.TempDir(), "lib.so")
	body := make([]byte, 3<<20)
	copy(body[1<<20-5:], "xla_across_a_block\x00") // over the border of two reads
	copy(body[100:], "xla_not_ended_here_")
	if err := os.WriteFile(file, body, 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	check := func(names ...string) Facts {
		t.Helper()
		f, err := Examine(file, names...)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := check("xla_across_a_block", "xla_not_ended")
	if f.SHA256 != hex.EncodeToString(sum[:]) || !f.Has["xla_across_a_block"] || f.Has["xla_not_ended"] {
		t.Errorf("%+v", f)
	}
	if _, err := os.Stat(factsPath(file)); err != nil {
		t.Errorf("nothing was remembered: %v", err)
	}
	if f := check(); f.SHA256 != hex.EncodeToString(sum[:]) || !f.Has["xla_across_a_block"] {
		t.Errorf("%+v", f)
	}
	if f := check("across_a_block"); !f.Has["across_a_block"] || !f.Has["xla_across_a_block"] {
		t.Errorf("a name more: %+v", f)
	}
	body[0] = 1
	if err := os.WriteFile(file, body, 0o644); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(file, later, later); err != nil {
		t.Fatal(err)
	}
	sum = sha256.Sum256(body)
	if f := check(); f.SHA256 != hex.EncodeToString(sum[:]) {
		t.Error("the old hash was given for a changed file")
	}
	if err := os.WriteFile(factsPath(file), []byte("{broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f := check(); f.SHA256 != hex.EncodeToString(sum[:]) {
		t.Error("a broken note was believed")
	}
	if _, err := Examine("/nowhere/x.so"); err == nil {
		t.Error("a file that is not there")
	}
}

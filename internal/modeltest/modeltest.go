// Package modeltest has the helpers that the tests of model families share. They compare
// parameters with the peer's tables, run fixtures on every legal mesh, and make
// checkpoints with random weights.
//
// It imports package weft, so a family's tests that use it are in an external
// test package (package cogvideox_test).
package modeltest

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/peer/params"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/request"
	"weft/tensor"
)

// Devices lists the engines on which tests run: the interpreter and, unless WEFT_SKIP_XLA
// is set, XLA.
func Devices() []string {
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		return []string{"reference"}
	}
	return []string{"reference", "cpu"}
}

// Open opens a model for the length of a test.
func Open(t testing.TB, dir string) *weft.Model {
	t.Helper()
	m, err := weft.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// Tensors reads a safetensors file.
func Tensors(t testing.TB, path string) map[string]*tensor.Tensor {
	t.Helper()
	ts, err := weft.ReadTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// Close fails unless got is within tolerance of want, absolutely.
func Close(t testing.TB, what string, got, want *tensor.Tensor, tolerance float64) {
	t.Helper()
	if got == nil || want == nil {
		t.Errorf("%s is missing (got %v, want %v)", what, got, want)
		return
	}
	g, err := got.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	w, err := want.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	if abs, _ := weft.Difference(g, w); !(abs <= tolerance) {
		t.Errorf("%s differs by %g, more than %g", what, abs, tolerance)
	} else {
		t.Logf("%s differs by %g", what, abs)
	}
}

// OwnTimes changes the timestep of each token a little. The timesteps are then too many
// different ones for a program that embeds each of them once.
func OwnTimes(in map[string]*tensor.Tensor, by float64) {
	ts, err := in["t_tokens"].Float32s()
	if err != nil {
		panic(err)
	}
	for i, t := range ts {
		step.Put(in["t_tokens"], i, float64(t)+float64(i%9)*by)
	}
}

// Case is a fixture: a folder, and which of its outputs to compare.
type Case struct {
	Dir       string
	Want      string                              // a name in expected.safetensors; "" stands for "out"
	Inputs    func(map[string]*tensor.Tensor)     // changes the inputs before the run; nil leaves them
	Crop      func(*tensor.Tensor) *tensor.Tensor // cuts out the part that is compared; nil compares all
	Tolerance float64
	Options   weft.Options
}

// loadFixture reads the inputs of a case and the output that it must give.
func (c Case) loadFixture(t testing.TB) (in map[string]*tensor.Tensor, want *tensor.Tensor) {
	t.Helper()
	in = Tensors(t, filepath.Join(c.Dir, "inputs.safetensors"))
	if c.Inputs != nil {
		c.Inputs(in)
	}
	name := c.Want
	if name == "" {
		name = "out"
	}
	return in, Tensors(t, filepath.Join(c.Dir, "expected.safetensors"))[name]
}

// On runs a case on one mesh of a device and compares "out".
func (c Case) On(t testing.TB, device, on string) {
	t.Helper()
	in, want := c.loadFixture(t)
	o := c.Options
	o.Device, o.Mesh = device, request.MustMesh(on)
	got := Forward(t, Open(t, c.Dir), in, o)["out"]
	if c.Crop != nil && got != nil && want != nil {
		got, want = c.Crop(got), c.Crop(want)
	}
	Close(t, device+" "+on, got, want, c.Tolerance)
}

// Forward runs one step.
func Forward(t testing.TB, m *weft.Model, in map[string]*tensor.Tensor, o weft.Options) map[string]*tensor.Tensor {
	t.Helper()
	r, err := m.Start(context.Background(), in, o)
	if err != nil {
		t.Fatal(o.Device, o.Mesh, err)
	}
	defer r.Close()
	out, err := r.Forward(context.Background())
	if err != nil {
		t.Fatal(o.Device, o.Mesh, err)
	}
	return out
}

// Meshes lists the legal splits over dp, tp and sp of a case on at most so many devices.
func (c Case) Meshes(t testing.TB, devices int) []string {
	t.Helper()
	in, _ := c.loadFixture(t)
	m := Open(t, c.Dir)
	r, err := m.Request(in)
	if err != nil {
		t.Fatal(err)
	}
	r.DType, r.SplitResidual = dtype.F32, c.Options.SplitResidual
	out := []string{}
	for _, on := range weft.LegalMeshes(m, r, devices) {
		out = append(out, on.String())
	}
	return out
}

// Everywhere runs a case on every legal split of up to 8 devices in the interpreter, and
// on two of them through XLA. With WEFT_LONG_TESTS, XLA runs all of them.
func (c Case) Everywhere(t testing.TB) {
	t.Helper()
	c.runOnSplits(t, func(i, n int) bool { return i == n/2 || i == n-1 })
}

// Largely is Everywhere with XLA on the last split alone. It is for variants of a case
// that Everywhere runs.
func (c Case) Largely(t testing.TB) {
	t.Helper()
	c.runOnSplits(t, func(i, n int) bool { return i == n-1 })
}

// runOnSplits runs a case on all legal splits in the interpreter, and through XLA on those
// that compiled picks by their number.
func (c Case) runOnSplits(t testing.TB, compiled func(i, n int) bool) {
	t.Helper()
	meshes := c.Meshes(t, 8)
	for _, device := range Devices() {
		for i, on := range meshes {
			if device == "reference" || os.Getenv("WEFT_LONG_TESTS") != "" || compiled(i, len(meshes)) {
				c.On(t, device, on)
			}
		}
	}
}

// Traced runs a case on one device of the interpreter and compares every intermediate
// value that the fixture has too. It returns the number of these values.
func (c Case) Traced(t testing.TB) int {
	t.Helper()
	in, _ := c.loadFixture(t)
	want := Tensors(t, filepath.Join(c.Dir, "expected.safetensors"))
	o := c.Options
	o.Device = "reference"
	r, err := Open(t, c.Dir).Start(context.Background(), in, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	_, err = r.Trace(context.Background(), func(name string, x *tensor.Tensor) error {
		if want[name] != nil {
			n++
			Close(t, name, x, want[name], c.Tolerance)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Oracle compares a preset's parameters, with the peer's names, shapes and specs, with the
// peer's own table. file has the table, which lists one of several repeated layers.
func Oracle(t *testing.T, preset, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type leaf struct {
		Shape []int `json:"shape"`
		Spec  []any `json:"spec"`
	}
	var oracle struct {
		Leaves int   `json:"leaf_count"`
		Count  int64 `json:"param_count"`
		Repeat []struct {
			Listed  string  `json:"listed"`
			Pattern string  `json:"pattern"`
			Indices numbers `json:"indices"`
		} `json:"repeat"`
		Params []struct {
			Path string `json:"path"`
			leaf
		} `json:"params"`
	}
	if err := json.Unmarshal(raw, &oracle); err != nil {
		t.Fatal(err)
	}
	text := func(l leaf) string {
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := map[string]string{}
	for _, p := range oracle.Params {
		want[p.Path] = text(p.leaf)
	}
	m, err := models.ByName(preset)
	if err != nil {
		t.Fatal(err)
	}
	on, err := mesh.Local(mesh.Axis{Name: mesh.DP, Size: 1}, mesh.Axis{Name: mesh.TP, Size: 2}, mesh.Axis{Name: mesh.SP, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	assigned, err := models.Specs(m, on, 0)
	if err != nil {
		t.Fatal(err)
	}
	list, err := params.List(m, assigned, params.Flax, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != oracle.Leaves {
		t.Errorf("%s: %d leaves, the peer has %d", preset, len(list), oracle.Leaves)
	}
	var count int64
	seen := map[string]bool{}
	for _, l := range list {
		count += int64(tensor.Elements(l.Shape))
		key := l.Path
		for _, r := range oracle.Repeat {
			for _, i := range r.Indices {
				if rest, ok := strings.CutPrefix(l.Path, strings.ReplaceAll(r.Pattern, "{i}", strconv.Itoa(i))+"/"); ok {
					key = r.Listed + "/" + rest
				}
			}
		}
		got := leaf{Shape: l.Shape}
		b, err := json.Marshal(l.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &got.Spec); err != nil {
			t.Fatal(err)
		}
		if text(got) != want[key] {
			t.Errorf("%s: %s is %s, the peer has %s", preset, l.Path, text(got), want[key])
		}
		seen[key] = true
	}
	for path := range want {
		if !seen[path] {
			t.Errorf("%s: %s is missing", preset, path)
		}
	}
	if count != oracle.Count {
		t.Errorf("%s: %d parameters, the peer counts %d", preset, count, oracle.Count)
	}
}

// MadeUp writes a folder with a model of a config and random weights, the same in each
// run. The weights of matmuls keep the magnitude of activations, those of norms are near
// 1, and all others are small.
func MadeUp(t testing.TB, config string) string {
	t.Helper()
	m, err := models.FromConfig([]byte(config), "config.json")
	if err != nil {
		t.Fatal(err)
	}
	g := rand.New(rand.NewPCG(7, 1))
	ts := map[string]*tensor.Tensor{}
	for _, p := range m.Params(0) {
		fan := tensor.Elements(p.Shape[1:])
		mean, std := 0.0, 0.1
		switch {
		case p.Matmul:
			std = 1 / math.Sqrt(float64(fan))
		case strings.HasSuffix(p.Name, ".weight"), strings.HasSuffix(p.Name, ".gamma"): // of a norm
			mean = 1
		}
		fs := make([]float32, tensor.Elements(p.Shape))
		for i := range fs {
			fs[i] = float32(mean + std*g.NormFloat64())
		}
		if ts[p.Name], err = tensor.FromFloat32s(dtype.F32, fs, p.Shape...); err != nil {
			t.Fatal(err)
		}
	}
	return Folder(t, config, ts)
}

// Folder writes a config and tensors as a model's folder.
func Folder(t testing.TB, config string, ts map[string]*tensor.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := weft.WriteTensors(filepath.Join(dir, "model.safetensors"), ts, false); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Splits runs every legal split of a model on up to 8 devices of the interpreter
// and compares each with one device, an autoencoder in both directions. It returns the meshes.
func Splits(t testing.TB, dir string, o weft.VerifyOptions) []string {
	t.Helper()
	o.Device = "reference"
	results, err := Open(t, dir).Verify(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	meshes := []string{}
	for _, r := range results.Results {
		if !r.OK {
			t.Errorf("%s %s differs by %g at %s", r.Run, r.Mesh, r.MaxAbsDiff, r.FirstDiffering)
		}
		if !slices.Contains(meshes, r.Mesh) {
			meshes = append(meshes, r.Mesh)
		}
	}
	return meshes
}

package all_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"weft/dtype"
	"weft/internal/golden"
	"weft/mesh"
	"weft/models"
	"weft/program/stablehlo"
	"weft/spmd"
	"weft/targets"
)

// The programs of every preset, as text, over splits of each kind and for each
// kind of target, are those of the golden file: a change of one is meant, and is
// then taken over by `go test ./models/all -run Programs -update`.
func TestProgramsAreTheGoldenOnes(t *testing.T) {
	// The processor of the machine decides nothing here: no target of this test
	// widens bf16 or calls a kernel for processors.
	loops := targets.CPU()
	loops.WideBF16, loops.HostKernels = false, spmd.HostKernels{}
	targets := []struct {
		name string
		spmd.Target
		splits []string
	}{
		{"whole", spmd.Target{}, []string{"", "dp=2", "tp=2", "sp=2", "tp=2,sp=2", "fsdp=2", "pp=2"}},
		{"cpu", loops, []string{"tp=2", "sp=2"}},
		{"v5e", targets.TPU("v5e"), []string{"tp=2", "tp=2,sp=2"}},
	}
	var b strings.Builder
	for _, name := range models.Presets() {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		inputs, err := m.Example(2, nil, 1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := m.Request(inputs)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		decodes := m.Features().Decoder != nil
		if !decodes { // a decoder's stages cannot be left out
			r.Layers = 2
		}
		for _, on := range targets {
			r.Target, r.DType = on.Target, dtype.BF16
			for _, split := range on.splits {
				fmt.Fprintf(&b, "%s %s %s %s\n", name, on.name, cmp.Or(split, "one"), programsHash(t, m, r, split))
				if decodes {
					other := r
					other.Encode = true
					fmt.Fprintf(&b, "%s %s %s, encoding %s\n", name, on.name, cmp.Or(split, "one"), programsHash(t, m, other, split))
				}
			}
		}
	}
	golden.Compare(t, filepath.Join("testdata", "programs.golden"), b.String())
}

// programsHash is the SHA-256 of a step's programs in order of their names, or
// the word illegal.
func programsHash(t *testing.T, m models.Model, r models.Request, split string) string {
	t.Helper()
	axes := []mesh.Axis{}
	if split != "" {
		var err error
		if axes, err = mesh.Parse(split); err != nil {
			t.Fatal(err)
		}
	}
	on, err := mesh.Local(mesh.Standard(axes)...)
	if err != nil {
		t.Fatal(err)
	}
	if m.Check(on, r) != nil {
		return "illegal"
	}
	g, err := m.Graph(on, r)
	if err != nil {
		t.Fatalf("%s on %s: %v", m.Name(), on, err)
	}
	h := sha256.New()
	for _, name := range g.ProgramNames() {
		fmt.Fprintln(h, name)
		for line := range strings.Lines(stablehlo.Text(g.Programs[name])) {
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				fmt.Fprint(h, line)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:16]
}

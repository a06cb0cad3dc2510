package all_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
)

// every is each preset, and each configuration of the fixtures: few heads, odd widths.
func every(t *testing.T) []models.Model {
	t.Helper()
	var out []models.Model
	for _, name := range models.Presets() {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	files, err := filepath.Glob("../../testdata/*/config.json")
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		if strings.Contains(file, "primitives") || strings.Contains(file, "schedulers") {
			continue // of no model
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := models.FromConfig(text, file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// Every size and every mesh that a refused mesh's error names is taken by the same model
// for the same request, and where any mesh does, something is named.
func TestAdviceOnMeshesWorks(t *testing.T) {
	for _, m := range every(t) {
		in, err := m.Example(1, nil, 1)
		if err != nil {
			t.Fatalf("%s: %v", m.Name(), err)
		}
		req, err := m.Request(in)
		if err != nil {
			t.Fatalf("%s: %v", m.Name(), err)
		}
		refused := 0
		rapid.Check(t, func(r *rapid.T) {
			axes := []mesh.Axis{}
			for _, name := range []string{"pp", "dp", "fsdp", "tp", "sp", "zz"} {
				sizes := []int{1, 1, 1, 1, 1, 2, 2, 3, 4, 5, 8, 16}
				if name == "zz" || name == "pp" {
					sizes = []int{1, 1, 1, 1, 1, 2}
				}
				axes = append(axes, mesh.Axis{Name: name, Size: rapid.SampledFrom(sizes).Draw(r, name)})
			}
			on, err := mesh.Local(axes...)
			if err != nil {
				r.Fatal(err)
			}
			if on.NumDevices() > 256 {
				return
			}
			q := req
			q.Batch = rapid.IntRange(1, 4).Draw(r, "batch")
			q.DType = dtype.F32
			q.Strict = rapid.Bool().Draw(r, "strict")
			err = models.CheckMesh(m, on, q)
			if err == nil {
				return
			}
			refused++
			advised := false
			for _, v := range fault.Violations(err) {
				e, ok := v.(*fault.Error)
				if !ok {
					r.Fatalf("%s: %T", m.Name(), v)
				}
				for _, flag := range e.Nearest() {
					advised = true
					text, ok := strings.CutPrefix(flag, "--mesh ")
					if !ok {
						r.Fatalf("%s: %q", m.Name(), flag)
					}
					axes, err := mesh.Parse(text)
					if err != nil {
						r.Fatal(err)
					}
					candidate, err := mesh.Local(axes...)
					if err != nil {
						r.Fatal(err)
					}
					if err := m.Check(candidate, q); err != nil {
						r.Errorf("%s on %s: advice %s is refused: %v", m.Name(), on, flag, err)
					}
				}
				c, ok := e.Fields().(fault.Choices)
				if !ok {
					continue
				}
				axis, legal := c.Choice()
				for _, n := range legal {
					advised = true
					changed := on.Axes()
					found := false
					for i := range changed {
						if changed[i].Name == axis {
							changed[i].Size, found = n, true
						}
					}
					candidate, err := mesh.Local(changed...)
					if err != nil || !found {
						r.Fatalf("%s: %s=%d: %v", m.Name(), axis, n, err)
					}
					if err := m.Check(candidate, q); err != nil {
						r.Errorf("%s on %s: %s=%d is refused: %v", m.Name(), on, axis, n, err)
					}
				}
			}
			one, _ := mesh.Local(mesh.Standard(nil)...)
			if !advised && m.Check(one, q) == nil {
				r.Errorf("%s on %s: one device does, and nothing is named: %v", m.Name(), on, err)
			}
		})
		if refused == 0 {
			t.Errorf("%s: no mesh was refused", m.Name())
		}
	}
}

// Every size that a refused video's error names is taken beside the sizes of the other
// dims, or those named for them.
func TestAdviceOnSizesWorks(t *testing.T) {
	for _, m := range every(t) {
		g := m.Features().Generator
		if g == nil {
			continue
		}
		rapid.Check(t, func(r *rapid.T) {
			sizes := map[string]int{}
			for _, what := range []string{"width", "height", "frames"} {
				sizes[what] = rapid.SampledFrom([]int{-1, 0, 1, 2, 9, 16, 48, 49, 81, 82, 480, 481, 704, 720, 768, 832, 1000, 65535, 65536, 65537, 1 << 40}).Draw(r, what)
			}
			_, err := models.VideoLatents(g, 1, sizes["width"], sizes["height"], sizes["frames"])
			legal := map[string][]int{}
			for what, n := range sizes {
				legal[what] = []int{n}
			}
			named := map[string]bool{}
			for _, v := range fault.Violations(err) {
				if f, ok := fault.Fields[models.SizeRefused](v); ok {
					legal[f.What], named[f.What] = f.Nearest, true
				}
			}
			for what := range named {
				for _, n := range legal[what] {
					works := false
					for _, w := range legal["width"] {
						for _, h := range legal["height"] {
							for _, f := range legal["frames"] {
								at := map[string]int{"width": w, "height": h, "frames": f}
								if at[what] != n {
									continue
								}
								if latent, err := g.LatentShape(w, h, f); err == nil && models.Positions(1, latent) <= models.MaxPositions {
									works = true
								}
							}
						}
					}
					if !works {
						r.Errorf("%s %v: %s %d is refused whatever the others: %v", m.Name(), sizes, what, n, err)
					}
				}
			}
		})
	}
}

// What no mesh mends takes no advice away: it is said beside it.
func TestAdviceBesideOtherFaults(t *testing.T) {
	m, err := models.ByName("wan2.1-t2v-14b")
	if err != nil {
		t.Fatal(err)
	}
	on, err := mesh.Local(mesh.Axis{Name: "tp", Size: 16}, mesh.Axis{Name: "sp", Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	err = models.CheckMesh(m, on, models.Request{Batch: 1, Latent: []int{16, 3, 8, 8}, Text: 4096, DType: dtype.BF16})
	if text := fmt.Sprint(err); !strings.Contains(text, "the tp that work at sp=2: 1 2 4") || !strings.Contains(text, "text_len 512") {
		t.Error(text)
	}
}

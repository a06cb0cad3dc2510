//go:build !weft_noxla

package mosaic_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"weft/attention"
	"weft/attention/mosaic"
	"weft/dtype"
	"weft/internal/llo"
	"weft/internal/meshtest"
	"weft/sharding"
	"weft/spmd"
	"weft/xla/plugin"
)

var update = flag.Bool("update", false, "write the goldens anew")

func TestMain(m *testing.M) {
	llo.Child()
	os.Exit(m.Run())
}

// needTPU skips where libtpu is not here: it is 460 MB, fetched on demand only.
func needTPU(t *testing.T) {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set: nothing says that the kernel still compiles for a TPU")
	}
	if _, err := plugin.Get("tpu"); err != nil {
		t.Skipf("libtpu is not here (weft engine install tpu), and nothing says that the kernel still compiles: %v", err)
	}
}

// shape is one attention; keys of padded are real.
type shape struct{ queries, keys, padded, heads, dim int }

func (s shape) String() string {
	return fmt.Sprintf("%d x %d of %d, %d heads of %d", s.queries, s.keys, s.padded, s.heads, s.dim)
}

// program is the attention as a model has it: q rounded from f32.
func (s shape) program(t testing.TB, chip string) string {
	t.Helper()
	p := meshtest.Build(t, meshtest.Mesh(t, ""), func(b *spmd.Builder) {
		in := func(name string, d dtype.DType, n int) spmd.Tensor {
			return b.Input(name, d, []int{1, n, s.heads, s.dim}, sharding.Whole(4))
		}
		q := b.Convert(in("q", dtype.F32, s.queries), dtype.BF16)
		b.Output("out", attention.Attend(b, q, in("k", dtype.BF16, s.padded), in("v", dtype.BF16, s.padded), attention.Options{Keys: s.keys}), "")
	}, spmd.WithTarget(spmd.Target{Chip: chip, Attention: attention.Kernel}))
	return p.StableHLO()
}

func chips() []string { return slices.Sorted(maps.Keys(llo.Topologies)) }

// TestCompiles: libtpu takes the kernel on every generation, within its vector
// memory. WEFT_LONG_TESTS=1 goes over all lengths and numbers of heads.
func TestCompiles(t *testing.T) {
	needTPU(t)
	shapes := []shape{{32760, 32760, 32768, 10, 128}, {4680, 4680, 4736, 3, 64}, {4680, 226, 226, 12, 128}}
	if os.Getenv("WEFT_LONG_TESTS") == "1" {
		shapes = nil
		for _, n := range []int{4680, 32760, 75600, 118800} {
			for _, d := range []int{64, 128} {
				for _, h := range []int{3, 5, 10, 12, 24, 40} {
					shapes = append(shapes, shape{n, n, (n + 127) / 128 * 128, h, d})
				}
				for _, k := range []int{512, 226, 257} {
					shapes = append(shapes, shape{n, k, k, 10, d})
				}
			}
		}
	}
	for _, chip := range chips() {
		t.Run(chip, func(t *testing.T) {
			j := llo.Job{Topology: llo.Topologies[chip]}
			for _, s := range shapes {
				j.Programs = append(j.Programs, s.program(t, chip))
			}
			got, err := llo.Run(t.Context(), j)
			for i, c := range got {
				if c.Error != "" {
					t.Errorf("%v: %s", shapes[i], c.Error)
				}
				t.Logf("%v: %.2f s, %d bytes of code", shapes[i], c.Seconds, c.Memory.Code)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestBudget: the bundles of a step of the kernel's loop, by chip, do not grow by
// more than 3 % unnoticed. They are libtpu's for its pinned version.
func TestBudget(t *testing.T) {
	needTPU(t)
	const golden = "testdata/bundles.json"
	want := map[string]int{}
	if text, err := os.ReadFile(golden); err == nil {
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
	} else if !*update {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, chip := range chips() {
		s := shape{4096, 8192, 8192, 2, 128}
		all, err := llo.Run(t.Context(), llo.Job{Topology: llo.Topologies[chip], Programs: []string{s.program(t, chip)}, Bundles: true})
		if err != nil {
			t.Fatal(err)
		}
		got[chip] = all[0].Codes[0].Hot()
		tiles := mosaic.Spec{Chip: chip, Batch: 1, Queries: s.queries, Keys: s.keys, Heads: 2, KVHeads: 2, HeadDim: 128}.Tiles()
		t.Logf("%s: %d bundles for %d x %d", chip, got[chip], tiles.Q, tiles.K)
		if n, w := got[chip], want[chip]; !*update && (100*n > 103*w || 100*n < 97*w) {
			t.Errorf("%s: %d bundles a step, the budget is %d: within 3 %%, or say why and run with -update", chip, n, w)
		}
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err == nil {
			err = os.WriteFile(golden, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

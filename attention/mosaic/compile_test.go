//go:build !weft_noxla

package mosaic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"weft/attention/mosaic"
	"weft/internal/golden"
	"weft/internal/llo"
	"weft/topology"
	"weft/xla/plugin"
)

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

// program is a spec's kernel alone, in StableHLO.
func program(t testing.TB, s mosaic.Kernel) string {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	array := func(tokens, heads int) string {
		return fmt.Sprintf("tensor<%dx%dx%dxbf16>", s.Batch, tokens, heads*s.HeadDim)
	}
	q, k := array(s.Queries, s.Heads), array(s.Keys, s.KVHeads)
	args, types := []string{"%q", "%k", "%v"}, []string{q, k, k}
	if s.Mask {
		args, types = append(args, "%mask"), append(types, fmt.Sprintf("tensor<%dx1x%dxf32>", s.MaskBatch, s.Keys))
	}
	params := make([]string, len(args))
	for i := range args {
		params[i] = args[i] + ": " + types[i]
	}
	return fmt.Sprintf(`func.func @main(%s) -> %s {
  %%out = stablehlo.custom_call @%s(%s) {backend_config = %q} : (%s) -> %s
  return %%out : %s
}`, strings.Join(params, ", "), q, mosaic.Call, strings.Join(args, ", "), s.Config(), strings.Join(types, ", "), q, q)
}

// dimsText is an attention of n queries with so many keys, of which the last are
// padding up to a whole group of 128.
func shape(chip string, queries, keys, heads, dim int) mosaic.Kernel {
	s := mosaic.Kernel{Chip: chip, Batch: 1, Queries: queries, Keys: keys, Heads: heads, KVHeads: heads, HeadDim: dim}
	if keys > 1024 {
		s.Keys = (keys + 127) / 128 * 128
		s.Real = []mosaic.Range{{From: 0, To: keys}}
	}
	return s
}

// shapes are those that every run compiles, every form of the kernel among them, and with
// WEFT_LONG_TESTS=1 all lengths, numbers of heads, and lengths of text.
func shapes(chip string) []mosaic.Kernel {
	grouped, masked, interior := shape(chip, 4680, 4680, 12, 64), shape(chip, 1000, 700, 4, 64), shape(chip, 2000, 10000, 2, 128)
	grouped.KVHeads = 3
	masked.Mask, masked.MaskBatch, masked.Batch = true, 2, 2
	interior.Real, interior.Scale = []mosaic.Range{{From: 0, To: 226}, {From: 300, To: 9000}}, 0.125
	joint := shape(chip, 20536, 20536, 6, 128)
	joint.Mask, joint.MaskBatch = true, 1
	all := []mosaic.Kernel{shape(chip, 32760, 32760, 10, 128), shape(chip, 4680, 4680, 3, 64), shape(chip, 4680, 226, 12, 128), grouped, masked, interior, joint}
	if os.Getenv("WEFT_LONG_TESTS") != "1" {
		return all
	}
	for _, n := range []int{4680, 32760, 75600, 118800} {
		for _, d := range []int{64, 128} {
			for _, h := range []int{3, 5, 10, 12, 24, 40} {
				all = append(all, shape(chip, n, n, h, d))
			}
			for _, k := range []int{512, 226, 257} {
				all = append(all, shape(chip, n, k, 10, d))
			}
		}
	}
	return all
}

// smallSlice gives libtpu's name of a small slice of a chip.
func smallSlice(t *testing.T, chip string) string {
	g, ok := topology.GenerationByName(chip)
	if !ok || g.AttentionKernel() == nil {
		t.Fatalf("no kernel is known for %s", chip)
	}
	return g.AttentionKernel().Compiler.Topology
}

// TestCompiles: libtpu takes the kernel on every generation, within its vector
// memory.
func TestCompiles(t *testing.T) {
	needTPU(t)
	for _, chip := range mosaic.Chips() {
		t.Run(chip, func(t *testing.T) {
			j := llo.Job{Topology: smallSlice(t, chip)}
			specs := shapes(chip)
			for _, s := range specs {
				j.Programs = append(j.Programs, program(t, s))
			}
			got, err := llo.Run(t.Context(), j)
			longest := 0.0
			for i, c := range got {
				s := specs[i]
				if c.Error != "" {
					t.Errorf("%+v: %s", s, c.Error)
				}
				longest = max(longest, c.Seconds)
				t.Logf("%d x %d, %d heads on %d of %d: %.2f s, %d bytes of code", s.Queries, s.Keys, s.Heads, s.KVHeads, s.HeadDim, c.Seconds, c.Memory.Code)
			}
			t.Logf("%s: %d programs, the longest took %.2f s", chip, len(got), longest)
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
	const file = "testdata/bundles.json"
	want := map[string]int{}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
	} else if !*golden.Update {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, chip := range mosaic.Chips() {
		for _, dim := range []int{64, 128} {
			s := shape(chip, 1<<14, 1<<14, 2*128/dim, dim)
			tiles := s.Tiles()
			s.Queries, s.Keys, s.Real = tiles.Q, 8*tiles.K, nil
			all, err := llo.Run(t.Context(), llo.Job{Topology: smallSlice(t, chip), Programs: []string{program(t, s)}, Bundles: true})
			if err == nil && all[0].Error != "" {
				err = errors.New(all[0].Error)
			}
			if err != nil {
				t.Fatal(err)
			}
			of := fmt.Sprintf("%s, head dim %d, %d x %d", chip, dim, tiles.Q, tiles.K)
			n, w := all[0].Codes[0].Hot(), want[of]
			got[of] = n
			t.Logf("%s: %d bundles", of, n)
			if !*golden.Update && (100*n > 103*w || 100*n < 97*w) {
				t.Errorf("%s: %d bundles a step, the budget is %d: within 3 %%, or say why and run with -update", of, n, w)
			}
		}
	}
	if *golden.Update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err == nil {
			err = os.WriteFile(file, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

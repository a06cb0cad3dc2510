//go:build !weft_noxla

package triton_test

import (
	"os"
	"testing"

	"weft/aot"
	"weft/attention/triton"
	"weft/dtype"
	"weft/internal/gpucode"
	"weft/topology"
	"weft/xla"
	"weft/xla/plugin"
)

// needCUDA skips where XLA's CUDA plugin is not here: it is 450 MB, fetched on demand only.
func needCUDA(t *testing.T) {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set: nothing says that the kernel still compiles for a GPU")
	}
	if _, err := plugin.Get("cuda"); err != nil {
		t.Skipf("XLA's CUDA plugin is not here (weft engine install cuda), and nothing says that the kernel still compiles: %v", err)
	}
}

// gpus opens the compiler for one GPU.
func gpus(t *testing.T, chip string) *xla.Topology {
	t.Helper()
	on, err := topology.Lookup(chip + "x1")
	if err != nil {
		t.Fatal(err)
	}
	top, _, err := aot.OpenGPUs(t.Context(), on, aot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(top.Close)
	return top
}

// shapes are attentions of models, every form of the kernel among them; with WEFT_LONG_TESTS=1 of
// all lengths.
func shapes(chip string) []triton.Kernel {
	of := func(queries, keys, heads, dim int) triton.Kernel {
		return triton.Kernel{Chip: chip, DType: dtype.BF16, Batch: 1, Queries: queries, Keys: keys, Heads: heads, KVHeads: heads, HeadDim: dim}
	}
	masked, grouped, f16 := of(4680, 512, 4, 64), of(4680, 4680, 12, 128), of(4096, 4096, 10, 128)
	masked.Batch, masked.Mask, masked.MaskBatch = 2, true, 2
	grouped.KVHeads, grouped.HeadsFirst, grouped.Real = 3, true, []triton.Range{{From: 0, To: 4600}}
	f16.DType = dtype.F16
	state := of(1000, 1000, 2, 96)
	state.StateIn, state.StateOut, state.Real, state.Scale = true, true, []triton.Range{{From: 3, To: 200}, {From: 300, To: 999}}, 0.125
	if os.Getenv("WEFT_LONG_TESTS") != "1" {
		return []triton.Kernel{of(32760, 32760, 10, 128), masked}
	}
	all := []triton.Kernel{of(32760, 32760, 10, 128), of(4096, 4096, 10, 64), of(4680, 226, 12, 96), masked, grouped, f16, state}
	if wide := of(4680, 226, 2, 256); wide.Check() == nil {
		all = append(all, wide)
	}
	for _, n := range []int{1, 17, 4680, 75600, 118800} {
		for _, d := range []int{40, 64, 72, 80, 96, 128, 256} {
			for _, k := range []int{n, 1, 226, 257, 512} {
				if s := of(n, k, 3, d); s.Check() == nil {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// The kernel compiles for every GPU that has block sizes, with no memory beside operands and
// results, and spills no register.
func TestCompiles(t *testing.T) {
	needCUDA(t)
	chips := []string{"a100"}
	if os.Getenv("WEFT_LONG_TESTS") == "1" {
		chips = triton.Chips()
	}
	for _, chip := range chips {
		t.Run(chip, func(t *testing.T) {
			on := gpus(t, chip)
			longest := 0.0
			for _, s := range shapes(chip) {
				c, err := gpucode.Compile(t.Context(), on, s)
				if err != nil {
					t.Errorf("%v: %v", s, err)
					continue
				}
				longest = max(longest, c.Seconds)
				t.Logf("%v: %d registers, %d bytes spilled, %.2f s", s, c.Registers, c.FrameBytes, c.Seconds)
				if c.Temp != 0 || c.Registers == 0 || c.FrameBytes != 0 {
					t.Errorf("%v: %d bytes of temporaries, %d registers, %d bytes spilled", s, c.Temp, c.Registers, c.FrameBytes)
				}
			}
			t.Logf("%s: the longest took %.2f s", chip, longest)
		})
	}
}

package spmd_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/cpukernel"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/stablehlo"
	"weft/sharding"
	"weft/spmd"
)

// kernelCases are the convolutions of one program: names of inputs, with zeros around, as the kernel for processors takes them.
var kernelCases = []struct {
	name string
	x, w []int
	pad  [][2]int
	d    dtype.DType
	// frames is of how many inputs of one frame x is a concatenation; 0 for none.
	frames int
}{
	{"two dims", []int{2, 8, 6, 5}, []int{7, 5, 3, 3}, [][2]int{{1, 1}, {1, 1}}, dtype.F32, 0},
	{"three dims", []int{1, 4, 8, 9, 4}, []int{18, 4, 3, 3, 3}, [][2]int{{2, 0}, {1, 1}, {1, 1}}, dtype.F32, 0},
	{"frames", []int{1, 3, 8, 9, 4}, []int{18, 4, 3, 3, 3}, [][2]int{{}, {1, 1}, {1, 1}}, dtype.F32, 3},
	{"frames, bf16", []int{1, 3, 8, 9, 4}, []int{18, 4, 3, 3, 3}, [][2]int{{}, {1, 1}, {1, 1}}, dtype.BF16, 3},
	{"along time", []int{1, 3, 8, 9, 4}, []int{8, 4, 3, 1, 1}, [][2]int{{}, {}, {}}, dtype.F32, 3},
}

// buildKernels is a program of all cases, with rows over sp.
func buildKernels(t *testing.T, m *mesh.Mesh, target spmd.Target) (*program.Program, meshtest.Values) {
	in := meshtest.Values{}
	small := func(i int) float64 { return float64(i*7%9) - 4 }
	p := meshtest.Build(t, m, func(b *spmd.Builder) {
		input := func(name string, d dtype.DType, shape []int, spec sharding.Spec) spmd.Tensor {
			in[name] = meshtest.Fill(d, small, shape...)
			return b.Input(name, d, shape, spec)
		}
		for _, c := range kernelCases {
			rows := sharding.Whole(len(c.x)).WithDim(len(c.x)-3, "sp")
			var x spmd.Tensor
			if c.frames == 0 {
				x = input(c.name+".x", c.d, c.x, rows)
			} else {
				one := append([]int{}, c.x...)
				one[1] = 1
				var all []spmd.Tensor
				for f := range c.frames {
					all = append(all, input(fmt.Sprintf("%s.%d", c.name, f), c.d, one, rows))
				}
				x = b.Concat(1, all...)
			}
			w := input(c.name+".w", c.d, c.w, sharding.Whole(len(c.w)))
			b.Output(c.name, b.Conv(x, w, c.pad, dtype.F32), "")
		}
	}, spmd.WithTarget(target))
	return p, in
}

// The kernel computes on XLA what the convolution means on the interpreter, on one device and with rows over two. All
// numbers are small and whole, so that both are exact.
func TestConvKernel(t *testing.T) {
	if len(cpukernel.Levels()) == 0 {
		t.Skip("no kernel for this processor")
	}
	e := meshtest.XLA(t)
	for _, on := range []string{"sp=1", "sp=2"} {
		m := meshtest.Mesh(t, on)
		p, in := buildKernels(t, m, spmd.Target{HostKernels: e.Target().HostKernels, FlatConv: true})
		plain, _ := buildKernels(t, m, spmd.Target{})
		if n := len(p.Kernels()); n != len(kernelCases) || len(plain.Kernels()) != 0 {
			t.Errorf("%s: %d kernels of %d convolutions, %d where there are none", on, n, len(kernelCases), len(plain.Kernels()))
		}
		want, meant, have := meshtest.Interp(t, plain, in), meshtest.Interp(t, p, in), meshtest.Run(t, e, p, in)
		for _, c := range kernelCases {
			for by, got := range map[string]meshtest.Values{"the interpreter": meant, "XLA": have} {
				if d := meshtest.Differ(got[c.name], want[c.name], 0); d != "" {
					t.Errorf("%s on %s by %s: %s", c.name, on, by, d)
				}
			}
		}
		if on != "sp=1" {
			continue
		}
		// Frames are read where they lie: nothing joins them outside of what the kernels mean.
		p.Walk(func(in *program.Instr, _ int) {
			if in.Op == program.OpConcat {
				t.Errorf("frames are joined: %v", in)
			}
		})
	}
}

// What takes over an input's memory is written there once the input has been read, and is the value that was to be written.
func TestReplaceAfter(t *testing.T) {
	if len(cpukernel.Levels()) == 0 {
		t.Skip("no kernel for this processor")
	}
	e := meshtest.XLA(t)
	const n = 1 << 19 // longer than a piece of a copy
	build := func(target spmd.Target) *program.Program {
		return meshtest.Build(t, meshtest.Mesh(t, ""), func(b *spmd.Builder) {
			old, given := b.Input("old", dtype.F32, []int{n}, sharding.Whole(1)), b.Input("given", dtype.F32, []int{n}, sharding.Whole(1))
			x := b.Scale(given, 3)
			y := b.Add(old, x)
			y, kept := b.ReplaceAfter(y, old, x)
			b.Output("new", kept, "old")
			b.Output("sum", y, "")
		}, spmd.WithTarget(target))
	}
	in := meshtest.Values{"old": meshtest.Fill(dtype.F32, func(i int) float64 { return float64(i % 1000) }, n),
		"given": meshtest.Fill(dtype.F32, func(i int) float64 { return float64(i%7) - 3 }, n)}
	p, plain := build(spmd.Target{HostKernels: e.Target().HostKernels}), build(spmd.Target{})
	if len(p.Kernels()) != 2 || len(plain.Kernels()) != 0 || !strings.Contains(stablehlo.Text(p), "output_operand_aliases") {
		t.Errorf("%d kernels, %d where there are none:\n%s", len(p.Kernels()), len(plain.Kernels()), stablehlo.Text(p))
	}
	want := meshtest.Interp(t, plain, in)
	for by, got := range map[string]meshtest.Values{"the interpreter": meshtest.Interp(t, p, in), "XLA": meshtest.Run(t, e, p, in)} {
		for _, name := range []string{"new", "sum"} {
			if d := meshtest.Differ(got[name], want[name], 0); d != "" {
				t.Errorf("%s by %s: %s", name, by, d)
			}
		}
	}
}

package xla

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/dtype"
	"weft/xla/internal/pjrt"
	"weft/xla/plugin"
)

// engine makes sure that there is a plugin to test with. Tests skip only when
// they are told to: a missing plugin is fetched, and a failure to fetch it fails.
func engine(t testing.TB) {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") == "1" || !pjrt.Available {
		t.Skip("no XLA: WEFT_SKIP_XLA=1, or a build without it")
	}
	installOnce.Do(func() {
		if os.Getenv("WEFT_PLUGIN") == "" {
			_, installErr = plugin.Install(context.Background(), plugin.Default, plugin.Options{})
		}
	})
	if installErr != nil {
		t.Fatalf("the engine cannot be fetched (set WEFT_SKIP_XLA=1 to go without): %v", installErr)
	}
}

var (
	installOnce sync.Once
	installErr  error
)

func newClient(t testing.TB, devices int) *Client {
	t.Helper()
	engine(t)
	c, err := NewCPU(devices)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c.SetLimit(2 * time.Minute) // so that a hang is an error of ours; generous, for a loaded machine
	return c
}

func compile(t testing.TB, c *Client, text string, o CompileOptions) *Executable {
	t.Helper()
	x, err := c.Compile(t.Context(), []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func f32s(v ...float32) []byte {
	b := AlignedBytes(4 * len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
	return b
}

func floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// put places one f32 array a device.
func put(t testing.TB, c *Client, ids []int, shape []int, value func(device, i int) float32) [][]*Buffer {
	t.Helper()
	out := make([][]*Buffer, len(ids))
	for d, id := range ids {
		n, _ := bytesOf(dtype.F32, shape)
		v := make([]float32, n/4)
		for i := range v {
			v[i] = value(d, i)
		}
		b, err := c.FromHost(f32s(v...), dtype.F32, shape, id, nil)
		if err != nil {
			t.Fatal(err)
		}
		out[d] = []*Buffer{b}
	}
	return out
}

func read(t testing.TB, b *Buffer) []float32 {
	t.Helper()
	x, err := b.Tensor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return floats(x.Data)
}

func run(t testing.TB, x *Executable, args [][]*Buffer) [][]*Buffer {
	t.Helper()
	outs, done, err := x.Execute(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	if err := done.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return outs
}

// groups writes replica groups: groups(8, 2) is [[0,1],[2,3],[4,5],[6,7]].
func groups(n, size int) string {
	var rows []string
	for i := 0; i < n; i += size {
		var row []string
		for j := range size {
			row = append(row, fmt.Sprint(i+j))
		}
		rows = append(rows, "["+strings.Join(row, ",")+"]")
	}
	return fmt.Sprintf("dense<[%s]> : tensor<%dx%dxi64>", strings.Join(rows, ","), n/size, size)
}

const sum = `({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32> })`

// allReduce has no channel handle: with one, XLA reads an all-to-all's groups as
// partitions, of which there is one.
//
// It is x -> the sum of x over the groups, with x's memory taken over where donated.
func allReduce(groups string, elements int, donated bool) string {
	attr := ""
	if donated {
		attr = " {tf.aliasing_output = 0 : i32}"
	}
	ty := fmt.Sprintf("tensor<%dxf32>", elements)
	return fmt.Sprintf(`module @all_reduce { func.func public @main(%%a: %s%s) -> %s {
  %%0 = "stablehlo.all_reduce"(%%a) <{replica_groups = %s}> %s : (%s) -> %s
  return %%0 : %s } }`, ty, attr, ty, groups, sum, ty, ty, ty)
}

// TestAllReduceOfEight sums 0..7 on 8 devices, which must meet even where the machine has
// fewer cores.
func TestAllReduceOfEight(t *testing.T) {
	c := newClient(t, 8)
	x := compile(t, c, allReduce(groups(8, 8), 1, false), CompileOptions{Replicas: 8})
	outs := run(t, x, put(t, c, x.Devices(), []int{1}, func(d, _ int) float32 { return float32(d) }))
	for d, row := range outs {
		if got := read(t, row[0]); got[0] != 28 {
			t.Errorf("device %d: %v, want 28", d, got[0])
		}
	}
}

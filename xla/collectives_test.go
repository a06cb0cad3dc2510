package xla

import (
	"fmt"
	"slices"
	"testing"
)

// collective is one op over groups of 2 or 4 or 8 of 8 devices, and what it gives.
type collective struct {
	name     string
	in, out  []int
	text     func(groups string, size int) string
	expected func(d, size, i int) float32
}

// value is what device d holds at element i.
func value(d, i int) float32 { return float32(100*d + i) }

func ty(shape []int) string {
	s := "tensor<"
	for _, d := range shape {
		s += fmt.Sprint(d, "x")
	}
	return s + "f32>"
}

// collectives are the five that models use. Each device holds 8 elements.
func collectives(size int) []collective {
	first := func(d int) int { return d / size * size } // of d's group
	return []collective{
		{"all_reduce", []int{8}, []int{8},
			func(g string, _ int) string {
				return fmt.Sprintf(`"stablehlo.all_reduce"(%%a) <{replica_groups = %s}> %s`, g, sum)
			},
			func(d, size, i int) float32 {
				var s float32
				for r := range size {
					s += value(first(d)+r, i)
				}
				return s
			}},
		{"all_gather", []int{8}, []int{8 * size},
			func(g string, _ int) string {
				return fmt.Sprintf(`"stablehlo.all_gather"(%%a) <{all_gather_dim = 0 : i64, replica_groups = %s}>`, g)
			},
			func(d, size, i int) float32 { return value(first(d)+i/8, i%8) }},
		{"reduce_scatter", []int{8}, []int{8 / size},
			func(g string, _ int) string {
				return fmt.Sprintf(`"stablehlo.reduce_scatter"(%%a) <{scatter_dimension = 0 : i64, replica_groups = %s}> %s`, g, sum)
			},
			func(d, size, i int) float32 {
				var s float32
				for r := range size {
					s += value(first(d)+r, (d-first(d))*(8/size)+i)
				}
				return s
			}},
		{"all_to_all", []int{8}, []int{8},
			func(g string, size int) string {
				return fmt.Sprintf(`"stablehlo.all_to_all"(%%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = %d : i64, replica_groups = %s}>`, size, g)
			},
			func(d, size, i int) float32 {
				part := 8 / size
				return value(first(d)+i/part, (d-first(d))*part+i%part)
			}},
		{"collective_permute", []int{8}, []int{8},
			func(_ string, size int) string {
				var pairs string
				for d := range 8 {
					if d > 0 {
						pairs += ","
					}
					pairs += fmt.Sprintf("[%d,%d]", d, first(d)+(d-first(d)+1)%size)
				}
				return fmt.Sprintf(`"stablehlo.collective_permute"(%%a) <{source_target_pairs = dense<[%s]> : tensor<8x2xi64>}>`, pairs)
			},
			func(d, size, i int) float32 { return value(first(d)+(d-first(d)+size-1)%size, i) }},
	}
}

func (k collective) program(size int) string {
	return fmt.Sprintf("module @%s { func.func public @main(%%a: %s) -> %s {\n  %%0 = %s : (%s) -> %s\n  return %%0 : %s } }",
		k.name, ty(k.in), ty(k.out), k.text(groups(8, size), size), ty(k.in), ty(k.out), ty(k.out))
}

// TestCollectives runs the five on 8 devices, over replica groups of each size.
func TestCollectives(t *testing.T) {
	c := newClient(t, 8)
	for _, size := range []int{2, 4, 8} {
		for _, k := range collectives(size) {
			t.Run(fmt.Sprintf("%s/%d", k.name, size), func(t *testing.T) {
				checkCollective(t, c, k, size, nil)
			})
		}
	}
}

// TestAssignment runs a program on devices in another order, so that replica 0
// is not device 0, and on a subset of them.
func TestAssignment(t *testing.T) {
	c := newClient(t, 8)
	for _, k := range collectives(4) {
		checkCollective(t, c, k, 4, []int{7, 2, 0, 5, 1, 6, 3, 4})
	}
	for _, ids := range [][]int{{3}, {1, 3}, {6, 5}, {5, 7, 0, 2}} {
		text := allReduce(groups(len(ids), len(ids)), 2, false)
		x := compile(t, c, text, CompileOptions{DeviceIDs: ids})
		if !slices.Equal(x.Devices(), ids) {
			t.Fatalf("devices %v, want %v", x.Devices(), ids)
		}
		outs := run(t, x, put(t, c, ids, []int{2}, func(d, i int) float32 { return float32(ids[d]) }))
		want := float32(0)
		for _, id := range ids {
			want += float32(id)
		}
		for d, row := range outs {
			if got := read(t, row[0]); row[0].Device() != ids[d] || got[0] != want {
				t.Errorf("%v: replica %d on device %d gives %v, want %v on %d", ids, d, row[0].Device(), got, want, ids[d])
			}
		}
	}
}

func checkCollective(t *testing.T, c *Client, k collective, size int, ids []int) {
	t.Helper()
	x := compile(t, c, k.program(size), CompileOptions{Replicas: 8, DeviceIDs: ids})
	defer x.Close()
	outs := run(t, x, put(t, c, x.Devices(), k.in, value))
	for d, row := range outs {
		got := read(t, row[0])
		for i, v := range got {
			if want := k.expected(d, size, i); v != want {
				t.Fatalf("%s over %d, replica %d: %v, element %d should be %v", k.name, size, d, got, i, want)
			}
		}
		row[0].Destroy()
	}
}

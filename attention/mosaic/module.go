package mosaic

import (
	"fmt"
	"strings"
)

// least is where the running maximum starts: below any score, even one masked
// twice, and finite, so that a difference is a number.
const lowestMax = -3e38

// kernel is one Mosaic module under construction.
type kernel struct {
	writer
	s    Spec
	b    Blocks
	n    int // heads of a step
	q, k memref
	v, o memref
	mask memref
	// Scratch that lasts from block to block of keys, by head: the maximum so far, the
	// weighted sum of values, and the sums of exponentials by lane, unless they are
	// made with the values.
	m, acc, l []memref
	one       []memref // by head, where a step has several: q in the lanes of its keys, the others zero
	step      value    // index of the block of keys
}

// Text is the kernel's module.
func (s Spec) Text() (string, error) {
	if err := s.Check(); err != nil {
		return "", err
	}
	k := &kernel{s: s, b: s.Tiles(), n: s.headsPerStep()}
	k.writeModule()
	return k.text.String(), nil
}

// gridSizes is (batch, heads or pairs of them, blocks of queries, blocks of keys).
func (k *kernel) gridSizes() [4]int {
	s := k.s
	return [4]int{s.Batch, (s.Heads + k.n - 1) / k.n, (s.Queries + k.b.Q - 1) / k.b.Q, (s.realEnd() + k.b.K - 1) / k.b.K}
}

func (k *kernel) writeModule() {
	k.writeLine("module attributes {stable_mosaic.version = 11 : i64} {")
	k.depth++
	k.writeLine(`"stable_mosaic.func.func"() ({`)
	grid := k.gridSizes()
	args := []string{"%b: i32", "%h: i32", "%i: i32", "%j: i32"}
	types := []string{"i32", "i32", "i32", "i32"}
	var windows []string
	ref := func(name, elem string, dims ...int) memref {
		m := memref{"%" + name, dims, elem}
		args, types = append(args, m.name+": "+m.typeText()), append(types, m.typeText())
		return m
	}
	window := func(name, elem string, dims ...int) memref {
		windows = append(windows, fmt.Sprintf("{transform_indices = @at_%s, window_bounds = array<i64: %s>}", name, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(dims)), ", "), "[]")))
		return ref(name, elem, dims...)
	}
	k.q = window("q", "bf16", 1, k.b.Q, lanes)
	k.k = window("k", "bf16", 1, k.b.K, lanes)
	k.v = window("v", "bf16", 1, k.b.K, lanes)
	if k.s.Mask {
		k.mask = window("mask", "f32", 1, 1, k.b.K)
	}
	k.o = window("o", "bf16", 1, k.b.Q, lanes)
	scratch := 0
	more := func(to *[]memref, name string, e int, elem string, columns int) {
		scratch++
		*to = append(*to, ref(fmt.Sprint(name, e), elem, k.b.Q, columns))
	}
	for e := range k.n {
		more(&k.m, "m", e, "f32", lanes)
		width := lanes
		switch {
		case k.n > 1:
			more(&k.one, "q", e, "bf16", lanes)
		case k.b.Ones:
			width = 2 * lanes
		default:
			more(&k.l, "l", e, "f32", lanes)
		}
		more(&k.acc, "acc", e, "f32", width)
	}
	k.step = value{name: "%j", elem: "i32"}
	k.writeLine("^bb0(%s):", strings.Join(args, ", "))
	k.depth++
	k.writeGridStep()
	k.writeLine(`"stable_mosaic.func.return"() : () -> ()`)
	k.depth--
	k.writeLine(`}) {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], function_type = (%s) -> (), iteration_bounds = array<i64: %d, %d, %d, %d>, scalar_prefetch = 0 : i64, scratch_operands = %d : i64, sym_name = "main", tpu.core_type = #tpu.core_type<tc>, window_params = [%s]} : () -> ()`,
		strings.Join(types, ", "), grid[0], grid[1], grid[2], grid[3], scratch, strings.Join(windows, ", "))
	k.writeIndexMaps()
	k.depth--
	k.writeLine("}")
}

// writeIndexMaps say which block of each operand a step of the grid sees.
func (k *kernel) writeIndexMaps() {
	at := func(name string, indices func() [3]value) {
		k.writeLine(`"stable_mosaic.func.func"() ({`)
		k.writeLine("^bb0(%%b: i32, %%h: i32, %%i: i32, %%j: i32):")
		k.depth++
		v := indices()
		k.writeLine(`"stable_mosaic.func.return"(%s, %s, %s) : (i32, i32, i32) -> ()`, v[0].name, v[1].name, v[2].name)
		k.depth--
		k.writeLine(`}) {function_type = (i32, i32, i32, i32) -> (i32, i32, i32), sym_name = "at_%s"} : () -> ()`, name)
	}
	grid := func(name string) value { return value{name: "%" + name, elem: "i32"} }
	kvHead := func() value {
		if k.s.queryHeadsPerKey() == 1 {
			return grid("h")
		}
		return k.writeOp("arith.divsi", "", scalarType("i32"), grid("h"), k.int32Const(k.s.queryHeadsPerKey()))
	}
	at("q", func() [3]value { return [3]value{grid("b"), grid("i"), grid("h")} })
	at("k", func() [3]value { return [3]value{grid("b"), grid("j"), kvHead()} })
	at("v", func() [3]value { return [3]value{grid("b"), grid("j"), kvHead()} })
	if k.s.Mask {
		at("mask", func() [3]value {
			batch := grid("b")
			if k.s.MaskBatch == 1 {
				batch = k.int32Const(0)
			}
			return [3]value{batch, k.int32Const(0), grid("j")}
		})
	}
	at("o", func() [3]value { return [3]value{grid("b"), grid("i"), grid("h")} })
}

package mosaic

import (
	"fmt"
	"strings"
)

// lowestMax is the value that the running maximum starts from. It is below any score,
// even one that is masked twice, and it is finite, so that a difference from it is a number.
const lowestMax = -3e38

// kernel writes one Mosaic module.
type kernel struct {
	mlirWriter
	spec   Spec
	blocks Blocks
	heads  int // query heads of a step: 1, or 2 that share the lanes
	q, k   memref
	v, o   memref
	mask   memref
	// The running softmax of a block of queries stays in scratch memory from one block
	// of keys to the next, one buffer for each head of the step: the maximum so far, the
	// weighted sum of values, and the sums of exponentials by lane. There is no l where
	// the matrix unit adds the exponentials up beside the values.
	m, acc, l []memref
	// laneQ has a head's queries in the lanes of its keys and zeros in the other lanes;
	// only a step of two heads needs it.
	laneQ []memref
	step  value // the index of the block of keys
}

// Text returns the kernel as the text of a Mosaic module. Error: what Check reports.
func (s Spec) Text() (string, error) {
	if err := s.Check(); err != nil {
		return "", err
	}
	k := &kernel{spec: s, blocks: s.Tiles(), heads: s.headsPerStep()}
	k.writeModule()
	return k.text.String(), nil
}

// gridSizes counts the steps of the grid by batch, heads (or pairs of them), blocks of
// queries and blocks of keys.
func (k *kernel) gridSizes() [4]int {
	s := k.spec
	return [4]int{s.Batch, (s.Heads + k.heads - 1) / k.heads, (s.Queries + k.blocks.Q - 1) / k.blocks.Q, (s.realEnd() + k.blocks.K - 1) / k.blocks.K}
}

// writeModule writes the module: the kernel's function with its windows and its scratch
// memory, then one index map for each window.
func (k *kernel) writeModule() {
	k.writeLine("module attributes {stable_mosaic.version = 11 : i64} {")
	k.depth++
	k.writeLine(`"stable_mosaic.func.func"() ({`)
	grid := k.gridSizes()
	args := []string{"%b: i32", "%h: i32", "%i: i32", "%j: i32"}
	types := []string{"i32", "i32", "i32", "i32"}
	var windows []string
	addArgument := func(name, elem string, dims ...int) memref {
		m := memref{"%" + name, dims, elem}
		args, types = append(args, m.name+": "+m.typeText()), append(types, m.typeText())
		return m
	}
	addWindow := func(name, elem string, dims ...int) memref {
		windows = append(windows, fmt.Sprintf("{transform_indices = @at_%s, window_bounds = array<i64: %s>}", name, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(dims)), ", "), "[]")))
		return addArgument(name, elem, dims...)
	}
	k.q = addWindow("q", "bf16", 1, k.blocks.Q, lanes)
	k.k = addWindow("k", "bf16", 1, k.blocks.K, lanes)
	k.v = addWindow("v", "bf16", 1, k.blocks.K, lanes)
	if k.spec.Mask {
		k.mask = addWindow("mask", "f32", 1, 1, k.blocks.K)
	}
	k.o = addWindow("o", "bf16", 1, k.blocks.Q, lanes)
	scratch := 0
	addScratch := func(to *[]memref, name string, e int, elem string, columns int) {
		scratch++
		*to = append(*to, addArgument(fmt.Sprint(name, e), elem, k.blocks.Q, columns))
	}
	for e := range k.heads {
		addScratch(&k.m, "m", e, "f32", lanes)
		width := lanes
		switch {
		case k.heads > 1:
			addScratch(&k.laneQ, "q", e, "bf16", lanes)
		case k.blocks.Ones:
			width = 2 * lanes
		default:
			addScratch(&k.l, "l", e, "f32", lanes)
		}
		addScratch(&k.acc, "acc", e, "f32", width)
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

// writeIndexMaps writes, for each operand, the function that tells which block of it a
// step of the grid sees.
func (k *kernel) writeIndexMaps() {
	indexMap := func(name string, indices func() [3]value) {
		k.writeLine(`"stable_mosaic.func.func"() ({`)
		k.writeLine("^bb0(%%b: i32, %%h: i32, %%i: i32, %%j: i32):")
		k.depth++
		v := indices()
		k.writeLine(`"stable_mosaic.func.return"(%s, %s, %s) : (i32, i32, i32) -> ()`, v[0].name, v[1].name, v[2].name)
		k.depth--
		k.writeLine(`}) {function_type = (i32, i32, i32, i32) -> (i32, i32, i32), sym_name = "at_%s"} : () -> ()`, name)
	}
	gridIndex := func(name string) value { return value{name: "%" + name, elem: "i32"} }
	kvHead := func() value {
		if k.spec.queryHeadsPerKey() == 1 {
			return gridIndex("h")
		}
		return k.writeOp("arith.divsi", "", scalarType("i32"), gridIndex("h"), k.int32Const(k.spec.queryHeadsPerKey()))
	}
	indexMap("q", func() [3]value { return [3]value{gridIndex("b"), gridIndex("i"), gridIndex("h")} })
	indexMap("k", func() [3]value { return [3]value{gridIndex("b"), gridIndex("j"), kvHead()} })
	indexMap("v", func() [3]value { return [3]value{gridIndex("b"), gridIndex("j"), kvHead()} })
	if k.spec.Mask {
		indexMap("mask", func() [3]value {
			batch := gridIndex("b")
			if k.spec.MaskBatch == 1 {
				batch = k.int32Const(0)
			}
			return [3]value{batch, k.int32Const(0), gridIndex("j")}
		})
	}
	indexMap("o", func() [3]value { return [3]value{gridIndex("b"), gridIndex("i"), gridIndex("h")} })
}

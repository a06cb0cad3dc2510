package mosaic

import (
	"fmt"
	"strings"
)

// lowestMax is the value that the running maximum starts from. It is below any score,
// even one that is masked twice, and it is finite, so that a difference from it is a number.
const lowestMax = -3e38

// moduleWriter writes one Mosaic module.
type moduleWriter struct {
	mlirWriter
	spec   Kernel
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
func (s Kernel) Text() (string, error) {
	if err := s.Check(); err != nil {
		return "", err
	}
	w := &moduleWriter{spec: s, blocks: s.Tiles(), heads: s.headsPerStep()}
	w.writeModule()
	return w.text.String(), nil
}

// gridSizes counts the steps of the grid by batch, heads (or pairs of them), blocks of
// queries and blocks of keys.
func (w *moduleWriter) gridSizes() [4]int {
	s := w.spec
	return [4]int{s.Batch, (s.Heads + w.heads - 1) / w.heads, (s.Queries + w.blocks.Q - 1) / w.blocks.Q, (s.realEnd() + w.blocks.K - 1) / w.blocks.K}
}

// writeModule writes the module: the kernel's function with its windows and its scratch
// memory, then one index map for each window.
func (w *moduleWriter) writeModule() {
	w.writeLine("module attributes {stable_mosaic.version = 11 : i64} {")
	w.depth++
	w.writeLine(`"stable_mosaic.func.func"() ({`)
	grid := w.gridSizes()
	args := []string{"%b: i32", "%h: i32", "%i: i32", "%j: i32"}
	types := []string{"i32", "i32", "i32", "i32"}
	var windows []string
	addArgument := func(name, elem string, dims ...int) memref {
		m := memref{"%" + name, dims, elem}
		args, types = append(args, m.name+": "+m.typeText()), append(types, m.typeText())
		return m
	}
	addWindow := func(name, elem string, dims ...int) memref {
		bounds := strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ", "), "[]")
		windows = append(windows, fmt.Sprintf("{transform_indices = @at_%s, window_bounds = array<i64: %s>}", name, bounds))
		return addArgument(name, elem, dims...)
	}
	w.q = addWindow("q", "bf16", 1, w.blocks.Q, lanes)
	w.k = addWindow("k", "bf16", 1, w.blocks.K, lanes)
	w.v = addWindow("v", "bf16", 1, w.blocks.K, lanes)
	if w.spec.Mask {
		w.mask = addWindow("mask", "f32", 1, 1, w.blocks.K)
	}
	w.o = addWindow("o", "bf16", 1, w.blocks.Q, lanes)
	scratch := 0
	addScratch := func(to *[]memref, name string, e int, elem string, columns int) {
		scratch++
		*to = append(*to, addArgument(fmt.Sprint(name, e), elem, w.blocks.Q, columns))
	}
	for e := range w.heads {
		addScratch(&w.m, "m", e, "f32", lanes)
		width := lanes
		switch {
		case w.heads > 1:
			addScratch(&w.laneQ, "q", e, "bf16", lanes)
		case w.blocks.Ones:
			width = 2 * lanes
		default:
			addScratch(&w.l, "l", e, "f32", lanes)
		}
		addScratch(&w.acc, "acc", e, "f32", width)
	}
	w.step = value{name: "%j", elem: "i32"}
	w.writeLine("^bb0(%s):", strings.Join(args, ", "))
	w.depth++
	w.writeGridStep()
	w.writeLine(`"stable_mosaic.func.return"() : () -> ()`)
	w.depth--
	const anyOrder, inOrder = "#tpu.dimension_semantics<parallel>", "#tpu.dimension_semantics<arbitrary>"
	w.writeLine("}) {dimension_semantics = ["+strings.Join([]string{anyOrder, anyOrder, anyOrder, inOrder}, ", ")+"], "+
		"function_type = (%s) -> (), iteration_bounds = array<i64: %d, %d, %d, %d>, scalar_prefetch = 0 : i64, scratch_operands = %d : i64, "+
		`sym_name = "main", tpu.core_type = #tpu.core_type<tc>, window_params = [%s]} : () -> ()`,
		strings.Join(types, ", "), grid[0], grid[1], grid[2], grid[3], scratch, strings.Join(windows, ", "))
	w.writeIndexMaps()
	w.depth--
	w.writeLine("}")
}

// writeIndexMaps writes, for each operand, the function that tells which block of it a
// step of the grid sees.
func (w *moduleWriter) writeIndexMaps() {
	indexMap := func(name string, indices func() [3]value) {
		w.writeLine(`"stable_mosaic.func.func"() ({`)
		w.writeLine("^bb0(%%b: i32, %%h: i32, %%i: i32, %%j: i32):")
		w.depth++
		v := indices()
		w.writeLine(`"stable_mosaic.func.return"(%s, %s, %s) : (i32, i32, i32) -> ()`, v[0].name, v[1].name, v[2].name)
		w.depth--
		w.writeLine(`}) {function_type = (i32, i32, i32, i32) -> (i32, i32, i32), sym_name = "at_%s"} : () -> ()`, name)
	}
	gridIndex := func(name string) value { return value{name: "%" + name, elem: "i32"} }
	kvHead := func() value {
		if w.spec.queryHeadsPerKey() == 1 {
			return gridIndex("h")
		}
		return w.writeOp("arith.divsi", "", scalarType("i32"), gridIndex("h"), w.int32Const(w.spec.queryHeadsPerKey()))
	}
	indexMap("q", func() [3]value { return [3]value{gridIndex("b"), gridIndex("i"), gridIndex("h")} })
	indexMap("k", func() [3]value { return [3]value{gridIndex("b"), gridIndex("j"), kvHead()} })
	indexMap("v", func() [3]value { return [3]value{gridIndex("b"), gridIndex("j"), kvHead()} })
	if w.spec.Mask {
		indexMap("mask", func() [3]value {
			batch := gridIndex("b")
			if w.spec.MaskBatch == 1 {
				batch = w.int32Const(0)
			}
			return [3]value{batch, w.int32Const(0), gridIndex("j")}
		})
	}
	indexMap("o", func() [3]value { return [3]value{gridIndex("b"), gridIndex("i"), gridIndex("h")} })
}

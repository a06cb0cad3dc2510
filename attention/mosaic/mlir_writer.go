package mosaic

import (
	"fmt"
	"strconv"
	"strings"
)

// writer puts down operations in MLIR's generic form under the names and the
// version that Mosaic promises to keep reading ("stable_mosaic", version 11).
type writer struct {
	text  strings.Builder
	depth int
	next  int
}

// value is an operation's result and its type.
type value struct {
	name string
	vec  bool
	dims []int
	elem string // f32, bf16, i32, i1, index
}

func (v value) typeText() string {
	if !v.vec {
		return v.elem
	}
	return "vector<" + dimsText(v.dims) + v.elem + ">"
}

// withElem is v's type with other elements.
func (v value) withElem(elem string) value { return value{vec: v.vec, dims: v.dims, elem: elem} }

func dimsText(dims []int) string {
	var s strings.Builder
	for _, d := range dims {
		s.WriteString(strconv.Itoa(d))
		s.WriteByte('x')
	}
	return s.String()
}

func vectorType(elem string, dims ...int) value { return value{vec: true, dims: dims, elem: elem} }
func scalarType(elem string) value              { return value{elem: elem} }

// memref is a window or scratch in vector memory.
type memref struct {
	name string
	dims []int
	elem string
}

func (m memref) typeText() string {
	return "memref<" + dimsText(m.dims) + m.elem + ", #tpu.memory_space<vmem>>"
}

func (w *writer) writeLine(format string, args ...any) {
	w.text.WriteString(strings.Repeat("  ", w.depth))
	fmt.Fprintf(&w.text, format, args...)
	w.text.WriteByte('\n')
}

func (w *writer) nextName() string {
	w.next++
	return "%" + strconv.Itoa(w.next-1)
}

// writeOp writes an operation with one result of type out.
func (w *writer) writeOp(name, attrs string, out value, args ...value) value {
	out.name = w.nextName()
	names, types := make([]string, len(args)), make([]string, len(args))
	for i, a := range args {
		names[i], types[i] = a.name, a.typeText()
	}
	if attrs != "" {
		attrs = " {" + attrs + "}"
	}
	w.writeLine(`%s = "stable_mosaic.%s"(%s)%s : (%s) -> %s`, out.name, name, strings.Join(names, ", "), attrs, strings.Join(types, ", "), out.typeText())
	return out
}

const fastmath = "fastmath = #arith.fastmath<none>"

func (w *writer) floatOp(name string, args ...value) value {
	return w.writeOp(name, fastmath, args[0], args...)
}
func (w *writer) mul(a, b value) value   { return w.floatOp("arith.mulf", a, b) }
func (w *writer) add(a, b value) value   { return w.floatOp("arith.addf", a, b) }
func (w *writer) minus(a, b value) value { return w.floatOp("arith.subf", a, b) }
func (w *writer) div(a, b value) value   { return w.floatOp("arith.divf", a, b) }
func (w *writer) max(a, b value) value   { return w.floatOp("arith.maximumf", a, b) }
func (w *writer) exp2(a value) value     { return w.floatOp("math.exp2", a) }

func (w *writer) toBF16(a value) value { return w.writeOp("arith.truncf", "", a.withElem("bf16"), a) }
func (w *writer) toF32(a value) value  { return w.writeOp("arith.extf", "", a.withElem("f32"), a) }

func (w *writer) selectLanes(cond, a, b value) value {
	return w.writeOp("arith.select", "", a, cond, a, b)
}

// The predicates of arith.cmpi.
const (
	equal   = 0
	less    = 2
	atLeast = 5
)

func (w *writer) compare(predicate int, a, b value) value {
	return w.writeOp("arith.cmpi", fmt.Sprintf("predicate = %d : i64", predicate), a.withElem("i1"), a, b)
}

// splatConst is a scalar or a vector of one number.
func (w *writer) splatConst(t value, number string) value {
	if t.vec {
		return w.writeOp("arith.constant", fmt.Sprintf("value = dense<%s> : %s", number, t.typeText()), t)
	}
	return w.writeOp("arith.constant", fmt.Sprintf("value = %s : %s", number, t.elem), t)
}

func itoa(n int) string { return strconv.Itoa(n) }

func (w *writer) int32Const(n int) value { return w.splatConst(scalarType("i32"), itoa(n)) }

func (w *writer) indexConst(n int) value { return w.splatConst(scalarType("index"), itoa(n)) }

// floatText is a float as MLIR reads it.
func floatText(x float64) string {
	s := strconv.FormatFloat(x, 'e', -1, 64)
	if !strings.Contains(s, ".") {
		s = strings.Replace(s, "e", ".0e", 1)
	}
	return s
}

func (w *writer) floatConst(x float64, dims ...int) value {
	return w.splatConst(vectorType("f32", dims...), floatText(x))
}

func (w *writer) broadcast(a value, dims ...int) value {
	return w.writeOp("vector.broadcast", "", vectorType(a.elem, dims...), a)
}

func (w *writer) reshape(a value, dims ...int) value {
	return w.writeOp("vector.shape_cast", "", vectorType(a.elem, dims...), a)
}

// columnGroup is group i of 128 columns of a (rows, columns).
func (w *writer) columnGroup(a value, i int) value {
	if a.dims[1] == lanes {
		return a
	}
	attrs := fmt.Sprintf("offsets = [0, %d], sizes = [%d, %d], strides = [1, 1]", i*lanes, a.dims[0], lanes)
	return w.writeOp("vector.extract_strided_slice", attrs, vectorType(a.elem, a.dims[0], lanes), a)
}

// concatAlong joins along a dim.
func (w *writer) concatAlong(dim int, vs ...value) value {
	if len(vs) == 1 {
		return vs[0]
	}
	out := vectorType(vs[0].elem, vs[0].dims[0], vs[0].dims[1])
	out.dims[dim] *= len(vs)
	return w.writeOp("tpu.concatenate", fmt.Sprintf("dimension = %d : i32", dim), out, vs...)
}

// repeatColumns lays n of a (rows, 128) side by side.
func (w *writer) repeatColumns(a value, n int) value {
	all := make([]value, n)
	for i := range all {
		all[i] = a
	}
	return w.concatAlong(1, all...)
}

// rotateLanes moves columns up by a number of them, and those at the end to the front.
func (w *writer) rotateLanes(a, by value) value {
	return w.writeOp("tpu.dynamic_rotate", "dimension = 1 : si32", a, a, by)
}

// bitcast reads a's bits as other elements, in so many rows: words of two bf16 have a row
// in their low half and the next in their high half.
func (w *writer) bitcast(a value, elem string, rows int) value {
	return w.writeOp("tpu.bitcast", "", vectorType(elem, rows, a.dims[1]), a)
}

// iotaAlong counts along a dim.
func (w *writer) iotaAlong(dim, rows, columns int) value {
	return w.writeOp("tpu.iota", fmt.Sprintf("dimensions = array<i32: %d>", dim), vectorType("i32", rows, columns))
}

// reduceColumns joins a's columns: (rows, columns) to (rows, 1).
func (w *writer) reduceColumns(kind string, a value, start string) value {
	to := vectorType(a.elem, a.dims[0])
	init := w.splatConst(to, start)
	r := w.writeOp("vector.multi_reduction", fmt.Sprintf("kind = #vector.kind<%s>, reduction_dims = array<i64: 1>", kind), to, a, init)
	return w.reshape(r, a.dims[0], 1)
}

// matmulAdd is a b, or a times the transpose of b, in f32, plus to.
func (w *writer) matmulAdd(a, b value, transposed bool, to value) value {
	dims := "[1], [0], [0], [1], [0, 0, 1, 1], [], []"
	if transposed {
		dims = "[1], [1], [0], [0], [0, 0, 1, 0], [], []"
	}
	attrs := fmt.Sprintf("dimension_numbers = #tpu.dot_dimension_numbers<%s>, transpose_lhs = false, transpose_rhs = false", dims)
	return w.writeOp("tpu.matmul", attrs, to, a, b, to)
}

// loadRows reads rows of a window (1, rows, columns) or a scratch (rows, columns), n from an index.
func (w *writer) loadRows(m memref, from value, n int) value {
	return w.loadPart(m, []value{from, w.indexConst(0)}, []int{n, m.dims[len(m.dims)-1]})
}

// loadAll reads a whole window or scratch.
func (w *writer) loadAll(m memref) value {
	return w.loadRows(m, w.indexConst(0), m.dims[len(m.dims)-2])
}

// loadColumns reads n columns of a window (1, 1, columns), from an index.
func (w *writer) loadColumns(m memref, from value, n int) value {
	return w.loadPart(m, []value{w.indexConst(0), from}, []int{1, n})
}

// loadPart reads a part of the last two dims of a memref: where it starts, and its shape.
func (w *writer) loadPart(m memref, at []value, dims []int) value {
	places, types := w.elementIndices(m, at)
	out := vectorType(m.elem, append(onesShape(len(m.dims)-2), dims...)...)
	out.name = w.nextName()
	w.writeLine(`%s = "stable_mosaic.vector.load"(%s, %s) : (%s, %s) -> %s`, out.name, m.name, places, m.typeText(), types, out.typeText())
	if len(out.dims) == 2 {
		return out
	}
	return w.reshape(out, dims...)
}

// storeAll writes v over all of a memref.
func (w *writer) storeAll(v value, m memref) {
	places, types := w.elementIndices(m, []value{w.indexConst(0), w.indexConst(0)})
	if outer := len(m.dims) - 2; outer > 0 {
		v = w.reshape(v, append(onesShape(outer), v.dims...)...)
	}
	w.writeLine(`"stable_mosaic.tpu.vector_store"(%s, %s, %s) {add = false, operandSegmentSizes = array<i32: 1, 1, %d, 0>, strides = array<i32>} : (%s, %s, %s) -> ()`,
		v.name, m.name, places, len(m.dims), v.typeText(), m.typeText(), types)
}

// elementIndices are the indices of an element of the last two dims, and their types.
func (w *writer) elementIndices(m memref, at []value) (names, types string) {
	ns, ts := make([]string, len(m.dims)), make([]string, len(m.dims))
	outer := len(m.dims) - 2
	for i := range ns {
		ts[i] = "index"
		if i >= outer {
			ns[i] = at[i-outer].name
		} else {
			ns[i] = w.indexConst(0).name
		}
	}
	return strings.Join(ns, ", "), strings.Join(ts, ", ")
}

func onesShape(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// ifElse writes an if with two branches; either may be nil.
func (w *writer) ifElse(cond value, then, otherwise func()) {
	region := func(f func()) {
		w.depth++
		if f != nil {
			f()
		}
		w.writeLine(`"stable_mosaic.scf.yield"() : () -> ()`)
		w.depth--
	}
	w.writeLine(`"stable_mosaic.scf.if"(%s) ({`, cond.name)
	region(then)
	w.writeLine("}, {")
	region(otherwise)
	w.writeLine("}) : (i1) -> ()")
}

// forLoop writes a loop of n rounds; each is given from + round*step, which step divides.
func (w *writer) forLoop(n, from, step int, round func(at value)) {
	args := []value{w.int32Const(0), w.int32Const(n), w.int32Const(1)}
	w.writeLine(`"stable_mosaic.scf.for"(%s, %s, %s) ({`, args[0].name, args[1].name, args[2].name)
	i := value{name: w.nextName(), elem: "i32"}
	w.writeLine("^bb0(%s: i32):", i.name)
	w.depth++
	at := w.writeOp("arith.addi", "", i, w.writeOp("arith.muli", "", i, i, w.int32Const(step)), w.int32Const(from))
	at = w.writeOp("tpu.assume_multiple", fmt.Sprintf("multiple = %d : i32", lanes), i, at)
	round(w.writeOp("arith.index_cast", "", scalarType("index"), at))
	w.writeLine(`"stable_mosaic.scf.yield"() : () -> ()`)
	w.depth--
	w.writeLine("}) : (i32, i32, i32) -> ()")
}

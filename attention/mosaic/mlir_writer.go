package mosaic

import (
	"fmt"
	"strconv"
	"strings"
)

// mlirWriter writes operations in MLIR's generic form, under the names and the version
// that Mosaic promises to keep reading ("stable_mosaic", version 11).
type mlirWriter struct {
	text  strings.Builder
	depth int
	next  int
}

// value is the result of an operation, with its type.
type value struct {
	name string
	vec  bool
	dims []int
	elem string // f32, bf16, i32, i1, index
}

// typeText returns the type as MLIR writes it.
func (v value) typeText() string {
	if !v.vec {
		return v.elem
	}
	return "vector<" + dimsText(v.dims) + v.elem + ">"
}

// withElem returns v's type with another element type.
func (v value) withElem(elem string) value { return value{vec: v.vec, dims: v.dims, elem: elem} }

// dimsText writes the dims of a type: "8x128x".
func dimsText(dims []int) string {
	var s strings.Builder
	for _, d := range dims {
		s.WriteString(strconv.Itoa(d))
		s.WriteByte('x')
	}
	return s.String()
}

// vectorType is the type of a vector.
func vectorType(elem string, dims ...int) value { return value{vec: true, dims: dims, elem: elem} }

// scalarType is the type of one number.
func scalarType(elem string) value { return value{elem: elem} }

// memref is a buffer in vector memory: a window into an operand, or scratch.
type memref struct {
	name string
	dims []int
	elem string
}

// typeText returns the type as MLIR writes it.
func (m memref) typeText() string {
	return "memref<" + dimsText(m.dims) + m.elem + ", #tpu.memory_space<vmem>>"
}

// writeLine writes one line at the current depth.
func (w *mlirWriter) writeLine(format string, args ...any) {
	w.text.WriteString(strings.Repeat("  ", w.depth))
	fmt.Fprintf(&w.text, format, args...)
	w.text.WriteByte('\n')
}

// nextName returns a name that no value has yet.
func (w *mlirWriter) nextName() string {
	w.next++
	return "%" + strconv.Itoa(w.next-1)
}

// writeOp writes an operation with one result, of the type out.
func (w *mlirWriter) writeOp(name, attrs string, out value, args ...value) value {
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

// floatOp writes an operation on floats, which has the type of its first operand.
func (w *mlirWriter) floatOp(name string, args ...value) value {
	return w.writeOp(name, fastmath, args[0], args...)
}
func (w *mlirWriter) mul(a, b value) value   { return w.floatOp("arith.mulf", a, b) }
func (w *mlirWriter) add(a, b value) value   { return w.floatOp("arith.addf", a, b) }
func (w *mlirWriter) minus(a, b value) value { return w.floatOp("arith.subf", a, b) }
func (w *mlirWriter) div(a, b value) value   { return w.floatOp("arith.divf", a, b) }
func (w *mlirWriter) max(a, b value) value   { return w.floatOp("arith.maximumf", a, b) }
func (w *mlirWriter) exp2(a value) value     { return w.floatOp("math.exp2", a) }

func (w *mlirWriter) toBF16(a value) value {
	return w.writeOp("arith.truncf", "", a.withElem("bf16"), a)
}
func (w *mlirWriter) toF32(a value) value { return w.writeOp("arith.extf", "", a.withElem("f32"), a) }

func (w *mlirWriter) selectLanes(cond, a, b value) value {
	return w.writeOp("arith.select", "", a, cond, a, b)
}

// The predicates of arith.cmpi.
const (
	equal   = 0
	less    = 2
	atLeast = 5
)

// compare writes a comparison of integers.
func (w *mlirWriter) compare(predicate int, a, b value) value {
	return w.writeOp("arith.cmpi", fmt.Sprintf("predicate = %d : i64", predicate), a.withElem("i1"), a, b)
}

// splatConst writes a constant: a scalar, or a vector with one number everywhere.
func (w *mlirWriter) splatConst(t value, number string) value {
	if t.vec {
		return w.writeOp("arith.constant", fmt.Sprintf("value = dense<%s> : %s", number, t.typeText()), t)
	}
	return w.writeOp("arith.constant", fmt.Sprintf("value = %s : %s", number, t.elem), t)
}

func itoa(n int) string { return strconv.Itoa(n) }

func (w *mlirWriter) int32Const(n int) value { return w.splatConst(scalarType("i32"), itoa(n)) }

func (w *mlirWriter) indexConst(n int) value { return w.splatConst(scalarType("index"), itoa(n)) }

// floatText writes a float as MLIR reads it; it has a decimal point always.
func floatText(x float64) string {
	s := strconv.FormatFloat(x, 'e', -1, 64)
	if !strings.Contains(s, ".") {
		s = strings.Replace(s, "e", ".0e", 1)
	}
	return s
}

func (w *mlirWriter) floatConst(x float64, dims ...int) value {
	return w.splatConst(vectorType("f32", dims...), floatText(x))
}

func (w *mlirWriter) broadcast(a value, dims ...int) value {
	return w.writeOp("vector.broadcast", "", vectorType(a.elem, dims...), a)
}

func (w *mlirWriter) reshape(a value, dims ...int) value {
	return w.writeOp("vector.shape_cast", "", vectorType(a.elem, dims...), a)
}

// columnGroup takes the i-th group of 128 columns of a (rows, columns).
func (w *mlirWriter) columnGroup(a value, i int) value {
	if a.dims[1] == lanes {
		return a
	}
	attrs := fmt.Sprintf("offsets = [0, %d], sizes = [%d, %d], strides = [1, 1]", i*lanes, a.dims[0], lanes)
	return w.writeOp("vector.extract_strided_slice", attrs, vectorType(a.elem, a.dims[0], lanes), a)
}

// concatAlong joins vectors of one shape along a dim.
func (w *mlirWriter) concatAlong(dim int, vs ...value) value {
	if len(vs) == 1 {
		return vs[0]
	}
	out := vectorType(vs[0].elem, vs[0].dims[0], vs[0].dims[1])
	out.dims[dim] *= len(vs)
	return w.writeOp("tpu.concatenate", fmt.Sprintf("dimension = %d : i32", dim), out, vs...)
}

// repeatColumns lays n copies of a (rows, 128) side by side.
func (w *mlirWriter) repeatColumns(a value, n int) value {
	all := make([]value, n)
	for i := range all {
		all[i] = a
	}
	return w.concatAlong(1, all...)
}

// rotateLanes moves each column by lanes to the right; the last ones come to the front.
func (w *mlirWriter) rotateLanes(a, by value) value {
	return w.writeOp("tpu.dynamic_rotate", "dimension = 1 : si32", a, a, by)
}

// bitcast reads the bits of a as elements of another type, in so many rows. A word of 32
// bits holds two bf16: one row in its lower half and the next row in its upper half.
func (w *mlirWriter) bitcast(a value, elem string, rows int) value {
	return w.writeOp("tpu.bitcast", "", vectorType(elem, rows, a.dims[1]), a)
}

// iotaAlong counts 0, 1, 2, ... along a dim.
func (w *mlirWriter) iotaAlong(dim, rows, columns int) value {
	return w.writeOp("tpu.iota", fmt.Sprintf("dimensions = array<i32: %d>", dim), vectorType("i32", rows, columns))
}

// reduceColumns combines the columns of a: (rows, columns) becomes (rows, 1).
func (w *mlirWriter) reduceColumns(kind string, a value, start string) value {
	to := vectorType(a.elem, a.dims[0])
	init := w.splatConst(to, start)
	r := w.writeOp("vector.multi_reduction", fmt.Sprintf("kind = #vector.kind<%s>, reduction_dims = array<i64: 1>", kind), to, a, init)
	return w.reshape(r, a.dims[0], 1)
}

// matmulAdd computes a b + to in f32; transposed, it computes a b^T + to.
func (w *mlirWriter) matmulAdd(a, b value, transposed bool, to value) value {
	dims := "[1], [0], [0], [1], [0, 0, 1, 1], [], []"
	if transposed {
		dims = "[1], [1], [0], [0], [0, 0, 1, 0], [], []"
	}
	attrs := fmt.Sprintf("dimension_numbers = #tpu.dot_dimension_numbers<%s>, transpose_lhs = false, transpose_rhs = false", dims)
	return w.writeOp("tpu.matmul", attrs, to, a, b, to)
}

// loadRows reads n rows, from an index on, of a window (1, rows, columns) or of a scratch
// (rows, columns).
func (w *mlirWriter) loadRows(m memref, from value, n int) value {
	return w.loadPart(m, []value{from, w.indexConst(0)}, []int{n, m.dims[len(m.dims)-1]})
}

// loadAll reads a whole window or scratch.
func (w *mlirWriter) loadAll(m memref) value {
	return w.loadRows(m, w.indexConst(0), m.dims[len(m.dims)-2])
}

// loadColumns reads n columns, from an index on, of a window (1, 1, columns).
func (w *mlirWriter) loadColumns(m memref, from value, n int) value {
	return w.loadPart(m, []value{w.indexConst(0), from}, []int{1, n})
}

// loadPart reads a part of the last two dims of a memref, given by its start and its shape.
func (w *mlirWriter) loadPart(m memref, at []value, dims []int) value {
	places, types := w.elementIndices(m, at)
	out := vectorType(m.elem, append(onesShape(len(m.dims)-2), dims...)...)
	out.name = w.nextName()
	w.writeLine(`%s = "stable_mosaic.vector.load"(%s, %s) : (%s, %s) -> %s`, out.name, m.name, places, m.typeText(), types, out.typeText())
	if len(out.dims) == 2 {
		return out
	}
	return w.reshape(out, dims...)
}

// storeAll overwrites a whole memref with v.
func (w *mlirWriter) storeAll(v value, m memref) {
	places, types := w.elementIndices(m, []value{w.indexConst(0), w.indexConst(0)})
	if outer := len(m.dims) - 2; outer > 0 {
		v = w.reshape(v, append(onesShape(outer), v.dims...)...)
	}
	w.writeLine(`"stable_mosaic.tpu.vector_store"(%s, %s, %s) {add = false, operandSegmentSizes = array<i32: 1, 1, %d, 0>, strides = array<i32>} : (%s, %s, %s) -> ()`,
		v.name, m.name, places, len(m.dims), v.typeText(), m.typeText(), types)
}

// elementIndices writes the indices of an element and their types; at has those of the
// last two dims, and the others are 0.
func (w *mlirWriter) elementIndices(m memref, at []value) (names, types string) {
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

// onesShape is a shape of n dims of size 1.
func onesShape(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// ifElse writes a conditional with two branches; either may be nil.
func (w *mlirWriter) ifElse(cond value, then, otherwise func()) {
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

// forLoop writes a loop of n rounds. Round i gets the index from + i*step; step is a
// multiple of 128, which lets Mosaic load whole tiles.
func (w *mlirWriter) forLoop(n, from, step int, round func(at value)) {
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

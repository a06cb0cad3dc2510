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

func (v value) typ() string {
	if !v.vec {
		return v.elem
	}
	return "vector<" + shape(v.dims) + v.elem + ">"
}

// as is v's type with other elements.
func (v value) as(elem string) value { return value{vec: v.vec, dims: v.dims, elem: elem} }

func shape(dims []int) string {
	var s strings.Builder
	for _, d := range dims {
		s.WriteString(strconv.Itoa(d))
		s.WriteByte('x')
	}
	return s.String()
}

func vector(elem string, dims ...int) value { return value{vec: true, dims: dims, elem: elem} }
func scalar(elem string) value              { return value{elem: elem} }

// memref is a window or scratch in vector memory.
type memref struct {
	name string
	dims []int
	elem string
}

func (m memref) typ() string {
	return "memref<" + shape(m.dims) + m.elem + ", #tpu.memory_space<vmem>>"
}

func (w *writer) line(format string, args ...any) {
	w.text.WriteString(strings.Repeat("  ", w.depth))
	fmt.Fprintf(&w.text, format, args...)
	w.text.WriteByte('\n')
}

func (w *writer) name() string {
	w.next++
	return "%" + strconv.Itoa(w.next-1)
}

// op writes an operation with one result of type out.
func (w *writer) op(name, attrs string, out value, args ...value) value {
	out.name = w.name()
	names, types := make([]string, len(args)), make([]string, len(args))
	for i, a := range args {
		names[i], types[i] = a.name, a.typ()
	}
	if attrs != "" {
		attrs = " {" + attrs + "}"
	}
	w.line(`%s = "stable_mosaic.%s"(%s)%s : (%s) -> %s`, out.name, name, strings.Join(names, ", "), attrs, strings.Join(types, ", "), out.typ())
	return out
}

const fastmath = "fastmath = #arith.fastmath<none>"

func (w *writer) float(name string, args ...value) value {
	return w.op(name, fastmath, args[0], args...)
}
func (w *writer) mul(a, b value) value   { return w.float("arith.mulf", a, b) }
func (w *writer) add(a, b value) value   { return w.float("arith.addf", a, b) }
func (w *writer) minus(a, b value) value { return w.float("arith.subf", a, b) }
func (w *writer) div(a, b value) value   { return w.float("arith.divf", a, b) }
func (w *writer) max(a, b value) value   { return w.float("arith.maximumf", a, b) }
func (w *writer) exp2(a value) value     { return w.float("math.exp2", a) }

func (w *writer) narrow(a value) value { return w.op("arith.truncf", "", a.as("bf16"), a) }
func (w *writer) widen(a value) value  { return w.op("arith.extf", "", a.as("f32"), a) }

func (w *writer) choose(cond, a, b value) value { return w.op("arith.select", "", a, cond, a, b) }

// The predicates of arith.cmpi.
const (
	equal   = 0
	less    = 2
	atLeast = 5
)

func (w *writer) compare(predicate int, a, b value) value {
	return w.op("arith.cmpi", fmt.Sprintf("predicate = %d : i64", predicate), a.as("i1"), a, b)
}

// constant is a scalar or a vector of one number.
func (w *writer) constant(t value, number string) value {
	if t.vec {
		return w.op("arith.constant", fmt.Sprintf("value = dense<%s> : %s", number, t.typ()), t)
	}
	return w.op("arith.constant", fmt.Sprintf("value = %s : %s", number, t.elem), t)
}

func itoa(n int) string { return strconv.Itoa(n) }

func (w *writer) i32(n int) value { return w.constant(scalar("i32"), itoa(n)) }

func (w *writer) index(n int) value { return w.constant(scalar("index"), itoa(n)) }

// literal is a float as MLIR reads it.
func literal(x float64) string {
	s := strconv.FormatFloat(x, 'e', -1, 64)
	if !strings.Contains(s, ".") {
		s = strings.Replace(s, "e", ".0e", 1)
	}
	return s
}

func (w *writer) floats(x float64, dims ...int) value {
	return w.constant(vector("f32", dims...), literal(x))
}

func (w *writer) broadcast(a value, dims ...int) value {
	return w.op("vector.broadcast", "", vector(a.elem, dims...), a)
}

func (w *writer) reshape(a value, dims ...int) value {
	return w.op("vector.shape_cast", "", vector(a.elem, dims...), a)
}

// columns is group i of 128 columns of a (rows, columns).
func (w *writer) columns(a value, i int) value {
	if a.dims[1] == lanes {
		return a
	}
	attrs := fmt.Sprintf("offsets = [0, %d], sizes = [%d, %d], strides = [1, 1]", i*lanes, a.dims[0], lanes)
	return w.op("vector.extract_strided_slice", attrs, vector(a.elem, a.dims[0], lanes), a)
}

// concat joins along a dim.
func (w *writer) concat(dim int, vs ...value) value {
	if len(vs) == 1 {
		return vs[0]
	}
	out := vector(vs[0].elem, vs[0].dims[0], vs[0].dims[1])
	out.dims[dim] *= len(vs)
	return w.op("tpu.concatenate", fmt.Sprintf("dimension = %d : i32", dim), out, vs...)
}

// repeat lays n of a (rows, 128) side by side.
func (w *writer) repeat(a value, n int) value {
	all := make([]value, n)
	for i := range all {
		all[i] = a
	}
	return w.concat(1, all...)
}

// rotate moves columns up by a number of them, and those at the end to the front.
func (w *writer) rotate(a, by value) value {
	return w.op("tpu.dynamic_rotate", "dimension = 1 : si32", a, a, by)
}

// bitcast reads a's bits as other elements, in so many rows: words of two bf16 have a row
// in their low half and the next in their high half.
func (w *writer) bitcast(a value, elem string, rows int) value {
	return w.op("tpu.bitcast", "", vector(elem, rows, a.dims[1]), a)
}

// iota counts along a dim.
func (w *writer) iota(dim, rows, columns int) value {
	return w.op("tpu.iota", fmt.Sprintf("dimensions = array<i32: %d>", dim), vector("i32", rows, columns))
}

// reduce joins a's columns: (rows, columns) to (rows, 1).
func (w *writer) reduce(kind string, a value, start string) value {
	to := vector(a.elem, a.dims[0])
	init := w.constant(to, start)
	r := w.op("vector.multi_reduction", fmt.Sprintf("kind = #vector.kind<%s>, reduction_dims = array<i64: 1>", kind), to, a, init)
	return w.reshape(r, a.dims[0], 1)
}

// matmul is a b, or a times the transpose of b, in f32, plus to.
func (w *writer) matmul(a, b value, transposed bool, to value) value {
	dims := "[1], [0], [0], [1], [0, 0, 1, 1], [], []"
	if transposed {
		dims = "[1], [1], [0], [0], [0, 0, 1, 0], [], []"
	}
	attrs := fmt.Sprintf("dimension_numbers = #tpu.dot_dimension_numbers<%s>, transpose_lhs = false, transpose_rhs = false", dims)
	return w.op("tpu.matmul", attrs, to, a, b, to)
}

// load reads rows of a window (1, rows, columns) or a scratch (rows, columns), n from an index.
func (w *writer) load(m memref, from value, n int) value {
	return w.part(m, []value{from, w.index(0)}, []int{n, m.dims[len(m.dims)-1]})
}

// all reads a whole window or scratch.
func (w *writer) all(m memref) value { return w.load(m, w.index(0), m.dims[len(m.dims)-2]) }

// row reads n columns of a window (1, 1, columns), from an index.
func (w *writer) row(m memref, from value, n int) value {
	return w.part(m, []value{w.index(0), from}, []int{1, n})
}

// part reads a part of the last two dims of a memref: where it starts, and its shape.
func (w *writer) part(m memref, at []value, dims []int) value {
	places, types := w.places(m, at)
	out := vector(m.elem, append(ones(len(m.dims)-2), dims...)...)
	out.name = w.name()
	w.line(`%s = "stable_mosaic.vector.load"(%s, %s) : (%s, %s) -> %s`, out.name, m.name, places, m.typ(), types, out.typ())
	if len(out.dims) == 2 {
		return out
	}
	return w.reshape(out, dims...)
}

// store writes v over all of a memref.
func (w *writer) store(v value, m memref) {
	places, types := w.places(m, []value{w.index(0), w.index(0)})
	if outer := len(m.dims) - 2; outer > 0 {
		v = w.reshape(v, append(ones(outer), v.dims...)...)
	}
	w.line(`"stable_mosaic.tpu.vector_store"(%s, %s, %s) {add = false, operandSegmentSizes = array<i32: 1, 1, %d, 0>, strides = array<i32>} : (%s, %s, %s) -> ()`,
		v.name, m.name, places, len(m.dims), v.typ(), m.typ(), types)
}

// places are the indices of an element of the last two dims, and their types.
func (w *writer) places(m memref, at []value) (names, types string) {
	ns, ts := make([]string, len(m.dims)), make([]string, len(m.dims))
	outer := len(m.dims) - 2
	for i := range ns {
		ts[i] = "index"
		if i >= outer {
			ns[i] = at[i-outer].name
		} else {
			ns[i] = w.index(0).name
		}
	}
	return strings.Join(ns, ", "), strings.Join(ts, ", ")
}

func ones(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// when writes an if with two branches; either may be nil.
func (w *writer) when(cond value, then, otherwise func()) {
	region := func(f func()) {
		w.depth++
		if f != nil {
			f()
		}
		w.line(`"stable_mosaic.scf.yield"() : () -> ()`)
		w.depth--
	}
	w.line(`"stable_mosaic.scf.if"(%s) ({`, cond.name)
	region(then)
	w.line("}, {")
	region(otherwise)
	w.line("}) : (i1) -> ()")
}

// times writes a loop of n rounds; each is given from + round*step, which step divides.
func (w *writer) times(n, from, step int, round func(at value)) {
	args := []value{w.i32(0), w.i32(n), w.i32(1)}
	w.line(`"stable_mosaic.scf.for"(%s, %s, %s) ({`, args[0].name, args[1].name, args[2].name)
	i := value{name: w.name(), elem: "i32"}
	w.line("^bb0(%s: i32):", i.name)
	w.depth++
	at := w.op("arith.addi", "", i, w.op("arith.muli", "", i, i, w.i32(step)), w.i32(from))
	at = w.op("tpu.assume_multiple", fmt.Sprintf("multiple = %d : i32", lanes), i, at)
	round(w.op("arith.index_cast", "", scalar("index"), at))
	w.line(`"stable_mosaic.scf.yield"() : () -> ()`)
	w.depth--
	w.line("}) : (i32, i32, i32) -> ()")
}

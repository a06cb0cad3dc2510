package triton

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ttirWriter writes operations of Triton's intermediate language, in the form in which the
// dialects print themselves.
type ttirWriter struct {
	text  strings.Builder
	depth int
	next  int
}

// value is the result of an operation with its type: a tensor, or one number where it has no dims.
type value struct {
	name string
	dims []int
	elem string // f32, bf16, f16, i64, i32, i1, or a pointer to one of them
}

// typeText returns the type as MLIR writes it.
func (v value) typeText() string {
	if len(v.dims) == 0 {
		return v.elem
	}
	var s strings.Builder
	for _, d := range v.dims {
		s.WriteString(strconv.Itoa(d) + "x")
	}
	return "tensor<" + s.String() + v.elem + ">"
}

// withElem returns v's type with another element type.
func (v value) withElem(elem string) value { return value{dims: v.dims, elem: elem} }

// pointerTo is the type of a pointer to an element.
func pointerTo(elem string) string { return "!tt.ptr<" + elem + ">" }

// writeLine writes one line at the current depth.
func (w *ttirWriter) writeLine(format string, args ...any) {
	w.text.WriteString(strings.Repeat("  ", w.depth))
	fmt.Fprintf(&w.text, format, args...)
	w.text.WriteByte('\n')
}

// assign writes an operation with one result, of the type out.
func (w *ttirWriter) assign(out value, format string, args ...any) value {
	out.name = w.nextName()
	w.writeLine("%s = %s", out.name, fmt.Sprintf(format, args...))
	return out
}

// nextName returns a name that no value has yet.
func (w *ttirWriter) nextName() string {
	w.next++
	return "%" + strconv.Itoa(w.next-1)
}

// constInt is a number of a type of integers, in every element.
func (w *ttirWriter) constInt(n int, elem string, dims ...int) value {
	out := value{dims: dims, elem: elem}
	if len(dims) == 0 {
		return w.assign(out, "arith.constant %d : %s", n, elem)
	}
	return w.assign(out, "arith.constant dense<%d> : %s", n, out.typeText())
}

// constFloat is a number of a type of floats, in every element; -inf in f32 too.
func (w *ttirWriter) constFloat(x float64, elem string, dims ...int) value {
	out := value{dims: dims, elem: elem}
	text := strconv.FormatFloat(x, 'e', 9, 32)
	if math.IsInf(x, -1) {
		text = "0xFF800000"
	}
	return w.assign(out, "arith.constant dense<%s> : %s", text, out.typeText())
}

// binary writes an operation on two values of one type.
func (w *ttirWriter) binary(op string, a, b value) value {
	return w.assign(a.withElem(a.elem), "%s %s, %s : %s", op, a.name, b.name, a.typeText())
}

func (w *ttirWriter) add(a, b value) value   { return w.binary("arith.addf", a, b) }
func (w *ttirWriter) minus(a, b value) value { return w.binary("arith.subf", a, b) }
func (w *ttirWriter) mul(a, b value) value   { return w.binary("arith.mulf", a, b) }
func (w *ttirWriter) div(a, b value) value   { return w.binary("arith.divf", a, b) }

// max passes over a NaN, which comes back with the sum of the exponentials.
func (w *ttirWriter) max(a, b value) value      { return w.binary("arith.maxnumf", a, b) }
func (w *ttirWriter) addInt(a, b value) value   { return w.binary("arith.addi", a, b) }
func (w *ttirWriter) mulInt(a, b value) value   { return w.binary("arith.muli", a, b) }
func (w *ttirWriter) divInt(a, b value) value   { return w.binary("arith.divsi", a, b) }
func (w *ttirWriter) subInt(a, b value) value   { return w.binary("arith.subi", a, b) }
func (w *ttirWriter) bothTrue(a, b value) value { return w.binary("arith.andi", a, b) }
func (w *ttirWriter) minInt(a, b value) value   { return w.binary("arith.minsi", a, b) }

func (w *ttirWriter) exp2(a value) value {
	return w.assign(a.withElem(a.elem), "math.exp2 %s : %s", a.name, a.typeText())
}

// below is where a is below b, both whole numbers.
func (w *ttirWriter) below(a, b value) value {
	return w.assign(a.withElem("i1"), "arith.cmpi slt, %s, %s : %s", a.name, b.name, a.typeText())
}

func (w *ttirWriter) choose(where, a, b value) value {
	return w.assign(a.withElem(a.elem), "arith.select %s, %s, %s : %s, %s", where.name, a.name, b.name, where.typeText(), a.typeText())
}

// narrow rounds f32 to a type of 16 bits.
func (w *ttirWriter) narrow(a value, elem string) value {
	out := a.withElem(elem)
	return w.assign(out, "arith.truncf %s : %s to %s", a.name, a.typeText(), out.typeText())
}

// toInt64 widens whole numbers.
func (w *ttirWriter) toInt64(a value) value {
	out := a.withElem("i64")
	return w.assign(out, "arith.extsi %s : %s to %s", a.name, a.typeText(), out.typeText())
}

// programID is the program's place in the grid along x, y or z.
func (w *ttirWriter) programID(axis string) value {
	return w.assign(value{elem: "i32"}, "tt.get_program_id %s : i32", axis)
}

// counting is 0, 1, ... n-1.
func (w *ttirWriter) counting(n int) value {
	out := value{dims: []int{n}, elem: "i32"}
	return w.assign(out, "tt.make_range {end = %d : i32, start = 0 : i32} : %s", n, out.typeText())
}

// splat repeats one number.
func (w *ttirWriter) splat(a value, dims ...int) value {
	out := value{dims: dims, elem: a.elem}
	return w.assign(out, "tt.splat %s : %s -> %s", a.name, a.typeText(), out.typeText())
}

// spread makes a matrix of a vector whose elements lie along dim along: 0 repeats each one over a
// row, 1 over a column.
func (w *ttirWriter) spread(a value, along int, dims ...int) value {
	thin := value{dims: []int{a.dims[0], 1}, elem: a.elem}
	if along == 1 {
		thin.dims = []int{1, a.dims[0]}
	}
	thin = w.assign(thin, "tt.expand_dims %s {axis = %d : i32} : %s -> %s", a.name, 1-along, a.typeText(), thin.typeText())
	out := value{dims: dims, elem: a.elem}
	if out.typeText() == thin.typeText() {
		return thin
	}
	return w.assign(out, "tt.broadcast %s : %s -> %s", thin.name, thin.typeText(), out.typeText())
}

// advance moves pointers by so many elements.
func (w *ttirWriter) advance(pointer, by value) value {
	return w.assign(pointer.withElem(pointer.elem), "tt.addptr %s, %s : %s, %s", pointer.name, by.name, pointer.typeText(), by.typeText())
}

// load reads what pointers point to, elem each; where a mask is given, only where it is true, and
// zeros elsewhere.
func (w *ttirWriter) load(pointers value, elem string, mask *value) value {
	out := pointers.withElem(elem)
	if mask == nil {
		return w.assign(out, "tt.load %s : %s", pointers.name, pointers.typeText())
	}
	zero := w.constFloat(0, elem, pointers.dims...)
	return w.assign(out, "tt.load %s, %s, %s : %s", pointers.name, mask.name, zero.name, pointers.typeText())
}

// store writes values to where pointers point, where the mask is true.
func (w *ttirWriter) store(pointers, x value, mask *value) {
	if mask == nil {
		w.writeLine("tt.store %s, %s : %s", pointers.name, x.name, pointers.typeText())
		return
	}
	w.writeLine("tt.store %s, %s, %s : %s", pointers.name, x.name, mask.name, pointers.typeText())
}

// transpose exchanges the dims of a matrix.
func (w *ttirWriter) transpose(a value) value {
	out := value{dims: []int{a.dims[1], a.dims[0]}, elem: a.elem}
	return w.assign(out, "tt.trans %s {order = array<i32: 1, 0>} : %s -> %s", a.name, a.typeText(), out.typeText())
}

// dotAdd is a b + c, summed in f32.
func (w *ttirWriter) dotAdd(a, b, c value) value {
	return w.assign(c.withElem(c.elem), "tt.dot %s, %s, %s : %s * %s -> %s", a.name, b.name, c.name, a.typeText(), b.typeText(), c.typeText())
}

// reduceRows joins the elements of each row of a matrix by an operation on two numbers.
func (w *ttirWriter) reduceRows(op string, a value) value {
	out := value{name: w.nextName(), dims: a.dims[:1], elem: a.elem}
	x, y, z := w.nextName(), w.nextName(), w.nextName()
	w.writeLine(`%s = "tt.reduce"(%s) <{axis = 1 : i32}> ({`, out.name, a.name)
	w.writeLine("^bb0(%s: %s, %s: %s):", x, a.elem, y, a.elem)
	w.writeLine("  %s = %s %s, %s : %s", z, op, x, y, a.elem)
	w.writeLine("  tt.reduce.return %s : %s", z, a.elem)
	w.writeLine("}) : (%s) -> %s", a.typeText(), out.typeText())
	return out
}

// loop runs body trips times, with an index that counts from 0, and hands its values on from
// one round to the next.
func (w *ttirWriter) loop(trips int, start []value, body func(index value, at []value) []value) []value {
	from, to, step := w.constInt(0, "i32"), w.constInt(trips, "i32"), w.constInt(1, "i32")
	index := value{name: w.nextName(), elem: "i32"}
	out, at := make([]value, len(start)), make([]value, len(start))
	var begin, types []string
	results := w.nextName()
	for i, v := range start {
		at[i] = value{name: w.nextName(), dims: v.dims, elem: v.elem}
		out[i] = value{name: results + "#" + strconv.Itoa(i), dims: v.dims, elem: v.elem}
		begin, types = append(begin, at[i].name+" = "+v.name), append(types, v.typeText())
	}
	w.writeLine("%s:%d = scf.for %s = %s to %s step %s iter_args(%s) -> (%s)  : i32 {", results, len(start), index.name, from.name, to.name, step.name,
		strings.Join(begin, ", "), strings.Join(types, ", "))
	w.depth++
	var names []string
	for _, v := range body(index, at) {
		names = append(names, v.name)
	}
	w.writeLine("scf.yield %s : %s", strings.Join(names, ", "), strings.Join(types, ", "))
	w.depth--
	w.writeLine("}")
	return out
}

package spmd

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"weft/dtype"
)

// StableHLO is the program as MLIR text: one function @main that every device
// of the mesh runs as one replica. There are no partitions and no partitioner,
// so the compiler decides nothing about traffic; replica ids are mesh
// positions. The text depends on the program alone, so every host of a cluster
// emits the same bytes.
//
// What the text keeps to:
//
//  1. Collectives carry no channel handle. With one, StableHLO reads the groups
//     of an all-to-all or a permute as partition ids.
//  2. A loop is a while over a counter. Values of the surrounding code reach its
//     body as further carried operands that come back unchanged; constants and
//     iotas are made anew inside, which costs nothing and carries no buffer.
//  3. No constant but scalars; what is larger is a broadcast or an iota.
//  4. f32 and f64 contractions ask for the highest precision, where an
//     accelerator would use bf16 or TF32 passes; others take the default, and
//     sum in the result type.
//  5. Sums within a device of types narrower than f32 run in f32 and are rounded
//     once. Sums between devices have the type of the value.
//  6. The input that an output takes over names it: tf.aliasing_output.
func (p *Program) StableHLO() string {
	e := &emitter{p: p, defs: map[ID]*Instr{}}
	p.Walk(func(in *Instr, _ int) {
		for _, o := range in.Out {
			e.defs[o] = in
		}
	})
	e.emitModule()
	return e.text.String()
}

// emitter writes one module. Names: %v12 is value 12; %v12_3 is value 12 as
// loop 3 carries it; %i3 and %w3 are loop 3's counter and results; %t5 is a
// value that the IR has no name for.
type emitter struct {
	p     *Program
	defs  map[ID]*Instr
	text  strings.Builder
	depth int
	temps int
	loops int
}

// nameTable says what a value is called where the emitter stands. A loop body has
// its own: nothing of the outside is in sight there.
type nameTable map[ID]string

func (e *emitter) writeLine(format string, args ...any) {
	e.text.WriteString(strings.Repeat("  ", e.depth))
	fmt.Fprintf(&e.text, format, args...)
	e.text.WriteByte('\n')
}

func (e *emitter) openBlock(format string, args ...any) { e.writeLine(format, args...); e.depth++ }

func (e *emitter) closeBlock(text string) { e.depth--; e.writeLine("%s", text) }

// writeTemp writes an operation whose result the IR has no name for.
func (e *emitter) writeTemp(format string, args ...any) string {
	name := "%t" + strconv.Itoa(e.temps)
	e.temps++
	e.writeLine("%s = %s", name, fmt.Sprintf(format, args...))
	return name
}

func (e *emitter) typeOf(id ID) Type { return e.p.Values[id] }

func (e *emitter) emitModule() {
	p := e.p
	e.openBlock("module @%s attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = %d : i32} {", symbolName(p.Name), p.Mesh.NumDevices())
	n := nameTable{}
	args := make([]string, len(p.Inputs))
	for i, in := range p.Inputs {
		n[in.Value] = ssaName(in.Value)
		args[i] = ssaName(in.Value) + ": " + mlirType(e.typeOf(in.Value))
	}
	results, outs := make([]string, len(p.Outputs)), make([]ID, len(p.Outputs))
	for k, out := range p.Outputs {
		outs[k], results[k] = out.Value, mlirType(e.typeOf(out.Value))
		if out.Donor >= 0 {
			args[out.Donor] += fmt.Sprintf(" {tf.aliasing_output = %d : i32}", k)
		}
	}
	for i, in := range p.Inputs {
		e.writeLine("// input %d is %q", i, oneLine(in.Name))
	}
	for k, out := range p.Outputs {
		e.writeLine("// output %d is %q", k, oneLine(out.Name))
	}
	e.openBlock("func.func public @main(%s) -> (%s) {", strings.Join(args, ", "), strings.Join(results, ", "))
	e.emitBody(p.Body, n)
	e.emitTerminator("return", n.namesOf(outs), results)
	e.closeBlock("}")
	e.closeBlock("}")
}

func (e *emitter) emitTerminator(op string, operands, types []string) {
	if len(operands) == 0 {
		e.writeLine("%s", op)
		return
	}
	e.writeLine("%s %s : %s", op, strings.Join(operands, ", "), strings.Join(types, ", "))
}

func (e *emitter) emitBody(body []Instr, n nameTable) {
	for i := range body {
		in := &body[i]
		if in.Op == OpLoop {
			e.emitWhile(in, n)
			continue
		}
		name := ssaName(in.Out[0])
		e.emitInstr(in, name, n)
		n[in.Out[0]] = name
	}
}

func (n nameTable) namesOf(ids []ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = n[id]
	}
	return out
}

// plainOps are the elementwise operations whose text differs in the name alone.
var plainOps = map[Op]string{
	OpNeg: "negate", OpAbs: "abs", OpExp: "exponential", OpLog: "log", OpSqrt: "sqrt", OpRsqrt: "rsqrt",
	OpTanh: "tanh", OpSigmoid: "logistic", OpSin: "sine", OpCos: "cosine", OpNot: "not",
	OpAdd: "add", OpSub: "subtract", OpMul: "multiply", OpDiv: "divide", OpMax: "maximum", OpMin: "minimum",
	OpRem: "remainder", OpAnd: "and", OpOr: "or",
}

// emitInstr writes one instruction that is no loop. It is long because it is the
// table of the instruction set.
func (e *emitter) emitInstr(in *Instr, name string, n nameTable) {
	out := e.typeOf(in.Out[0])
	args, types := n.namesOf(in.Args), make([]string, len(in.Args))
	for i, a := range in.Args {
		types[i] = mlirType(e.typeOf(a))
	}
	to := mlirType(out)
	signature := fmt.Sprintf("(%s) -> %s", strings.Join(types, ", "), to)
	def := func(format string, a ...any) { e.writeLine("%s = stablehlo.%s", name, fmt.Sprintf(format, a...)) }
	if op, ok := plainOps[in.Op]; ok {
		def("%s %s : %s", op, strings.Join(args, ", "), to)
		return
	}
	switch in.Op {
	case OpConst:
		e.emitConstant(name, out, in.Value)
	case OpIota:
		def("iota dim = %d : %s", in.Dims[0], to)
	case OpAxisIndex:
		e.emitAxisIndex(name, in.Axes[0])
	case OpConvert:
		def("convert %s : %s", args[0], signature)
	case OpCompare:
		def("compare %s, %s, %s, %s : %s", in.Cmp, args[0], args[1], comparisonType(e.typeOf(in.Args[0]).DType), signature)
	case OpSelect:
		def("select %s : %s, %s", strings.Join(args, ", "), types[0], to)
	case OpBroadcast:
		def("broadcast_in_dim %s, dims = %s : %s", args[0], intsText(in.Dims), signature)
	case OpReshape:
		def("reshape %s : %s", args[0], signature)
	case OpTranspose:
		def("transpose %s, dims = %s : %s", args[0], intsText(in.Dims), signature)
	case OpSlice:
		def("slice %s [%s] : %s", args[0], rangesText(in.Lo, in.Hi), signature)
	case OpPad:
		fill := e.emitScalar(out.DType, in.Value)
		def("pad %s, %s, low = %s, high = %s, interior = %s : (%s, %s) -> %s",
			args[0], fill, intsText(in.Lo), intsText(in.Hi), intsText(make([]int, len(in.Lo))), types[0], mlirType(Type{DType: out.DType}), to)
	case OpConcat:
		def("concatenate %s, dim = %d : %s", strings.Join(args, ", "), in.Dims[0], signature)
	case OpDynSlice:
		starts, startTypes := e.emitStarts(args[1], in.Dims[0], len(out.Shape))
		def("dynamic_slice %s, %s, sizes = %s : (%s, %s) -> %s", args[0], starts, intsText(out.Shape), types[0], startTypes, to)
	case OpDynUpdate:
		starts, startTypes := e.emitStarts(args[2], in.Dims[0], len(out.Shape))
		def("dynamic_update_slice %s, %s, %s : (%s, %s, %s) -> %s", args[0], args[1], starts, types[0], types[1], startTypes, to)
	case OpTake:
		e.emitGather(in, name, args, signature)
	case OpReduce:
		e.emitReduce(in, name, args[0])
	case OpKernel:
		e.emitCustomCall(in, name, strings.Join(args, ", "), signature)
	case OpDot, OpConv:
		e.emitContraction(in, name, args, types)
	default:
		e.emitCollective(in, name, args[0], signature)
	}
}

func (e *emitter) emitScalar(d dtype.DType, v float64) string {
	return e.writeTemp("stablehlo.constant dense<%s> : %s", literalText(d, v), mlirType(Type{DType: d}))
}

func (e *emitter) emitConstant(name string, t Type, v float64) {
	if len(t.Shape) == 0 {
		e.writeLine("%s = stablehlo.constant dense<%s> : %s", name, literalText(t.DType, v), mlirType(t))
		return
	}
	e.writeLine("%s = stablehlo.broadcast_in_dim %s, dims = [] : (%s) -> %s", name, e.emitScalar(t.DType, v), mlirType(Type{DType: t.DType}), mlirType(t))
}

// emitAxisIndex is (replica_id / stride) % size: positions are row-major.
func (e *emitter) emitAxisIndex(name, axis string) {
	const u32 = "tensor<ui32>"
	id := e.writeTemp("stablehlo.replica_id : %s", u32)
	if s := e.p.Mesh.Stride(axis); s > 1 {
		id = e.writeTemp("stablehlo.divide %s, %s : %s", id, e.emitScalar(dtype.U32, float64(s)), u32)
	}
	id = e.writeTemp("stablehlo.remainder %s, %s : %s", id, e.emitScalar(dtype.U32, float64(e.p.Mesh.Size(axis))), u32)
	e.writeLine("%s = stablehlo.convert %s : (%s) -> tensor<i32>", name, id, u32)
}

// emitStarts are the start indices of a dynamic slice: start along dim, 0 elsewhere.
func (e *emitter) emitStarts(start string, dim, rank int) (operands, types string) {
	zero := ""
	if rank > 1 {
		zero = e.emitScalar(dtype.I32, 0)
	}
	os, ts := make([]string, rank), make([]string, rank)
	for d := range os {
		os[d], ts[d] = zero, "tensor<i32>"
	}
	os[dim] = start
	return strings.Join(os, ", "), strings.Join(ts, ", ")
}

// emitGather writes a gather of slices that are whole along every dim but one.
func (e *emitter) emitGather(in *Instr, name string, args []string, signature string) {
	d := in.Dims[0]
	sizes, places := cloneInts(e.typeOf(in.Args[0]).Shape), len(e.typeOf(in.Args[1]).Shape)
	sizes[d] = 1
	var kept []int // the result's dims that are the operand's
	for i := range sizes {
		switch {
		case i < d:
			kept = append(kept, i)
		case i > d:
			kept = append(kept, i-1+places)
		}
	}
	e.writeLine(`%s = "stablehlo.gather"(%s) <{dimension_numbers = #stablehlo.gather<offset_dims = %s, collapsed_slice_dims = [%d], start_index_map = [%d], index_vector_dim = %d>, `+
		`indices_are_sorted = false, slice_sizes = array<i64: %s>}> : %s`,
		name, strings.Join(args, ", "), intsText(kept), d, d, places, strings.Trim(intsText(sizes), "[]"), signature)
}

// emitContraction writes a dot or a convolution. A compiler refuses a result narrower than
// the operands, so such a one is rounded by an operation of its own.
func (e *emitter) emitContraction(in *Instr, name string, args, types []string) {
	operands, to := e.typeOf(in.Args[0]).DType, e.typeOf(in.Out[0])
	sum := to
	if operands.Size() > to.DType.Size() {
		sum.DType = operands
	}
	var call string
	if in.Op == OpConv {
		call = fmt.Sprintf("convolution(%s, %s)%s", args[0], args[1], convAttributes(in, operands))
	} else {
		call = fmt.Sprintf("dot_general %s, %s%s", args[0], args[1], dotAttributes(in.Dot, operands))
	}
	format, a := "stablehlo.%s : (%s, %s) -> %s", []any{call, types[0], types[1], mlirType(sum)}
	if sum.DType == to.DType {
		e.writeLine("%s = %s", name, fmt.Sprintf(format, a...))
		return
	}
	wide := e.writeTemp(format, a...)
	e.writeLine("%s = stablehlo.convert %s : (%s) -> %s", name, wide, mlirType(sum), mlirType(to))
}

// emitCustomCall writes a custom call. Its operands' layouts are said: a compiler that is
// free to choose gives the kernel transposed ones.
func (e *emitter) emitCustomCall(in *Instr, name, args, signature string) {
	layout := func(id ID) string {
		rank := len(e.typeOf(id).Shape)
		dims := make([]int, rank)
		for i := range dims {
			dims[i] = rank - 1 - i
		}
		return fmt.Sprintf("dense<%s> : tensor<%dxindex>", intsText(dims), rank)
	}
	layouts := make([]string, len(in.Args))
	for i, a := range in.Args {
		layouts[i] = layout(a)
	}
	e.writeLine("%s = stablehlo.custom_call @%s(%s) {backend_config = %s, operand_layouts = [%s], result_layouts = [%s]} : %s",
		name, in.Kernel.Call, args, quoteString(in.Kernel.Config()), strings.Join(layouts, ", "), layout(in.Out[0]), signature)
}

var reducers = map[Reduction]string{Sum: "add", Maximum: "maximum"}

func (e *emitter) emitReduce(in *Instr, name, arg string) {
	from, to := e.typeOf(in.Args[0]), e.typeOf(in.Out[0])
	if !sumsInF32(in, to.DType) {
		e.emitReduceOp(in, name, arg, from, to)
		return
	}
	wideFrom, wideTo := Type{dtype.F32, from.Shape}, Type{dtype.F32, to.Shape}
	wide := e.writeTemp("stablehlo.convert %s : (%s) -> %s", arg, mlirType(from), mlirType(wideFrom))
	sum := "%t" + strconv.Itoa(e.temps)
	e.temps++
	e.emitReduceOp(in, sum, wide, wideFrom, wideTo)
	e.writeLine("%s = stablehlo.convert %s : (%s) -> %s", name, sum, mlirType(wideTo), mlirType(to))
}

func (e *emitter) emitReduceOp(in *Instr, name, arg string, from, to Type) {
	init := e.emitScalar(to.DType, reductionIdentity(in.Reduction, to.DType))
	e.writeLine("%s = stablehlo.reduce(%s init: %s) applies stablehlo.%s across dimensions = %s : (%s, %s) -> %s",
		name, arg, init, reducers[in.Reduction], intsText(in.Dims), mlirType(from), mlirType(Type{DType: to.DType}), mlirType(to))
}

// sumsInF32 reports whether an OpReduce runs in f32 though its value is narrower.
func sumsInF32(in *Instr, d dtype.DType) bool {
	return in.Reduction == Sum && (d == dtype.BF16 || d == dtype.F16)
}

// reductionIdentity is what a reduction of nothing gives.
func reductionIdentity(r Reduction, d dtype.DType) float64 {
	switch {
	case r == Sum:
		return 0
	case d.IsFloat():
		return math.Inf(-1)
	}
	lo, _ := intRange(d)
	return lo
}

// intRange is the range of an integer type or Bool.
func intRange(d dtype.DType) (lo, hi float64) {
	bits := 8 * d.Size()
	switch d {
	case dtype.Bool:
		return 0, 1
	case dtype.U8, dtype.U16, dtype.U32, dtype.U64:
		return 0, math.Ldexp(1, bits) - 1
	}
	return -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) - 1
}

func (e *emitter) emitCollective(in *Instr, name, arg, signature string) {
	e.writeLine("// over %s: %s", strings.Join(in.Axes, "+"), oneLine(in.Reason))
	call := func(op, attributes string) {
		e.writeLine(`%s = "stablehlo.%s"(%s) <{%s}> : %s`, name, op, arg, attributes, signature)
	}
	groups := "replica_groups = " + groupText(in.Groups)
	switch in.Op {
	case OpAllGather:
		call("all_gather", fmt.Sprintf("all_gather_dim = %d : i64, %s", in.Dims[0], groups))
	case OpAllToAll:
		call("all_to_all", fmt.Sprintf("concat_dimension = %d : i64, %s, split_count = %d : i64, split_dimension = %d : i64",
			in.Dims[1], groups, len(in.Groups[0]), in.Dims[0]))
	case OpPermute:
		call("collective_permute", "source_target_pairs = "+pairText(in.Pairs))
	case OpReduceScatter:
		e.emitReducingCollective(in, name, "reduce_scatter", arg, fmt.Sprintf("%s, scatter_dimension = %d : i64", groups, in.Dims[0]), signature)
	case OpAllReduce:
		e.emitReducingCollective(in, name, "all_reduce", arg, groups, signature)
	default:
		panic("spmd: no StableHLO for " + string(in.Op))
	}
}

// emitReducingCollective writes a collective with the region that joins two elements.
func (e *emitter) emitReducingCollective(in *Instr, name, op, arg, attributes, signature string) {
	t := mlirType(Type{DType: e.typeOf(in.Args[0]).DType})
	r := in.Reduction
	if r == "" {
		r = Sum
	}
	e.openBlock(`%s = "stablehlo.%s"(%s) <{%s}> ({`, name, op, arg, attributes)
	e.writeLine("^bb0(%%x: %s, %%y: %s):", t, t)
	e.writeLine("  %%z = stablehlo.%s %%x, %%y : %s", reducers[r], t)
	e.writeLine("  stablehlo.return %%z : %s", t)
	e.closeBlock("}) : " + signature)
}

// emitWhile writes a counted while. Its operands are the counter, the carried
// values, and the captured ones.
func (e *emitter) emitWhile(in *Instr, outer nameTable) {
	l := in.Loop
	k := strconv.Itoa(e.loops)
	e.loops++
	carry, again := e.splitCaptured(l)

	inner := nameTable{l.Index: "%i" + k}
	vars, types, returns := []string{"%i" + k}, []string{"tensor<i32>"}, []ID{}
	inits := []string{e.emitScalar(dtype.I32, 0)}
	add := func(id ID, name, init string, back ID) {
		inner[id] = name
		vars, types, inits = append(vars, name), append(types, mlirType(e.typeOf(id))), append(inits, init)
		returns = append(returns, back)
	}
	for i, param := range l.Params {
		add(param, ssaName(param), outer[in.Args[i]], l.Results[i])
	}
	for _, id := range carry {
		add(id, ssaName(id)+"_"+k, outer[id], id)
	}
	binds := make([]string, len(vars))
	for i := range vars {
		binds[i] = vars[i] + " = " + inits[i]
	}
	e.writeLine("%%w%s:%d = stablehlo.while(%s) : %s", k, len(vars), strings.Join(binds, ", "), strings.Join(types, ", "))
	e.openBlock("cond {")
	limit := e.emitScalar(dtype.I32, float64(l.Trips))
	more := e.writeTemp("stablehlo.compare LT, %s, %s, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>", vars[0], limit)
	e.writeLine("stablehlo.return %s : tensor<i1>", more)
	e.depth--
	e.openBlock("} do {")
	for _, id := range again {
		inner[id] = ssaName(id) + "_" + k
		e.emitInstr(e.defs[id], inner[id], inner)
	}
	e.emitBody(l.Body, inner)
	next := e.writeTemp("stablehlo.add %s, %s : tensor<i32>", vars[0], e.emitScalar(dtype.I32, 1))
	e.emitTerminator("stablehlo.return", append([]string{next}, inner.namesOf(returns)...), types)
	e.closeBlock("}")
	for i, out := range in.Out {
		outer[out] = fmt.Sprintf("%%w%s#%d", k, i+1)
	}
}

// splitCaptured are the values from outside that a loop's body uses, by ID: those it
// carries, and those that are made again inside.
func (e *emitter) splitCaptured(l *Loop) (carry, again []ID) {
	for _, id := range l.Captured() {
		if d := e.defs[id]; d != nil && (d.Op == OpConst || d.Op == OpIota) {
			again = append(again, id)
		} else {
			carry = append(carry, id)
		}
	}
	return carry, again
}

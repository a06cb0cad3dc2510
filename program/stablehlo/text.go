package stablehlo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/dtype"
	"weft/program"
)

// Text is the program as MLIR text: one function @main that every device
// of the mesh runs as one replica. There are no partitions and no partitioner,
// so the compiler decides nothing about traffic; replica ids are mesh
// positions. The text depends on the program alone, so every host of a cluster
// emits the same bytes.
//
// Rules that the text follows:
//
//  1. Collectives carry no channel handle. With one, StableHLO reads the groups
//     of an all-to-all or a permute as partition ids.
//  2. A loop is a while over a counter. Values of the surrounding code reach its
//     body as further carried operands that come back unchanged; constants and
//     iotas are made anew inside, which costs nothing and carries no buffer.
//  3. Every constant is a scalar; a larger one is a broadcast of it or an iota.
//  4. f32 and f64 contractions ask for the highest precision, where an
//     accelerator would use bf16 or TF32 passes; others take the default, and
//     sum in the result type.
//  5. Sums within a device of types narrower than f32 run in f32 and are rounded
//     once. Sums between devices have the type of the value.
//  6. A donated input names the output that is written into its memory:
//     tf.aliasing_output.
func Text(p *program.Program) string {
	e := &emitter{p: p, defs: map[program.ID]*program.Instr{}}
	p.Walk(func(in *program.Instr, _ int) {
		for _, o := range in.Out {
			e.defs[o] = in
		}
	})
	e.emitModule()
	return e.text.String()
}

// emitter writes one module. %v12 is value 12 of the program and %v12_3 the same value
// as loop 3 carries it; %i3 is the counter and %w3 the results of loop 3; %t5 is a value
// that the program does not have.
type emitter struct {
	p     *program.Program
	defs  map[program.ID]*program.Instr
	text  strings.Builder
	depth int
	temps int
	loops int
}

// nameTable has the names of the values that can be used at the current place. A loop
// body has a table of its own, because it cannot use the names from outside.
type nameTable map[program.ID]string

func (e *emitter) writeLine(format string, args ...any) {
	e.text.WriteString(strings.Repeat("  ", e.depth))
	fmt.Fprintf(&e.text, format, args...)
	e.text.WriteByte('\n')
}

func (e *emitter) openBlock(format string, args ...any) { e.writeLine(format, args...); e.depth++ }

func (e *emitter) closeBlock(text string) { e.depth--; e.writeLine("%s", text) }

// writeTemp writes an operation whose result is not a value of the program, and returns
// the name of the result.
func (e *emitter) writeTemp(format string, args ...any) string {
	name := "%t" + strconv.Itoa(e.temps)
	e.temps++
	e.writeLine("%s = %s", name, fmt.Sprintf(format, args...))
	return name
}

func (e *emitter) typeOf(id program.ID) program.Type { return e.p.Values[id] }

func (e *emitter) emitModule() {
	p := e.p
	e.openBlock("module @%s attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = %d : i32} {", symbolName(p.Name), p.Mesh.NumDevices())
	n := nameTable{}
	args := make([]string, len(p.Inputs))
	for i, in := range p.Inputs {
		n[in.Value] = ssaName(in.Value)
		args[i] = ssaName(in.Value) + ": " + mlirType(e.typeOf(in.Value))
	}
	results, outs := make([]string, len(p.Outputs)), make([]program.ID, len(p.Outputs))
	for k, out := range p.Outputs {
		outs[k], results[k] = out.Value, mlirType(e.typeOf(out.Value))
		if out.Donor >= 0 {
			args[out.Donor] += fmt.Sprintf(" {tf.aliasing_output = %d : i32}", k)
		}
	}
	for i, in := range p.Inputs {
		e.writeLine("// input %d is %q", i, program.OneLine(in.Name))
	}
	for k, out := range p.Outputs {
		e.writeLine("// output %d is %q", k, program.OneLine(out.Name))
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

func (e *emitter) emitBody(body []program.Instr, n nameTable) {
	for i := range body {
		in := &body[i]
		if in.Op == program.OpLoop {
			e.emitWhile(in, n)
			continue
		}
		name := ssaName(in.Out[0])
		e.emitInstr(in, name, n)
		n[in.Out[0]] = name
	}
}

func (n nameTable) namesOf(ids []program.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = n[id]
	}
	return out
}

// instrText is an instruction as its text is about to be written.
type instrText struct {
	*program.Instr
	hlo       string   // the operation's name in StableHLO
	name      string   // what the result is called
	args      []string // what the operands are called
	types     []string // of the operands
	out       program.Type
	to        string // the result's type
	signature string // (operands' types) -> result's type
}

// joinedArgs is the operands with commas between.
func (c *instrText) joinedArgs() string { return strings.Join(c.args, ", ") }

// emitters has the function that writes an instruction of each operation. An
// elementwise operation without one is written by emitElementwise, a loop by emitWhile.
var emitters = map[program.Op]func(e *emitter, c *instrText){
	program.OpConst:     func(e *emitter, c *instrText) { e.emitConstant(c.name, c.out, c.Value) },
	program.OpIota:      func(e *emitter, c *instrText) { e.defineResult(c, "dim = %d : %s", c.Dims[0], c.to) },
	program.OpAxisIndex: func(e *emitter, c *instrText) { e.emitAxisIndex(c.name, c.Axes[0]) },

	program.OpConvert: (*emitter).emitPlain,
	program.OpCompare: func(e *emitter, c *instrText) {
		e.defineResult(c, "%s, %s, %s : %s", c.Cmp, c.joinedArgs(), comparisonType(e.typeOf(c.Args[0]).DType), c.signature)
	},
	program.OpSelect: func(e *emitter, c *instrText) { e.defineResult(c, "%s : %s, %s", c.joinedArgs(), c.types[0], c.to) },

	program.OpBroadcast: (*emitter).emitWithDims,
	program.OpReshape:   (*emitter).emitPlain,
	program.OpTranspose: (*emitter).emitWithDims,
	program.OpSlice: func(e *emitter, c *instrText) {
		e.defineResult(c, "%s [%s] : %s", c.args[0], program.RangesText(c.Lo, c.Hi), c.signature)
	},
	program.OpPad: (*emitter).emitPad,
	program.OpConcat: func(e *emitter, c *instrText) {
		e.defineResult(c, "%s, dim = %d : %s", c.joinedArgs(), c.Dims[0], c.signature)
	},
	program.OpDynSlice:  (*emitter).emitDynSlice,
	program.OpDynUpdate: (*emitter).emitDynUpdate,
	program.OpTake:      (*emitter).emitGather,

	program.OpReduce: (*emitter).emitReduce,
	program.OpDot: func(e *emitter, c *instrText) {
		operands := e.typeOf(c.Args[0]).DType
		e.emitContraction(c, fmt.Sprintf("%s %s%s", c.hlo, c.joinedArgs(), dotAttributes(c.Dot, operands)))
	},
	program.OpConv: func(e *emitter, c *instrText) {
		operands := e.typeOf(c.Args[0]).DType
		e.emitContraction(c, fmt.Sprintf("%s(%s)%s", c.hlo, c.joinedArgs(), convAttributes(c.Instr, operands)))
	},
	program.OpKernel: (*emitter).emitCustomCall,

	program.OpAllReduce: func(e *emitter, c *instrText) { e.emitReducingCollective(c, groupsAttribute(c.Instr)) },
	program.OpReduceScatter: func(e *emitter, c *instrText) {
		e.emitReducingCollective(c, fmt.Sprintf("%s, scatter_dimension = %d : i64", groupsAttribute(c.Instr), c.Dims[0]))
	},
	program.OpAllGather: func(e *emitter, c *instrText) {
		e.emitCollective(c, fmt.Sprintf("all_gather_dim = %d : i64, %s", c.Dims[0], groupsAttribute(c.Instr)))
	},
	program.OpAllToAll: func(e *emitter, c *instrText) {
		e.emitCollective(c, fmt.Sprintf("concat_dimension = %d : i64, %s, split_count = %d : i64, split_dimension = %d : i64",
			c.Dims[1], groupsAttribute(c.Instr), len(c.Groups[0]), c.Dims[0]))
	},
	program.OpPermute: func(e *emitter, c *instrText) { e.emitCollective(c, "source_target_pairs = "+pairText(c.Pairs)) },
}

// emitInstr writes one instruction that is no loop.
func (e *emitter) emitInstr(in *program.Instr, name string, n nameTable) {
	c := &instrText{Instr: in, hlo: in.Op.Facts().StableHLO, name: name, args: n.namesOf(in.Args), types: make([]string, len(in.Args)), out: e.typeOf(in.Out[0])}
	for i, a := range in.Args {
		c.types[i] = mlirType(e.typeOf(a))
	}
	c.to = mlirType(c.out)
	c.signature = fmt.Sprintf("(%s) -> %s", strings.Join(c.types, ", "), c.to)
	if in.IsCollective() {
		e.writeLine("// over %s: %s", strings.Join(in.Axes, "+"), program.OneLine(in.Reason))
	}
	emit := emitters[in.Op]
	if emit == nil {
		emit = (*emitter).emitElementwise
	}
	emit(e, c)
}

// defineResult writes "name = stablehlo.op ...", with what format makes of a after the operation.
func (e *emitter) defineResult(c *instrText, format string, a ...any) {
	e.writeLine("%s = stablehlo.%s %s", c.name, c.hlo, fmt.Sprintf(format, a...))
}

// emitElementwise writes an operation whose operands and result have one type.
func (e *emitter) emitElementwise(c *instrText) { e.defineResult(c, "%s : %s", c.joinedArgs(), c.to) }

// emitPlain writes an operation that has operands alone.
func (e *emitter) emitPlain(c *instrText) { e.defineResult(c, "%s : %s", c.joinedArgs(), c.signature) }

// emitWithDims writes an operation of one operand and a list of dims.
func (e *emitter) emitWithDims(c *instrText) {
	e.defineResult(c, "%s, dims = %s : %s", c.args[0], program.IntsText(c.Dims), c.signature)
}

func (e *emitter) emitPad(c *instrText) {
	fill := e.emitScalar(c.out.DType, c.Value)
	e.defineResult(c, "%s, %s, low = %s, high = %s, interior = %s : (%s, %s) -> %s",
		c.args[0], fill, program.IntsText(c.Lo), program.IntsText(c.Hi), program.IntsText(make([]int, len(c.Lo))), c.types[0], mlirType(program.Type{DType: c.out.DType}), c.to)
}

func (e *emitter) emitDynSlice(c *instrText) {
	starts, startTypes := e.emitStarts(c.args[1], c.Dims[0], len(c.out.Shape))
	e.defineResult(c, "%s, %s, sizes = %s : (%s, %s) -> %s", c.args[0], starts, program.IntsText(c.out.Shape), c.types[0], startTypes, c.to)
}

func (e *emitter) emitDynUpdate(c *instrText) {
	starts, startTypes := e.emitStarts(c.args[2], c.Dims[0], len(c.out.Shape))
	e.defineResult(c, "%s, %s, %s : (%s, %s, %s) -> %s", c.args[0], c.args[1], starts, c.types[0], c.types[1], startTypes, c.to)
}

func (e *emitter) emitScalar(d dtype.DType, v float64) string {
	return e.writeTemp("stablehlo.constant dense<%s> : %s", literalText(d, v), mlirType(program.Type{DType: d}))
}

func (e *emitter) emitConstant(name string, t program.Type, v float64) {
	if len(t.Shape) == 0 {
		e.writeLine("%s = stablehlo.constant dense<%s> : %s", name, literalText(t.DType, v), mlirType(t))
		return
	}
	e.writeLine("%s = stablehlo.broadcast_in_dim %s, dims = [] : (%s) -> %s", name, e.emitScalar(t.DType, v), mlirType(program.Type{DType: t.DType}), mlirType(t))
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

// emitStarts gives the start indices of a dynamic slice: start along dim, 0 along the others.
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
func (e *emitter) emitGather(c *instrText) {
	d := c.Dims[0]
	sizes, places := slices.Clone(e.typeOf(c.Args[0]).Shape), len(e.typeOf(c.Args[1]).Shape)
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
	numbers := fmt.Sprintf("#stablehlo.gather<offset_dims = %s, collapsed_slice_dims = [%d], start_index_map = [%d], index_vector_dim = %d>", program.IntsText(kept), d, d, places)
	e.writeLine(`%s = "stablehlo.%s"(%s) <{dimension_numbers = %s, indices_are_sorted = false, slice_sizes = array<i64: %s>}> : %s`,
		c.name, c.hlo, c.joinedArgs(), numbers, strings.Trim(program.IntsText(sizes), "[]"), c.signature)
}

// emitContraction writes a dot or a convolution. A compiler refuses a result narrower than
// the operands, so such a one is rounded by an operation of its own.
func (e *emitter) emitContraction(c *instrText, call string) {
	operands, sum := e.typeOf(c.Args[0]).DType, c.out
	if operands.Size() > c.out.DType.Size() {
		sum.DType = operands
	}
	format, a := "stablehlo.%s : (%s, %s) -> %s", []any{call, c.types[0], c.types[1], mlirType(sum)}
	if sum.DType == c.out.DType {
		e.writeLine("%s = %s", c.name, fmt.Sprintf(format, a...))
		return
	}
	wide := e.writeTemp(format, a...)
	e.writeLine("%s = stablehlo.convert %s : (%s) -> %s", c.name, wide, mlirType(sum), c.to)
}

// emitCustomCall writes the call of a kernel. It gives the layouts of the operands in
// memory, because a compiler that is free to choose hands the kernel transposed ones.
func (e *emitter) emitCustomCall(c *instrText) {
	layout := func(id program.ID) string {
		rank := len(e.typeOf(id).Shape)
		dims := make([]int, rank)
		for i := range dims {
			dims[i] = rank - 1 - i
		}
		return fmt.Sprintf("dense<%s> : tensor<%dxindex>", program.IntsText(dims), rank)
	}
	layouts := make([]string, len(c.Args))
	for i, a := range c.Args {
		layouts[i] = layout(a)
	}
	config := "backend_config = " + quoteString(c.Kernel.Config())
	switch { // version 4 of the call is the typed one, whose configuration is a dictionary
	case c.Kernel.Typed:
		config = "api_version = 4 : i32, backend_config = {" + c.Kernel.Config() + "}"
	case c.Kernel.Foreign:
		config = fmt.Sprintf("api_version = 4 : i32, backend_config = {%s = %s}", program.ForeignConfig, quoteString(c.Kernel.Config()))
	}
	if c.Kernel.InPlace {
		config += ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]"
	}
	e.writeLine("%s = stablehlo.%s @%s(%s) {%s, operand_layouts = [%s], result_layouts = [%s]} : %s",
		c.name, c.hlo, c.Kernel.Call, c.joinedArgs(), config, strings.Join(layouts, ", "), layout(c.Out[0]), c.signature)
}

// joiningName is the name in StableHLO of the operation that joins two elements.
func joiningName(r program.Reduction) string { return r.Op().Facts().StableHLO }

func (e *emitter) emitReduce(c *instrText) {
	from := e.typeOf(c.Args[0])
	if !sumsInF32(c.Instr, c.out.DType) {
		e.emitReduceOp(c, c.name, c.args[0], from, c.out)
		return
	}
	wideFrom, wideTo := program.Type{DType: dtype.F32, Shape: from.Shape}, program.Type{DType: dtype.F32, Shape: c.out.Shape}
	wide := e.writeTemp("stablehlo.convert %s : (%s) -> %s", c.args[0], mlirType(from), mlirType(wideFrom))
	sum := "%t" + strconv.Itoa(e.temps)
	e.temps++
	e.emitReduceOp(c, sum, wide, wideFrom, wideTo)
	e.writeLine("%s = stablehlo.convert %s : (%s) -> %s", c.name, sum, mlirType(wideTo), c.to)
}

func (e *emitter) emitReduceOp(c *instrText, name, arg string, from, to program.Type) {
	init := e.emitScalar(to.DType, reductionIdentity(c.Reduction, to.DType))
	e.writeLine("%s = stablehlo.%s(%s init: %s) applies stablehlo.%s across dimensions = %s : (%s, %s) -> %s",
		name, c.hlo, arg, init, joiningName(c.Reduction), program.IntsText(c.Dims), mlirType(from), mlirType(program.Type{DType: to.DType}), mlirType(to))
}

// sumsInF32 reports whether an OpReduce runs in f32 though its value is narrower.
func sumsInF32(in *program.Instr, d dtype.DType) bool {
	return in.Reduction == program.Sum && (d == dtype.BF16 || d == dtype.F16)
}

// reductionIdentity is the result of a reduction of no elements.
func reductionIdentity(r program.Reduction, d dtype.DType) float64 {
	switch {
	case r == program.Sum:
		return 0
	case d.IsFloat():
		return math.Inf(-1)
	}
	lo, _ := program.IntRange(d)
	return lo
}

func groupsAttribute(in *program.Instr) string { return "replica_groups = " + groupText(in.Groups) }

func (e *emitter) emitCollective(c *instrText, attributes string) {
	e.writeLine(`%s = "stablehlo.%s"(%s) <{%s}> : %s`, c.name, c.hlo, c.args[0], attributes, c.signature)
}

// emitReducingCollective writes a collective with the region that joins two elements.
func (e *emitter) emitReducingCollective(c *instrText, attributes string) {
	t := mlirType(program.Type{DType: e.typeOf(c.Args[0]).DType})
	r := c.Reduction
	if r == "" {
		r = program.Sum
	}
	e.openBlock(`%s = "stablehlo.%s"(%s) <{%s}> ({`, c.name, c.hlo, c.args[0], attributes)
	e.writeLine("^bb0(%%x: %s, %%y: %s):", t, t)
	e.writeLine("  %%z = stablehlo.%s %%x, %%y : %s", joiningName(r), t)
	e.writeLine("  stablehlo.return %%z : %s", t)
	e.closeBlock("}) : " + c.signature)
}

// emitWhile writes a counted while. Its operands are the counter, the carried
// values, and the captured ones.
func (e *emitter) emitWhile(in *program.Instr, outer nameTable) {
	l := in.Loop
	k := strconv.Itoa(e.loops)
	e.loops++
	carry, again := e.splitCaptured(l)

	inner := nameTable{l.Index: "%i" + k}
	vars, types, returns := []string{"%i" + k}, []string{"tensor<i32>"}, []program.ID{}
	inits := []string{e.emitScalar(dtype.I32, 0)}
	add := func(id program.ID, name, init string, back program.ID) {
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

// splitCaptured lists, by ID, the values from outside that a loop's body uses: those that
// the loop carries, and those that are made again inside it.
func (e *emitter) splitCaptured(l *program.Loop) (carry, again []program.ID) {
	for _, id := range l.Captured() {
		if d := e.defs[id]; d != nil && d.Op.Facts().MadeInLoops {
			again = append(again, id)
		} else {
			carry = append(carry, id)
		}
	}
	return carry, again
}

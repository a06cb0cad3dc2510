package spmd

import (
	"fmt"
	"math"
	"slices"

	"weft/dtype"
	"weft/fault"
)

// ErrMalformed is a program that breaks a rule every program keeps.
var ErrMalformed = fault.NewKind("malformed-program")

// Malformed are the fields of ErrMalformed.
type Malformed struct {
	Program string `json:"program"`
	Op      Op     `json:"op"`    // of the instruction; empty for a port
	Value   ID     `json:"value"` // its first result, or the port's value; -1 without
}

// Validate checks everything a program promises and reports every violation:
//
//  1. A value is defined once, before its uses, and used only in the body that
//     defines it and in the loops inside that body.
//  2. Types and shapes follow from the operands by the rules of the operation.
//  3. The groups of a collective are the mesh's groups along its axes, so they
//     partition the mesh; a permute has a position at most once on either side.
//  4. Every collective says why it is there.
//  5. Outputs are defined outside of loops; an input is taken over once, by an
//     output of its own type and shape.
//
// What Build returns keeps these rules where the builder's methods made it; the
// check is for tests and for programs that were changed by hand.
func Validate(p *Program) error {
	v := &validator{p: p, defined: make([]bool, len(p.Values))}
	v.ports()
	v.body(p.Body, v.inputs())
	return v.errs.Err()
}

type validator struct {
	p       *Program
	defined []bool // anywhere so far
	errs    fault.List
	at      *Instr
}

func (v *validator) bad(format string, args ...any) {
	f := Malformed{Program: v.p.Name, Value: -1}
	where := ""
	if v.at != nil {
		f.Op = v.at.Op
		if len(v.at.Out) > 0 {
			f.Value = v.at.Out[0]
		}
		where = fmt.Sprintf("%s %s: ", valueNames(v.at.Out), v.at.Op)
	}
	v.errs.Add(fault.New(ErrMalformed, f, "program %s: %s%s", v.p.Name, where, fmt.Sprintf(format, args...)))
}

// scope holds the values in sight.
type scope struct {
	outer *scope
	ids   map[ID]bool
}

func (s *scope) has(id ID) bool {
	for ; s != nil; s = s.outer {
		if s.ids[id] {
			return true
		}
	}
	return false
}

func (v *validator) define(s *scope, id ID) bool {
	switch {
	case id < 0 || int(id) >= len(v.p.Values):
		v.bad("value %s has no type", valueName(id))
		return false
	case v.defined[id]:
		v.bad("value %s is defined twice", valueName(id))
		return false
	}
	v.defined[id] = true
	s.ids[id] = true
	return true
}

func (v *validator) inputs() *scope {
	s := &scope{ids: map[ID]bool{}}
	for _, in := range v.p.Inputs {
		v.define(s, in.Value)
	}
	return s
}

func (v *validator) ports() {
	donors := map[int]bool{}
	check := func(kind string, port Port) {
		if int(port.Value) < 0 || int(port.Value) >= len(v.p.Values) {
			v.bad("%s %q is no value", kind, port.Name)
			return
		}
		if t := v.p.Values[port.Value]; t.DType != port.DType || !sameShape(t.Shape, port.Local) {
			v.bad("%s %q says %s and is %s", kind, port.Name, Type{port.DType, port.Local}, t)
		}
	}
	for _, in := range v.p.Inputs {
		check("input", in)
	}
	for _, out := range v.p.Outputs {
		check("output", out)
		if out.Donor < 0 {
			continue
		}
		if out.Donor >= len(v.p.Inputs) || donors[out.Donor] {
			v.bad("output %q takes over input %d, which is not there or taken already", out.Name, out.Donor)
			continue
		}
		donors[out.Donor] = true
		if in := v.p.Inputs[out.Donor]; in.DType != out.DType || !sameShape(in.Local, out.Local) {
			v.bad("output %q, %s, takes over input %q, %s", out.Name, Type{out.DType, out.Local}, in.Name, Type{in.DType, in.Local})
		}
	}
}

func (v *validator) body(body []Instr, s *scope) {
	for i := range body {
		in := &body[i]
		v.at = in
		if v.uses(s, in.Args) {
			switch in.Op {
			case OpLoop:
				v.loop(in, s)
			case OpKernel:
				v.kernel(in)
			default:
				v.instr(in)
			}
		}
		v.at = in
		for _, o := range in.Out {
			v.define(s, o)
		}
	}
	v.at = nil
	if s.outer != nil {
		return
	}
	for _, out := range v.p.Outputs {
		if !s.has(out.Value) {
			v.bad("output %q is %s, which is not defined outside of loops", out.Name, valueName(out.Value))
		}
	}
}

func (v *validator) uses(s *scope, ids []ID) bool {
	ok := true
	for _, id := range ids {
		if !s.has(id) {
			v.bad("uses %s, which is not in sight there", valueName(id))
			ok = false
		}
	}
	return ok
}

func (v *validator) loop(in *Instr, outer *scope) {
	l := in.Loop
	if l == nil || l.Trips < 1 || len(in.Args) != len(l.Params) || len(in.Args) != len(l.Results) || len(in.Args) != len(in.Out) {
		v.bad("a loop runs at least once and has as many parameters, results and outputs as operands")
		return
	}
	s := &scope{outer, map[ID]bool{}}
	ok := v.define(s, l.Index)
	if ok && !v.is(l.Index, dtype.I32, []int{}) {
		v.bad("index %s is %s, not i32[]", valueName(l.Index), v.p.Values[l.Index])
	}
	for _, id := range l.Params {
		ok = v.define(s, id) && ok
	}
	v.body(l.Body, s)
	v.at = in
	if !v.uses(s, l.Results) || !ok {
		return
	}
	for i, a := range in.Args {
		t := v.p.Values[a]
		for _, id := range []ID{l.Params[i], l.Results[i], in.Out[i]} {
			if !v.is(id, t.DType, t.Shape) {
				v.bad("carries %s as %s, but %s is %s", valueName(a), t, valueName(id), v.p.Values[id])
			}
		}
	}
}

// kernel checks that what a kernel means uses its parameters alone, and gives its result.
func (v *validator) kernel(in *Instr) {
	k := in.Kernel
	if k == nil || len(k.Params) != len(in.Args) || len(in.Out) != 1 || int(in.Out[0]) >= len(v.p.Values) {
		v.bad("a kernel has a parameter for each operand, and one result")
		return
	}
	s := &scope{&scope{}, map[ID]bool{}}
	for i, id := range k.Params {
		if t := v.p.Values[in.Args[i]]; !v.define(s, id) || !v.is(id, t.DType, t.Shape) {
			v.bad("takes %s as %s, which is another type", t, valueName(id))
			return
		}
	}
	v.body(k.Body, s)
	v.at = in
	if out := v.p.Values[in.Out[0]]; v.uses(s, []ID{k.Result}) && !v.is(k.Result, out.DType, out.Shape) {
		v.bad("result is declared %s and means %s", out, v.p.Values[k.Result])
	}
	k.Walk(func(inner *Instr, _ int) {
		if inner.IsCollective() || inner.Op == OpAxisIndex {
			v.bad("means a %s, which looks beyond the device", inner.Op)
		}
	})
}

func (v *validator) is(id ID, d dtype.DType, shape []int) bool {
	return int(id) < len(v.p.Values) && v.p.Values[id].DType == d && sameShape(v.p.Values[id].Shape, shape)
}

// arity is how many operands an operation takes; -1 is one or more.
var arity = map[Op]int{
	OpConst: 0, OpIota: 0, OpAxisIndex: 0,
	OpConvert: 1, OpNeg: 1, OpAbs: 1, OpExp: 1, OpLog: 1, OpSqrt: 1, OpRsqrt: 1, OpTanh: 1, OpSigmoid: 1, OpSin: 1, OpCos: 1, OpNot: 1,
	OpAdd: 2, OpSub: 2, OpMul: 2, OpDiv: 2, OpMax: 2, OpMin: 2, OpRem: 2, OpAnd: 2, OpOr: 2, OpCompare: 2, OpSelect: 3,
	OpBroadcast: 1, OpReshape: 1, OpTranspose: 1, OpSlice: 1, OpPad: 1, OpConcat: -1, OpDynSlice: 2, OpDynUpdate: 3, OpTake: 2,
	OpReduce: 1, OpDot: 2, OpConv: 2,
	OpAllReduce: 1, OpAllGather: 1, OpReduceScatter: 1, OpAllToAll: 1, OpPermute: 1,
}

// instr checks one instruction whose operands are in sight.
func (v *validator) instr(in *Instr) {
	want, known := arity[in.Op]
	switch {
	case !known:
		v.bad("no such operation")
		return
	case len(in.Out) != 1 || in.Out[0] < 0 || int(in.Out[0]) >= len(v.p.Values):
		v.bad("has one result")
		return
	case len(in.Args) != want && want >= 0 || len(in.Args) == 0 && want < 0:
		v.bad("has %d operands", len(in.Args))
		return
	}
	args := make([]Type, len(in.Args))
	for i, a := range in.Args {
		args[i] = v.p.Values[a]
	}
	out := v.p.Values[in.Out[0]]
	v.elements(in, args, out)
	got, err := v.result(in, args, out)
	switch {
	case err != nil:
		v.bad("%v", err)
	case got.DType != out.DType || !sameShape(got.Shape, out.Shape):
		v.bad("result is declared %s and comes out as %s", out, got)
	}
	if in.IsCollective() {
		v.collective(in)
	}
}

// moves are the operations that look at no element's value, so that any type will do.
var moves = []Op{OpConst, OpConvert, OpSelect, OpBroadcast, OpReshape, OpTranspose, OpSlice, OpPad, OpConcat,
	OpDynSlice, OpDynUpdate, OpTake, OpAllGather, OpAllToAll, OpPermute}

// elements checks that an operation is one for the type of its elements.
func (v *validator) elements(in *Instr, args []Type, out Type) {
	d := out.DType
	if len(args) > 0 {
		d = args[0].DType
	}
	integral := d == dtype.Bool || !d.IsFloat()
	switch in.Op {
	case OpExp, OpLog, OpSqrt, OpRsqrt, OpTanh, OpSigmoid, OpSin, OpCos, OpConv:
		if integral {
			v.bad("is for floats, not %s", d)
		}
	case OpAnd, OpOr, OpNot:
		if !integral {
			v.bad("is for integers and i1, not %s", d)
		}
	case OpNeg, OpAbs, OpSub, OpMul, OpDiv, OpRem, OpDot, OpReduceScatter, OpIota, OpAdd:
		if d == dtype.Bool {
			v.bad("is not for i1")
		}
	case OpReduce, OpAllReduce:
		if d == dtype.Bool && in.Reduction != Maximum {
			v.bad("of i1 is %q alone", Maximum)
		}
	}
	if (d == dtype.F8E4M3 || d == dtype.F8E5M2) && !slices.Contains(moves, in.Op) {
		v.bad("of %s; 8-bit floats are for storage: convert first", d)
	}
}

// result is the type that follows from the operands. out, the declared type, is
// taken where the operation leaves it free.
func (v *validator) result(in *Instr, args []Type, out Type) (Type, error) {
	switch in.Op {
	case OpConst:
		return out, constant(in.Value, out.DType)
	case OpIota:
		return out, dimsIn(in.Dims, 1, out)
	case OpAxisIndex:
		if len(in.Axes) != 1 || !v.p.Mesh.Has(in.Axes[0]) {
			return out, fmt.Errorf("axes %v; one axis of the mesh is needed", in.Axes)
		}
		return Type{dtype.I32, nil}, nil
	case OpConvert:
		return Type{out.DType, args[0].Shape}, nil
	case OpCompare:
		if !slices.Contains([]string{"EQ", "NE", "LT", "LE", "GT", "GE"}, in.Cmp) {
			return out, fmt.Errorf("comparison %q", in.Cmp)
		}
		return Type{dtype.Bool, args[0].Shape}, equal(args...)
	case OpSelect:
		if args[0].DType != dtype.Bool || !sameShape(args[0].Shape, args[1].Shape) {
			return out, fmt.Errorf("predicate %s for values %s", args[0], args[1])
		}
		return args[1], equal(args[1:]...)
	case OpBroadcast, OpReshape, OpTranspose, OpSlice, OpPad, OpConcat, OpDynSlice, OpDynUpdate:
		return shaped(in, args, out)
	case OpTake:
		return takes(in, args[0], args[1])
	case OpReduce:
		return reduced(in, args[0])
	case OpDot:
		if in.Dot == nil || args[0].DType != args[1].DType {
			return out, fmt.Errorf("operands %s and %s", args[0], args[1])
		}
		shape, err := dotShape(args[0].Shape, args[1].Shape, *in.Dot)
		return Type{out.DType, shape}, err
	case OpConv:
		if args[0].DType != args[1].DType || !out.DType.IsFloat() {
			return out, fmt.Errorf("operands %s and %s for %s", args[0], args[1], out)
		}
		shape, err := convShape(args[0].Shape, args[1].Shape, in.Lo, in.Hi)
		return Type{out.DType, shape}, err
	case OpAllReduce, OpAllGather, OpReduceScatter, OpAllToAll, OpPermute:
		return exchanged(in, args[0])
	}
	return args[0], equal(args...)
}

func equal(ts ...Type) error {
	for _, t := range ts[1:] {
		if t.DType != ts[0].DType || !sameShape(t.Shape, ts[0].Shape) {
			return fmt.Errorf("operands %s and %s differ", ts[0], t)
		}
	}
	return nil
}

func constant(x float64, d dtype.DType) error {
	if d.IsFloat() {
		return nil
	}
	lo, hi := intRange(d)
	if !(x >= lo && x <= hi) || x != math.Trunc(x) || d.Size() == 8 && x == hi { // 2^63-1 is no float64
		return fmt.Errorf("%g is no %s", x, d)
	}
	return nil
}

// dimsIn checks that dims are n distinct dims of t; n < 0 is any number.
func dimsIn(dims []int, n int, t Type) error {
	seen := map[int]bool{}
	for _, d := range dims {
		if d < 0 || d >= len(t.Shape) || seen[d] {
			return fmt.Errorf("dims %v of %s", dims, t)
		}
		seen[d] = true
	}
	if n >= 0 && len(dims) != n {
		return fmt.Errorf("dims %v; there should be %d", dims, n)
	}
	return nil
}

// shaped is result for the operations that move elements within a device.
func shaped(in *Instr, args []Type, out Type) (Type, error) {
	x := args[0]
	to := Type{x.DType, cloneInts(x.Shape)}
	misfit := fmt.Errorf("of %s does not give %s", x, out)
	switch in.Op {
	case OpBroadcast:
		if err := dimsIn(in.Dims, len(x.Shape), out); err != nil {
			return out, err
		}
		for i, d := range in.Dims {
			if x.Shape[i] != 1 && x.Shape[i] != out.Shape[d] || i > 0 && d <= in.Dims[i-1] {
				return out, misfit
			}
		}
		to.Shape = out.Shape
	case OpReshape:
		if x.Elements() != out.Elements() {
			return out, misfit
		}
		to.Shape = out.Shape
	case OpTranspose:
		if err := dimsIn(in.Dims, len(x.Shape), x); err != nil {
			return out, err
		}
		for i, d := range in.Dims {
			to.Shape[i] = x.Shape[d]
		}
	case OpSlice, OpPad:
		if len(in.Lo) != len(x.Shape) || len(in.Hi) != len(x.Shape) {
			return out, fmt.Errorf("bounds %v %v of %s", in.Lo, in.Hi, x)
		}
		for d := range to.Shape {
			lo, hi := in.Lo[d], in.Hi[d]
			if in.Op == OpPad {
				to.Shape[d] += lo + hi
			} else {
				to.Shape[d] = hi - lo
			}
			if lo < 0 || hi < 0 || in.Op == OpSlice && (lo > hi || hi > x.Shape[d]) {
				return out, fmt.Errorf("bounds %v %v of %s", in.Lo, in.Hi, x)
			}
		}
	default:
		return assembled(in, args)
	}
	return to, nil
}

// assembled is result for concat and the dynamic slices.
func assembled(in *Instr, args []Type) (Type, error) {
	x := args[0]
	to := Type{x.DType, cloneInts(x.Shape)}
	if err := dimsIn(in.Dims, 1, x); err != nil {
		return to, err
	}
	d := in.Dims[0]
	start := args[len(args)-1]
	if in.Op != OpConcat && (start.DType != dtype.I32 || len(start.Shape) != 0) {
		return to, fmt.Errorf("start is %s, not i32[]", start)
	}
	besides := func(a Type) bool { // a is x but for dim d
		b := Type{a.DType, cloneInts(a.Shape)}
		if len(b.Shape) == len(x.Shape) {
			b.Shape[d] = x.Shape[d]
		}
		return equal(x, b) == nil
	}
	switch in.Op {
	case OpConcat:
		for _, a := range args[1:] {
			if !besides(a) {
				return to, fmt.Errorf("of %s and %s along dim %d", x, a, d)
			}
			to.Shape[d] += a.Shape[d]
		}
	case OpDynSlice:
		if len(in.Hi) != 1 || in.Hi[0] < 0 || in.Hi[0] > x.Shape[d] {
			return to, fmt.Errorf("of %v elements of dim %d of %s", in.Hi, d, x)
		}
		to.Shape[d] = in.Hi[0]
	case OpDynUpdate:
		if !besides(args[1]) || args[1].Shape[d] > x.Shape[d] {
			return to, fmt.Errorf("of %s by %s along dim %d", x, args[1], d)
		}
	}
	return to, nil
}

// takes is result for OpTake.
func takes(in *Instr, x, ids Type) (Type, error) {
	if err := dimsIn(in.Dims, 1, x); err != nil {
		return x, err
	}
	d := in.Dims[0]
	if ids.DType != dtype.I32 || x.Shape[d] < 1 {
		return x, fmt.Errorf("of dim %d of %s by %s", d, x, ids)
	}
	return Type{x.DType, append(append(cloneInts(x.Shape[:d]), ids.Shape...), x.Shape[d+1:]...)}, nil
}

func reduced(in *Instr, x Type) (Type, error) {
	to := Type{x.DType, []int{}}
	if err := dimsIn(in.Dims, -1, x); err != nil {
		return to, err
	}
	if reducers[in.Reduction] == "" {
		return to, fmt.Errorf("reduction %q", in.Reduction)
	}
	for d, n := range x.Shape {
		if !slices.Contains(in.Dims, d) {
			to.Shape = append(to.Shape, n)
		}
	}
	return to, nil
}

// exchanged is result for the collectives.
func exchanged(in *Instr, x Type) (Type, error) {
	to := Type{x.DType, cloneInts(x.Shape)}
	n := 1
	if len(in.Groups) > 0 {
		n = max(1, len(in.Groups[0]))
	}
	part := func(d int) error {
		if to.Shape[d]%n != 0 {
			return fmt.Errorf("dim %d of %s does not divide into %d parts", d, x, n)
		}
		to.Shape[d] /= n
		return nil
	}
	switch in.Op {
	case OpAllReduce:
		if reducers[in.Reduction] == "" {
			return to, fmt.Errorf("reduction %q", in.Reduction)
		}
	case OpAllGather:
		if err := dimsIn(in.Dims, 1, x); err != nil {
			return to, err
		}
		to.Shape[in.Dims[0]] *= n
	case OpReduceScatter:
		if err := dimsIn(in.Dims, 1, x); err != nil {
			return to, err
		}
		return to, part(in.Dims[0])
	case OpAllToAll:
		if len(in.Dims) != 2 || dimsIn(in.Dims[:1], 1, x) != nil || dimsIn(in.Dims[1:], 1, x) != nil {
			return to, fmt.Errorf("dims %v of %s", in.Dims, x)
		}
		if err := part(in.Dims[0]); err != nil {
			return to, err
		}
		to.Shape[in.Dims[1]] *= n
	}
	return to, nil
}

// collective checks who takes part, and that the instruction says why.
func (v *validator) collective(in *Instr) {
	m := v.p.Mesh
	for _, a := range in.Axes {
		if !m.Has(a) {
			v.bad("axis %s is not in mesh %s", a, m)
		}
	}
	if oneLine(in.Reason) == "" {
		v.bad("gives no reason")
	}
	if in.Op != OpPermute {
		if want := m.Groups(in.Axes...); !slices.EqualFunc(in.Groups, want, slices.Equal[[]int]) {
			v.bad("has groups %v; along %v they are %v", in.Groups, in.Axes, want)
		}
		return
	}
	var from, to []int
	for _, pair := range in.Pairs {
		for _, pos := range pair {
			if pos < 0 || pos >= m.NumDevices() {
				v.bad("pair %v of a mesh of %d devices", pair, m.NumDevices())
			}
		}
		if slices.Contains(from, pair[0]) || slices.Contains(to, pair[1]) {
			v.bad("pair %v: a position sends once and receives once", pair)
		}
		from, to = append(from, pair[0]), append(to, pair[1])
	}
}

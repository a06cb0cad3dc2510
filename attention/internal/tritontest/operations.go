package tritontest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/x448/float16"

	"weft/tensor"
)

// value is what a name stands for: floats, or whole numbers, which are offsets in elements
// where it has an array.
type value struct {
	dims  []int
	elem  string
	float []float32
	whole []int64
	array *Array
}

// run is one program of the grid.
type run struct {
	arrays []*Array
	place  map[string]int
	values map[string]*value
}

// newValue makes a value of zeros of a type as the text writes it.
func newValue(typ string) (*value, error) {
	v := &value{elem: typ}
	if inner, ok := strings.CutPrefix(typ, "tensor<"); ok {
		inner = strings.TrimSuffix(inner, ">")
		for {
			n, rest, ok := strings.Cut(inner, "x")
			d, err := strconv.Atoi(n)
			if !ok || err != nil {
				break
			}
			if d&(d-1) != 0 {
				return nil, fmt.Errorf("type %s: no power of two", typ)
			}
			v.dims, inner = append(v.dims, d), rest
		}
		v.elem = inner
	}
	n := tensor.Elements(v.dims)
	switch {
	case v.elem == "f32" || v.elem == "bf16" || v.elem == "f16":
		v.float = make([]float32, n)
	case v.elem == "i32" || v.elem == "i64" || v.elem == "i1" || strings.HasPrefix(v.elem, "!tt.ptr<"):
		v.whole = make([]int64, n)
	default:
		return nil, fmt.Errorf("type %q", typ)
	}
	return v, nil
}

// Round rounds to an element type, to nearest even.
func Round(elem string, x float32) float32 {
	switch elem {
	case "bf16":
		return tensor.FromBF16(tensor.BF16(x))
	case "f16":
		return float16.Fromfloat32(x).Float32()
	}
	return x
}

// runBody runs operations and returns what the last one yields.
func (r *run) runBody(body []operation) ([]*value, error) {
	for i := range body {
		o := &body[i]
		args := make([]*value, len(o.args))
		for k, name := range o.args {
			if args[k] = r.values[name]; args[k] == nil {
				return nil, fmt.Errorf("line %d: %s is not defined", o.line, name)
			}
		}
		var err error
		switch o.name {
		case "tt.return":
			return nil, nil
		case "scf.yield", "tt.reduce.return":
			return args, nil
		case "scf.for":
			err = r.runLoop(o, args)
		case "tt.store":
			err = store(o, args)
		default:
			var out *value
			if out, err = r.evalOp(o, args); err == nil {
				r.values[o.outs[0]] = out
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", o.line, o.name, err)
		}
	}
	return nil, nil
}

// runLoop runs a loop and defines its results.
func (r *run) runLoop(o *operation, args []*value) error {
	at := make([]*value, len(o.begin))
	for i, name := range o.begin {
		if at[i] = r.values[name]; at[i] == nil {
			return fmt.Errorf("%s is not defined", name)
		}
	}
	for i := args[0].whole[0]; i < args[1].whole[0]; i += args[2].whole[0] {
		r.values[o.inner[0]] = &value{elem: "i32", whole: []int64{i}}
		for k, v := range at {
			r.values[o.inner[1+k]] = v
		}
		var err error
		if at, err = r.runBody(o.region); err != nil {
			return err
		}
		if len(at) != len(o.begin) {
			return fmt.Errorf("%d values of %d were handed on", len(at), len(o.begin))
		}
	}
	for k, v := range at {
		if err := sameType(v, o.types[k]); err != nil {
			return err
		}
		r.values[o.outs[k]] = v
	}
	return nil
}

// sameType compares a value with the type that the text gives it.
func sameType(v *value, typ string) error {
	want, err := newValue(typ)
	if err != nil {
		return err
	}
	if want.elem != v.elem || !slices.Equal(want.dims, v.dims) {
		return fmt.Errorf("a value of %s%v where the text says %s", v.elem, v.dims, typ)
	}
	return nil
}

// pointee is the type of what a pointer of that type points to.
func pointee(typ string) string {
	before, rest, _ := strings.Cut(typ, "!tt.ptr<")
	elem, after, _ := strings.Cut(rest, ">")
	return before + elem + after
}

// at finds the element that a pointer points to.
func (v *value) at(i int) (*float32, error) {
	if v.array == nil {
		return nil, fmt.Errorf("no pointer")
	}
	n := v.whole[i]
	if n < 0 || n >= int64(len(v.array.Data)) {
		return nil, fmt.Errorf("element %d of an array of %d", n, len(v.array.Data))
	}
	return &v.array.Data[n], nil
}

// store writes values to where pointers point, where the mask, if there is one, is true.
func store(o *operation, args []*value) error {
	if err := sameType(args[0], o.types[0]); err != nil {
		return err
	}
	if err := sameType(args[1], pointee(o.types[0])); err != nil {
		return err
	}
	for i := range args[0].whole {
		if len(args) > 2 && args[2].whole[i] == 0 {
			continue
		}
		to, err := args[0].at(i)
		if err != nil {
			return err
		}
		*to = args[1].float[i]
	}
	return nil
}

// load reads what pointers point to; with a mask, the third operand where it is false.
func load(out *value, args []*value) error {
	for i := range out.float {
		if len(args) > 1 && args[1].whole[i] == 0 {
			out.float[i] = args[2].float[i]
			continue
		}
		from, err := args[0].at(i)
		if err != nil {
			return err
		}
		out.float[i] = *from
	}
	return nil
}

// floatOps and wholeOps are the operations on two values, element by element.
var (
	floatOps = map[string]func(a, b float32) float32{
		"arith.addf": func(a, b float32) float32 { return a + b },
		"arith.subf": func(a, b float32) float32 { return a - b },
		"arith.mulf": func(a, b float32) float32 { return a * b },
		"arith.divf": func(a, b float32) float32 { return a / b },
		"arith.maxnumf": func(a, b float32) float32 {
			if a != a || b > a {
				return b
			}
			return a
		},
	}
	wholeOps = map[string]func(a, b int64) int64{
		"arith.addi":  func(a, b int64) int64 { return a + b },
		"arith.muli":  func(a, b int64) int64 { return a * b },
		"arith.divsi": func(a, b int64) int64 { return a / b },
		"arith.andi":  func(a, b int64) int64 { return a & b },
		"arith.subi":  func(a, b int64) int64 { return a - b },
		"arith.minsi": func(a, b int64) int64 { return min(a, b) },
		"arith.cmpi":  func(a, b int64) int64 { return map[bool]int64{true: 1}[a < b] },
	}
)

// resultType is the type that the text gives an operation's result.
func resultType(o *operation) (string, error) {
	if len(o.types) == 0 {
		return "", fmt.Errorf("no type")
	}
	last := o.types[len(o.types)-1]
	switch o.name {
	case "tt.load":
		return pointee(o.types[0]), nil
	case "tt.addptr":
		return o.types[0], nil
	case "arith.cmpi":
		if !strings.HasPrefix(o.attrs, "slt, ") {
			return "", fmt.Errorf("predicate in %q", o.attrs)
		}
		return strings.Replace(last, "i32", "i1", 1), nil
	}
	return last, nil
}

// operandTypes are the types that the text gives an operation's operands; nil where it gives none.
func operandTypes(o *operation) []string {
	switch {
	case floatOps[o.name] != nil, wholeOps[o.name] != nil:
		return []string{o.types[0], o.types[0]}
	case o.name == "arith.select":
		return []string{o.types[0], o.types[1], o.types[1]}
	case o.name == "tt.load":
		return o.types[:1]
	case o.name == "arith.constant", o.name == "tt.make_range", o.name == "tt.get_program_id":
		return nil
	}
	return o.types[:len(o.args)]
}

// evalOp computes the result of one operation.
func (r *run) evalOp(o *operation, args []*value) (*value, error) {
	typ, err := resultType(o)
	if err != nil {
		return nil, err
	}
	for i, t := range operandTypes(o) {
		if err := sameType(args[i], t); err != nil {
			return nil, err
		}
	}
	out, err := newValue(typ)
	if err != nil {
		return nil, err
	}
	if f := floatOps[o.name]; f != nil {
		for i := range out.float {
			out.float[i] = Round(out.elem, f(args[0].float[i], args[1].float[i]))
		}
		return out, nil
	}
	if f := wholeOps[o.name]; f != nil {
		for i := range out.whole {
			if out.whole[i] = f(args[0].whole[i], args[1].whole[i]); out.elem == "i32" && out.whole[i] != int64(int32(out.whole[i])) {
				return nil, fmt.Errorf("%d does not fit into 32 bits", out.whole[i])
			}
		}
		return out, nil
	}
	switch o.name {
	case "arith.constant":
		return out, fillConstant(out, o.attrs)
	case "math.exp2":
		for i := range out.float {
			out.float[i] = float32(math.Exp2(float64(args[0].float[i])))
		}
	case "arith.truncf":
		for i := range out.float {
			out.float[i] = Round(out.elem, args[0].float[i])
		}
	case "arith.extsi":
		copy(out.whole, args[0].whole)
	case "arith.select":
		for i := range out.float {
			if out.float[i] = args[2].float[i]; args[0].whole[i] != 0 {
				out.float[i] = args[1].float[i]
			}
		}
	case "tt.get_program_id":
		out.whole[0] = int64(r.place[strings.TrimSpace(o.attrs)])
	case "tt.make_range":
		if o.attrs != fmt.Sprintf("end = %d : i32, start = 0 : i32", out.dims[0]) {
			return nil, fmt.Errorf("%q for %d elements", o.attrs, out.dims[0])
		}
		for i := range out.whole {
			out.whole[i] = int64(i)
		}
	case "tt.addptr":
		out.array = args[0].array
		for i := range out.whole {
			out.whole[i] = args[0].whole[i] + args[1].whole[i]
		}
	case "tt.load":
		return out, load(out, args)
	case "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.trans":
		return out, rearrange(o, out, args[0])
	case "tt.dot":
		multiplyAdd(out, args[0], args[1], args[2])
	case "tt.reduce":
		return out, r.reduceRows(o, out, args[0])
	default:
		return nil, fmt.Errorf("no such operation")
	}
	return out, nil
}

// rearrange fills out with elements of a: repeated, or of a matrix whose dims are exchanged.
func rearrange(o *operation, out, a *value) error {
	from := func(i int) int { return 0 } // splat
	switch o.name {
	case "tt.expand_dims":
		axis, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(o.attrs, "axis = "), " : i32"))
		if err != nil || axis < 0 || axis > len(a.dims) || !slices.Equal(slices.Insert(slices.Clone(a.dims), axis, 1), out.dims) {
			return fmt.Errorf("%v to %v, %q", a.dims, out.dims, o.attrs)
		}
		from = func(i int) int { return i }
	case "tt.broadcast":
		if len(a.dims) != 2 || len(out.dims) != 2 || a.dims[0] != 1 && a.dims[0] != out.dims[0] || a.dims[1] != 1 && a.dims[1] != out.dims[1] {
			return fmt.Errorf("%v to %v", a.dims, out.dims)
		}
		from = func(i int) int {
			return min(i/out.dims[1], a.dims[0]-1)*a.dims[1] + min(i%out.dims[1], a.dims[1]-1)
		}
	case "tt.trans":
		if o.attrs != "order = array<i32: 1, 0>" || a.dims[0] != out.dims[1] || a.dims[1] != out.dims[0] {
			return fmt.Errorf("%v to %v, %q", a.dims, out.dims, o.attrs)
		}
		from = func(i int) int { return i%out.dims[1]*a.dims[1] + i/out.dims[1] }
	default:
		if len(a.dims) != 0 {
			return fmt.Errorf("%v is no single number", a.dims)
		}
	}
	out.array = a.array
	for i := range out.whole {
		out.whole[i] = a.whole[from(i)]
	}
	for i := range out.float {
		out.float[i] = a.float[from(i)]
	}
	return nil
}

// reduceRows joins the elements of each row by the operation in the region.
func (r *run) reduceRows(o *operation, out, a *value) error {
	if len(o.region) != 2 || floatOps[o.region[0].name] == nil || !slices.Equal(o.region[0].args, o.inner) || !slices.Equal(o.region[1].args, o.region[0].outs) {
		return fmt.Errorf("a region that joins no two numbers")
	}
	join, n := floatOps[o.region[0].name], a.dims[1]
	for row := range out.float {
		x := a.float[row*n]
		for _, y := range a.float[row*n+1 : (row+1)*n] {
			x = join(x, y)
		}
		out.float[row] = x
	}
	return nil
}

// multiplyAdd computes a b + c. It sums in f64 and rounds once, because the order in which a
// GPU adds is not known.
func multiplyAdd(out, a, b, c *value) {
	n, inner := out.dims[1], a.dims[1]
	row := make([]float64, n)
	for i := range out.dims[0] {
		for j := range row {
			row[j] = float64(c.float[i*n+j])
		}
		for k, x := range a.float[i*inner : (i+1)*inner] {
			for j, y := range b.float[k*n : (k+1)*n] {
				row[j] += float64(x) * float64(y)
			}
		}
		for j, x := range row {
			out.float[i*n+j] = float32(x)
		}
	}
}

// fillConstant fills out with the number in "N" or "dense<N>".
func fillConstant(out *value, attrs string) error {
	number := strings.TrimSuffix(strings.TrimPrefix(attrs, "dense<"), ">")
	var x float64
	var err error
	if bits, ok := strings.CutPrefix(number, "0x"); ok {
		var n uint64
		n, err = strconv.ParseUint(bits, 16, 32)
		x = float64(math.Float32frombits(uint32(n)))
	} else {
		x, err = strconv.ParseFloat(number, 64)
	}
	if err != nil {
		return err
	}
	for i := range out.float {
		out.float[i] = Round(out.elem, float32(x))
	}
	for i := range out.whole {
		out.whole[i] = int64(x)
	}
	return nil
}

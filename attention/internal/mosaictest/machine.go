// Package mosaictest runs the text of an attention kernel in plain Go, for tests. It
// executes the very text that libtpu compiles.
package mosaictest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/tensor"
)

// Machine runs the text of a kernel: every operation that the kernel uses, as the dialects
// define it, in f32 and bf16 with one rounding each. What lies beyond the end of an operand
// in a window, and scratch memory that nothing wrote, is NaN, so that using it shows.
type Machine struct {
	grid    [4]int
	main    *textFunction
	windows []window
	at      map[string]*textFunction
	args    []string // of main's memrefs: windows, then scratch
	mem     map[string]*Vec
}

// window is a block of an operand: the function that says where it starts, and its shape.
type window struct {
	transform string
	bounds    []int
}

// textFunction is a function of the module: its arguments and its operations.
type textFunction struct {
	args []string
	body []operation
}

// operation is one operation as it stands in the text.
type operation struct {
	out, name, attrs, to string
	args                 []string
	regions              [2][]operation
}

// Vec is a value: F has the elements of f32 and bf16, I those of i32, i1 and index. Without
// dims it is a scalar.
type Vec struct {
	Elem string
	Dims []int
	F    []float32
	I    []int32
}

// NewVec makes a value of zeros.
func NewVec(elem string, dims ...int) *Vec {
	v := &Vec{Elem: elem, Dims: dims}
	n := tensor.Elements(dims)
	if elem == "f32" || elem == "bf16" {
		v.F = make([]float32, n)
	} else {
		v.I = make([]int32, n)
	}
	return v
}

var (
	opLine    = regexp.MustCompile(`^(?:(%\w+) = )?"stable_mosaic\.([\w.]+)"\(([^)]*)\)(?: \{(.*)\})? : \(.*\) -> (.*)$`)
	forLine   = regexp.MustCompile(`^"stable_mosaic\.scf\.for"\(([^)]*)\) \(\{$`)
	blockArgs = regexp.MustCompile(`%(\w+): (i32|memref<[^>]*>>|memref<[^>]*>)`)
	typeText  = regexp.MustCompile(`^(?:vector|memref)<([\dx]*x)(\w+)`)
	intsText  = regexp.MustCompile(`-?\d+`)
	bounds    = regexp.MustCompile(`iteration_bounds = array<i64: ([\d, ]+)>`)
	windowRe  = regexp.MustCompile(`transform_indices = @(\w+), window_bounds = array<i64: ([\d, ]+)>`)
	symbol    = regexp.MustCompile(`sym_name = "(\w+)"`)
)

// parseInts returns the whole numbers of a text, in order.
func parseInts(s string) []int {
	var out []int
	for _, t := range intsText.FindAllString(s, -1) {
		n, _ := strconv.Atoi(t)
		out = append(out, n)
	}
	return out
}

// zeroOfType makes a zero value of a type as MLIR writes it.
func zeroOfType(s string) (*Vec, error) {
	if m := typeText.FindStringSubmatch(s); m != nil {
		return NewVec(m[2], parseInts(strings.ReplaceAll(m[1], "x", " "))...), nil
	}
	switch s {
	case "i32", "i1", "index", "f32":
		return NewVec(s), nil
	}
	return nil, fmt.Errorf("type %q", s)
}

// Load parses the text of a module. Error: a line that it does not know.
func Load(text string) (*Machine, error) {
	m := &Machine{at: map[string]*textFunction{}, mem: map[string]*Vec{}}
	lines := []string{}
	for l := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(l))
	}
	at := 1 // after "module"
	for at < len(lines) && lines[at] != "}" {
		if lines[at] != `"stable_mosaic.func.func"() ({` {
			return nil, fmt.Errorf("line %d: %q where a function should be", at+1, lines[at])
		}
		f := &textFunction{}
		header := lines[at+1]
		at += 2
		var err error
		if f.body, err = parseBody(lines, &at); err != nil {
			return nil, err
		}
		tail := lines[at]
		at++
		name := symbol.FindStringSubmatch(tail)
		if name == nil {
			return nil, fmt.Errorf("line %d: a function without a name", at)
		}
		for _, a := range blockArgs.FindAllStringSubmatch(header, -1) {
			f.args = append(f.args, "%"+a[1])
			if strings.HasPrefix(a[2], "memref") {
				v, err := zeroOfType(a[2])
				if err != nil {
					return nil, err
				}
				for i := range v.F {
					v.F[i] = float32(math.NaN())
				}
				m.mem["%"+a[1]] = v
				m.args = append(m.args, "%"+a[1])
			}
		}
		if name[1] != "main" {
			m.at[name[1]] = f
			continue
		}
		m.main = f
		copy(m.grid[:], parseInts(bounds.FindStringSubmatch(tail)[1]))
		for _, w := range windowRe.FindAllStringSubmatch(tail, -1) {
			m.windows = append(m.windows, window{w[1], parseInts(w[2])})
		}
	}
	return m, nil
}

// parseBody reads operations up to the line that closes their region.
func parseBody(lines []string, at *int) ([]operation, error) {
	var body []operation
	for ; *at < len(lines); *at++ {
		l := lines[*at]
		if strings.HasPrefix(l, "}") {
			return body, nil
		}
		if cond, ok := strings.CutPrefix(l, `"stable_mosaic.scf.if"(`); ok {
			o := operation{name: "scf.if", args: []string{strings.TrimSuffix(cond, ") ({")}}
			for r := range o.regions {
				*at++
				var err error
				if o.regions[r], err = parseBody(lines, at); err != nil {
					return nil, err
				}
			}
			body = append(body, o)
			continue
		}
		if m := forLine.FindStringSubmatch(l); m != nil {
			o := operation{name: "scf.for", args: strings.Split(m[1], ", ")}
			*at++
			o.out, _, _ = strings.Cut(strings.TrimPrefix(lines[*at], "^bb0("), ":")
			*at++
			var err error
			if o.regions[0], err = parseBody(lines, at); err != nil {
				return nil, err
			}
			body = append(body, o)
			continue
		}
		m := opLine.FindStringSubmatch(l)
		if m == nil {
			return nil, fmt.Errorf("line %d: %q", *at+1, l)
		}
		o := operation{out: m[1], name: m[2], attrs: m[4], to: m[5]}
		if m[3] != "" {
			o.args = strings.Split(m[3], ", ")
		}
		body = append(body, o)
	}
	return nil, fmt.Errorf("the text ends inside a region")
}

// Run computes the result, of shape out, of operands in the order of the kernel's windows.
// Errors: another number of operands, and operations that the machine does not know.
func (m *Machine) Run(operands []*Vec, out []int) (*Vec, error) {
	result := NewVec("bf16", out...)
	all := append(slices.Clone(operands), result)
	if len(all) != len(m.windows) {
		return nil, fmt.Errorf("%d operands for %d windows", len(all), len(m.windows))
	}
	for b := range m.grid[0] {
		for h := range m.grid[1] {
			for i := range m.grid[2] {
				for j := range m.grid[3] {
					if err := m.runGridStep([4]int{b, h, i, j}, all); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return result, nil
}

// runGridStep runs one step of the grid: it copies the windows in, runs the kernel's body, and
// copies the result's window out.
func (m *Machine) runGridStep(at [4]int, all []*Vec) error {
	env := func() map[string]*Vec {
		e := map[string]*Vec{}
		for k, name := range []string{"%b", "%h", "%i", "%j"} {
			e[name] = &Vec{Elem: "i32", I: []int32{int32(at[k])}}
		}
		return e
	}
	place := make([][]int, len(all))
	for w, win := range m.windows {
		f := m.at[win.transform]
		e := env()
		ret, err := m.runBody(f.body, e)
		if err != nil {
			return err
		}
		for d, name := range ret {
			place[w] = append(place[w], int(e[name].I[0])*win.bounds[d])
		}
		if w < len(all)-1 {
			m.copyWindow(m.mem[m.args[w]], all[w], place[w], true)
		}
	}
	if _, err := m.runBody(m.main.body, env()); err != nil {
		return err
	}
	last := len(all) - 1
	m.copyWindow(m.mem[m.args[last]], all[last], place[last], false)
	return nil
}

// copyWindow copies a window in or out. Where the operand ends, the window gets NaN.
func (m *Machine) copyWindow(win, whole *Vec, at []int, in bool) {
	for x := range win.Dims[0] {
		for y := range win.Dims[1] {
			for z := range win.Dims[2] {
				w := (x*win.Dims[1]+y)*win.Dims[2] + z
				p := [3]int{at[0] + x, at[1] + y, at[2] + z}
				inside := p[0] < whole.Dims[0] && p[1] < whole.Dims[1] && p[2] < whole.Dims[2]
				o := (p[0]*whole.Dims[1]+p[1])*whole.Dims[2] + p[2]
				switch {
				case in && inside:
					win.F[w] = whole.F[o]
				case in:
					win.F[w] = float32(math.NaN())
				case inside:
					whole.F[o] = win.F[w]
				}
			}
		}
	}
}

// runBody runs operations and returns the names that the last one returns or yields.
func (m *Machine) runBody(body []operation, e map[string]*Vec) ([]string, error) {
	for i := range body {
		o := &body[i]
		switch o.name {
		case "func.return", "scf.yield":
			return o.args, nil
		case "scf.if":
			r := 0
			if e[o.args[0]].I[0] == 0 {
				r = 1
			}
			if _, err := m.runBody(o.regions[r], e); err != nil {
				return nil, err
			}
			continue
		case "scf.for":
			for i := e[o.args[0]].I[0]; i < e[o.args[1]].I[0]; i += e[o.args[2]].I[0] {
				e[o.out] = &Vec{Elem: "i32", I: []int32{i}}
				if _, err := m.runBody(o.regions[0], e); err != nil {
					return nil, err
				}
			}
			continue
		case "tpu.vector_store":
			m.copyPart(o, e, e[o.args[0]], m.mem[o.args[1]], o.args[2:], false)
			continue
		}
		v, err := m.evalOp(o, e)
		if err != nil {
			return nil, fmt.Errorf("%s = %s: %w", o.out, o.name, err)
		}
		e[o.out] = v
	}
	return nil, nil
}

// copyPart copies between a vector and the part of a memref that starts at the indices.
func (m *Machine) copyPart(o *operation, e map[string]*Vec, v, mem *Vec, index []string, in bool) {
	d := len(mem.Dims)
	rows, cols := v.Dims[d-2], v.Dims[d-1]
	r0, c0 := int(e[index[d-2]].I[0]), int(e[index[d-1]].I[0])
	for r := range rows {
		a := v.F[r*cols : (r+1)*cols]
		b := mem.F[(r0+r)*mem.Dims[d-1]+c0:][:cols]
		if in {
			copy(a, b)
		} else {
			copy(b, a)
		}
	}
}

// evalOp computes the result of one operation.
func (m *Machine) evalOp(o *operation, e map[string]*Vec) (*Vec, error) {
	out, err := zeroOfType(o.to)
	if err != nil {
		return nil, err
	}
	args := make([]*Vec, 0, len(o.args))
	for _, a := range o.args {
		if e[a] != nil {
			args = append(args, e[a])
		} else if m.mem[a] == nil {
			return nil, fmt.Errorf("%s is not defined", a)
		}
	}
	cols := 1
	if len(out.Dims) > 0 {
		cols = out.Dims[len(out.Dims)-1]
	}
	floats := func(f func(a, b float32) float32) {
		for i := range out.F {
			b := float32(0)
			if len(args) > 1 {
				b = args[1].F[i]
			}
			out.F[i] = f(args[0].F[i], b)
		}
	}
	whole := func(f func(a, b int32) int32) {
		for i := range out.I {
			out.I[i] = f(args[0].I[i], args[1].I[i])
		}
	}
	switch o.name {
	case "arith.constant":
		return out, fillConstant(out, o.attrs)
	case "arith.addf":
		floats(func(a, b float32) float32 { return a + b })
	case "arith.subf":
		floats(func(a, b float32) float32 { return a - b })
	case "arith.mulf":
		floats(func(a, b float32) float32 { return a * b })
	case "arith.divf":
		floats(func(a, b float32) float32 { return a / b })
	case "arith.maximumf":
		floats(func(a, b float32) float32 { return max(a, b) }) // a NaN stays one
	case "math.exp2":
		floats(func(a, _ float32) float32 { return float32(math.Exp2(float64(a))) })
	case "arith.extf":
		copy(out.F, args[0].F)
	case "arith.truncf":
		floats(func(a, _ float32) float32 { return Round(a) })
	case "arith.andi":
		whole(func(a, b int32) int32 { return a & b })
	case "arith.ori":
		whole(func(a, b int32) int32 { return a | b })
	case "arith.subi":
		whole(func(a, b int32) int32 { return a - b })
	case "arith.addi":
		whole(func(a, b int32) int32 { return a + b })
	case "arith.muli":
		whole(func(a, b int32) int32 { return a * b })
	case "arith.index_cast":
		copy(out.I, args[0].I)
	case "tpu.assume_multiple":
		if n := parseInts(o.attrs)[0]; int(args[0].I[0])%n != 0 {
			return nil, fmt.Errorf("%d is no multiple of %d", args[0].I[0], n)
		}
		copy(out.I, args[0].I)
	case "arith.divsi":
		whole(func(a, b int32) int32 { return a / b })
	case "arith.cmpi":
		p := parseInts(o.attrs)[0]
		whole(func(a, b int32) int32 {
			if p == 0 && a == b || p == 2 && a < b || p == 5 && a >= b {
				return 1
			}
			return 0
		})
	case "arith.select":
		for i := range out.F {
			if args[0].I[i] != 0 {
				out.F[i] = args[1].F[i]
			} else {
				out.F[i] = args[2].F[i]
			}
		}
		for i := range out.I {
			out.I[i] = args[2-min(1, args[0].I[i])].I[i]
		}
	case "tpu.iota":
		along := parseInts(o.attrs)[1] // after the 32 of "array<i32: d>"
		for i := range out.I {
			out.I[i] = int32([]int{i / cols, i % cols}[along])
		}
	case "vector.load":
		m.copyPart(o, e, out, m.mem[o.args[0]], o.args[1:], true)
	case "vector.shape_cast":
		copy(out.F, args[0].F)
	case "tpu.dynamic_rotate":
		by := int(args[1].I[0])
		for i := range out.F {
			out.F[i-i%cols+(i+by)%cols] = args[0].F[i]
		}
	case "tpu.bitcast":
		// A word has a row of bf16 in its low half and the next in its high half.
		for i := range out.F {
			w := uint32(args[0].I[i/(2*cols)*cols+i%cols])
			out.F[i] = math.Float32frombits(w >> (i / cols % 2 * 16) << 16)
		}
		for i := range out.I {
			at := i/cols*2*cols + i%cols
			out.I[i] = int32(math.Float32bits(args[0].F[at])>>16 | math.Float32bits(args[0].F[at+cols])&0xFFFF0000)
		}
	case "vector.broadcast":
		from := args[0]
		if len(from.Dims) == 0 {
			for i := range out.I {
				out.I[i] = from.I[0]
			}
			break
		}
		for r := range out.Dims[0] {
			for c := range cols {
				out.F[r*cols+c] = from.F[min(r, from.Dims[0]-1)*from.Dims[1]+min(c, from.Dims[1]-1)]
			}
		}
	case "vector.extract_strided_slice":
		c0 := parseInts(o.attrs)[1]
		for r := range out.Dims[0] {
			copy(out.F[r*cols:(r+1)*cols], args[0].F[r*args[0].Dims[1]+c0:])
		}
	case "tpu.concatenate":
		if parseInts(o.attrs)[0] == 0 {
			at := 0
			for _, a := range args {
				at += copy(out.F[at:], a.F)
			}
			break
		}
		c0 := 0
		for _, a := range args {
			n := a.Dims[1]
			for r := range out.Dims[0] {
				copy(out.F[r*cols+c0:][:n], a.F[r*n:])
			}
			c0 += n
		}
	case "vector.multi_reduction":
		n := args[0].Dims[1]
		for r := range out.F {
			x := args[1].F[r]
			for _, y := range args[0].F[r*n : (r+1)*n] {
				if strings.Contains(o.attrs, "maximumf") {
					x = max(x, y)
				} else {
					x += y
				}
			}
			out.F[r] = x
		}
	case "tpu.matmul":
		multiplyAdd(out, args[0], args[1], args[2], strings.Contains(o.attrs, "<[1], [1]"))
	default:
		return nil, fmt.Errorf("no such operation")
	}
	return out, nil
}

// multiplyAdd computes a b + c, or a b^T + c. It sums in f64 and rounds once, because the
// order in which a TPU adds is not known.
func multiplyAdd(out, a, b, c *Vec, transposed bool) {
	n, inner := out.Dims[1], a.Dims[1]
	row := make([]float64, n)
	for r := range out.Dims[0] {
		for x := range row {
			row[x] = float64(c.F[r*n+x])
		}
		x := a.F[r*inner : (r+1)*inner]
		if transposed {
			for col := range n {
				y := b.F[col*inner : (col+1)*inner]
				s := 0.0
				for k := range x {
					s += float64(x[k]) * float64(y[k])
				}
				row[col] += s
			}
		} else {
			for k := range x {
				y := b.F[k*n : (k+1)*n]
				for col := range y {
					row[col] += float64(x[k]) * float64(y[col])
				}
			}
		}
		for col := range row {
			out.F[r*n+col] = float32(row[col])
		}
	}
}

// fillConstant fills out with the number in "value = dense<N> : type" or "value = N : type".
func fillConstant(out *Vec, attrs string) error {
	_, rest, _ := strings.Cut(attrs, "value = ")
	number, _, _ := strings.Cut(rest, " : ")
	number = strings.TrimSuffix(strings.TrimPrefix(number, "dense<"), ">")
	var x float64
	if bits, ok := strings.CutPrefix(number, "0x"); ok {
		n, err := strconv.ParseUint(bits, 16, 32)
		if err != nil {
			return err
		}
		x = float64(math.Float32frombits(uint32(n)))
	} else {
		var err error
		if x, err = strconv.ParseFloat(number, 64); err != nil {
			return err
		}
	}
	for i := range out.F {
		out.F[i] = float32(x)
	}
	for i := range out.I {
		out.I[i] = int32(x)
	}
	return nil
}

// Round rounds to bf16, to nearest even.
func Round(x float32) float32 { return tensor.FromBF16(tensor.BF16(x)) }

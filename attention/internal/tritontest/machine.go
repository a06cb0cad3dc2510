// Package tritontest runs the text of a GPU attention kernel in plain Go, for tests. It
// executes the very text that XLA compiles.
package tritontest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Machine runs the text of a kernel: every operation that the kernel uses, as the dialects
// define it, in f32, bf16 and f16 with one rounding each. An access outside of an array is an error,
// and what lies where a load's mask is false is not read.
type Machine struct {
	// Name is the function's.
	Name   string
	params []param
	body   []operation
}

type param struct{ name, elem string }

// operation is one line of the text, or several where it has a region.
type operation struct {
	line   int
	outs   []string // one, or those of a loop
	name   string
	args   []string
	attrs  string   // what stands between operands and types
	types  []string // all types of the line, in order
	region []operation
	inner  []string // the region's arguments: of a loop the index first
	begin  []string // of a loop: what its values begin with
}

// Array is an operand or a result in memory: f32, bf16 or f16 as f32. The kernel's results
// are written into it.
type Array struct {
	Elem string
	Data []float32
}

var (
	functionLine = regexp.MustCompile(`^tt\.func public @(\w+)\((.*)\) attributes \{noinline = false\} \{$`)
	paramText    = regexp.MustCompile(`^(%\w+): !tt\.ptr<(\w+)> \{tt\.divisibility = 16 : i32\}$`)
	loopLine     = regexp.MustCompile(`^(%\w+):(\d+) = scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+) iter_args\((.*)\) -> \((.*)\)  : i32 \{$`)
	reduceLine   = regexp.MustCompile(`^(%\w+) = "tt\.reduce"\((%[\w#]+)\) <\{axis = 1 : i32\}> \(\{$`)
	reduceEnd    = regexp.MustCompile(`^\}\) : \((.*)\) -> (.*)$`)
	plainLine    = regexp.MustCompile(`^(?:(%\w+) = )?([a-z0-9_.]+)(?: (.*))?$`)
	operandText  = regexp.MustCompile(`%\w+(?:#\d+)?`)
	typeText     = regexp.MustCompile(`tensor<[\dx]*(?:!tt\.ptr<\w+>|[a-z]\w+)>|!tt\.ptr<\w+>|\b[if]\d+\b|\bbf16\b`)
)

// Load parses the text of a module. Error: a line that it does not know.
func Load(text string) (*Machine, error) {
	var lines []string
	for l := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(l))
	}
	if len(lines) < 3 || lines[0] != "module {" {
		return nil, fmt.Errorf("the text does not begin with a module")
	}
	f := functionLine.FindStringSubmatch(lines[1])
	if f == nil {
		return nil, fmt.Errorf("line 2: %q where a function should be", lines[1])
	}
	m := &Machine{Name: f[1]}
	for _, text := range strings.Split(f[2], ", ") {
		p := paramText.FindStringSubmatch(text)
		if p == nil {
			return nil, fmt.Errorf("line 2: parameter %q", text)
		}
		m.params = append(m.params, param{p[1], p[2]})
	}
	at := 2
	var err error
	if m.body, err = parseBody(lines, &at); err != nil {
		return nil, err
	}
	if last := m.body[len(m.body)-1]; last.name != "tt.return" {
		return nil, fmt.Errorf("the function ends with %s", last.name)
	}
	if rest := lines[at+1:]; !slices.Equal(rest, []string{"}"}) {
		return nil, fmt.Errorf("%q behind the function", rest)
	}
	return m, nil
}

// parseBody reads operations up to the line that closes their region, where at then is.
func parseBody(lines []string, at *int) ([]operation, error) {
	var body []operation
	for ; *at < len(lines); *at++ {
		l := lines[*at]
		if strings.HasPrefix(l, "}") {
			return body, nil
		}
		o, err := parseOperation(lines, at)
		if err != nil {
			return nil, err
		}
		body = append(body, o)
	}
	return nil, fmt.Errorf("the text ends inside a region")
}

// parseOperation reads the operation that begins at a line, and moves at to its last one.
func parseOperation(lines []string, at *int) (operation, error) {
	l := lines[*at]
	o := operation{line: *at + 1}
	var err error
	if m := loopLine.FindStringSubmatch(l); m != nil {
		n, _ := strconv.Atoi(m[2])
		o.name, o.args, o.inner, o.types = "scf.for", m[4:7], []string{m[3]}, typeText.FindAllString(m[8], -1)
		for i := range n {
			o.outs = append(o.outs, m[1]+"#"+strconv.Itoa(i))
		}
		for _, pair := range strings.Split(m[7], ", ") {
			inside, outside, _ := strings.Cut(pair, " = ")
			o.inner, o.begin = append(o.inner, inside), append(o.begin, outside)
		}
		if len(o.begin) != n || len(o.types) != n {
			return o, fmt.Errorf("line %d: %d values, %d of %d types", o.line, n, len(o.begin), len(o.types))
		}
		*at++
		o.region, err = parseBody(lines, at)
		return o, err
	}
	if m := reduceLine.FindStringSubmatch(l); m != nil {
		o.name, o.outs, o.args = "tt.reduce", m[1:2], m[2:3]
		*at++
		o.inner = operandText.FindAllString(lines[*at], -1)
		*at++
		if o.region, err = parseBody(lines, at); err != nil {
			return o, err
		}
		end := reduceEnd.FindStringSubmatch(lines[*at])
		if end == nil || len(o.inner) != 2 {
			return o, fmt.Errorf("line %d: %q", *at+1, lines[*at])
		}
		o.types = end[1:3]
		return o, nil
	}
	m := plainLine.FindStringSubmatch(l)
	if m == nil {
		return o, fmt.Errorf("line %d: %q", o.line, l)
	}
	if m[1] != "" {
		o.outs = m[1:2]
	}
	o.name = m[2]
	operands, types, _ := strings.Cut(m[3], " : ")
	if strings.HasPrefix(operands, "{") || strings.Contains(operands, " {") { // attributes have types of their own
		head, rest, _ := strings.Cut(m[3], "{")
		inside, tail, _ := strings.Cut(rest, "}")
		operands, o.attrs = head, inside
		_, types, _ = strings.Cut(tail, " : ")
	} else {
		o.attrs = operands
	}
	o.args, o.types = operandText.FindAllString(operands, -1), typeText.FindAllString(types, -1)
	return o, nil
}

// Params are the names of the function's parameters, in order.
func (m *Machine) Params() []string {
	var names []string
	for _, p := range m.params {
		names = append(names, strings.TrimPrefix(p.name, "%"))
	}
	return names
}

// Run runs every program of the grid on arrays in the order of the parameters. Errors: another
// number or type of arrays, an access outside of one, and operations that the machine does not know.
func (m *Machine) Run(grid [3]int, arrays []*Array) error {
	if len(arrays) != len(m.params) {
		return fmt.Errorf("%d arrays for %d parameters", len(arrays), len(m.params))
	}
	for i, p := range m.params {
		if arrays[i].Elem != p.elem {
			return fmt.Errorf("parameter %s is of %s, its array of %s", p.name, p.elem, arrays[i].Elem)
		}
	}
	for z := range grid[2] {
		for y := range grid[1] {
			for x := range grid[0] {
				r := &run{arrays: arrays, place: map[string]int{"x": x, "y": y, "z": z}, values: map[string]*value{}}
				for i, p := range m.params {
					r.values[p.name] = &value{elem: "!tt.ptr<" + p.elem + ">", array: arrays[i], whole: []int64{0}}
				}
				if _, err := r.runBody(m.body); err != nil {
					return fmt.Errorf("program %d, %d, %d: %w", x, y, z, err)
				}
			}
		}
	}
	return nil
}

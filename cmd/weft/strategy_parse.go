package main

import (
	"slices"
	"strconv"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// givenMesh reads a mesh and keeps the axis names as they are written: data=2 stays
// data. mesh.Parse checks them, so data and dp together are refused as the same axis
// given twice.
func givenMesh(text string) (*mesh.Mesh, error) {
	axes, err := mesh.Parse(text)
	if err != nil {
		return nil, err
	}
	if len(axes) == 0 {
		return nil, usageError("--mesh is empty; write axes with their sizes, as in data=2,fsdp=4,model=8")
	}
	for i, part := range strings.Split(text, ",") {
		name, _, _ := strings.Cut(part, "=")
		axes[i].Name = strings.TrimSpace(name)
	}
	devices := 1
	for _, a := range axes {
		if devices *= a.Size; devices > strategy.MaxDevices {
			return nil, usageError("--mesh %s has more than %d devices, the most there are; choose smaller sizes", text, strategy.MaxDevices)
		}
	}
	return mesh.Local(axes...)
}

// meshName returns the mesh's own spelling of an axis, or the name unchanged when the
// mesh has no such axis.
func meshName(m *mesh.Mesh, axis string) string {
	if m.Has(axis) {
		return axis
	}
	for _, name := range m.Names() {
		if mesh.Canonical(name) == mesh.Canonical(axis) {
			return name
		}
	}
	return axis
}

// givenSpec reads a spec, whose axes may be spelled differently from the mesh's.
func givenSpec(m *mesh.Mesh, text string) (sharding.Spec, error) {
	s, err := sharding.ParseSpec(text)
	if err != nil {
		return s, err
	}
	respell := func(axes []string) []string {
		for i := range axes {
			axes[i] = meshName(m, axes[i])
		}
		return axes
	}
	dims := make([][]string, s.Rank())
	for i := range dims {
		dims[i] = respell(s.Dim(i))
	}
	return sharding.NewSpec(dims...).WithPartial(respell(s.Partial())...), nil
}

// specText writes a spec in the form that --from and --to take: model,-|data.
func specText(s sharding.Spec) string {
	text := s.String()
	dims, partial, bar := strings.Cut(text, "|")
	dims = strings.TrimSuffix(strings.TrimPrefix(dims, "["), "]")
	if bar {
		return dims + "|" + partial
	}
	return dims
}

// parseTensor reads NAME:DIMS:SHAPE:DTYPE. A scalar has neither dims nor shape.
func parseTensor(text string) (strategy.Tensor, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 4 {
		return strategy.Tensor{}, usageError("--tensor %q has %d parts, want NAME:DIMS:SHAPE:DTYPE, as in blocks.3.attn.q.weight:out,in:11008x4096:bf16", text, len(parts))
	}
	n := len(parts) - 3 // a name may have colons
	t := strategy.Tensor{Name: strings.Join(parts[:n], ":"), Dims: []string{}}
	var l fault.List
	if parts[n] != "" {
		t.Dims = strings.Split(parts[n], ",")
	}
	for i, d := range t.Dims {
		if t.Dims[i] = strings.TrimSpace(d); t.Dims[i] == "" {
			l.Add(usageError("--tensor %q names dim %d nothing; a dim has a name, as in out,in", text, i))
		}
	}
	var err error
	t.Shape, err = parseShape("--tensor", parts[n+1])
	l.Add(err)
	t.Elem, err = elemBytes("--tensor", parts[n+2])
	l.Add(err)
	return t, l.Err()
}

// parseShape reads a shape such as 11008x4096. An empty text and "scalar" are the shape
// of a scalar.
func parseShape(flag, text string) ([]int, error) {
	shape := []int{}
	if text == "" || text == "scalar" {
		return shape, nil
	}
	for part := range strings.SplitSeq(text, "x") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, usageError("%s has shape %q; want sizes from 0 up joined by x, as in 16x8, or scalar", flag, text)
		}
		shape = append(shape, n)
	}
	return shape, nil
}

func elemBytes(flag, name string) (int, error) {
	d, err := dtype.Parse(name)
	if err != nil {
		return 0, usageError("%s: %v", flag, err)
	}
	return d.Size(), nil
}

// parseRule reads PATTERN=DIM or PATTERN=DIM:HEADS; DIM is empty or - for whole.
func parseRule(text string) (strategy.Rule, error) {
	i := strings.LastIndex(text, "=")
	if i < 1 {
		return strategy.Rule{}, usageError("--rule %q: want PATTERN=DIM, as in '*.attn.q.*=out', or PATTERN=- to keep whole", text)
	}
	r := strategy.Rule{Match: text[:i]}
	dim, heads, hasHeads := strings.Cut(text[i+1:], ":")
	if hasHeads {
		n, err := strconv.Atoi(heads)
		if err != nil || n < 1 {
			return r, usageError("--rule %q has %q heads; want a whole number from 1 up, as in '*.attn.k.*=out:8'", text, heads)
		}
		r.Heads = n
	}
	if dim = strings.TrimSpace(dim); dim != "-" {
		r.Dim = dim
	}
	return r, nil
}

// strategyFlags are the flags that name strategies and their rules.
type strategyFlags struct {
	names   string
	rules   []string
	minSize int
}

// parsePlan reads a list of strategies such as "tp,fsdp,dp". A strategy may name its
// axes: "fsdp=dp+sp".
func (f *strategyFlags) parsePlan() (strategy.Plan, error) {
	var l fault.List
	var plan strategy.Plan
	var rules []strategy.Rule
	for _, text := range f.rules {
		r, err := parseRule(text)
		l.Add(err)
		rules = append(rules, r)
	}
	if f.minSize < 0 {
		l.Add(usageError("--min-size %d: want a number of elements from 0 up", f.minSize))
	}
	var seen []string
	for part := range strings.SplitSeq(f.names, ",") {
		name, axes, hasAxes := strings.Cut(strings.TrimSpace(part), "=")
		var on []string
		if hasAxes {
			on = strings.Split(axes, "+")
		}
		kind := mesh.Canonical(name)
		if slices.Contains(seen, kind) {
			l.Add(usageError("--strategy %q names %s twice; each strategy is named once, and --rule is repeated", f.names, name))
			continue
		}
		seen = append(seen, kind)
		switch {
		case slices.Contains(on, ""):
			l.Add(usageError("--strategy %q: %q names no axis after =; want axes joined by +, as in fsdp=dp+sp", f.names, part))
		case kind == mesh.TP && len(on) > 1:
			l.Add(usageError("--strategy %q: tp splits over one axis, not %d", f.names, len(on)))
		case kind == mesh.TP:
			plan = append(plan, strategy.TensorParallel{Axis: strings.Join(on, ""), Rules: rules})
		case kind == mesh.FSDP:
			plan = append(plan, strategy.FSDP{Axes: on, MinSize: f.minSize, All: f.minSize == 0})
		case kind == mesh.DP:
			plan = append(plan, strategy.DataParallel{Axes: on})
		case kind == mesh.PP:
			l.Add(usageError("--strategy %q: a pipeline cuts layers and no tensor; see weft strategy stages", f.names))
		default:
			l.Add(usageError("--strategy %q: %q is no strategy; want some of tp, fsdp and dp, as in tp,fsdp,dp", f.names, name))
		}
	}
	if l.Err() == nil && len(rules) > 0 && !slices.Contains(seen, mesh.TP) {
		l.Add(usageError("--rule is for tensor parallelism, which --strategy %q does not name; add tp", f.names))
	}
	return plan, l.Err()
}

// collective is one step of a reshard, as it stands in the JSON document.
type collective struct {
	Op    string   `json:"op"`
	Axes  []string `json:"axes"`
	Dim   int      `json:"dim"` // of an all-to-all the dim newly split; -1 where no dim is concerned
	Bytes int64    `json:"bytes"`
	// FromDim is the dim that an all-to-all puts together.
	FromDim *int   `json:"from_dim,omitempty"`
	From    string `json:"from"`
	To      string `json:"to"`
	Reason  string `json:"reason"`
}

// listCollectives converts the steps of a reshard for the JSON document.
func listCollectives(steps []sharding.Move) []collective {
	out := []collective{}
	for _, s := range steps {
		c := collective{Op: string(s.Op), Axes: s.Axes, Dim: s.Dim, Bytes: s.Bytes, From: specText(s.From), To: specText(s.To), Reason: s.Reason}
		if s.Op == sharding.AllToAll {
			c.Dim, c.FromDim = s.SplitDim, &s.ConcatDim
		}
		out = append(out, c)
	}
	return out
}

// line describes the collective in one line for people.
func (c collective) line() string {
	where := ""
	switch {
	case c.FromDim != nil:
		where = " dim " + strconv.Itoa(*c.FromDim) + " to dim " + strconv.Itoa(c.Dim)
	case c.Dim >= 0:
		where = " dim " + strconv.Itoa(c.Dim)
	}
	return c.Op + where + " over " + strings.Join(c.Axes, "+") + ", " + strconv.FormatInt(c.Bytes, 10) + " bytes: " + c.From + " -> " + c.To
}

// sayWrapped prints words after a head, in lines of at most 80 columns. Further lines
// are indented by the width of head.
func (a *app) sayWrapped(head string, words []string) {
	const width = 80
	indent := strings.Repeat(" ", len(head))
	line := head
	for _, w := range words {
		if len(line) > len(indent) && len(line)+1+len(w) > width {
			a.say("%s", line)
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += w
	}
	a.say("%s", strings.TrimRight(line, " "))
}

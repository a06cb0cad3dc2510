package meshtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/dtype"
	"weft/mesh"
	"weft/program"
)

// TextCollective is a collective in StableHLO text.
type TextCollective struct {
	Op       program.Op
	DType    dtype.DType
	Elements int64    // of the operand
	Times    int      // the product of the trip counts of the loops around it
	Groups   [][]int  // replica groups; nil for a permute
	Pairs    [][2]int // source and target of each transfer of a permute
}

// CountText reads the collectives out of StableHLO text, so that a test can compare the
// traffic of a program with the text that a compiler gets. It knows nothing of
// programs: it reads the operand type and the groups of each collective, and the
// constant with which the condition of a while compares the counter. The text has one
// operation on a line.
func CountText(text string) ([]TextCollective, error) {
	c := textCounter{loops: []int{1}}
	for i, line := range strings.Split(text, "\n") {
		if err := c.readLine(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if len(c.loops) != 1 || c.open != nil {
		return nil, fmt.Errorf("the text ends inside a loop or a region")
	}
	return c.found, nil
}

// textCounter is the state of CountText between two lines.
type textCounter struct {
	found []TextCollective
	loops []int           // for each loop around the line, outermost first: how often its body runs
	cond  bool            // the line is inside a condition, whose constant is the trip count
	trips int             // that constant
	open  *TextCollective // the collective whose region is being read
}

var (
	textOp    = regexp.MustCompile(`"stablehlo\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)"\(`)
	textArg   = regexp.MustCompile(`: \(tensor<([^>]*)>\) -> `)
	textList  = regexp.MustCompile(`(replica_groups|source_target_pairs) = dense<(.*?)> : tensor<(\d+)x(\d+)xi64>`)
	textConst = regexp.MustCompile(`stablehlo\.constant dense<(\d+)> : tensor<i32>`)
)

// collectiveOf finds the collective that has a name in StableHLO.
func collectiveOf(name string) program.Op {
	for _, op := range program.Ops() {
		if op.Is(program.CollectiveOp) && op.Facts().StableHLO == name {
			return op
		}
	}
	return ""
}

func (c *textCounter) readLine(line string) error {
	switch {
	case strings.HasPrefix(line, "//"):
		return nil
	case c.open != nil: // in the region that joins two elements; its end carries the type
		if strings.HasPrefix(line, "})") {
			t := *c.open
			c.open = nil
			return c.addCollective(t, line)
		}
		return nil
	case line == "cond {":
		c.cond, c.trips = true, -1
		return nil
	case line == "} do {":
		if c.trips < 0 {
			return fmt.Errorf("a loop without a constant trip count")
		}
		c.cond = false
		c.loops = append(c.loops, c.loops[len(c.loops)-1]*c.trips)
		return nil
	case line == "}" && len(c.loops) > 1:
		c.loops = c.loops[:len(c.loops)-1]
		return nil
	}
	if c.cond {
		if m := textConst.FindStringSubmatch(line); m != nil {
			c.trips, _ = strconv.Atoi(m[1])
		}
		return nil
	}
	m := textOp.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	t := TextCollective{Op: collectiveOf(m[1]), Times: c.loops[len(c.loops)-1]}
	if err := t.readMembers(line); err != nil {
		return err
	}
	if strings.HasSuffix(line, "({") {
		c.open = &t
		return nil
	}
	return c.addCollective(t, line)
}

func (c *textCounter) addCollective(t TextCollective, line string) error {
	m := textArg.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("no operand type in %q", line)
	}
	parts := strings.Split(m[1], "x")
	t.Elements = 1
	for _, p := range parts[:len(parts)-1] {
		n, err := strconv.ParseInt(p, 10, 64)
		if err != nil {
			return fmt.Errorf("operand type %q", m[1])
		}
		t.Elements *= n
	}
	var err error
	t.DType, err = dtype.Parse(parts[len(parts)-1])
	c.found = append(c.found, t)
	return err
}

// readMembers reads the groups or pairs of a collective from its line.
func (t *TextCollective) readMembers(line string) error {
	m := textList.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("no groups in %q", line)
	}
	var ns []int
	for _, s := range strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune("[], ", r) }) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("group member %q", s)
		}
		ns = append(ns, n)
	}
	rows, _ := strconv.Atoi(m[3])
	cols, _ := strconv.Atoi(m[4])
	if len(ns) != rows*cols {
		return fmt.Errorf("%d members in groups of %dx%d", len(ns), rows, cols)
	}
	for ; cols > 0 && len(ns) > 0; ns = ns[cols:] {
		if t.Op == program.OpPermute {
			t.Pairs = append(t.Pairs, [2]int{ns[0], ns[1]})
		} else {
			t.Groups = append(t.Groups, slices.Clone(ns[:cols]))
		}
	}
	return nil
}

// Axes finds the axes of m that a collective of a text runs along, in the order
// of the mesh: for groups, the axes along which the devices of a group differ; for a
// permute, the axes along which the ends of some pair differ. It returns nil for groups
// that do not run along a set of axes.
func (t TextCollective) Axes(m *mesh.Mesh) []string {
	axes := []string{}
	for _, a := range m.Axes() {
		moves := func(from, to int) bool { return m.Coord(from, a.Name) != m.Coord(to, a.Name) }
		for _, g := range t.Groups {
			if slices.ContainsFunc(g, func(pos int) bool { return moves(g[0], pos) }) {
				axes = append(axes, a.Name)
				break
			}
		}
		if slices.ContainsFunc(t.Pairs, func(p [2]int) bool { return moves(p[0], p[1]) }) {
			axes = append(axes, a.Name)
		}
	}
	size := 1
	for _, a := range axes {
		size *= m.Size(a)
	}
	if t.Op != program.OpPermute && len(t.Groups) > 0 && len(t.Groups[0]) != size {
		return nil
	}
	return axes
}

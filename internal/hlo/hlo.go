// Package hlo reads the collectives out of a compiled HLO module, the binary proto that
// a PJRT plugin gives as its optimised program. It reads the few fields that this needs
// and skips the others, so that weft needs none of XLA's protos. Field numbers are those
// of xla/service/hlo.proto and xla/xla_data.proto.
package hlo

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Collective is one collective instruction.
type Collective struct {
	Name string
	// Op is its opcode: all-reduce, all-gather, reduce-scatter, all-to-all,
	// collective-permute. The start and the done of an asynchronous one count as one.
	Op   string
	Type int // XLA's number of the first operand's element type: 11 is f32, 16 bf16
	// Elements is the number of elements of all operands together, on one device.
	Elements int64
	Groups   [][]int  // nil for a permute; one group of all devices where the module has none
	Pairs    [][2]int // source and target of each transfer of a permute
	// Times is how often it runs in one run of the module: the product of the trip counts
	// of the loops around it; 0 where one of them is not known.
	Times int
}

// Collectives lists a module's collectives, in the order of the module. code is an
// HloModuleProtoWithConfig ("hlo_with_config"), and devices is the number of devices that
// run it.
func Collectives(code []byte, devices int) ([]Collective, error) {
	var module message
	if err := module.parse(code); err != nil {
		return nil, err
	}
	// HloModuleProtoWithConfig.hlo_module, which has computations.
	if err := module.parse(module.bytes(1)); err != nil {
		return nil, err
	}
	r := reader{devices: devices, computations: map[uint64]*computation{}}
	for _, b := range module.all[3] {
		c, err := readComputation(b.b)
		if err != nil {
			return nil, err
		}
		r.computations[c.id] = c
	}
	entry := r.computations[module.number(6)]
	if entry == nil {
		return nil, fmt.Errorf("hlo: no entry computation among %d", len(r.computations))
	}
	return r.found, r.visitComputation(entry, 1, 0)
}

// reader collects the collectives of one module.
type reader struct {
	devices      int
	computations map[uint64]*computation
	found        []Collective
	steps        int
}

// These limits are above everything in a compiled program. They bound the work on a
// damaged one.
const (
	maxDevices = 1 << 14
	maxSteps   = 1 << 18 // instructions visited; those of a computation count for each call of it
	maxDepth   = 100     // nesting of calls
)

type computation struct {
	id    uint64
	instr []*instruction
	byID  map[uint64]*instruction
}

type instruction struct {
	message
	name, op string
	shapes   []shape
}

type shape struct {
	kind     int
	elements int64
}

func readComputation(b []byte) (*computation, error) {
	var m message
	if err := m.parse(b); err != nil {
		return nil, err
	}
	c := &computation{id: m.number(5), byID: map[uint64]*instruction{}}
	for _, v := range m.all[2] {
		in := &instruction{}
		if err := in.parse(v.b); err != nil {
			return nil, err
		}
		in.name, in.op = string(in.bytes(1)), string(in.bytes(2))
		var err error
		if in.shapes, err = readArrayShapes(in.bytes(3)); err != nil {
			return nil, err
		}
		c.instr = append(c.instr, in)
		c.byID[localID(in.number(35))] = in
	}
	return c, nil
}

// localID gives an instruction's number within its computation. In newer modules, the
// upper half of an id is the number of the computation.
func localID(id uint64) uint64 { return id & (1<<32 - 1) }

// readArrayShapes reads a ShapeProto: one shape, or those of all elements of a tuple.
func readArrayShapes(b []byte) ([]shape, error) {
	var m message
	if err := m.parse(b); err != nil {
		return nil, err
	}
	const tuple = 13
	kind := int(m.number(2))
	if kind != tuple {
		n := int64(1)
		for _, d := range m.allNumbers(3) {
			n *= int64(d)
		}
		return []shape{{kind, n}}, nil
	}
	var all []shape
	for _, v := range m.all[4] {
		s, err := readArrayShapes(v.b)
		if err != nil {
			return nil, err
		}
		all = append(all, s...)
	}
	return all, nil
}

var collectives = map[string]bool{"all-reduce": true, "all-gather": true, "reduce-scatter": true, "all-to-all": true, "collective-permute": true,
	"collective-broadcast": true, "ragged-all-to-all": true}

// visitComputation collects the collectives of a computation and of those that it calls.
// times is how often the computation runs.
func (r *reader) visitComputation(c *computation, times, depth int) error {
	if r.steps += 1 + len(c.instr); depth > maxDepth || r.steps > maxSteps {
		return fmt.Errorf("hlo: computation %d is called too deep or too often", c.id)
	}
	for _, in := range c.instr {
		op := strings.TrimSuffix(in.op, "-start")
		if collectives[op] {
			if err := r.addCollective(c, in, op, times); err != nil {
				return fmt.Errorf("hlo: %s: %w", in.name, err)
			}
			continue // the computation that it calls only combines two elements
		}
		if strings.HasSuffix(in.op, "-done") || strings.HasSuffix(in.op, "-update") {
			continue // it calls the same computation as its start, which was visited
		}
		called := in.allNumbers(38)
		inner := times
		if in.op == "while" {
			inner *= r.tripCount(in, called)
		}
		for _, id := range called {
			to := r.computations[id]
			if to == nil {
				return fmt.Errorf("hlo: %s calls computation %d, which is not there", in.name, id)
			}
			if err := r.visitComputation(to, inner, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// tripCount gives the number of times that a loop runs: the one that the compiler wrote
// down or, without it, the only constant of the condition. It is 0 if there is neither.
func (r *reader) tripCount(in *instruction, called []uint64) int {
	config := string(in.bytes(43))
	if _, rest, ok := strings.Cut(config, `"known_trip_count":{"n":"`); ok {
		n := 0
		if _, err := fmt.Sscanf(rest, "%d", &n); err == nil {
			return n
		}
	}
	var limits []uint64
	for _, id := range called {
		if c := r.computations[id]; c != nil && isCondition(c) {
			r.collectConstants(c, &limits, 0)
		}
	}
	if len(limits) == 1 {
		return int(limits[0])
	}
	return 0
}

// isCondition reports whether a computation of a loop is its condition, whose result is a
// predicate.
func isCondition(c *computation) bool {
	const pred = 1
	if len(c.instr) == 0 {
		return false
	}
	last := c.instr[len(c.instr)-1]
	return len(last.shapes) == 1 && last.shapes[0] == shape{pred, 1}
}

// collectConstants collects the s32 constants of a computation and of those that it calls.
func (r *reader) collectConstants(c *computation, to *[]uint64, depth int) {
	if r.steps += 1 + len(c.instr); depth > maxDepth || r.steps > maxSteps || len(*to) > 1 {
		return
	}
	for _, in := range c.instr {
		if in.op == "constant" {
			var literal message
			if literal.parse(in.bytes(8)) == nil {
				*to = append(*to, literal.allNumbers(4)...)
			}
		}
		for _, id := range in.allNumbers(38) {
			if called := r.computations[id]; called != nil {
				r.collectConstants(called, to, depth+1)
			}
		}
	}
}

// addCollective reads one collective and adds it to found.
func (r *reader) addCollective(c *computation, in *instruction, op string, times int) error {
	x := Collective{Name: in.name, Op: op, Times: times}
	for i, id := range in.allNumbers(36) {
		operand := c.byID[localID(id)]
		if operand == nil {
			return fmt.Errorf("operand %d is not there", i)
		}
		for _, s := range operand.shapes {
			if x.Elements == 0 {
				x.Type = s.kind
			}
			x.Elements += s.elements
		}
	}
	var err error
	if op == "collective-permute" {
		for _, v := range in.all[52] {
			var pair message
			if err := pair.parse(v.b); err != nil {
				return err
			}
			x.Pairs = append(x.Pairs, [2]int{int(pair.number(1)), int(pair.number(2))})
		}
	} else if x.Groups, err = r.readGroups(in); err != nil {
		return err
	}
	r.found = append(r.found, x)
	return nil
}

// readGroups reads the replica groups of an instruction, in any of the forms that versions
// of XLA write.
func (r *reader) readGroups(in *instruction) ([][]int, error) {
	if in.all[93] != nil {
		return readMeshGroups(in.bytes(93))
	}
	if in.all[92] != nil {
		return readIotaGroups(in.bytes(92))
	}
	lists := in.all[49]
	if in.all[87] != nil {
		var m message
		if err := m.parse(in.bytes(87)); err != nil {
			return nil, err
		}
		if m.all[2] != nil {
			return readIotaGroups(m.bytes(2))
		}
		lists = m.all[1]
	}
	var out [][]int
	for _, v := range lists {
		var m message
		if err := m.parse(v.b); err != nil {
			return nil, err
		}
		var g []int
		for _, id := range m.allNumbers(1) {
			g = append(g, int(id))
		}
		out = append(out, g)
	}
	if out == nil {
		all := make([]int, r.devices)
		for i := range all {
			all[i] = i
		}
		out = [][]int{all}
	}
	return out, nil
}

// readIotaGroups reads groups that are written as the ids 0, 1, 2, ..., reshaped,
// transposed and cut into groups.
func readIotaGroups(b []byte) ([][]int, error) {
	var m message
	if err := m.parse(b); err != nil {
		return nil, err
	}
	groups, size := int(m.number(1)), int(m.number(2))
	dims, perm := m.allNumbers(3), m.allNumbers(4)
	if len(perm) == 0 {
		for i := range dims {
			perm = append(perm, uint64(i))
		}
	}
	if n := countDevices(dims); len(perm) != len(dims) || groups < 1 || size < 1 || groups > maxDevices || size > maxDevices || n != groups*size {
		return nil, fmt.Errorf("replica groups of %dx%d from %v transposed by %v", groups, size, dims, perm)
	}
	flat, err := transposeIDs(dims, perm)
	if err != nil {
		return nil, err
	}
	out := make([][]int, groups)
	for g := range out {
		out[g] = flat[g*size : (g+1)*size]
	}
	return out, nil
}

// countDevices multiplies the sizes of a mesh; 0 means that the sizes cannot be those of
// devices.
func countDevices(sizes []uint64) int {
	n := 1
	for _, s := range sizes {
		if s < 1 || s > maxDevices || n*int(s) > maxDevices {
			return 0
		}
		n *= int(s)
	}
	return n
}

// transposeIDs gives the ids 0, 1, 2, ..., which are row-major in dims, in the row-major
// order of the transpose.
func transposeIDs(dims, perm []uint64) ([]int, error) {
	n := countDevices(dims)
	if n < 1 || len(perm) != len(dims) {
		return nil, fmt.Errorf("replica groups from %v transposed by %v", dims, perm)
	}
	strides := make([]int, len(dims))
	step := 1
	for d := len(dims) - 1; d >= 0; d-- {
		strides[d] = step
		step *= int(dims[d])
	}
	flat := make([]int, n)
	for i := range flat {
		rest := i
		for k := len(perm) - 1; k >= 0; k-- {
			d := perm[k]
			if int(d) >= len(dims) {
				return nil, fmt.Errorf("replica groups transposed by %v", perm)
			}
			flat[i] += rest % int(dims[d]) * strides[d]
			rest /= int(dims[d])
		}
	}
	return flat, nil
}

// readMeshGroups reads groups that are written as axes of a mesh, or as factors of such
// axes: the devices of a group differ along those axes alone.
func readMeshGroups(b []byte) ([][]int, error) {
	var m, mesh message
	if err := m.parse(b); err != nil {
		return nil, err
	}
	if err := mesh.parse(m.bytes(1)); err != nil {
		return nil, err
	}
	var sizes []uint64
	for _, v := range mesh.all[1] {
		var axis message
		if err := axis.parse(v.b); err != nil {
			return nil, err
		}
		sizes = append(sizes, axis.number(2))
	}
	total := countDevices(sizes)
	devices, err := readMeshDevices(&mesh, total)
	if err != nil {
		return nil, err
	}
	// A reference is to a factor of an axis: size is the factor, and rest the product of the
	// factors after it.
	type reference struct{ axis, size, rest int }
	var refs []reference
	members := 1
	for _, v := range m.all[2] {
		var ref, sub message
		if err := ref.parse(v.b); err != nil {
			return nil, err
		}
		a := int(ref.number(1))
		if a < 0 || a >= len(sizes) {
			return nil, fmt.Errorf("replica groups along axis %d of a mesh of %v", a, sizes)
		}
		whole := int(sizes[a])
		r := reference{a, whole, 1}
		if ref.all[2] != nil {
			if err := sub.parse(ref.bytes(2)); err != nil {
				return nil, err
			}
			pre, size := int(sub.number(1)), int(sub.number(2))
			if pre < 1 || size < 1 || pre > whole || size > whole || whole%(pre*size) != 0 {
				return nil, fmt.Errorf("replica groups along a factor %d after %d of an axis of %d", size, pre, whole)
			}
			r.size, r.rest = size, whole/(pre*size)
		}
		if members *= r.size; members > total {
			return nil, fmt.Errorf("replica groups of more devices than the mesh of %v has", sizes)
		}
		refs = append(refs, r)
	}
	index := map[string]int{}
	var out [][]int
	for pos, device := range devices {
		coords := make([]int, len(sizes))
		rest := pos
		for a := len(sizes) - 1; a >= 0; a-- {
			coords[a] = rest % int(sizes[a])
			rest /= int(sizes[a])
		}
		place := 0
		left := append([]int{}, coords...)
		for _, r := range refs {
			c := coords[r.axis] / r.rest % r.size
			place = place*r.size + c
			left[r.axis] -= c * r.rest
		}
		key := fmt.Sprint(left)
		g, ok := index[key]
		if !ok {
			g = len(out)
			index[key] = g
			out = append(out, make([]int, members))
		}
		out[g][place] = device
	}
	return out, nil
}

// readMeshDevices reads the device ids of a MeshProto, in the row-major order of the mesh.
func readMeshDevices(mesh *message, total int) ([]int, error) {
	var flat []int
	switch {
	case len(mesh.allNumbers(2)) > 0:
		for _, id := range mesh.allNumbers(2) {
			flat = append(flat, int(id))
		}
	case mesh.all[3] != nil:
		var m message
		if err := m.parse(mesh.bytes(3)); err != nil {
			return nil, err
		}
		var err error
		if flat, err = transposeIDs(m.allNumbers(1), m.allNumbers(2)); err != nil {
			return nil, err
		}
	default:
		for i := range total {
			flat = append(flat, i)
		}
	}
	if total < 1 || len(flat) != total {
		return nil, fmt.Errorf("a mesh of %d devices with %d ids", total, len(flat))
	}
	return flat, nil
}

// message holds the values of a proto message by the number of their field.
type message struct {
	all map[protowire.Number][]value
}

type value struct {
	b []byte // of a length-delimited field
	n uint64 // of a number
}

func (m *message) parse(b []byte) error {
	m.all = map[protowire.Number][]value{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("hlo: not a proto message: %w", protowire.ParseError(n))
		}
		b = b[n:]
		v := value{}
		switch typ {
		case protowire.VarintType:
			v.n, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.b, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return fmt.Errorf("hlo: not a proto message: %w", protowire.ParseError(n))
		}
		b = b[n:]
		m.all[num] = append(m.all[num], v)
	}
	return nil
}

// bytes gives the last value of a length-delimited field.
func (m *message) bytes(f protowire.Number) []byte {
	vs := m.all[f]
	if len(vs) == 0 {
		return nil
	}
	return vs[len(vs)-1].b
}

// number gives the last value of a numeric field.
func (m *message) number(f protowire.Number) uint64 {
	vs := m.all[f]
	if len(vs) == 0 {
		return 0
	}
	return vs[len(vs)-1].n
}

// allNumbers gives the values of a repeated numeric field, packed or not.
func (m *message) allNumbers(f protowire.Number) []uint64 {
	var out []uint64
	for _, v := range m.all[f] {
		if v.b == nil {
			out = append(out, v.n)
			continue
		}
		for b := v.b; len(b) > 0; {
			x, n := protowire.ConsumeVarint(b)
			if n < 0 {
				break
			}
			out = append(out, x)
			b = b[n:]
		}
	}
	return out
}

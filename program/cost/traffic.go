package cost

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/dtype"
	"weft/program"
	"weft/sharding"
)

// Traffic is what one device does in the collectives of one operation, along the same
// axes and of one element type, in one run of a program. Every device does the same.
type Traffic struct {
	Op    program.Op  `json:"op"`
	Axes  []string    `json:"axes"` // in the order of the mesh
	Axis  string      `json:"axis"` // Axes joined: "tp", "dp+tp"
	DType dtype.DType `json:"-"`
	// Type is the name of DType.
	Type string `json:"dtype"`
	// Count is how many collectives run. One in a loop counts once for each round.
	Count int `json:"count"`
	// Elements is the number of elements of the operands, as one device holds them,
	// summed over Count. An all-gather of 4 elements each over 8 devices has 4, though
	// the result has 32.
	Elements int64 `json:"elements"`
	// Bytes is the most that a device sends, on a ring: sharding.RingBytes, summed over
	// Count. A device receives as much.
	Bytes int64 `json:"bytes"`
	// Sent is, for permutes, the bytes that each mesh position sends: a device at the end
	// of a line sends to nobody. Bytes is then the largest of them.
	Sent map[int]int64 `json:"-"`
	// Reason says why the collectives are there. Several reasons stand in the order of
	// the program with "; " between.
	Reason string `json:"reason"`
}

// Instances lists the program's collectives one by one, in program order. One in a
// loop is one entry, whose Count is the number of rounds.
func Instances(p *program.Program) []Traffic {
	var all []Traffic
	EachCollective(p, func(_ *program.Instr, t Traffic) { all = append(all, t) })
	return all
}

// EachCollective visits the program's collectives as Instances lists them, each with its
// instruction.
func EachCollective(p *program.Program, visit func(in *program.Instr, t Traffic)) {
	p.Walk(func(in *program.Instr, times int) {
		if in.IsCollective() {
			visit(in, trafficOf(p, in, times))
		}
	})
}

// Collectives adds up the program's collectives by operation, axes and element type, in
// the order of their first appearance.
func Collectives(p *program.Program) []Traffic { return AddTraffic(nil, Instances(p), 1) }

// AddTraffic adds the traffic more, times over, to a table and returns the sum: the
// traffic of a step is the sum over the programs that it calls. It changes neither.
func AddTraffic(table, more []Traffic, times int) []Traffic {
	table = slices.Clone(table)
	for _, t := range more {
		t.Count *= times
		t.Elements *= int64(times)
		t.Bytes *= int64(times)
		t.Sent = addSent(nil, t.Sent, int64(times))
		i := slices.IndexFunc(table, func(o Traffic) bool { return o.Op == t.Op && o.Axis == t.Axis && o.DType == t.DType })
		if i < 0 {
			table = append(table, t)
			continue
		}
		o := &table[i]
		o.Count += t.Count
		o.Elements += t.Elements
		o.Bytes += t.Bytes
		if o.Sent != nil && t.Sent != nil {
			o.Sent = addSent(o.Sent, t.Sent, 1)
			o.Bytes = slices.Max(append(slices.Collect(maps.Values(o.Sent)), 0))
		}
		if !slices.Contains(strings.Split(o.Reason, "; "), t.Reason) {
			o.Reason += "; " + t.Reason
		}
	}
	return table
}

// addSent is the sum of a and times b. It changes neither; nil and nil give nil.
func addSent(a, b map[int]int64, times int64) map[int]int64 {
	if b == nil {
		return a
	}
	sum := maps.Clone(a)
	if sum == nil {
		sum = map[int]int64{}
	}
	for pos, n := range b {
		sum[pos] += times * n
	}
	return sum
}

// PermuteSent is the bytes that each mesh position sends in a permute of size bytes
// along pairs.
func PermuteSent(pairs [][2]int, size int64) map[int]int64 {
	sent := map[int]int64{}
	for _, pair := range pairs {
		if pair[0] != pair[1] {
			sent[pair[0]] = size
		}
	}
	return sent
}

func trafficOf(p *program.Program, in *program.Instr, times int) Traffic {
	x := p.Values[in.Args[0]]
	// Collectives along the same axes load the same links, whatever the order of their members.
	axes := p.Mesh.InOrder(in.Axes)
	var sent map[int]int64
	if in.Op == program.OpPermute {
		sent = PermuteSent(in.Pairs, int64(times)*x.Bytes())
	}
	return Traffic{
		Sent: sent,
		Op:   in.Op, Axes: axes, Axis: strings.Join(axes, "+"), DType: x.DType, Type: x.DType.String(),
		Count: times, Elements: int64(times) * int64(x.Elements()), Bytes: int64(times) * ringBytes(in, x.Bytes()),
		Reason: program.OneLine(in.Reason),
	}
}

// ringBytes is the most that a device sends in a collective whose operand has size
// bytes. In a permute that is the whole operand, unless devices send to themselves alone.
func ringBytes(in *program.Instr, size int64) int64 {
	return sharding.RingBytes(sharding.Op(in.Op), ringSize(in), size)
}

// ringSize is the number of devices of a collective's ring: of a permute 2, or 1 where
// devices send to themselves alone.
func ringSize(in *program.Instr) int {
	n := 1
	if len(in.Groups) > 0 {
		n = len(in.Groups[0])
	}
	for _, pair := range in.Pairs {
		if pair[0] != pair[1] {
			n = 2
		}
	}
	return n
}

// RingFormula writes how the bytes that a device sends in one run of a collective follow
// from its operand, with the numbers of the instruction. Parts that do not divide are rounded
// up. The formula is sharding.RingBytes's.
func RingFormula(p *program.Program, in *program.Instr) string {
	n, size := ringSize(in), p.Values[in.Args[0]].Bytes()
	switch {
	case n <= 1:
		return "nothing is sent: the ring has one device"
	case in.Op == program.OpPermute:
		return fmt.Sprintf("permute: the whole operand of %d B", size)
	case in.Op == program.OpAllGather:
		return fmt.Sprintf("ring all-gather: n-1 times the operand of %d B, n = %d", size, n)
	case in.Op == program.OpAllReduce:
		return fmt.Sprintf("ring all-reduce: 2(n-1)/n of the operand of %d B, n = %d", size, n)
	}
	return fmt.Sprintf("ring %s: (n-1)/n of the operand of %d B, n = %d", in.Op, size, n)
}

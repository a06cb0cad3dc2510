package spmd

import (
	"maps"
	"slices"
	"strings"

	"weft/dtype"
	"weft/mesh"
	"weft/sharding"
)

// Traffic is what collectives of one kind do in one run of a program, as one
// device sees it: every device of the mesh does the same.
type Traffic struct {
	Op    Op          `json:"op"`
	Axes  []string    `json:"axes"` // in the order of the mesh
	Axis  string      `json:"axis"` // Axes joined: "tp", "dp+tp"
	DType dtype.DType `json:"-"`
	// Type is DType by name.
	Type string `json:"dtype"`
	// Count is how many collectives run; one in a loop counts once a round.
	Count int `json:"count"`
	// Elements is how many elements a device enters them with, summed over
	// Count: the operand as one device holds it. An all-gather of 4 elements
	// each over 8 devices has 4, though the result has 32.
	Elements int64 `json:"elements"`
	// Bytes is what a device sends on a ring, at most: sharding.RingBytes,
	// summed over Count. It receives as much.
	Bytes int64 `json:"bytes"`
	// Sent is, of permutes, what each mesh position sends: a device at the end of
	// a line has nobody to send to. Bytes is then the most of them.
	Sent map[int]int64 `json:"-"`
	// Reason is why they are there; where there are several, in the order of
	// the program with "; " between.
	Reason string `json:"reason"`
}

// Instances lists the program's collectives one by one, in program order. One
// in a loop is one entry with Count above 1.
func (p *Program) Instances() []Traffic {
	var all []Traffic
	p.Walk(func(in *Instr, times int) {
		if in.IsCollective() {
			all = append(all, trafficOf(p, in, times))
		}
	})
	return all
}

// Collectives is Instances added up by operation, axes and element type, in the
// order of first appearance.
func (p *Program) Collectives() []Traffic { return AddTraffic(nil, p.Instances(), 1) }

// AddTraffic adds times runs of more to a table and returns it. So the traffic
// of a step is the sum over the programs that it calls.
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

// addSent is a plus times b, which both stay as they are; nil and nil give nil.
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

// PermuteSent is what each mesh position sends in permutes of size bytes by pairs.
func PermuteSent(pairs [][2]int, size int64) map[int]int64 {
	sent := map[int]int64{}
	for _, pair := range pairs {
		if pair[0] != pair[1] {
			sent[pair[0]] = size
		}
	}
	return sent
}

func trafficOf(p *Program, in *Instr, times int) Traffic {
	x := p.Values[in.Args[0]]
	axes := meshOrder(p.Mesh, in.Axes)
	var sent map[int]int64
	if in.Op == OpPermute {
		sent = PermuteSent(in.Pairs, int64(times)*x.Bytes())
	}
	return Traffic{
		Sent: sent,
		Op:   in.Op, Axes: axes, Axis: strings.Join(axes, "+"), DType: x.DType, Type: x.DType.String(),
		Count: times, Elements: int64(times) * int64(x.Elements()), Bytes: int64(times) * ringBytes(in, x.Bytes()),
		Reason: OneLine(in.Reason),
	}
}

// ringBytes is what a device sends in collective in, at most, when it enters it
// with size bytes. In a permute that is everything, unless each device that
// sends sends to itself.
func ringBytes(in *Instr, size int64) int64 {
	n := 1
	if len(in.Groups) > 0 {
		n = len(in.Groups[0])
	}
	for _, pair := range in.Pairs {
		if pair[0] != pair[1] {
			n = 2
		}
	}
	return sharding.RingBytes(sharding.Op(in.Op), n, size)
}

// meshOrder sorts axes as the mesh has them: collectives along the same axes
// load the same links, in whatever order their members stand.
func meshOrder(m *mesh.Mesh, axes []string) []string {
	out := []string{}
	for _, a := range m.Axes() {
		if slices.Contains(axes, a.Name) {
			out = append(out, a.Name)
		}
	}
	return out
}

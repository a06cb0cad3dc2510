package sharding

import (
	"fmt"
	"strings"
)

// Op is a way of moving data between devices, by the name StableHLO has for it.
type Op string

// The ops of a reshard. Slice is local: no device sends anything.
const (
	AllReduce     Op = "all-reduce"
	AllGather     Op = "all-gather"
	ReduceScatter Op = "reduce-scatter"
	AllToAll      Op = "all-to-all"
	Permute       Op = "collective-permute"
	Slice         Op = "slice"
)

// RingBytes counts the bytes that each device of a group of n sends (and receives) in op
// on a ring, when each device enters it with size bytes:
//
//	all-gather       (n-1) * size, the gathered size being n * size
//	reduce-scatter   (n-1) * chunk
//	all-to-all       (n-1) * chunk
//	all-reduce     2*(n-1) * chunk
//	permute                  size
//	slice                       0
//
// where chunk is size/n rounded up. For n = 1 it is 0: there is nothing to do.
func RingBytes(op Op, n int, size int64) int64 {
	if n <= 1 {
		return 0
	}
	others := int64(n) - 1
	chunk := size / int64(n)
	if size%int64(n) != 0 {
		chunk++
	}
	switch op {
	case AllGather:
		return others * size
	case ReduceScatter, AllToAll:
		return others * chunk
	case AllReduce:
		return 2 * others * chunk
	case Permute:
		return size
	}
	return 0
}

// Hops counts how many times, one after another, a device of a group of n waits for a
// neighbour in op on a ring.
func Hops(op Op, n int) int {
	switch {
	case n <= 1 || op == Slice:
		return 0
	case op == AllReduce:
		return 2 * (n - 1)
	case op == Permute:
		return 1
	}
	return n - 1
}

// Move is one move of a reshard: a single collective over the replica groups
// Mesh.Groups(Axes...), or a slice that no other device takes part in.
//
//	slice            each device keeps, of dim Dim, the part that its place on Axes
//	                 gives; Axes become the minor axes of Dim
//	all-gather       pieces of dim Dim are put together in group order; Axes were
//	                 the minor axes of Dim
//	all-to-all       dim SplitDim is cut in as many parts as the group has members,
//	                 part i goes to member i, and what arrives is put together along
//	                 dim ConcatDim in group order; Axes leave ConcatDim, whose minor
//	                 axes they were, and become the minor axes of SplitDim
//	reduce-scatter   addends are summed and member i keeps part i of dim Dim; Axes
//	                 were partial and become the minor axes of Dim
//	all-reduce       addends are summed; Axes were partial and are unused after
//	permute          each device's whole piece goes to the device that Pairs names;
//	                 Axes are those whose place in the spec changes
type Move struct {
	Op        Op       `json:"op"`
	Axes      []string `json:"axes"`
	Dim       int      `json:"dim"`        // -1 for all-reduce, all-to-all and permute
	SplitDim  int      `json:"split_dim"`  // of an all-to-all, the dim newly split; else -1
	ConcatDim int      `json:"concat_dim"` // of an all-to-all, the dim put together; else -1
	Bytes     int64    `json:"bytes"`      // that a device sends, at most: RingBytes
	From      Spec     `json:"from"`       // canonical, before the step
	To        Spec     `json:"to"`         // canonical, after it
	Pairs     [][2]int `json:"pairs,omitempty"`
	Reason    string   `json:"reason"` // for people: why the step is there
}

// String is one line for people.
func (s Move) String() string {
	where := ""
	switch s.Op {
	case AllToAll:
		where = fmt.Sprintf(" dim %d to dim %d", s.ConcatDim, s.SplitDim)
	case AllGather, ReduceScatter, Slice:
		where = fmt.Sprintf(" dim %d", s.Dim)
	}
	return fmt.Sprintf("%s%s over %s: %s -> %s, %d bytes", s.Op, where, strings.Join(s.Axes, "+"), s.From, s.To, s.Bytes)
}

package checkpoint

import (
	"slices"
	"strings"

	"weft/dtype"
)

// DTypeTotal counts the elements and bytes of a checkpoint that have one dtype.
type DTypeTotal struct {
	DType    dtype.DType // Invalid where weft can only size the type
	Stored   string      // the name in the file
	Elements int64
	Bytes    int64
}

// Sizes sums the tensors by dtype, as stored, ordered by the dtype's name.
func (c *Checkpoint) Sizes() []DTypeTotal {
	var totals []DTypeTotal
	for _, name := range c.names {
		e := c.records[name].Entry
		i := slices.IndexFunc(totals, func(t DTypeTotal) bool { return t.Stored == e.Stored })
		if i < 0 {
			i = len(totals)
			totals = append(totals, DTypeTotal{DType: e.DType, Stored: e.Stored})
		}
		totals[i].Elements += e.Elements()
		totals[i].Bytes += e.Bytes
	}
	slices.SortFunc(totals, func(a, b DTypeTotal) int { return strings.Compare(a.Stored, b.Stored) })
	return totals
}

// Elements is the number of elements of all tensors.
func (c *Checkpoint) Elements() int64 {
	var n int64
	for _, r := range c.records {
		n += r.Elements()
	}
	return n
}

// Bytes is the size of all tensors as stored.
func (c *Checkpoint) Bytes() int64 {
	var n int64
	for _, r := range c.records {
		n += r.Entry.Bytes
	}
	return n
}

// BytesAs gives the size of the weights when every float is read as d: integers keep
// their size, and scales do not count, because reading applies them.
func (c *Checkpoint) BytesAs(d dtype.DType) int64 {
	var n int64
	for _, r := range c.records {
		switch {
		case r.Role != Weight:
		case r.DType.IsFloat():
			n += r.Elements() * int64(d.Size())
		default:
			n += r.Entry.Bytes
		}
	}
	return n
}

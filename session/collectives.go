package session

import (
	"slices"
	"strings"

	"weft/program/cost"
)

// Collective is the traffic of one kind of collective over one axis in one run. Bytes is the
// number of bytes that each device sends with ring algorithms.
type Collective struct {
	Op    string `json:"op"`
	Axis  string `json:"axis"`
	DType string `json:"dtype"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`
}

// Collectives adds up the traffic of the calls that run once per request, or of those of a
// step, over all lanes fed so far.
func (s *Session) Collectives(request bool) []Collective {
	out := Collectives(s.g.Traffic(request))
	for i := range out {
		out[i].Count *= max(1, len(s.lanes))
		out[i].Bytes *= int64(max(1, len(s.lanes)))
	}
	return out
}

// Collectives adds traffic up by kind, axis and type, and gives its JSON form.
func Collectives(ts []cost.Traffic) []Collective {
	out := []Collective{}
	for _, t := range ts {
		c := Collective{Op: string(t.Op), Axis: t.Axis, DType: t.DType.String(), Count: t.Count, Bytes: t.Bytes}
		i := slices.IndexFunc(out, func(o Collective) bool { return o.Op == c.Op && o.Axis == c.Axis && o.DType == c.DType })
		if i < 0 {
			out = append(out, c)
			continue
		}
		out[i].Count += c.Count
		out[i].Bytes += c.Bytes
	}
	slices.SortFunc(out, func(a, b Collective) int {
		return strings.Compare(a.Axis+a.Op+a.DType, b.Axis+b.Op+b.DType)
	})
	return out
}

// Loaded reports the last Load.
func (s *Session) Loaded() Loaded { return s.loaded }

// CompileSeconds is the time that New took to compile, including programs found in the
// cache.
func (s *Session) CompileSeconds() float64 { return s.compile }

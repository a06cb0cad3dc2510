package sharding

import (
	"fmt"
	"slices"
	"strings"

	"weft/mesh"
)

// JAX is the form JAX prints: P('data', None, ('fsdp','model')), with
// unreduced={'tp'} last when partial.
func (s Spec) JAX() string {
	var parts []string
	for _, d := range s.dims {
		switch len(d) {
		case 0:
			parts = append(parts, "None")
		case 1:
			parts = append(parts, "'"+d[0]+"'")
		default:
			parts = append(parts, "('"+strings.Join(d, "','")+"')")
		}
	}
	if len(s.partial) > 0 {
		parts = append(parts, "unreduced={'"+strings.Join(s.partial, "','")+"'}")
	}
	return "P(" + strings.Join(parts, ", ") + ")"
}

// Shardy is the dims of an sdy.sharding attribute, canonical on m and padded to
// rank: [{"data"}, {}], followed by unreduced={"tp"} when partial.
func (s Spec) Shardy(m *mesh.Mesh, rank int) string {
	c := s.Canonical(m, rank)
	dims := make([]string, len(c.dims))
	for i, d := range c.dims {
		dims[i] = shardyAxes(d)
	}
	text := "[" + strings.Join(dims, ", ") + "]"
	if len(c.partial) > 0 {
		text += ", unreduced=" + shardyAxes(m.InOrder(c.partial))
	}
	return text
}

func shardyAxes(axes []string) string {
	if len(axes) == 0 {
		return "{}"
	}
	return `{"` + strings.Join(axes, `","`) + `"}`
}

// HLO is the sharding as XLA prints it, canonical on m and padded to rank:
// {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}. Devices are mesh
// positions. The spec must be legal on m.
func (s Spec) HLO(m *mesh.Mesh, rank int) string {
	c := s.Canonical(m, rank)
	tile, order := []string{}, []string{}
	for i, d := range c.dims {
		tile = append(tile, fmt.Sprint(m.Size(c.dimOrNone(i)...)))
		order = append(order, d...)
	}
	rest := unusedAxes(m, c)
	switch {
	case len(order) == 0 && len(c.partial) == 0:
		return "{replicated}"
	case len(order) == 0 && len(rest) == 0:
		return "{unreduced}"
	}
	// XLA writes the axes that split no dim as last tile dims: first the unreduced, then
	// the replicated.
	var kinds []string
	if len(c.partial) > 0 {
		tile = append(tile, fmt.Sprint(m.Size(c.partial...)))
		order = append(order, m.InOrder(c.partial)...)
		kinds = append(kinds, "unreduced")
	}
	if len(rest) > 0 {
		tile = append(tile, fmt.Sprint(m.Size(rest...)))
		order = append(order, rest...)
		kinds = append(kinds, "replicated")
	}
	text := "{devices=[" + strings.Join(tile, ",") + "]<=" + deviceOrder(m, order)
	switch {
	case slices.Equal(kinds, []string{"replicated"}):
		text += " last_tile_dim_replicate"
	case len(kinds) > 0:
		text += " last_tile_dims={" + strings.Join(kinds, ", ") + "}"
	}
	return text + "}"
}

// unusedAxes lists, in mesh order, the axes above size 1 that a spec does not name.
func unusedAxes(m *mesh.Mesh, s Spec) []string {
	var axes []string
	for _, a := range m.Axes() {
		if a.Size > 1 && !s.Uses(a.Name) {
			axes = append(axes, a.Name)
		}
	}
	return axes
}

// deviceOrder writes the order of the devices for axes in the given order, as XLA prints
// it: [2,4]T(1,0) is 0..7 laid out as 2 by 4 and transposed. Axes that stay neighbours are
// written as one dim, so that the plain order is [8].
func deviceOrder(m *mesh.Mesh, order []string) string {
	names := m.InOrder(order)
	rank := func(axis string) int { return slices.Index(names, axis) }
	// runs are the stretches of order that the mesh has in the same sequence.
	var runs [][]string
	for i, axis := range order {
		if i > 0 && rank(axis) == rank(order[i-1])+1 {
			last := &runs[len(runs)-1]
			*last = append(*last, axis)
			continue
		}
		runs = append(runs, []string{axis})
	}
	sorted := slices.Clone(runs)
	slices.SortFunc(sorted, func(a, b []string) int { return rank(a[0]) - rank(b[0]) })
	var dims, perm []string
	for _, r := range sorted {
		dims = append(dims, fmt.Sprint(m.Size(r...)))
	}
	for _, r := range runs {
		at := slices.IndexFunc(sorted, func(x []string) bool { return x[0] == r[0] })
		perm = append(perm, fmt.Sprint(at))
	}
	text := "[" + strings.Join(dims, ",") + "]"
	if len(runs) > 1 {
		text += "T(" + strings.Join(perm, ",") + ")"
	}
	return text
}

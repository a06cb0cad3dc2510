package mesh

import "slices"

// Groups returns the replica groups of a collective over the named axes, as mesh
// positions. Members are ordered by their coordinates on the axes in the order given, the
// first axis major, so Groups("a","b") and Groups("b","a") hold the same positions in
// different orders. Groups are ordered by their smallest member. Axes that the mesh does
// not have are ignored; without any axis, every position is a group of its own.
func (m *Mesh) Groups(axes ...string) [][]int {
	offsets := m.groupOffsets(axes)
	var groups [][]int
	// A leader is the smallest of its group, so the groups come out in order.
	for pos := range m.devices {
		if !m.leadsGroup(pos, axes) {
			continue
		}
		group := make([]int, len(offsets))
		for i, o := range offsets {
			group[i] = pos + o
		}
		groups = append(groups, group)
	}
	return groups
}

// leadsGroup reports whether pos is the first of its group: its coordinate is 0 on each of
// the axes.
func (m *Mesh) leadsGroup(pos int, axes []string) bool {
	for _, name := range axes {
		if m.Coord(pos, name) != 0 {
			return false
		}
	}
	return true
}

// groupOffsets returns the distances from the first member of a group to all its members.
func (m *Mesh) groupOffsets(axes []string) []int {
	offsets := []int{0}
	for i, name := range axes {
		a := m.axisIndex(name)
		if a < 0 || slices.Contains(axes[:i], name) {
			continue
		}
		next := make([]int, 0, len(offsets)*m.axes[a].Size)
		for _, o := range offsets {
			for c := range m.axes[a].Size {
				next = append(next, o+c*m.strides[a])
			}
		}
		offsets = next
	}
	return offsets
}

// Pairs returns the (source, target) positions of a permute that moves data shift places
// along an axis, sources ascending. With wrap the axis is a ring; without wrap, pairs that
// would leave it are absent. Along an axis that the mesh does not have, or whose size is
// 1, a ring gives each position itself, and a line gives nothing unless shift is 0.
func (m *Mesh) Pairs(axis string, shift int, wrap bool) [][2]int {
	size, stride := m.Size(axis), m.Stride(axis)
	pairs := [][2]int{}
	for pos := range m.devices {
		from := m.Coord(pos, axis)
		to := from + shift
		if wrap {
			to = ((from+shift%size)%size + size) % size
		} else if to < 0 || to >= size {
			continue
		}
		pairs = append(pairs, [2]int{pos, pos + (to-from)*stride})
	}
	return pairs
}

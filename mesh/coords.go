package mesh

// Coord returns the coordinate of a position along an axis; 0 for an axis that the mesh
// does not have.
func (m *Mesh) Coord(pos int, axis string) int {
	if a := m.axisIndex(axis); a >= 0 {
		return m.coordOnAxis(pos, a)
	}
	return 0
}

// coordOnAxis is Coord along the a-th axis.
func (m *Mesh) coordOnAxis(pos, a int) int { return pos / m.strides[a] % m.axes[a].Size }

// Coords returns the coordinates of a position, one for each axis, outermost first.
func (m *Mesh) Coords(pos int) []int {
	coords := make([]int, len(m.axes))
	for a := range coords {
		coords[a] = m.coordOnAxis(pos, a)
	}
	return coords
}

// Stride is the distance, in positions, between neighbours along an axis: 1 for the last
// axis, 0 for an axis that the mesh does not have.
func (m *Mesh) Stride(axis string) int {
	if a := m.axisIndex(axis); a >= 0 {
		return m.strides[a]
	}
	return 0
}

// Index reads the coordinates of a position on the named axes as a mixed-radix number, the
// first axis major. It is the number of the shard that the position holds of a dim split
// over those axes, and its place in its group of Groups(axes...).
func (m *Mesh) Index(pos int, axes ...string) int {
	n := 0
	for _, name := range axes {
		if a := m.axisIndex(name); a >= 0 {
			n = n*m.axes[a].Size + m.coordOnAxis(pos, a)
		}
	}
	return n
}

package sharding

import (
	"fmt"

	"weft/mesh"
)

// permutePairs says which device sends its whole piece to which, so that a
// tensor laid out as from is laid out as to. Both specs have the same local shape
// and the same partial axes. Pairs are (source, target) positions, targets
// ascending; every position is once a source and once a target. A device that
// already holds its piece keeps it; the others take theirs from the holders left,
// in order.
func permutePairs(m *mesh.Mesh, from, to Spec) [][2]int {
	sources := map[string][]int{} // piece -> positions that hold it under from
	for pos := range m.NumDevices() {
		if k := pieceKey(m, from, pos); k == pieceKey(m, to, pos) {
			continue
		} else {
			sources[k] = append(sources[k], pos)
		}
	}
	pairs := make([][2]int, m.NumDevices())
	for pos := range pairs {
		k := pieceKey(m, to, pos)
		if k == pieceKey(m, from, pos) {
			pairs[pos] = [2]int{pos, pos}
			continue
		}
		pairs[pos] = [2]int{sources[k][0], pos}
		sources[k] = sources[k][1:]
	}
	return pairs
}

// pieceKey names the piece that a device holds, by its index along each dim and the number
// of its addend, so that equal keys mean equal pieces.
func pieceKey(m *mesh.Mesh, s Spec, pos int) string {
	at := make([]int, 0, len(s.dims)+1)
	for _, d := range s.dims {
		at = append(at, m.Index(pos, d...))
	}
	return fmt.Sprint(append(at, m.Index(pos, s.partial...)))
}

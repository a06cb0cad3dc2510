package topology

import (
	"cmp"
	"slices"

	"weft/internal/numbers"
)

// The rules by which a shape is one that can be had (facts topology_rule and
// max_slice). Chips come in cubes of 4x4x4 on the generations with a 3D torus,
// beside a few shapes smaller than a cube; on the others the data lists every
// shape there is.

// cubes says of which shapes the slices of a 3D torus are. Its source is the fact topology_rule.
type cubes struct {
	Most          int      `json:"most"` // cubes of one slice
	SmallerShapes []string `json:"smaller_shapes"`
}

// chipsPerCube are the chips of a cube of 4x4x4.
const chipsPerCube = 64

// smallerShapes lists the shapes of less than a cube.
func (c *cubes) smallerShapes() [][]int {
	var out [][]int
	for _, text := range c.SmallerShapes {
		shape, _ := parseShape(text) // checkCubes has read it
		out = append(out, shape)
	}
	return out
}

// rowOf finds the row of a shape; nil where the data has none.
func (g *Generation) rowOf(shape []int) *sliceRow {
	text := numbers.SizesText(shape)
	for i := range g.rows {
		if g.rows[i].Topology == text {
			return &g.rows[i]
		}
	}
	return nil
}

// shapesOf lists the legal shapes with a number of chips. The usual shape, the one nearest
// to a cube, comes first. It is the shape that MaxText's tables name, where they name one;
// a test goes through all of them.
func shapesOf(g *Generation, chips int) [][]int {
	var out [][]int
	if g.cubes != nil {
		for _, s := range g.cubes.smallerShapes() {
			if numbers.Product(s) == chips {
				out = append(out, s)
			}
		}
		n := chips / chipsPerCube
		if chips%chipsPerCube != 0 || n > g.cubes.Most {
			return out
		}
		for a := 1; a*a*a <= n; a++ {
			for b := a; n%a == 0 && a*b*b <= n; b++ {
				if n%(a*b) == 0 {
					out = append(out, []int{4 * a, 4 * b, 4 * (n / (a * b))})
				}
			}
		}
	} else {
		for i := range g.rows {
			if g.rows[i].Chips == chips {
				out = append(out, g.rows[i].shape())
			}
		}
	}
	slices.SortFunc(out, func(a, b []int) int {
		return cmp.Or(cmp.Compare(slices.Max(a), slices.Max(b)), cmp.Compare(sumSizes(a), sumSizes(b)))
	})
	return out
}

func sumSizes(shape []int) int {
	n := 0
	for _, s := range shape {
		n += s
	}
	return n
}

// legalChipCounts lists the numbers of chips that a generation's slices have, ascending.
func legalChipCounts(g *Generation) []int {
	var out []int
	if g.cubes != nil {
		for _, s := range g.cubes.smallerShapes() {
			out = append(out, numbers.Product(s))
		}
		for n := 1; n <= g.cubes.Most; n++ {
			out = append(out, chipsPerCube*n)
		}
		return out
	}
	for _, r := range g.rows {
		out = append(out, r.Chips)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func isLegalShape(g *Generation, shape []int) bool {
	return slices.ContainsFunc(shapesOf(g, numbers.Product(shape)), func(s []int) bool { return slices.Equal(s, shape) })
}

// wrappedDims says which dims of a shape close to rings: on a 3D torus all of them from
// whole cubes up, on v5e and v6e those of 16. nil means that it is not known (v2, v3).
func wrappedDims(g *Generation, shape []int) []bool {
	if r := g.rowOf(shape); r != nil {
		return r.Wrap
	}
	// A shape that the data does not have is one of cubes.
	whole := !slices.ContainsFunc(shape, func(s int) bool { return s%4 != 0 })
	return []bool{whole, whole, whole}
}

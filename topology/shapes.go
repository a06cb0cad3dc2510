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

// cubes is how many 4x4x4 cubes one slice has at most; 0 for a 2D generation.
// v5p: 140 is the pod (16x20x28), more than the largest job (6144 chips) that
// the vendor's page lists.
var cubes = map[string]int{"v4": 64, "v5p": 140, "tpu7x": 144}

// smallShapes lists the shapes of a 3D generation that are smaller than a cube.
func smallShapes(gen string) [][]int {
	list := [][]int{{2, 2, 1}, {2, 2, 2}, {2, 2, 4}, {2, 4, 4}}
	if gen == "tpu7x" {
		return append([][]int{{1, 1, 1}}, list...)
	}
	return list
}

// shapesOf lists the legal shapes with a number of chips. The usual shape, the one nearest
// to a cube, comes first. It is the shape that MaxText's tables name, where they name one;
// a test goes through all of them.
func shapesOf(g *Generation, chips int) [][]int {
	var out [][]int
	if most := cubes[g.Name]; most > 0 {
		for _, s := range smallShapes(g.Name) {
			if numbers.Product(s) == chips {
				out = append(out, s)
			}
		}
		n := chips / 64
		if chips%64 != 0 || n > most {
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
		for _, r := range load().Slices {
			if r.Gen == g.Name && r.Chips == chips {
				s, _ := parseShape(r.Topology)
				out = append(out, s)
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
	if most := cubes[g.Name]; most > 0 {
		for _, s := range smallShapes(g.Name) {
			out = append(out, numbers.Product(s))
		}
		for n := 1; n <= most; n++ {
			out = append(out, 64*n)
		}
		return out
	}
	for _, r := range load().Slices {
		if r.Gen == g.Name {
			out = append(out, r.Chips)
		}
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
	if r := load().rows[g.Name+":"+shapeText(shape)]; r != nil {
		return r.Wrap
	}
	// A shape that the data does not have is one of cubes.
	whole := !slices.ContainsFunc(shape, func(s int) bool { return s%4 != 0 })
	return []bool{whole, whole, whole}
}

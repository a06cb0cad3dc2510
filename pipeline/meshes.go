package pipeline

import (
	"cmp"
	"slices"

	"weft/mesh"
)

// meshesOf lists the meshes over some axes of at most n devices, those of more devices first.
// prefer orders the meshes of equally many devices: the one with the smallest key comes first.
func meshesOf(n int, axes []string, prefer func(sizes map[string]int) []int) [][]mesh.Axis {
	var out [][]mesh.Axis
	for devices := n; devices >= 1; devices-- {
		if n%devices != 0 {
			continue // equal shares of the devices, so that a mesh is the same in every run
		}
		var same []map[string]int
		eachSplit(devices, axes, map[string]int{}, func(sizes map[string]int) { same = append(same, sizes) })
		slices.SortStableFunc(same, func(a, b map[string]int) int { return slices.Compare(prefer(a), prefer(b)) })
		for _, sizes := range same {
			m := []mesh.Axis{}
			for _, name := range axes {
				m = append(m, mesh.Axis{Name: name, Size: cmp.Or(sizes[name], 1)})
			}
			out = append(out, mesh.Standard(m))
		}
	}
	return out
}

// eachSplit calls visit with every way to write n as a product of axes' sizes.
func eachSplit(n int, axes []string, taken map[string]int, visit func(map[string]int)) {
	if len(axes) == 1 {
		sizes := map[string]int{axes[0]: n}
		for k, v := range taken {
			sizes[k] = v
		}
		visit(sizes)
		return
	}
	for size := 1; size <= n; size++ {
		if n%size == 0 {
			next := map[string]int{axes[0]: size}
			for k, v := range taken {
				next[k] = v
			}
			eachSplit(n/size, axes[1:], next, visit)
		}
	}
}

// firstLegal returns the first of some meshes that check accepts, and the error of the last one
// where there is none.
func firstLegal(meshes [][]mesh.Axis, check func([]mesh.Axis) error) (legal []mesh.Axis, err error) {
	for _, m := range meshes {
		if err = check(m); err == nil {
			return m, nil
		}
	}
	return nil, err
}

// textMeshes lists meshes for a text encoder: its layers are split over tp, which shares its
// weights; what tp cannot take, dp takes, for the prompt beside the negative prompt.
func textMeshes(devices int) [][]mesh.Axis {
	return meshesOf(devices, []string{mesh.DP, mesh.TP}, func(s map[string]int) []int { return []int{s[mesh.DP]} })
}

// pictureMeshes lists meshes for an autoencoder of latents of rows x cols: pictures are split in
// rows over sp and in columns over tp, the least padding first, then the squarest parts.
func pictureMeshes(devices, rows, cols int) [][]mesh.Axis {
	return meshesOf(devices, []string{mesh.TP, mesh.SP}, func(s map[string]int) []int {
		h, w := (rows+s[mesh.SP]-1)/s[mesh.SP], (cols+s[mesh.TP]-1)/s[mesh.TP]
		return []int{h * w, h + w}
	})
}

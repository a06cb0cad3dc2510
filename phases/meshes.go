package phases

import (
	"cmp"
	"slices"

	"weft/internal/numbers"
	"weft/mesh"
	"weft/models"
)

// meshesOf lists the meshes over dp, tp and sp of at most n devices, those of more devices
// first. rank orders the meshes of equally many devices; nil is a mesh that is not wanted.
func meshesOf(n int, rank func(dp, tp, sp int) []int) [][]mesh.Axis {
	var out [][]mesh.Axis
	for _, devices := range slices.Backward(numbers.Divisors(n, n)) {
		type ranked struct {
			axes []mesh.Axis
			rank []int
		}
		var same []ranked
		for _, dp := range numbers.Divisors(devices, devices) {
			for _, tp := range numbers.Divisors(devices/dp, devices) {
				sp := devices / dp / tp
				if at := rank(dp, tp, sp); at != nil {
					same = append(same, ranked{[]mesh.Axis{{Name: mesh.DP, Size: dp}, {Name: mesh.TP, Size: tp}, {Name: mesh.SP, Size: sp}}, at})
				}
			}
		}
		slices.SortStableFunc(same, func(a, b ranked) int { return slices.Compare(a.rank, b.rank) })
		for _, m := range same {
			out = append(out, m.axes)
		}
	}
	return out
}

// TextMeshes lists meshes for an encoder of texts or images, the best first: tp splits its layers and shares out its weights;
// dp takes what tp cannot, for the prompt beside the negative prompt.
func TextMeshes(devices int) [][]mesh.Axis {
	return meshesOf(devices, func(dp, _, sp int) []int {
		if sp > 1 {
			return nil
		}
		return []int{dp}
	})
}

// PictureMeshes lists meshes for an autoencoder of a request, the best first: videos are split over dp first,
// because they exchange nothing; then rows over sp and columns over tp, the least padding
// first, then the squarest parts, whose edges are shortest.
func PictureMeshes(devices int, r models.Request) [][]mesh.Axis {
	return meshesOf(devices, func(dp, tp, sp int) []int {
		if cmp.Or(r.Batch, 1)%dp != 0 || len(r.Latent) != 4 {
			return nil
		}
		h, w := (r.Latent[2]+sp-1)/sp, (r.Latent[3]+tp-1)/tp
		return []int{-dp, h * w, h + w}
	})
}

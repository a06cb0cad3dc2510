package pipeline

import (
	"weft/mesh"
	"weft/models"
	"weft/phases"
)

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

// textMeshes lists meshes for a text encoder or an image encoder, as plans have them.
func textMeshes(devices int) [][]mesh.Axis { return phases.TextMeshes(devices) }

// pictureMeshes lists meshes for an autoencoder of one video's latents of rows x cols, as plans
// have them.
func pictureMeshes(devices, rows, cols int) [][]mesh.Axis {
	return phases.PictureMeshes(devices, models.Request{Batch: 1, Latent: []int{1, 1, rows, cols}})
}

package hunyuan15vae_test

import (
	"os"
	"slices"
	"testing"

	"weft/internal/modeltest"
)

const dir = "../../testdata/vaes/hunyuan_video_15"

// The fixture's grids: 3 latent frames of 3 x 2, which are 9 frames of 48 x 32 pixels; one of 5 x 6
// in tiles.
var fixture = modeltest.Autoencoder{Dir: dir, Latents: "z_raw", Tolerance: 1e-4}

// Every legal mesh, and XLA, with WEFT_LONG_TESTS; otherwise some meshes.
func TestFixtureOnMeshes(t *testing.T) {
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	meshes := fixture.Meshes(t, 8, "")
	if len(meshes) != 20 { // every tp*sp up to 8
		t.Errorf("%d legal meshes", len(meshes))
	}
	if !long {
		meshes = []string{"", "sp=2", "tp=2", "tp=3,sp=2"}
	}
	for _, on := range meshes {
		fixture.On(t, "reference", on, "")
	}
	if long && slices.Contains(modeltest.Devices(), "cpu") {
		fixture.On(t, "cpu", "tp=2,sp=2", "")
	}
}

package ltxvae_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"weft/internal/modeltest"
)

const testdata = "../../testdata/vaes/"

// The fixtures' grids: 2 latent frames of 1 x 2, which are 9 frames of 32 x 64 pixels; 0.9.5 also
// one of 2 x 3 in tiles. Their latents have the mean 0 and the deviation 1.
var (
	plain   = modeltest.Autoencoder{Dir: testdata + "ltx_090", Latents: "z_raw", Tolerance: 1e-4}
	noisy   = modeltest.Autoencoder{Dir: testdata + "ltx_091", Latents: "z_raw", Beside: append([]string{"timestep"}, noises(8)...), Tolerance: 1e-4}
	folding = modeltest.Autoencoder{Dir: testdata + "ltx_095", Latents: "z_raw", Beside: []string{"timestep"}, Tolerance: 1e-4}
)

func noises(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("noise.", i)
	}
	return names
}

// Every legal mesh, and XLA, with WEFT_LONG_TESTS; otherwise some meshes of each fixture.
func TestFixturesOnMeshes(t *testing.T) {
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	for _, c := range []struct {
		fixture modeltest.Autoencoder
		some    []string
	}{{plain, []string{"", "sp=2", "tp=2", "tp=3,sp=2"}}, {noisy, []string{"", "tp=2", "tp=3,sp=2"}}, {folding, []string{"", "sp=3", "tp=2,sp=2"}}} {
		meshes := c.fixture.Meshes(t, 8, "")
		if len(meshes) != 20 { // every tp*sp up to 8
			t.Errorf("%s: %d legal meshes", c.fixture.Dir, len(meshes))
		}
		if !long {
			meshes = c.some
		}
		for _, on := range meshes {
			c.fixture.On(t, "reference", on, "")
		}
		if long && slices.Contains(modeltest.Devices(), "cpu") {
			c.fixture.On(t, "cpu", "tp=2,sp=2", "")
		}
	}
	if slices.Contains(modeltest.Devices(), "cpu") && !long {
		plain.On(t, "cpu", "sp=2", "")
	}
}

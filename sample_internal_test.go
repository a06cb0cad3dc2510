package weft

import (
	"errors"
	"testing"

	"weft/dtype"
	"weft/models"
	"weft/tensor"
)

// A step's output that is no velocity of the latents is an error, whatever its size.
func TestOutputsThatAreNoLatents(t *testing.T) {
	for _, name := range []string{"wan2.1-t2v-1.3b", "ltx-video-2b", "cogvideox-5b", "hunyuanvideo-cfgdistill"} {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		g := m.Features().Generator
		latent, err := g.LatentShape(64, 64, 9)
		if err != nil {
			t.Fatal(err)
		}
		j := &sampling{g: g, run: &Run{req: models.Request{Batch: 1, Latent: latent}}, shape: append([]int{1}, latent...)}
		for _, out := range []*tensor.Tensor{nil, tensor.New(dtype.F32, 1), tensor.New(dtype.F32, 1, 2*latent[0], latent[1], latent[2], latent[3]), tensor.New(dtype.F32, 1, latent[0]/2, latent[1], latent[2], latent[3])} {
			if _, err := j.latentsOf(out); !errors.Is(err, models.ErrOutput) {
				t.Errorf("%s: %v of latents %v: %v", name, out, latent, err)
			}
		}
	}
}

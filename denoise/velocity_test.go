package denoise

import (
	"errors"
	"testing"

	"weft/dtype"
	"weft/models"
	_ "weft/models/all"
	"weft/tensor"
)

// A step's output that is no velocity of the latents is an error, whatever its size.
func TestOutputsThatAreNoLatents(t *testing.T) {
	for _, name := range []string{"wan2.1-t2v-1.3b", "ltx-video-2b", "cogvideox-5b", "hunyuanvideo-cfgdistill"} {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := familyOf(m)
		if err != nil {
			t.Fatal(err)
		}
		latent, err := f.LatentShape(64, 64, 9)
		if err != nil {
			t.Fatal(err)
		}
		l := &Loop{family: f, shape: append([]int{1}, latent...)}
		for _, out := range []*tensor.Tensor{nil, tensor.New(dtype.F32, 1), tensor.New(dtype.F32, 1, 2*latent[0], latent[1], latent[2], latent[3]), tensor.New(dtype.F32, 1, latent[0]/2, latent[1], latent[2], latent[3])} {
			if _, err := l.latentsOf(models.Request{Batch: 1, Latent: latent}, out); !errors.Is(err, models.ErrOutput) {
				t.Errorf("%s: %v of latents %v: %v", name, out, latent, err)
			}
		}
	}
}

package models_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/models"
	_ "weft/models/all"
)

// Of every number of frames that a model with cuts makes and its autoencoder decodes, the latents
// tell the number again, with those that are left out.
func TestFramesOfLatents(t *testing.T) {
	for _, name := range []string{"cogvideox-1.5-5b", "cogvideox-1.5-5b-i2v", "hunyuanvideo-i2v-33ch", "cogvideox-5b"} {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		g := m.Features().Generator
		vae, err := models.ByName(g.Companions.Decoder)
		if err != nil {
			t.Fatal(err)
		}
		decode := vae.Features().Decoder.VideoShape
		known := 0
		rapid.Check(t, func(t *rapid.T) {
			frames := rapid.IntRange(1, 200).Draw(t, "frames")
			latent, err := g.LatentShape(64, 96, frames)
			if err != nil {
				return
			}
			decoded := g.DecodedLatents(latent, frames)
			shape, err := decode(decoded)
			if err != nil || g.ShownFrames(shape[1]) != frames {
				return // not one that its autoencoder decodes
			}
			known++
			got, surplus, err := g.FramesOf(latent, decode)
			if err != nil || got != frames || latent[1]-surplus != decoded[1] {
				t.Errorf("%s: latents %v of %d frames are read as %d with %d left out: %v", name, latent, frames, got, surplus, err)
			}
		})
		if known == 0 {
			t.Errorf("%s: no number of frames was tried", name)
		}
	}
}

// The released numbers: 81 frames of CogVideoX 1.5 are 22 latent frames, of which 21 are decoded; 125
// of HunyuanVideo-I2V with 33 channels are the last of 129.
func TestCutsOfReleases(t *testing.T) {
	for _, c := range []struct {
		name            string
		frames          int
		latent, decoded int
		shown           int // of so many frames that are decoded
		of              int
	}{
		{"cogvideox-1.5-5b", 81, 22, 21, 81, 81}, {"cogvideox-1.5-5b-i2v", 161, 42, 41, 161, 161},
		{"hunyuanvideo-i2v-33ch", 125, 33, 33, 125, 129}, {"hunyuanvideo-i2v", 129, 33, 33, 129, 129},
	} {
		m, err := models.ByName(c.name)
		if err != nil {
			t.Fatal(err)
		}
		g := m.Features().Generator
		latent, err := g.LatentShape(1280, 720, c.frames)
		if c.name[0] == 'c' {
			latent, err = g.LatentShape(1360, 768, c.frames)
		}
		if err != nil {
			t.Fatal(err)
		}
		if decoded := g.DecodedLatents(latent, c.frames); latent[1] != c.latent || decoded[1] != c.decoded || !slices.Equal(decoded[2:], latent[2:]) {
			t.Errorf("%s: latents %v, decoded %v", c.name, latent, decoded)
		}
		if got := g.ShownFrames(c.of); got != c.shown {
			t.Errorf("%s: %d of %d frames are shown", c.name, got, c.of)
		}
	}
}

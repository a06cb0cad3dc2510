package hunyuanvae

import (
	"testing"

	"pgregory.net/rapid"
)

// Tiles along time of the release, worked out by hand.
func TestTimeTiles(t *testing.T) {
	c := defaultConfig
	for _, k := range []struct {
		what string
		got  []tile
		want []tile
	}{
		{"4 latent frames are whole", c.decodeTiles(4), []tile{{0, 4, 13, 0, 0, 13}}},
		{"5", c.decodeTiles(5), []tile{{0, 5, 17, 0, 0, 13}, {3, 2, 5, 1, 4, 4}}},
		{"7: the last latent frame alone shows nothing", c.decodeTiles(7), []tile{{0, 5, 17, 0, 0, 13}, {3, 4, 13, 1, 4, 12}}},
		{"8", c.decodeTiles(8), []tile{{0, 5, 17, 0, 0, 13}, {3, 5, 17, 1, 4, 12}, {6, 2, 5, 1, 4, 4}}},
		{"13 frames of a video are whole", c.encodeTiles(13), []tile{{0, 13, 4, 0, 0, 4}}},
		{"29", c.encodeTiles(29), []tile{{0, 17, 5, 0, 0, 4}, {12, 17, 5, 1, 1, 3}, {24, 5, 2, 1, 1, 1}}},
	} {
		if len(k.got) != len(k.want) {
			t.Errorf("%s: %v, want %v", k.what, k.got, k.want)
			continue
		}
		for i := range k.got {
			if k.got[i] != k.want[i] {
				t.Errorf("%s: tile %d is %+v, want %+v", k.what, i, k.got[i], k.want[i])
			}
		}
	}
}

// What tiles show is the whole, whatever the length of tiles, each frame once; what is blended of
// a tile lies where the frames of the tile before lie that it does not show.
func TestTimeTilesShowTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{TileFrames: framesPerLatent * tileShare * rapid.IntRange(1, 8).Draw(t, "length")}
		latents := rapid.IntRange(1, 200).Draw(t, "latents")
		decoded, encoded := c.decodeTiles(latents), c.encodeTiles(decodedOf(latents))
		for _, half := range []struct {
			tiles []tile
			shown int
			unit  func(first int) int // the place of an input frame in the output
		}{
			{decoded, decodedOf(latents), func(first int) int { return framesPerLatent * first }},
			{encoded, latents, func(first int) int { return first / framesPerLatent }},
		} {
			shown := 0
			for i, x := range half.tiles {
				if at := half.unit(x.first) + x.skip; at != shown {
					t.Fatalf("tile %d shows from %d on where %d are shown", i, at, shown)
				}
				if x.blended > x.keep || x.skip+x.keep > x.made {
					t.Fatalf("tile %d is %+v", i, x)
				}
				if i > 0 {
					before := half.tiles[i-1]
					if end := half.unit(before.first) + before.made; end-x.blended != shown {
						t.Fatalf("tile %d blends %d frames from %d on, where the tile before ends at %d", i, x.blended, shown, end)
					}
				}
				shown += x.keep
			}
			if shown != half.shown {
				t.Fatalf("%d frames are shown of %d", shown, half.shown)
			}
		}
	})
}

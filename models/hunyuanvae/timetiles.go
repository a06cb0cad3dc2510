package hunyuanvae

// The release cuts a video along time into tiles that overlap, and blends them where they do.
// Each tile is a video of its own: its first latent frame stands for one frame, and is left out of
// all tiles but the first. It gives other numbers than the whole would, whose norms and
// attention see every frame.

// tile is a tile along time.
type tile struct {
	first, frames int // of the input: of latents where it decodes, of the video where it encodes
	// made is the number of frames of the output that it makes. From skip on they count.
	made, skip int
	// blended of them are mixed with the last ones of the tile before it; keep of them, from skip
	// on, are shown.
	blended, keep int
}

// cutTime cuts n frames into tiles of size and one more, which lie stride apart. One tile takes
// all where there are no more than size. make is the number of frames that a tile makes of so
// many, makes how many it makes of size of them without the one before, and overlap how many
// of those are blended.
func cutTime(n, size, stride int, made func(frames int) int, makes, overlap int) []tile {
	if n <= size {
		return []tile{{frames: n, made: made(n), keep: made(n)}}
	}
	var out []tile
	for at := 0; at < n; at += stride {
		t := tile{first: at, frames: min(size+1, n-at)}
		t.made = made(t.frames)
		if at == 0 {
			t.keep = min(t.made, makes-overlap+1)
			out = append(out, t)
			continue
		}
		t.skip = 1
		own := t.made - t.skip
		if own == 0 {
			continue // one frame, which the tile before has
		}
		before := out[len(out)-1]
		t.blended, t.keep = min(before.made-before.skip, own, overlap), min(own, makes-overlap)
		out = append(out, t)
	}
	return out
}

// decodedOf is the number of frames that latent frames are decoded to.
func decodedOf(latents int) int { return 1 + framesPerLatent*(latents-1) }

// encodedOf is the number of latent frames that frames are encoded to.
func encodedOf(frames int) int { return 1 + (frames-1)/framesPerLatent }

// decodeTiles cuts latent frames.
func (c Config) decodeTiles(latents int) []tile {
	size, overlap := c.TileFrames/framesPerLatent, c.TileFrames/tileShare
	return cutTime(latents, size, size-size/tileShare, decodedOf, c.TileFrames, overlap)
}

// encodeTiles cuts frames of a video.
func (c Config) encodeTiles(frames int) []tile {
	latents, overlap := c.TileFrames/framesPerLatent, c.TileFrames/tileShare
	return cutTime(frames, c.TileFrames, c.TileFrames-overlap, encodedOf, latents, latents/tileShare)
}

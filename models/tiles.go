package models

import (
	"fmt"

	"weft/fault"
)

// Tiles are the sizes with which an autoencoder cuts pictures into overlapping tiles, in pixels:
// how large a tile is, and how far it lies from the next one.
type Tiles struct {
	Height       int `json:"height"`
	Width        int `json:"width"`
	StrideHeight int `json:"stride_height"`
	StrideWidth  int `json:"stride_width"`
}

// ReleasedTiles are the sizes that most autoencoders are released with.
var ReleasedTiles = Tiles{Height: 256, Width: 256, StrideHeight: 192, StrideWidth: 192}

// ParseTiles reads sizes of tiles: HEIGHTxWIDTH,STRIDExSTRIDE in pixels, or "release" for those of
// a model's release, for which no sizes stand (Tiled.Sizes). Error: ErrSize.
func ParseTiles(text string) (Tiles, error) {
	if text == "release" {
		return Tiles{}, nil
	}
	var t Tiles
	const form = "%dx%d,%dx%d"
	_, err := fmt.Sscanf(text, form, &t.Height, &t.Width, &t.StrideHeight, &t.StrideWidth)
	if err != nil || fmt.Sprintf(form, t.Height, t.Width, t.StrideHeight, t.StrideWidth) != text {
		return Tiles{}, fault.New(ErrSize, nil, "tiles %q: want \"release\" for the release's own, or height x width and how far they lie apart, in pixels, like 256x256,192x192", text)
	}
	return t, nil
}

// Check reports sizes that are no multiple of unit or leave gaps. Error: ErrSize.
func (t Tiles) Check(unit int) error {
	var l fault.List
	for _, d := range []struct {
		what       string
		tile, step int
	}{{"height", t.Height, t.StrideHeight}, {"width", t.Width, t.StrideWidth}} {
		for _, n := range []struct {
			what string
			size int
		}{{"tile " + d.what, d.tile}, {"stride of tiles along the " + d.what, d.step}} {
			if n.size < unit || n.size%unit != 0 {
				l.Add(fault.New(ErrSize, nil, "%s %d: want a multiple of %d pixels, which a latent stands for; nearest: %d", n.what, n.size, unit, max(unit, (n.size+unit/2)/unit*unit)))
			}
		}
		if d.step > d.tile {
			l.Add(fault.New(ErrSize, nil, "tiles of %s %d that lie %d apart leave gaps: want a stride of at most %d", d.what, d.tile, d.step, d.tile))
		}
	}
	return l.Err()
}

// TiledDim says how one dim of the pictures is cut into tiles and put together again.
type TiledDim struct {
	Spans [][2]int // of each tile in the input: [from, to)
	// Of each tile of the output the first Keep rows are kept. Before that, its first Blend
	// groups of Group rows are mixed with the last ones of the tile before it.
	Keep, Blend, Group int
	Size               int // of the whole output
}

// Tiled takes an autoencoder's input in tiles. What comes out differs from what the
// whole gives, since no tile knows what lies beyond it.
type Tiled struct {
	// Tile returns how rows and columns of a request are cut, and the requests of tiles by
	// their rows and columns of the input. Without need for tiles, since the pictures are no larger
	// than one, ok is false. Error: ErrSize.
	Tile func(r Request, t Tiles) (rows, cols TiledDim, ok bool, err error)
	// Finish completes an output of the whole that was put together from tiles: what is
	// bounded is bounded after the tiles are blended.
	Finish func(output string, values []float32)
	// Release has the sizes that the release has.
	Release Tiles
}

// Sizes are the sizes that are asked for, or where none are the release's own.
func (d *Tiled) Sizes(asked Tiles) Tiles {
	if asked == (Tiles{}) {
		return d.Release
	}
	return asked
}

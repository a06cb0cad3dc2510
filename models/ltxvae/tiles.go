package ltxvae

import (
	"weft/fault"
	"weft/models"
)

// releasedTiles are the sizes of diffusers' AutoencoderKLLTXVideo.
var releasedTiles = models.Tiles{Height: 512, Width: 512, StrideHeight: 448, StrideWidth: 448}

// Tile cuts a request into tiles as diffusers' AutoencoderKLLTXVideo does. A decoder that injects
// noise draws other noise for every tile there, which no input has: it is refused. Error: ErrSize,
// ErrVariant.
func (m *Model) Tile(r models.Request, t models.Tiles) (rows, cols models.TiledDim, ok bool, err error) {
	rows, cols, ok, err = m.pictures.Tile(r, t)
	if n := len(m.c.noiseScales()); ok && n > 0 && !r.Encode {
		err = fault.New(models.ErrVariant, nil, "%s in tiles: its decoder injects noise, and every tile would draw its own %d planes; "+
			"split it over more devices, which changes nothing", m.pictures.Model, n)
	}
	return rows, cols, ok && err == nil, err
}

// Package all registers every model family.
package all

import (
	_ "weft/models/clip"         // registers itself
	_ "weft/models/cogvae"       // registers itself
	_ "weft/models/cogvideox"    // registers itself
	_ "weft/models/cosmos25"     // registers itself
	_ "weft/models/cosmos3"      // registers itself
	_ "weft/models/decoder"      // registers itself
	_ "weft/models/hunyuan"      // registers itself
	_ "weft/models/hunyuan15vae" // registers itself
	_ "weft/models/hunyuanvae"   // registers itself
	_ "weft/models/ltx"          // registers itself
	_ "weft/models/ltxvae"       // registers itself
	_ "weft/models/t5"           // registers itself
	_ "weft/models/wan"          // registers itself
	_ "weft/models/wanvae"       // registers itself
)

package clip

import (
	"fmt"
	"math"
)

// releasedHeadDim is the width of a head in the released image towers, which shapes do not
// tell.
const releasedHeadDim = 80

// configOfShapes returns the image tower that tensors of these names and shapes are of, as
// files without a config.json have it. The width of heads, the activation and the norms' eps
// are as in the release. All layers are in such a file, of which the last one is not run.
func configOfShapes(shapes map[string][]int) (Config, bool) {
	for _, publisher := range []string{"wan", "transformers"} {
		c := Config{Tower: vision, Names: publisher, Eps: 1e-5, Act: "gelu"}
		n := namesOf(c)
		patch, places, up := shapes[n.patch+".weight"], shapes[n.places], shapes[fmt.Sprintf(n.block, 0)+n.up+".weight"]
		if len(patch) != 4 || patch[1] != 3 || patch[2] != patch[3] || len(places) < 2 || len(up) != 2 {
			continue
		}
		c.Dim, c.PatchSize, c.FFNDim = patch[0], patch[2], up[0]
		tokens := places[len(places)-2]
		grid := int(math.Round(math.Sqrt(float64(max(0, tokens-1)))))
		c.Heads, c.ImageSize = c.Dim/releasedHeadDim, grid*c.PatchSize
		layers := 0
		for shapes[fmt.Sprintf(n.block, layers)+n.up+".weight"] != nil {
			layers++
		}
		c.Layers = layers - 1
		return c, grid > 0 && grid*grid == tokens-1 && c.Dim%releasedHeadDim == 0 && c.Heads > 0 && c.Layers > 0
	}
	return Config{}, false
}

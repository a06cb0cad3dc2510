package wanvae

import "slices"

// configOfShapes returns the autoencoder that tensors of these names and shapes are of. Number
// and kind of the stages are as in all releases, and so are the statistics of the latents,
// which only the releases' code states.
func configOfShapes(shapes map[string][]int) (Config, bool) {
	in, z, top := shapes["encoder.conv1.weight"], shapes["conv2.weight"], shapes["decoder.conv1.weight"]
	if len(in) != 5 || len(z) != 5 || len(top) != 5 {
		return Config{}, false
	}
	for _, like := range released {
		c := like
		last := c.DimMult[len(c.DimMult)-1]
		c.Dim, c.DecDim = in[0], top[0]/last
		if z[0] == c.ZDim && top[0]%last == 0 && in[1] == c.pixelChannels() && slices.Max(c.DimMult) <= top[0] {
			return c, true
		}
	}
	return Config{}, false
}

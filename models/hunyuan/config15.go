package hunyuan

const (
	officialClass15  = "HunyuanVideo_1_5_DiffusionTransformer"
	diffusersClass15 = "HunyuanVideo15Transformer3DModel"
)

var defaults15 = Config{Dim: 2048, Heads: 16, In: 32, Out: 32, MLPRatio: 4, Double: 54, Patch: [3]int{1, 1, 1},
	RopeDims: [3]int{16, 56, 56}, RopeTheta: 256, TextDim: 3584, Glyphs: true, GlyphDim: 1472, GlyphHidden: 2048, VisionDim: 1152}

// resolutions are the words of releases' names by the base of their sizes.
var resolutions = map[int]string{640: "480p", 960: "720p"}

// embeddedChannels is the number of channels that img_in embeds: those of the latents and, in 1.5
// and where an image's latents are concatenated, those of the image's latents and one that marks the frames that the image gives.
func (c Config) embeddedChannels() int {
	if c.Glyphs || c.ImageCondition == latentConcat {
		return 2*c.In + 1
	}
	return c.In
}

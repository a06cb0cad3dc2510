package hunyuan

import "weft/models"

const (
	officialClass15  = "HunyuanVideo_1_5_DiffusionTransformer"
	diffusersClass15 = "HunyuanVideo15Transformer3DModel"
)

var defaults15 = Config{Dim: 2048, Heads: 16, In: 32, Out: 32, MLPRatio: 4, Double: 54, Patch: [3]int{1, 1, 1},
	RopeDims: [3]int{16, 56, 56}, RopeTheta: 256, TextDim: 3584, Glyphs: true, GlyphDim: 1472, GlyphHidden: 2048, VisionDim: 1152}

// embeddedChannels is the number of channels that img_in embeds: those of the latents and,
// in 1.5, those of the image's latents and one that marks the frames that the image gives.
func (c Config) embeddedChannels() int {
	if c.Glyphs {
		return 2*c.In + 1
	}
	return c.In
}

// fromOfficial15 reads the release's config of HunyuanVideo-1.5.
func fromOfficial15(r *models.ConfigReader) Config {
	const of = "HunyuanVideo-1.5"
	c := readOfficial(r, defaults15)
	r.Fixed("glyph_byT5_v2", true, of)
	r.Fixed("mm_single_blocks_depth", 0, of)
	r.Fixed("guidance_embed", false, of)
	r.Fixed("concat_condition", true, of)
	r.Fixed("is_reshape_temporal_channels", false, of)
	r.Fixed("vision_projection", "linear", of)
	r.Fixed("use_cond_type_embedding", true, of)
	r.Fixed("use_meanflow", false, of)
	r.Fixed("text_pool_type", nil, of)
	r.Metadata("text_states_dim_2") // width of the pooled text, which HunyuanVideo alone reads
	readGlyphs(r, &c, "byt5_dim", "vision_states_dim")
	return c
}

// readGlyphs reads the widths of the modules that embed byT5's rows and the image's
// features.
func readGlyphs(r *models.ConfigReader, c *Config, glyphs, vision string) {
	c.GlyphDim, c.GlyphHidden = r.Int(glyphs, defaults15.GlyphDim, models.WidthBound), r.Int("byt5_hidden", defaults15.GlyphHidden, models.WidthBound)
	c.VisionDim = r.Int(vision, defaults15.VisionDim, models.WidthBound)
}

// fromDiffusers15 reads diffusers' config of HunyuanVideo-1.5.
func fromDiffusers15(r *models.ConfigReader) Config {
	c := readDiffusers(r, defaults15, 1)
	r.Fixed("use_meanflow", false, "HunyuanVideo-1.5")
	r.Metadata("target_size", "task_type") // what diffusers' pipeline looks up
	readGlyphs(r, &c, "text_embed_2_dim", "image_embed_dim")
	in := r.Int("in_channels", defaults15.embeddedChannels(), models.ChannelBound)
	if c.In = (in - 1) / 2; c.embeddedChannels() != in {
		r.Unsupported("in_channels %d: want an odd number, the latents', the image's and one more; nearest: %d or %d", in, in-1, in+1)
	}
	return c
}

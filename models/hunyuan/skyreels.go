package hunyuan

import "weft/models"

// refuseSkyReels refuses SkyReels-V1's image-to-video by its name: HunyuanVideo's transformer, which
// embeds an image's latents behind the video's, as many channels again.
func refuseSkyReels(c *Config, r *models.ConfigReader) {
	if !c.Glyphs && c.In == 2*c.Out && r.Sound("in_channels", "out_channels") {
		r.Unsupported("in_channels %d, twice out_channels: this is SkyReels-V1's image-to-video, of which weft lacks the image's latents behind the video's; "+
			"the nearest that run: wan2.1-i2v-14b and wan2.2-i2v-a14b make a video of an image, hunyuanvideo one of text", c.In)
	}
}

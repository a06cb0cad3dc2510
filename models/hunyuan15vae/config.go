package hunyuan15vae

import (
	"math/bits"
	"slices"

	"weft/models"
	"weft/models/vae"
)

// Config is an autoencoder of HunyuanVideo-1.5, in diffusers' words.
type Config struct {
	// Widths has the number of channels of each stage of the encoder. The decoder has them in
	// the reverse order.
	Widths    []int   `json:"block_out_channels"`
	Latents   int     `json:"latent_channels"` // channels of the latents
	ResBlocks int     `json:"layers_per_block"`
	Space     int     `json:"spatial_compression_ratio"`  // pixels that a latent position is wide and high
	Time      int     `json:"temporal_compression_ratio"` // frames that a latent frame stands for
	Scale     float64 `json:"scaling_factor"`             // latents are multiplied by it before a transformer reads them
	// DownMatches and UpMatches say that a stage's change of size gives the next stage's width.
	DownMatches bool `json:"downsample_match_channel"`
	UpMatches   bool `json:"upsample_match_channel"`
	// TileSize is how many pixels a tile is wide and high. The publisher's config.json states it;
	// diffusers' class has it in its code.
	TileSize int `json:"sample_size"`
}

// The classes of the two publishers.
const (
	class          = "AutoencoderKLHunyuanVideo15"
	publishedClass = "AutoencoderKLConv3D"
)

// defaultConfig has the defaults of diffusers' class, which are the release's.
var defaultConfig = Config{Widths: []int{128, 256, 512, 1024, 1024}, Latents: 32, ResBlocks: 2, Space: 16, Time: 4, Scale: 1.03682,
	DownMatches: true, UpMatches: true, TileSize: 256}

var released = map[string]Config{"hunyuan1.5-vae": defaultConfig}

var ratioBound = models.Bound{Least: 1, Most: 1 << 7, Why: "stages halve the number of positions"}

// configWords are those of HunyuanVideo-1.5's own code and of diffusers.
var configWords = []models.Words[Config]{
	{
		Of:        "HunyuanVideo-1.5",
		Recognize: func(r *models.ConfigReader) bool { return r.Class() == publishedClass },
		Defaults:  defaultConfig,
		Keys: func(c *Config) []models.Key {
			return append(commonKeys(c), models.Metadata("sample_tsize"), models.Fixed("shift_factor", nil, "HunyuanVideo-1.5"),
				models.Int("ffactor_spatial", &c.Space, ratioBound), models.Int("ffactor_temporal", &c.Time, ratioBound))
		},
	},
	{
		Of:       "diffusers",
		Defaults: defaultConfig,
		Keys: func(c *Config) []models.Key {
			return append(commonKeys(c), models.Int("spatial_compression_ratio", &c.Space, ratioBound), models.Int("temporal_compression_ratio", &c.Time, ratioBound))
		},
	},
}

func commonKeys(c *Config) []models.Key {
	return append(models.FixedKeys("HunyuanVideo-1.5", "in_channels", vae.PictureChannels, "out_channels", vae.PictureChannels),
		models.IntList("block_out_channels", &c.Widths, models.WidthBound),
		models.Int("latent_channels", &c.Latents, models.ChannelBound),
		models.Int("layers_per_block", &c.ResBlocks, models.Bound{Least: 1, Most: 64, Why: "every stage has that many residual blocks"}),
		models.Float("scaling_factor", &c.Scale, models.Positive),
		models.Bool("downsample_match_channel", &c.DownMatches),
		models.Bool("upsample_match_channel", &c.UpMatches),
		models.Int("sample_size", &c.TileSize, models.Bound{Least: 1, Most: 1 << 16, Why: "it is how many pixels a tile is wide and high"}))
}

// checkConfig refuses numbers that do not fit each other.
func checkConfig(c *Config, r *models.ConfigReader) {
	vae.CheckStages(r, c.Widths, 1, 0)
	for _, n := range []struct {
		what  string
		ratio int
	}{{"pixels", c.Space}, {"frames", c.Time}} {
		if n.ratio&(n.ratio-1) != 0 {
			r.Refuse("a latent stands for %d %s: want a power of 2, since stages halve", n.ratio, n.what)
		}
	}
	if !r.OK() {
		return
	}
	if c.Time > c.Space || halvings(c.Space) >= len(c.Widths) {
		r.Refuse("a latent stands for %d pixels along a side and %d frames, with %d block_out_channels: want no more frames than pixels, and a stage more than halve",
			c.Space, c.Time, len(c.Widths))
		return
	}
	last := len(c.Widths) - 1
	if c.Widths[last]%(2*c.Latents) != 0 {
		r.Refuse("block_out_channels[%d] is %d: want a multiple of twice latent_channels %d, for the shortcuts around the ends", last, c.Widths[last], c.Latents)
	}
	for i, d := range c.downStages() {
		switch group := d.folded() * d.width / d.next; {
		case !d.halves:
		case d.next%d.folded() != 0 || d.folded()*d.width%d.next != 0 || d.time && group%2 != 0:
			r.Refuse("stage %d of the encoder from %d to %d channels: folding %d positions needs a multiple of them, and its shortcut groups of a whole number of channels",
				i, d.width, d.next, d.folded())
		}
	}
	for i, u := range c.upStages() {
		switch copies := u.folded() * u.next / u.width; {
		case !u.halves:
		case u.width%u.folded() != 0 || u.folded()*u.next%u.width != 0 || u.time && copies%2 != 0:
			r.Refuse("stage %d of the decoder from %d to %d channels: its shortcut makes %d positions of one, of a whole number of copies of its channels", i, u.width, u.next, u.folded())
		}
	}
}

// Blocks is the number of residual blocks that a frame passes in the decoder.
func (c Config) Blocks() int { return 2 + len(c.Widths)*(c.ResBlocks+1) }

// halvings is how often a power of 2 is halved until 1 is left.
func halvings(n int) int { return bits.Len(uint(n)) - 1 }

// stage is a stage of a half: residual blocks, and a change of the number of positions.
type stage struct {
	in, width int  // of the first residual block's operand, and behind the last block
	halves    bool // rows and columns, or in the decoder doubles them
	time      bool // frames as well
	next      int  // the width afterwards
}

// folded is the number of positions of which one is made, or the other way round.
func (s stage) folded() int {
	if s.time {
		return 8
	}
	return 4
}

// stagesOf lists stages with these widths. times says which of those that change the size change
// the number of frames.
func (c Config) stagesOf(widths []int, matches bool, times func(i int) bool) []stage {
	var out []stage
	in := widths[0]
	for i, width := range widths {
		s := stage{in: in, width: width, next: width, halves: i < halvings(c.Space)}
		s.time = s.halves && times(i)
		if s.halves && matches {
			s.next = widths[i+1]
		}
		in = s.next
		out = append(out, s)
	}
	return out
}

// downStages lists the encoder's stages: the last ones that halve rows halve frames as well.
func (c Config) downStages() []stage {
	return c.stagesOf(c.Widths, c.DownMatches, func(i int) bool { return i >= halvings(c.Space/c.Time) })
}

// upStages lists the decoder's stages: the first ones that double rows double frames as well.
func (c Config) upStages() []stage {
	widths := slices.Clone(c.Widths)
	slices.Reverse(widths)
	return c.stagesOf(widths, c.UpMatches, func(i int) bool { return i < halvings(c.Time) })
}

// detectConfig says whether a config.json describes an autoencoder of HunyuanVideo-1.5, of either
// publisher.
func detectConfig(c map[string]any) bool {
	named, _ := c["_class_name"].(string)
	_, own := c["downsample_match_channel"]
	return named == class || named == publishedClass || named == "" && own
}

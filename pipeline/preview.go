package pipeline

import (
	"image"
	"image/color"
	"image/png"
	"os"

	"weft/denoise"
	"weft/fault"
	"weft/internal/userfile"
	"weft/models"
	"weft/tensor"
)

// rgbMap makes colours of normalised latents without a decoder: by channel the share of red,
// green and blue, and what is added. The result is from -1 to 1.
type rgbMap struct {
	source  string
	weights [][3]float32
	bias    [3]float32
}

// rgbMaps are by the number of latent channels.
var rgbMaps = map[int]rgbMap{
	16: {source: "ComfyUI comfy/latent_formats.py, Wan21.latent_rgb_factors", bias: [3]float32{-0.1835, -0.0868, -0.3360}, weights: [][3]float32{
		{-0.1299, -0.1692, 0.2932}, {0.0671, 0.0406, 0.0442}, {0.3568, 0.2548, 0.1747}, {0.0372, 0.2344, 0.1420},
		{0.0313, 0.0189, -0.0328}, {0.0296, -0.0956, -0.0665}, {-0.3477, -0.4059, -0.2925}, {0.0166, 0.1902, 0.1975},
		{-0.0412, 0.0267, -0.1364}, {-0.1293, 0.0740, 0.1636}, {0.0680, 0.3019, 0.1128}, {0.0032, 0.0581, 0.0639},
		{-0.1251, 0.0927, 0.1699}, {0.0060, -0.0633, 0.0005}, {0.3477, 0.2275, 0.2950}, {0.1984, 0.0913, 0.1861},
	}},
	48: {source: "ComfyUI comfy/latent_formats.py, Wan22.latent_rgb_factors", bias: [3]float32{0.0317, -0.0878, -0.1388}, weights: [][3]float32{
		{0.0119, 0.0103, 0.0046}, {-0.1062, -0.0504, 0.0165}, {0.0140, 0.0409, 0.0491}, {-0.0813, -0.0677, 0.0607},
		{0.0656, 0.0851, 0.0808}, {0.0264, 0.0463, 0.0912}, {0.0295, 0.0326, 0.0590}, {-0.0244, -0.0270, 0.0025},
		{0.0443, -0.0102, 0.0288}, {-0.0465, -0.0090, -0.0205}, {0.0359, 0.0236, 0.0082}, {-0.0776, 0.0854, 0.1048},
		{0.0564, 0.0264, 0.0561}, {0.0006, 0.0594, 0.0418}, {-0.0319, -0.0542, -0.0637}, {-0.0268, 0.0024, 0.0260},
		{0.0539, 0.0265, 0.0358}, {-0.0359, -0.0312, -0.0287}, {-0.0285, -0.1032, -0.1237}, {0.1041, 0.0537, 0.0622},
		{-0.0086, -0.0374, -0.0051}, {0.0390, 0.0670, 0.2863}, {0.0069, 0.0144, 0.0082}, {0.0006, -0.0167, 0.0079},
		{0.0313, -0.0574, -0.0232}, {-0.1454, -0.0902, -0.0481}, {0.0714, 0.0827, 0.0447}, {-0.0304, -0.0574, -0.0196},
		{0.0401, 0.0384, 0.0204}, {-0.0758, -0.0297, -0.0014}, {0.0568, 0.1307, 0.1372}, {-0.0055, -0.0310, -0.0380},
		{0.0239, -0.0305, 0.0325}, {-0.0663, -0.0673, -0.0140}, {-0.0416, -0.0047, -0.0023}, {0.0166, 0.0112, -0.0093},
		{-0.0211, 0.0011, 0.0331}, {0.1833, 0.1466, 0.2250}, {-0.0368, 0.0370, 0.0295}, {-0.3441, -0.3543, -0.2008},
		{-0.0479, -0.0489, -0.0420}, {-0.0660, -0.0153, 0.0800}, {-0.0101, 0.0068, 0.0156}, {-0.0690, -0.0452, -0.0927},
		{-0.0145, 0.0041, 0.0015}, {0.0421, 0.0451, 0.0373}, {0.0504, -0.0483, -0.0356}, {-0.0837, 0.0168, 0.0055},
	}},
}

// previewFrames is how many latent frames a preview shows at most, beside each other.
const previewFrames = 4

// previewPath is where previews go: the last one replaces the one before.
func (s *settled) previewPath() string { return s.o.base() + ".preview.png" }

// HasPreviews reports whether previews of this model's latents can be drawn.
func (p *Pipeline) HasPreviews() bool {
	latent, err := p.generator().LatentShape(legalSize(p.generator()))
	return err == nil && rgbMaps[latent[0]].weights != nil
}

// checkPreview refuses previews of latents whose colours are not known.
func (s *settled) checkPreview() error {
	if s.o.Preview == 0 || s.latent == nil {
		return nil
	}
	if s.o.Preview < 0 {
		return fault.New(models.ErrInputs, nil, "a preview every %d steps: want 1 or more, or 0 for none", s.o.Preview)
	}
	m, ok := rgbMaps[s.latent[0]]
	if !ok {
		return fault.New(models.ErrInputs, nil, "no preview of latents of %d channels: their colours are known of Wan's 16 and 48 alone", s.latent[0])
	}
	s.notes = append(s.notes, "previews: colours by "+m.source)
	if s.onlyChecked {
		return nil
	}
	return userfile.CheckWritable(userfile.Output{Path: s.previewPath(), Force: true, Keep: s.reads()})
}

// writePreview shows the sampler's latest prediction of the clean latents, or the latents
// where it keeps none.
func (g *generation) writePreview(state *denoise.State) error {
	x, err := state.Latents.Float32s()
	if err != nil {
		return err
	}
	if len(state.Sampler.History) > 0 {
		x = state.Sampler.History[0]
	}
	g.result.Files["preview"] = g.previewPath()
	return userfile.Write(userfile.Output{Path: g.previewPath(), Force: true}, func(f *os.File) error {
		return png.Encode(f, drawLatents(x, g.loopLatent()))
	})
}

// drawLatents draws some frames of latents (channels, frames, rows, columns) beside each other,
// from the first to the last.
func drawLatents(x []float32, shape []int) image.Image {
	channels, frames, rows, cols := shape[0], shape[1], shape[2], shape[3]
	m, shown := rgbMaps[channels], min(frames, previewFrames)
	im := image.NewRGBA(image.Rect(0, 0, shown*cols, rows))
	frame := tensor.Elements(shape[1:])
	for i := range shown {
		at := 0
		if shown > 1 {
			at = i * (frames - 1) / (shown - 1)
		}
		for y := range rows {
			for px := range cols {
				rgb := m.bias
				for c, w := range m.weights {
					v := x[c*frame+(at*rows+y)*cols+px]
					for k := range rgb {
						rgb[k] += w[k] * v
					}
				}
				im.SetRGBA(i*cols+px, y, color.RGBA{shadeOf(rgb[0]), shadeOf(rgb[1]), shadeOf(rgb[2]), 255})
			}
		}
	}
	return im
}

// shadeOf turns a value from -1 to 1 into a byte.
func shadeOf(v float32) uint8 { return uint8(255*min(max((v+1)/2, 0), 1) + 0.5) }

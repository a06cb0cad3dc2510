package picture

import "math"

// How the pictures of a control video and its mask become frames, for VACE.
var (
	// DiffusersControl is that of diffusers' WanVACEPipeline (0.42.1): VaeImageProcessor,
	// Lanczos straight to the video's size.
	DiffusersControl = Preparation{Lanczos, FitStretch}
	// OfficialControl is that of Wan2.1's own vace_processor.py: bicubic with antialiasing, and
	// the middle. PyTorch resizes the bytes there, with weights of 16 bits where Pillow has 22.
	OfficialControl = Preparation{Bicubic, FitCrop}
)

// DiffusersControlSize is the size of the video that diffusers' WanVACEPipeline makes of a
// control video and a size that is asked for: the control video's own, scaled down into that
// size where it has more pixels, and rounded down to steps.
func DiffusersControlSize(videoWidth, videoHeight, width, height, stepWidth, stepHeight int) (int, int) {
	w, h := videoWidth/8*8, videoHeight/8*8 // VaeImageProcessor's
	if w*h > width*height {
		scale := min(float64(width)/float64(w), float64(height)/float64(h))
		w, h = int(float64(w)*scale), int(float64(h)*scale)
	}
	return max(1, w/stepWidth) * stepWidth, max(1, h/stepHeight) * stepHeight
}

// OfficialControlSize is the size of the video that Wan2.1's own vace_processor.py makes of a
// control video of so many frames and an area: about the area, or the control video's own where
// that is less, in its aspect. Of more than 21 latent frames it is less.
func OfficialControlSize(videoWidth, videoHeight, latentFrames, maxArea, stepWidth, stepHeight int) (int, int) {
	perArea := float64(maxArea) / float64(stepWidth*stepHeight)
	tokens := math.Min(perArea, float64((videoHeight/stepHeight)*(videoWidth/stepWidth)))
	most := math.Floor(21 * perArea / float64(max(1, latentFrames)))
	tokens = math.Max(1, math.Min(tokens, most))
	h := max(1, int(math.RoundToEven(math.Sqrt(tokens*float64(videoHeight)/float64(videoWidth)))))
	w := max(1, int(tokens/float64(h)))
	return w * stepWidth, h * stepHeight
}

// OnCanvas puts the image in the middle of a white frame, as large as it fits, as VACE reads
// reference images: PyTorch's interpolate(mode="bilinear", align_corners=False) without
// antialiasing, of the picture in [-1, 1]. diffusers resizes it to multiples of 8 pixels by
// Lanczos before, which rounded says.
func (im *Image) OnCanvas(width, height int, rounded bool) *Planes {
	if rounded {
		if w, h := max(8, im.Width/8*8), max(8, im.Height/8*8); w != im.Width || h != im.Height {
			im = im.Resize(w, h, Lanczos)
		}
	}
	scale := min(float64(height)/float64(im.Height), float64(width)/float64(im.Width))
	w, h := max(1, int(float64(im.Width)*scale)), max(1, int(float64(im.Height)*scale))
	inner := im.resizeBilinear(w, h)
	out := newPlanes(width, height)
	for i := range out.Data {
		out.Data[i] = 1
	}
	left, top := (width-w)/2, (height-h)/2
	for c := range 3 {
		for y := range h {
			copy(out.Data[(c*height+top+y)*width+left:], inner.Data[(c*h+y)*w:][:w])
		}
	}
	return out
}

// linearTaps are two places of the source and their weights.
type linearTaps struct {
	at     [2]int
	weight [2]float32
}

// makeLinearTaps computes them as PyTorch does: positions in f32, none before the first place.
func makeLinearTaps(in, out int) []linearTaps {
	list := make([]linearTaps, out)
	scale := float32(in) / float32(out)
	for i := range list {
		position := max(multiplyAdd(scale, float32(i)+0.5, -0.5), 0)
		first := min(int(position), in-1)
		t := min(max(position-float32(first), 0), 1)
		list[i] = linearTaps{[2]int{first, min(first+1, in-1)}, [2]float32{1 - t, t}}
	}
	return list
}

// resizeBilinear is PyTorch's bilinear interpolation of the picture in [-1, 1].
func (im *Image) resizeBilinear(width, height int) *Planes {
	across, down := makeLinearTaps(im.Width, width), makeLinearTaps(im.Height, height)
	out := newPlanes(width, height)
	at := func(c, x, y int) float32 { return signedOf(im.Pix[3*(y*im.Width+x)+c]) }
	to, plane := 0, width*height
	for _, v := range down {
		for _, h := range across {
			for c := range 3 {
				upper := multiplyAdd(at(c, h.at[0], v.at[0]), h.weight[0], at(c, h.at[1], v.at[0])*h.weight[1])
				lower := multiplyAdd(at(c, h.at[0], v.at[1]), h.weight[0], at(c, h.at[1], v.at[1])*h.weight[1])
				out.Data[c*plane+to] = multiplyAdd(upper, v.weight[0], lower*v.weight[1])
			}
			to++
		}
	}
	return out
}

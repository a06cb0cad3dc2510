package picture

import (
	"fmt"
	"math"
	"strings"

	"weft/fault"
)

// Fit says how a picture of one aspect fills a frame of another.
type Fit string

// The ways to fit. FitRelease is the one that the release's own code has.
const (
	FitRelease Fit = "release"
	FitStretch Fit = "stretch" // width and height each to the frame's
	FitCrop    Fit = "crop"    // fill the frame, keep the middle
	FitPad     Fit = "pad"     // all of the picture in the middle, black around it
)

// Fits are the ways to fit, for a flag's help.
var Fits = []Fit{FitRelease, FitCrop, FitPad, FitStretch}

// ErrFit: a way to fit that is none. The fields are UnknownFit.
var ErrFit = fault.NewKind("fit")

// UnknownFit is what was asked for, and what there is.
type UnknownFit struct {
	Fit  string `json:"fit"`
	Fits []Fit  `json:"fits"`
}

// ParseFit reads a flag. Error: ErrFit.
func ParseFit(s string) (Fit, error) {
	names := make([]string, len(Fits))
	for i, f := range Fits {
		if string(f) == s {
			return f, nil
		}
		names[i] = string(f)
	}
	return "", fault.New(ErrFit, UnknownFit{s, Fits}, "--fit %q: the ways to fit an image are %s", s, strings.Join(names, ", "))
}

// Preparation is how a release's code makes an image the frame of a video.
type Preparation struct {
	// Filter is Pillow's filter; "" stands for PyTorch's bicubic without antialiasing, on
	// the picture in [-1, 1].
	Filter Filter
	// Fit is FitStretch or FitCrop.
	Fit Fit
}

// How the releases that take an image prepare it.
var (
	// DiffusersWan is that of diffusers' WanImageToVideoPipeline (0.42.1), for Wan2.1,
	// A14B and TI2V-5B: VaeImageProcessor, Lanczos straight to the video's size.
	DiffusersWan = Preparation{Lanczos, FitStretch}
	// OfficialWan is that of Wan2.1's and Wan2.2's own image2video.py. There the video
	// takes the image's aspect (OfficialWanSize), so that little is stretched.
	OfficialWan = Preparation{"", FitStretch}
	// OfficialTI2V is that of Wan2.2's own textimage2video.py.
	OfficialTI2V = Preparation{Lanczos, FitCrop}
	// DiffusersCosmosImage is that of diffusers' Cosmos2_5_PredictBasePipeline (0.42.1) for an
	// image, which it makes a tensor first, and DiffusersVideo that of its VideoProcessor for the
	// frames of a video.
	DiffusersCosmosImage = Preparation{Nearest, FitStretch}
	DiffusersVideo       = Preparation{Bilinear, FitStretch}
	// DiffusersCosmos3Image is that of diffusers' Cosmos3OmniPipeline (0.42.1).
	DiffusersCosmos3Image = Preparation{Smooth, FitCrop}
)

// Frame is what a picture becomes: the size of the video, and what its width and height
// are multiples of, for advice.
type Frame struct {
	Width, Height         int
	StepWidth, StepHeight int
}

// Prepare gives a picture the size of a frame, in [-1, 1]. Where its aspect differs from
// the frame's by more than 3 %, notes say what is distorted, cut off or added, and sizes
// of its own aspect. name is what they call it: "--image". Padding is -1.
func (p Preparation) Prepare(im *Image, name string, frame Frame, fit Fit) (planes *Planes, notes []string) {
	if fit == FitRelease || fit == "" {
		fit = p.Fit
	}
	return p.fill(im, frame.Width, frame.Height, fit), NoteAspect(im, name, frame, fit)
}

func (p Preparation) fill(im *Image, width, height int, fit Fit) *Planes {
	byWidth, byHeight := float64(width)/float64(im.Width), float64(height)/float64(im.Height)
	switch fit {
	case FitCrop:
		// Rounding half to even, and a middle that lies half a pixel to the left or above, are
		// those of Wan2.2's code.
		w, h := scaleBy(im, max(byWidth, byHeight))
		w, h = max(w, width), max(h, height)
		if p.Filter == Smooth { // whose code rounds sizes up, and the middle to even
			scale := max(byWidth, byHeight)
			w, h = int(math.Ceil(scale*float64(im.Width))), int(math.Ceil(scale*float64(im.Height)))
			left, top := math.RoundToEven(float64(w-width)/2), math.RoundToEven(float64(h-height)/2)
			return p.resizeWindow(im, w, h, window{int(left), int(top), width, height})
		}
		return p.resizeWindow(im, w, h, window{(w - width) / 2, (h - height) / 2, width, height})
	case FitPad:
		w, h := scaleBy(im, min(byWidth, byHeight))
		w, h = min(max(w, 1), width), min(max(h, 1), height)
		inner := p.resizeWindow(im, w, h, window{0, 0, w, h})
		return inner.padTo(width, height)
	}
	return p.resizeWindow(im, width, height, window{0, 0, width, height})
}

func scaleBy(im *Image, scale float64) (width, height int) {
	return int(math.RoundToEven(float64(im.Width) * scale)), int(math.RoundToEven(float64(im.Height) * scale))
}

func (p Preparation) resizeWindow(im *Image, width, height int, part window) *Planes {
	if p.Filter == "" {
		return im.resizeBicubicWindow(width, height, part)
	}
	return im.resizeWindow(width, height, p.Filter, part).Signed()
}

// padTo lays a picture in the middle of a black one.
func (p *Planes) padTo(width, height int) *Planes {
	out := newPlanes(width, height)
	for i := range out.Data {
		out.Data[i] = -1
	}
	left, top := (width-p.Width)/2, (height-p.Height)/2
	for c := range 3 {
		for y := range p.Height {
			copy(out.Data[(c*height+top+y)*width+left:], p.Data[(c*p.Height+y)*p.Width:][:p.Width])
		}
	}
	return out
}

// aspectTolerance is how far two aspects may differ without a word.
const aspectTolerance = 0.03

// NoteAspect says what of a picture is distorted, cut off or added by a way to fit, where its aspect
// differs from the frame's by more than 3 %.
func NoteAspect(im *Image, name string, frame Frame, fit Fit) []string {
	// How much wider the picture is than the frame; below 1, how much narrower.
	ratio := float64(im.Width) * float64(frame.Height) / (float64(im.Height) * float64(frame.Width))
	if max(ratio, 1/ratio) <= 1+aspectTolerance {
		return nil
	}
	share := 100 * (1 - min(ratio, 1/ratio))
	wide := ratio > 1
	var what string
	switch fit {
	case FitCrop:
		what = fmt.Sprintf("%.0f %% of its %s is cut off", share, pick(wide, "width", "height"))
	case FitPad:
		what = fmt.Sprintf("%.0f %% of the frame, %s, is black", share, pick(wide, "above and below", "left and right"))
	default:
		what = fmt.Sprintf("it is squeezed to %.0f %% of its %s", 100-share, pick(wide, "width", "height"))
	}
	note := fmt.Sprintf("%s has %dx%d pixels and the video %dx%d: %s", name, im.Width, im.Height, frame.Width, frame.Height, what)
	if sizes := frame.sizesOfAspect(im); sizes != "" {
		note += "; sizes nearer to its aspect are " + sizes
	}
	return []string{note + "; --fit crop, pad or stretch chooses"}
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// sizesOfAspect names sizes that the model takes, near the frame's area and near the
// picture's aspect, none twice.
func (f Frame) sizesOfAspect(im *Image) string {
	if f.StepWidth <= 0 || f.StepHeight <= 0 {
		return ""
	}
	var sizes []string
	seen := map[[2]int]bool{{f.Width, f.Height}: true}
	for _, area := range []int{f.Width * f.Height, f.Width * f.Height / 2} {
		w, h := OfficialTI2VSize(im.Width, im.Height, area, f.StepWidth, f.StepHeight)
		if !seen[[2]int{w, h}] {
			seen[[2]int{w, h}] = true
			sizes = append(sizes, fmt.Sprintf("%dx%d", w, h))
		}
	}
	return strings.Join(sizes, " and ")
}

// VisionPreparation is how a release's code makes an image the input of its vision
// encoder: a square of Size pixels, normalized by channel.
type VisionPreparation struct {
	Size            int
	Filter          Filter // as in Preparation
	Crop            bool   // the shorter edge to Size and the middle, or both edges to Size
	Mean, Deviation [3]float32
}

// Mean and deviation of the pictures that CLIP was trained on, by channel.
var (
	clipMean      = [3]float32{0.48145466, 0.4578275, 0.40821073}
	clipDeviation = [3]float32{0.26862954, 0.26130258, 0.27577711}
)

// DiffusersCLIP is transformers' CLIPImageProcessor with Pillow, as diffusers' Wan folders
// have it: bicubic and a crop. Wan2.1's encoder has size 224.
func DiffusersCLIP(size int) VisionPreparation {
	return VisionPreparation{size, Bicubic, true, clipMean, clipDeviation}
}

// SigLIP is transformers' SiglipImageProcessor with Pillow: bicubic to a square, without a crop, and
// values from -1 to 1. HunyuanVideo-1.5's encoder has size 384.
func SigLIP(size int) VisionPreparation {
	half := [3]float32{0.5, 0.5, 0.5}
	return VisionPreparation{size, Bicubic, false, half, half}
}

// OfficialCLIP is that of Wan2.1's own clip.py: to a square, without a crop.
func OfficialCLIP(size int) VisionPreparation {
	return VisionPreparation{size, "", false, clipMean, clipDeviation}
}

// Prepare gives the encoder's input of a picture: 3 planes of Size x Size.
func (v VisionPreparation) Prepare(im *Image) *Planes {
	width, height := v.Size, v.Size
	if v.Crop {
		// The longer edge is rounded down.
		if im.Width <= im.Height {
			height = int(int64(v.Size) * int64(im.Height) / int64(im.Width))
		} else {
			width = int(int64(v.Size) * int64(im.Width) / int64(im.Height))
		}
	}
	part := window{(width - v.Size) / 2, (height - v.Size) / 2, v.Size, v.Size}
	planes := Preparation{Filter: v.Filter}.resizeWindow(im, width, height, part)
	planes.normalize(v.Mean, v.Deviation)
	return planes
}

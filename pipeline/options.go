package pipeline

import (
	"cmp"

	"weft/dtype"
	"weft/phases"
	"weft/picture"
	"weft/request"
)

// Options say what is asked for and where it goes. What the request leaves out is the
// release's own.
type Options struct {
	request.Request
	Prompt string
	// Negative is the text to be guided away from; nil is the release's own.
	Negative *string
	// Image and LastImage are pictures that the video begins and ends with, for models that
	// take them. Fit says how both fill the frames; "" is the release's own way.
	Image, LastImage string
	Fit              picture.Fit
	// Video is a video whose last frames the new one goes on from, or one that controls the new one, for
	// models that do: a folder of pictures, an animated PNG, or Motion JPEG in AVI. VideoLatents is how many
	// latent frames the former make; 0 is the release's own number. Mask is white where a control
	// video is made anew, and References are images that the new video refers to. ConditioningScale is by
	// how much these count: one number, or one for each of the model's control blocks; nil is 1.
	Video, Mask       string
	VideoLatents      int
	References        []string
	ConditioningScale []float64
	// NoTruncate refuses a prompt of more tokens than the text encoder reads.
	NoTruncate bool
	// DrawSeed draws a seed in place of the request's.
	DrawSeed bool
	// Noise is a file with the latents to start from, "latents", in place of the seed's.
	Noise string

	// Strength is how much of a given first frame is in the video, and ImageNoiseScale how much
	// noise it gets in every step, for models that mix it in. DecodeTimestep and DecodeNoiseScale
	// are those of a decoder that reads how much noise latents have left. nil is the release's own.
	Strength, ImageNoiseScale, DecodeTimestep, DecodeNoiseScale *float64

	// Where the results go; "" writes none. Out is the video. FramesOut takes frames (frames,
	// height, width, 3), f32 in [0, 1], and frames_u8. LatentsOut takes latents, and with Trace
	// latents_0 and so on after each step. FeaturesOut takes what the text and the image became.
	Out, FramesOut, LatentsOut, FeaturesOut string
	Trace                                   bool
	Force                                   bool // replace files that are there
	// Crop cuts the middle, width and height, out of each frame; nil leaves frames as they are.
	Crop *[2]int

	// AllowNonFinite lets NaN and infinities pass. Without it they end the generation.
	AllowNonFinite bool

	// State is the folder that the latents and the sampler's state go to after each step; "" is
	// the name of the first output with ".state". Resume goes on from what is there.
	State  string
	Resume bool
	// Preview writes a small picture every so many steps; 0 writes none.
	Preview int

	// Weft is the version that the video's metadata has.
	Weft string
	// OnProgress, where set, is told what is being done.
	OnProgress func(Progress)
	// OnSettled, where set, is told before the first phase what was decided: the result as far as
	// it is known then. An error of it ends the generation.
	OnSettled func(*Result) error
	// OnFrame, where set, gets each frame of the video as it is decoded: (height, width, 3) in
	// [0, 1], cropped. An error of it ends the generation.
	OnFrame func(frame []float32) error
}

// Progress is where a generation stands.
type Progress struct {
	Video, Videos int // of a list of prompts, from 1
	Phase         string
	Done, Of      int     // steps, or frames
	Seconds       float64 // since the phase began
	Left          float64 // seconds that the rest of the phase will take, by the last step; 0 is not known
	RSS           int64   // resident memory of the process
}

// autoencoderType is the type that the autoencoder computes in.
func (o Options) autoencoderType() dtype.DType {
	return cmp.Or(o.AutoencoderType, phases.AutoencoderType)
}

// base is the output that the names of others are made of.
func (o Options) base() string {
	for _, path := range []string{o.Out, o.FramesOut, o.LatentsOut, o.FeaturesOut} {
		if path != "" {
			return path
		}
	}
	return ""
}

package models

import "cmp"

// ImageUse says what a generator reads of an image that a video begins with. The zero value is
// that of a generator that reads none.
type ImageUse struct {
	// MaskChannels and LatentChannels are the channels of the condition "y": which frames are
	// given, one channel for each of the frames that a latent frame stands for, and behind them
	// the latents of the video of the given frames, all others grey. Both are 0 without a "y".
	MaskChannels   int
	LatentChannels int
	// FeatureWidth is how wide the rows of the condition "clip_fea" are, which a vision
	// encoder makes of the image; 0 without one.
	FeatureWidth int
	// FeatureName is what the condition with these rows is called; "" is "clip_fea".
	FeatureName string
	// KeepsFirst says that the latents of the image alone are the video's first latent frame,
	// which the loop keeps (Generator.FeedFrameTimes).
	KeepsFirst bool
	// Alone says that "y" has the latents of the image alone in its first latent frame, and zeros
	// in all others, in place of those of a video that is grey behind the image. The mask has one
	// channel then, or none.
	Alone bool
	// MaskBehind says that the mask stands behind the latents in "y".
	MaskBehind bool
	// Sampled says that the image's latents are drawn from the autoencoder's posterior. Otherwise
	// they are its mean.
	Sampled bool
	// Offset is the number of the condition "ofs", of which every video has one; 0 without one.
	Offset float64
	// NoiseShare is the share of noise in the latents at the start where it is not 0: the rest is
	// the image's latents, the same in every frame.
	NoiseShare float64
	// SizeBase says, where it is not 0, that the video takes the image's aspect, among sizes of at
	// most the area of a square with that side, and that the image is cut to it (picture.BucketSize).
	SizeBase int
	// Unprepared says that the generator reads an image of which nothing here makes what it
	// reads: whoever runs it gives the conditions. The other fields say nothing then.
	Unprepared bool
	// Mixed says that the first frame is not kept apart but mixed into the latents, and sampled
	// from the autoencoder's posterior; nil for a generator that keeps it as it is. It is only with
	// KeepsFirst.
	Mixed *MixedFrame
	// Replaced says that given frames take the place of the loop's own wherever the model reads
	// latents, and may be those of a video as well; nil for a generator that keeps the frame apart.
	// It is only with KeepsFirst, and not with Mixed.
	Replaced *ReplacedFrames
	// Needed says that the generator cannot do without an image.
	Needed bool
	// TakesLast says that the video's last frame may be given as well, NeedsLast that it has to
	// be. A generator that needs both and reads features of a vision encoder reads those of the
	// first image and behind them those of the last one.
	TakesLast, NeedsLast bool
	// StepWidth and StepHeight are the pixels of which a video's width and height are
	// multiples.
	StepWidth, StepHeight int
	// Vision names the preset of the vision encoder; "" where FeatureWidth is 0.
	Vision string
}

// ReadsImages says whether the generator reads images at all.
func (u ImageUse) ReadsImages() bool {
	return u.KeepsFirst || u.LatentChannels > 0 || u.FeatureWidth > 0
}

// FeatureCondition is the name of the condition with the rows that a vision encoder makes.
func (u ImageUse) FeatureCondition() string { return cmp.Or(u.FeatureName, "clip_fea") }

// DrawsPosterior says whether the image's latents are drawn from the autoencoder's posterior.
func (u ImageUse) DrawsPosterior() bool { return u.Sampled || u.Mixed != nil }

// EncodesAlone says whether the image is encoded as one frame, without the video behind it.
func (u ImageUse) EncodesAlone() bool { return u.KeepsFirst || u.Alone }

// VisionImages is how many images the vision encoder reads at once.
func (u ImageUse) VisionImages() int {
	if u.NeedsLast {
		return 2
	}
	return 1
}

// Vision is the size of what a vision encoder reads and makes: an image "x" (batch, 3, Pixels,
// Pixels) becomes features "out" (batch, Rows, Width). Its request has the batch alone.
type Vision struct {
	Pixels, Rows, Width int
	// Signed says that images are resized to the square without a crop, with values from -1 to 1,
	// as SigLIP reads them; otherwise as CLIP does.
	Signed bool
}

// ReplacedFrames has a release's own numbers for given frames that take the place of the loop's
// own latents. The loop's own move along the straight line from what they begin with to those
// given.
type ReplacedFrames struct {
	// Level is the noise level that the model is told of a given frame.
	Level float64
	// Latents is how many latent frames a given video has where nobody asks for another number, and
	// MostLatents the most. They are of the video's last frames, or with OfFirst of its first ones.
	Latents, MostLatents int
	OfFirst              bool
	// Begins says that the loop's own begin as the given ones, instead of as noise.
	Begins bool
	// Fills says that an image fills the frame and keeps its middle, instead of being stretched.
	Fills  bool
	Source string // where the numbers were read
}

// MixedFrame has a release's own numbers for a first frame that is mixed into the latents.
type MixedFrame struct {
	// Strength is the share of the given frame: at 1 it is never denoised.
	Strength float64
	// NoiseScale times the squared noise level is how much noise a frame of strength 1 gets in
	// every step.
	NoiseScale float64
	Source     string // where the numbers were read
}

package conditions

import (
	"fmt"
	"slices"

	"weft/fault"
	"weft/models"
	"weft/picture"
)

// Phase is a request that was checked, ready to run.
type Phase struct {
	parts  Parts
	asked  Request
	use    models.ImageUse
	latent []int // (channels, frames, height, width) of the whole video
	notes  []string
}

// Check reports everything that is wrong with a request, without reading a weight: images that
// the generator does not take, or that it needs; an autoencoder or a vision encoder that is
// missing or belongs to another generator; sizes that the generator does not make; devices that
// cannot run a part. Errors: ErrImage, ErrPart, picture.ErrFit, those of
// models.VideoLatents and of Devices.CheckSplit.
//
// The result is nil for a generator that reads no image and is given none.
func Check(p Parts, r Request) (*Phase, error) {
	ph := &Phase{parts: p, asked: r, use: p.use()}
	var l fault.List
	l.Add(ph.checkImages())
	l.Add(ph.checkVideo())
	if _, err := picture.ParseFit(string(r.Fit)); r.Fit != "" && err != nil {
		l.Add(err)
	}
	if r.Batch < 0 {
		l.Add(fault.New(models.ErrBatch, nil, "batch %d: want 1 or more videos, or 0 for one", r.Batch))
	}
	if ph.use.ReadsImages() && r.given() {
		l.Add(ph.checkSize())
		l.Add(ph.checkAutoencoder())
		l.Add(ph.checkVision())
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	if !r.given() {
		return nil, nil
	}
	return ph, nil
}

// checkImages holds the images that are given against those that the generator takes.
func (ph *Phase) checkImages() error {
	var l fault.List
	name, r := ph.parts.Generator.Name(), ph.asked
	takesAny := func(u models.ImageUse) bool { return u.ReadsImages() }
	takesLast := func(u models.ImageUse) bool { return u.TakesLast }
	switch {
	case r.Image != nil && ph.readsControl():
		l.Add(refuseImage(imageFlag, name, name+" begins with no image: give it as --reference, or as the first frame of --video with a --mask", nil))
	case r.Image != nil && ph.use.Unprepared:
		l.Add(refuseImage(imageFlag, name, fmt.Sprintf("%s reads %v, which weft does not make of an image", name, ph.conditionNames()), presetsThat(takesAny)))
	case r.Image != nil && !ph.use.ReadsImages():
		l.Add(refuseImage(imageFlag, name, name+" makes a video of text alone and takes no image", presetsThat(takesAny)))
	case !r.given() && ph.use.Needed:
		l.Add(refuseImage(imageFlag, name, name+" makes a video of an image, which is not given", nil))
	case r.Image == nil && r.Last != nil && ph.use.TakesLast:
		l.Add(refuseImage(imageFlag, name, "a last image is given without a first one", nil))
	}
	switch {
	case r.Last == nil && ph.use.NeedsLast:
		l.Add(refuseImage(lastFlag, name, name+" makes a video between a first and a last image, and the last one is not given", nil))
	case r.Last != nil && r.Image != nil && ph.use.NeedsLast:
		l.Add(ph.checkSameSize())
	}
	if r.Last != nil && !ph.use.TakesLast {
		why := name + " takes no image of the last frame"
		if ph.use.FeatureWidth > 0 {
			why += ": its image branch reads the features of one image"
		} else if ph.use.KeepsFirst {
			why += ": it keeps the first latent frame alone"
		}
		l.Add(refuseImage(lastFlag, name, why, presetsThat(takesLast)))
	}
	return l.Err()
}

// readsControl says whether the generator reads a control video in place of images.
func (ph *Phase) readsControl() bool {
	g := ph.parts.Generator.Features().Generator
	return g != nil && g.Control != nil
}

// checkSameSize refuses images of two sizes where the release's own code would cut a window out
// of the last one whose width and height are exchanged (TF.center_crop is given them in the wrong
// order), with grey beyond its edges.
func (ph *Phase) checkSameSize() error {
	first, last := ph.asked.Image, ph.asked.Last
	same := first.Width == last.Width && first.Height == last.Height
	if same || ph.asked.Layout != Official || ph.asked.Fit != picture.FitRelease && ph.asked.Fit != "" {
		return nil
	}
	return refuseImage(lastFlag, ph.parts.Generator.Name(), fmt.Sprintf("it has %dx%d pixels and the first image %dx%d: of two sizes the release's own code cuts a window "+
		"with width and height exchanged out of the last one; give both in one size, or say how they fill the frames with --fit crop, pad or stretch",
		last.Width, last.Height, first.Width, first.Height), nil)
}

// visionImages are the images that the vision encoder reads, at once.
func (ph *Phase) visionImages() []*picture.Image {
	if ph.use.NeedsLast {
		return []*picture.Image{ph.asked.Image, ph.asked.Last}
	}
	return []*picture.Image{ph.asked.Image}
}

// conditionNames lists what the generator reads besides latents, time and text.
func (ph *Phase) conditionNames() []string {
	if g := ph.parts.Generator.Features().Generator; g != nil && g.Conditions != nil {
		return g.Conditions.Names
	}
	return nil
}

// checkSize computes the shape of the video's latents.
func (ph *Phase) checkSize() error {
	r := ph.asked
	var err error
	if ph.latent, err = models.VideoLatents(ph.parts.Generator.Features().Generator, r.batch(), r.Width, r.Height, r.Frames); err != nil {
		return err
	}
	if n := ph.keptLatents(); ph.use.KeepsFirst && ph.latent[1] <= n {
		what := "the image is the first latent frame"
		if r.Video != nil {
			what = fmt.Sprintf("the video gives %d latent frames", n)
		}
		return fault.New(models.ErrSize, nil, "frames %d: %s, so at least one more is needed to denoise; nearest: %d", r.Frames, what, 4*n+1)
	}
	if r.Last != nil && r.Frames < 2 {
		return fault.New(models.ErrSize, nil, "frames %d: a first and a last image are two frames; nearest: 5", r.Frames)
	}
	return nil
}

// videoShape is that of the video that is encoded, (1, 3, frames, height, width).
func (ph *Phase) videoShape() []int {
	frames := ph.asked.Frames
	switch {
	case ph.use.Alone:
		frames = 1
	case ph.use.KeepsFirst:
		frames = 1 + (ph.keptLatents()-1)*ph.framesPerLatent()
	}
	return []int{1, 3, frames, ph.asked.Height, ph.asked.Width}
}

// checkAutoencoder refuses an autoencoder that makes other latents than the generator reads.
func (ph *Phase) checkAutoencoder() error {
	want := ph.parts.Generator.Features().Generator.Companions.Decoder
	refuse := func(is, format string, args ...any) error {
		return fault.New(ErrPart, WrongPart{autoencoderPart, is, want}, format, args...)
	}
	name := ph.parts.Generator.Name()
	p := ph.parts.Autoencoder
	if p == nil {
		return refuse("", "%s reads the image's latents, and no autoencoder is given: its own is %s", name, want)
	}
	reader := p.Model.Features().Frames
	if reader == nil {
		return refuse(p.Model.Name(), "%s encodes no video: the autoencoder of %s is %s", p.Model.Name(), name, want)
	}
	if ph.latent == nil {
		return nil // the size is refused already
	}
	req, err := reader.Request(videoInput, ph.videoShape())
	made := slices.Clone(ph.latent)
	switch {
	case ph.use.Alone:
		made[1] = 1
	case ph.use.KeepsFirst:
		made[1] = ph.keptLatents()
	}
	if err != nil || !slices.Equal(req.Latent, made) {
		return refuse(p.Model.Name(), "%s makes latents %v (channels, frames, height, width) of %d frames of %dx%d, where %s reads %v: its own autoencoder is %s",
			p.Model.Name(), req.Latent, ph.videoShape()[2], ph.asked.Width, ph.asked.Height, name, made, want)
	}
	if every := ph.framesPerLatent(); !ph.use.EncodesAlone() && ph.use.MaskChannels != every {
		return refuse(p.Model.Name(), "%s reads %d channels of mask, one for each frame of a latent frame, and %s makes a latent frame of %d: its own autoencoder is %s",
			name, ph.use.MaskChannels, p.Model.Name(), every, want)
	}
	return fault.Join(ph.checkLength(), p.Devices.CheckSplit(req))
}

// framesPerLatent is how many frames of the video a latent frame stands for, except the first.
func (ph *Phase) framesPerLatent() int {
	d := ph.parts.Autoencoder.Model.Features().Decoder
	if d == nil {
		return 0
	}
	shape, err := d.VideoShape([]int{ph.latent[0], 2, ph.latent[2], ph.latent[3]})
	if err != nil {
		return 0
	}
	return shape[1] - 1
}

// checkVision refuses a vision encoder whose features the generator does not read.
func (ph *Phase) checkVision() error {
	name, width := ph.parts.Generator.Name(), ph.use.FeatureWidth
	p := ph.parts.Vision
	if width == 0 {
		if p != nil {
			ph.notes = append(ph.notes, "the image encoder "+p.Model.Name()+" is not run: "+name+" reads no features of an image")
		}
		return nil
	}
	refuse := func(is, format string, args ...any) error {
		return fault.New(ErrPart, WrongPart{visionPart, is, ph.use.Vision}, format, args...)
	}
	if p == nil {
		return refuse("", "%s reads the features of an image, and no image encoder is given: its own is %s", name, ph.use.Vision)
	}
	v := p.Model.Features().Vision
	switch {
	case v == nil:
		return refuse(p.Model.Name(), "%s encodes no image: the image encoder of %s is %s", p.Model.Name(), name, ph.use.Vision)
	case v.Width != width:
		return refuse(p.Model.Name(), "%s makes features of %d numbers, and %s reads image_dim %d: its own image encoder is %s", p.Model.Name(), v.Width, name, width, ph.use.Vision)
	}
	if own := ph.asked.VisionPreparation; own != nil && own.Size != v.Pixels {
		return refuse(p.Model.Name(), "images are prepared with %dx%d pixels, and %s reads %dx%d", own.Size, own.Size, p.Model.Name(), v.Pixels, v.Pixels)
	}
	return p.Devices.CheckSplit(models.Request{Batch: ph.use.VisionImages()})
}

package conditions

import (
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
// models.Generator.LatentShape and of Devices.CheckSplit.
//
// The result is nil for a generator that reads no image and is given none.
func Check(p Parts, r Request) (*Phase, error) {
	ph := &Phase{parts: p, asked: r, use: p.use()}
	var l fault.List
	l.Add(ph.checkImages())
	if _, err := picture.ParseFit(string(r.Fit)); r.Fit != "" && err != nil {
		l.Add(err)
	}
	if r.Batch < 0 {
		l.Add(fault.New(models.ErrBatch, nil, "batch %d: want 1 or more videos, or 0 for one", r.Batch))
	}
	if ph.use.ReadsImages() && r.Image != nil {
		l.Add(ph.checkSize())
		l.Add(ph.checkAutoencoder())
		l.Add(ph.checkVision())
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	if r.Image == nil {
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
	case r.Image != nil && !ph.use.ReadsImages():
		l.Add(refuseImage(imageFlag, name, name+" makes a video of text alone and takes no image", presetsThat(takesAny)))
	case r.Image == nil && ph.use.Needed:
		l.Add(refuseImage(imageFlag, name, name+" makes a video of an image, which is not given", nil))
	case r.Image == nil && r.Last != nil && ph.use.TakesLast:
		l.Add(refuseImage(imageFlag, name, "a last image is given without a first one", nil))
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

// checkSize computes the shape of the video's latents.
func (ph *Phase) checkSize() error {
	r := ph.asked
	g, ok := ph.parts.Generator.(models.Generator)
	if !ok {
		return fault.New(models.ErrVariant, nil, "%s does not denoise latents", ph.parts.Generator.Name())
	}
	var err error
	if ph.latent, err = models.VideoLatents(g, r.batch(), r.Width, r.Height, r.Frames); err != nil {
		return err
	}
	if ph.use.KeepsFirst && ph.latent[1] < 2 {
		return fault.New(models.ErrSize, nil, "frames %d: the image is the first latent frame, so at least one more is needed to denoise; nearest: 5", r.Frames)
	}
	if r.Last != nil && r.Frames < 2 {
		return fault.New(models.ErrSize, nil, "frames %d: a first and a last image are two frames; nearest: 5", r.Frames)
	}
	return nil
}

// videoShape is that of the video that is encoded, (1, 3, frames, height, width).
func (ph *Phase) videoShape() []int {
	frames := ph.asked.Frames
	if ph.use.KeepsFirst {
		frames = 1
	}
	return []int{1, 3, frames, ph.asked.Height, ph.asked.Width}
}

// checkAutoencoder refuses an autoencoder that makes other latents than the generator reads.
func (ph *Phase) checkAutoencoder() error {
	want := ""
	if a, ok := ph.parts.Generator.(models.Accompanied); ok {
		want = a.Companions().Decoder
	}
	refuse := func(is, format string, args ...any) error {
		return fault.New(ErrPart, WrongPart{autoencoderPart, is, want}, format, args...)
	}
	name := ph.parts.Generator.Name()
	p := ph.parts.Autoencoder
	if p == nil {
		return refuse("", "%s reads the image's latents, and no autoencoder is given: its own is %s", name, want)
	}
	reader, ok := p.Model.(models.FrameReader)
	if !ok {
		return refuse(p.Model.Name(), "%s encodes no video: the autoencoder of %s is %s", p.Model.Name(), name, want)
	}
	if ph.latent == nil {
		return nil // the size is refused already
	}
	req, err := reader.FrameRequest(videoInput, ph.videoShape())
	made := slices.Clone(ph.latent)
	if ph.use.KeepsFirst {
		made[1] = 1
	}
	if err != nil || !slices.Equal(req.Latent, made) {
		return refuse(p.Model.Name(), "%s makes latents %v (channels, frames, height, width) of %d frames of %dx%d, where %s reads %v: its own autoencoder is %s",
			p.Model.Name(), req.Latent, ph.videoShape()[2], ph.asked.Width, ph.asked.Height, name, made, want)
	}
	if every := ph.framesPerLatent(); !ph.use.KeepsFirst && ph.use.MaskChannels != every {
		return refuse(p.Model.Name(), "%s reads %d channels of mask, one for each frame of a latent frame, and %s makes a latent frame of %d: its own autoencoder is %s",
			name, ph.use.MaskChannels, p.Model.Name(), every, want)
	}
	return p.Devices.CheckSplit(req)
}

// framesPerLatent is how many frames of the video a latent frame stands for, except the first.
func (ph *Phase) framesPerLatent() int {
	d, ok := ph.parts.Autoencoder.Model.(models.Decoder)
	if !ok {
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
	pixels, _, made, ok := visionShape(p.Model)
	switch {
	case !ok:
		return refuse(p.Model.Name(), "%s encodes no image: the image encoder of %s is %s", p.Model.Name(), name, ph.use.Vision)
	case made != width:
		return refuse(p.Model.Name(), "%s makes features of %d numbers, and %s reads image_dim %d: its own image encoder is %s", p.Model.Name(), made, name, width, ph.use.Vision)
	}
	if v := ph.asked.VisionPreparation; v != nil && v.Size != pixels {
		return refuse(p.Model.Name(), "images are prepared with %dx%d pixels, and %s reads %dx%d", v.Size, v.Size, p.Model.Name(), pixels, pixels)
	}
	req, err := p.Model.Request(visionInputs(pixels, make([]float32, 3*pixels*pixels)))
	if err != nil {
		return err
	}
	return p.Devices.CheckSplit(req)
}

func visionShape(m models.Model) (pixels, rows, width int, ok bool) {
	if v, is := m.(models.VisionEncoder); is {
		return v.VisionShape()
	}
	return 0, 0, 0, false
}

package conditions

import (
	"context"
	"fmt"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/picture"
	"weft/tensor"
)

// Run computes the features. The vision encoder runs first, and its weights leave the devices
// before the autoencoder's come.
func (ph *Phase) Run(ctx context.Context) (*Features, error) {
	f := &Features{Conditions: map[string]*tensor.Tensor{}, Notes: slices.Clone(ph.notes)}
	f.Notes = append(f.Notes, ph.cutImage()...)
	if ph.use.FeatureWidth > 0 {
		rows, err := ph.encodeFeatures(ctx)
		if err != nil {
			return nil, err
		}
		f.Conditions[ph.use.FeatureCondition()] = ph.forEachVideo(rows)
	}
	latents, err := ph.encodeFrames(ctx, ph.prepareFrames(&f.Notes))
	if err != nil {
		return nil, err
	}
	if ph.use.KeepsFirst {
		f.Kept = keepFirst(ph.forEachVideo(latents))
		return f, nil
	}
	if ph.use.Alone {
		latents = padFrames(latents, ph.latent[1])
	}
	f.Conditions[NameOfY] = ph.order().Arrange(ph.forEachVideo(ph.joinMask(latents)))
	if ph.use.Offset != 0 {
		f.Conditions[NameOfOffset] = ph.forEachVideo(floats([]float32{float32(ph.use.Offset)}, 1))
	}
	return f, nil
}

// order is how the generator arranges what has the shape of latents.
func (ph *Phase) order() models.LatentOrder {
	return ph.parts.Generator.Features().Generator.LatentOrder
}

// joinMask puts the mask, if there is one, in front of latents, or behind them.
func (ph *Phase) joinMask(latents *tensor.Tensor) *tensor.Tensor {
	switch {
	case ph.use.MaskChannels == 0:
		return latents
	case ph.use.MaskBehind:
		return tensor.Join(1, []*tensor.Tensor{latents, ph.mask()})
	}
	return tensor.Join(1, []*tensor.Tensor{ph.mask(), latents})
}

// padFrames puts frames of zeros behind those of t, up to so many.
func padFrames(t *tensor.Tensor, frames int) *tensor.Tensor {
	shape := slices.Clone(t.Shape)
	if shape[2] = frames - shape[2]; shape[2] < 1 {
		return t
	}
	return tensor.Join(2, []*tensor.Tensor{t, tensor.New(t.DType, shape...)})
}

// cutImage cuts the image to the video's size before anything is made of it, for a release whose
// code does so, unless another fit is asked for. The notes say what is cut off.
func (ph *Phase) cutImage() (notes []string) {
	r := &ph.asked
	if ph.use.SizeBase == 0 || r.Fit == picture.FitPad || r.Fit == picture.FitStretch {
		return nil
	}
	frame := picture.Frame{Width: r.Width, Height: r.Height, StepWidth: ph.use.StepWidth, StepHeight: ph.use.StepHeight}
	notes = picture.NoteAspect(r.Image, imageFlag, frame, picture.FitCrop)
	r.Image = r.Image.FillCropped(r.Width, r.Height)
	return notes
}

// forEachVideo repeats what was computed once along the batch.
func (ph *Phase) forEachVideo(t *tensor.Tensor) *tensor.Tensor {
	return tensor.Stack(slices.Repeat([]*tensor.Tensor{t}, ph.asked.batch()))
}

// encodeFeatures returns the rows (1, rows, width) that the vision encoder makes of the image, or
// of the first and behind them those of the last one.
func (ph *Phase) encodeFeatures(ctx context.Context) (*tensor.Tensor, error) {
	v := ph.parts.Vision.Model.Features().Vision
	prepare := ph.asked.Layout.visionPreparation(v.Pixels)
	if v.Signed {
		prepare = picture.SigLIP(v.Pixels)
	}
	if own := ph.asked.VisionPreparation; own != nil {
		prepare = *own
	}
	var pixels []float32
	images := ph.visionImages()
	for _, im := range images {
		pixels = append(pixels, prepare.Prepare(im).Data...)
	}
	out, err := ph.parts.Vision.Devices.Forward(ctx, map[string]*tensor.Tensor{pixelsInput: floats(pixels, len(images), 3, v.Pixels, v.Pixels)})
	if err != nil {
		return nil, err
	}
	got := out[rowsOutput]
	if got == nil || !slices.Equal(got.Shape, []int{len(images), v.Rows, v.Width}) {
		return nil, fault.New(models.ErrOutput, nil, "%s made %v of images: want [%d %d %d]", ph.parts.Vision.Model.Name(), got, len(images), v.Rows, v.Width)
	}
	if got, err = got.As(dtype.F32); err != nil || len(images) == 1 {
		return got, err
	}
	rows, err := got.Float32s()
	if err != nil {
		return nil, err
	}
	return floats(rows, 1, len(images)*v.Rows, v.Width), nil
}

// floats makes a tensor of as many values as the shape has.
func floats(data []float32, shape ...int) *tensor.Tensor {
	t, err := tensor.FromFloat32s(dtype.F32, data, shape...)
	if err != nil {
		panic(err) // the caller's shape is that of its data
	}
	return t
}

// prepare makes a frame (1, 3, 1, height, width) of a picture. flag is what notes call it.
func (ph *Phase) prepare(im *picture.Image, flag string) (*tensor.Tensor, []string) {
	r := ph.asked
	frame := picture.Frame{Width: r.Width, Height: r.Height, StepWidth: ph.use.StepWidth, StepHeight: ph.use.StepHeight}
	planes, notes := r.Layout.preparation(ph.use, r.Video != nil).Prepare(im, flag, frame, r.Fit)
	return floats(planes.Data, 1, 3, 1, r.Height, r.Width), notes
}

// prepareFrames gives the frames of the video that begins with the first image, ends with the last
// one, and has zeros, which are grey, elsewhere; or frames of the video that is given.
// Those of a video are decoded as they are asked for.
func (ph *Phase) prepareFrames(notes *[]string) FrameSource {
	r, frames := ph.asked, ph.videoShape()[2]
	if r.Video != nil {
		begin := 0
		if !ph.use.Replaced.OfFirst {
			begin = r.Video.Length() - frames
		}
		return func(_ context.Context, i int) (*tensor.Tensor, error) {
			im, err := r.Video.Frame(begin + i)
			if err != nil {
				return nil, err
			}
			t, said := ph.prepare(im, videoFlag)
			if i == 0 {
				*notes = append(*notes, said...)
			}
			return t, nil
		}
	}
	first, said := ph.prepare(r.Image, imageFlag)
	*notes = append(*notes, said...)
	var last *tensor.Tensor
	if r.Last != nil {
		last, said = ph.prepare(r.Last, lastFlag)
		*notes = append(*notes, said...)
	}
	grey := tensor.New(dtype.F32, first.Shape...)
	return func(_ context.Context, i int) (*tensor.Tensor, error) {
		switch {
		case i == 0:
			return first, nil
		case last != nil && i == frames-1:
			return last, nil
		}
		return grey, nil
	}
}

// encodeFrames encodes frames as they are made, and keeps latents as they come: (1, channels,
// frames, height, width).
//
// All zero frames are encoded, although their latents become equal in the end: behind a first
// image, Wan's autoencoders make the same bits only from latent frame 29 on, and a released
// model's video has 21.
func (ph *Phase) encodeFrames(ctx context.Context, source FrameSource) (*tensor.Tensor, error) {
	shape := ph.videoShape()
	var parts, logvars []*tensor.Tensor
	keep := func(output string, frame int, part *tensor.Tensor) error {
		if output == logvarOutput && ph.asked.Sample != nil {
			part, err := part.As(dtype.F32)
			logvars = append(logvars, part)
			return err
		}
		if output != latentsOutput {
			return nil
		}
		if frame != len(parts) {
			return fmt.Errorf("latent frame %d came where %d was awaited", frame, len(parts))
		}
		part, err := part.As(dtype.F32)
		parts = append(parts, part)
		return err
	}
	if err := ph.parts.Autoencoder.Devices.Stream(ctx, videoInput, shape, source, keep); err != nil {
		return nil, err
	}
	want := append([]int{1}, ph.latent...)
	switch {
	case ph.use.Alone:
		want[2] = 1
	case ph.use.KeepsFirst:
		want[2] = ph.keptLatents()
	}
	if len(parts) != want[2] {
		return nil, fault.New(models.ErrOutput, nil, "%s made %d latent frames: want %d", ph.parts.Autoencoder.Model.Name(), len(parts), want[2])
	}
	latents := tensor.Join(2, parts)
	if !slices.Equal(latents.Shape, want) {
		return nil, fault.New(models.ErrOutput, nil, "%s made latents %v: want %v", ph.parts.Autoencoder.Model.Name(), latents.Shape, want)
	}
	if ph.asked.Sample == nil {
		return latents, nil
	}
	if len(logvars) != len(parts) {
		return nil, fault.New(models.ErrOutput, nil, "%s made %d variances of %d latent frames", ph.parts.Autoencoder.Model.Name(), len(logvars), len(parts))
	}
	return ph.asked.Sample(ctx, latents, tensor.Join(2, logvars))
}

// mask (1, mask channels, frames, height, width) is 1 where a frame is given. A latent frame
// stands for as many frames as there are channels, each channel for one of them; the first
// latent frame stands for the first frame alone, which has all channels.
func (ph *Phase) mask() *tensor.Tensor {
	channels, frames, area := ph.use.MaskChannels, ph.latent[1], ph.latent[2]*ph.latent[3]
	fs := make([]float32, channels*frames*area)
	for c := range channels {
		for f := range frames {
			given := f == 0
			if f > 0 && ph.asked.Last != nil {
				given = 1+(f-1)*channels+c == ph.asked.Frames-1
			}
			if given {
				for i := range area {
					fs[(c*frames+f)*area+i] = 1
				}
			}
		}
	}
	return floats(fs, 1, channels, frames, ph.latent[2], ph.latent[3])
}

package control

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

// Run computes the conditions of one video, by their names, and says what of the pictures was
// distorted, cut off or left out.
func (ph *Phase) Run(ctx context.Context) (conditions map[string]*tensor.Tensor, notes []string, err error) {
	v := ph.prepareFrames()
	kept, err := ph.encode(ctx, ph.asked.Frames, v.kept)
	if err != nil {
		return nil, nil, err
	}
	made := kept // both are grey
	if v.given() {
		if made, err = ph.encode(ctx, ph.asked.Frames, v.made); err != nil {
			return nil, nil, err
		}
	}
	var parts []*tensor.Tensor
	for i := range ph.asked.References {
		part, err := ph.encodeReference(ctx, i)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part)
	}
	if ph.diffusers() { // which puts each before those that are there
		slices.Reverse(parts)
	}
	parts = append(parts, tensor.Join(1, []*tensor.Tensor{kept, made, ph.mask(v)}))
	out := map[string]*tensor.Tensor{ph.use.Context: tensor.Join(2, parts), ph.use.Scale: ph.scales()}
	return out, append(v.notes, ph.noteFrames()...), nil
}

// noteFrames says that a video has more frames than are taken.
func (ph *Phase) noteFrames() []string {
	if v := ph.asked.Video; v != nil && len(v.Frames) > ph.asked.Frames {
		return []string{fmt.Sprintf("%s has %d frames: the first %d are taken", videoFlag, len(v.Frames), ph.asked.Frames)}
	}
	return nil
}

// scales (1, control blocks) has the scale of each.
func (ph *Phase) scales() *tensor.Tensor {
	fs := make([]float32, ph.use.Scales)
	for i := range fs {
		switch s := ph.asked.Scales; len(s) {
		case 0:
			fs[i] = 1
		case 1:
			fs[i] = float32(s[0])
		default:
			fs[i] = float32(s[i])
		}
	}
	return floats(fs, 1, ph.use.Scales)
}

// floats makes a tensor of as many values as the shape has.
func floats(data []float32, shape ...int) *tensor.Tensor {
	t, err := tensor.FromFloat32s(dtype.F32, data, shape...)
	if err != nil {
		panic(err) // the caller's shape is that of its data
	}
	return t
}

// frames are the prepared pictures of the control video and its mask, made as they are asked for.
type frames struct {
	ph    *Phase
	notes []string
}

// prepareFrames looks at the first pictures alone, for the notes: all have one size.
func (ph *Phase) prepareFrames() *frames {
	f := &frames{ph: ph}
	for _, p := range []struct {
		v    *picture.Video
		flag string
	}{{ph.asked.Video, videoFlag}, {ph.asked.Mask, maskFlag}} {
		if p.v != nil {
			_, said := ph.preparation().Prepare(p.v.Frames[0], p.flag, ph.frame(), ph.asked.Fit)
			f.notes = append(f.notes, said...)
		}
	}
	return f
}

func (f *frames) given() bool { return f.ph.asked.Video != nil }

// preparation is how pictures become frames.
func (ph *Phase) preparation() picture.Preparation {
	if ph.diffusers() {
		return picture.DiffusersControl
	}
	return picture.OfficialControl
}

func (ph *Phase) frame() picture.Frame {
	return picture.Frame{Width: ph.asked.Width, Height: ph.asked.Height, StepWidth: ph.use.StepWidth, StepHeight: ph.use.StepHeight}
}

// pixels are the values of frame i of a video, from -1 to 1: red, green and blue planes.
func (f *frames) pixels(v *picture.Video, i int) []float32 {
	planes, _ := f.ph.preparation().Prepare(v.Frames[i], "", f.ph.frame(), f.ph.asked.Fit)
	return planes.Data
}

// maskPixels are the mask's values of frame i, from 0 to 1. The release's own code takes the red
// plane for all; diffusers takes each plane for its own.
func (f *frames) maskPixels(i int) []float32 {
	data := f.pixels(f.ph.asked.Mask, i)
	for k, v := range data {
		data[k] = min(max((v+1)/2, 0), 1)
	}
	if !f.ph.diffusers() {
		n := len(data) / 3
		copy(data[n:], data[:n])
		copy(data[2*n:], data[:n])
	}
	return data
}

// kept is frame i without what is made anew, which is grey.
func (f *frames) kept(i int) []float32 {
	return f.masked(i, func(made bool) bool { return !made })
}

// made is frame i with what is made anew alone.
func (f *frames) made(i int) []float32 { return f.masked(i, func(made bool) bool { return made }) }

// masked is frame i with zeros where shown is false of what the mask says.
func (f *frames) masked(i int, shown func(made bool) bool) []float32 {
	a := f.ph.asked
	if a.Video == nil {
		return make([]float32, 3*a.Height*a.Width)
	}
	data := f.pixels(a.Video, i)
	var mask []float32 // nil: all is made anew
	if a.Mask != nil {
		mask = f.maskPixels(i)
	}
	for k := range data {
		if !shown(mask == nil || mask[k] > 0.5) {
			data[k] = 0
		}
	}
	return data
}

// mask (1, rows x columns, frames, height, width) has of each position of the latents the mask's
// pixels that it stands for, of the frames that are nearest to the latent frames: those in the
// middle of equal parts of the video.
func (ph *Phase) mask(f *frames) *tensor.Tensor {
	count, rows, cols := ph.latent[1], ph.latent[2], ph.latent[3]
	r, c := ph.use.MaskRows, ph.use.MaskCols
	out := make([]float32, r*c*count*rows*cols)
	scale := float32(ph.asked.Frames) / float32(count)
	for t := range count {
		var data []float32
		if ph.asked.Mask != nil {
			data = f.maskPixels(min(int((float64(t)+0.5)*float64(scale)), ph.asked.Frames-1))
		}
		for y := range rows * r {
			for x := range cols * c {
				v := float32(1)
				if data != nil {
					v = data[y*ph.asked.Width+x]
				}
				out[(((y%r*c+x%c)*count+t)*rows+y/r)*cols+x/c] = v
			}
		}
	}
	return floats(out, 1, r*c, count, rows, cols)
}

// encodeReference returns the latent frame of reference i, (1, channels of the condition, 1,
// height, width), zeros behind its own latents.
func (ph *Phase) encodeReference(ctx context.Context, i int) (*tensor.Tensor, error) {
	planes := ph.asked.References[i].OnCanvas(ph.asked.Width, ph.asked.Height, ph.diffusers())
	own, err := ph.encode(ctx, 1, func(int) []float32 { return planes.Data })
	if err != nil {
		return nil, err
	}
	rest := tensor.New(dtype.F32, 1, ph.use.LatentChannels+ph.use.MaskRows*ph.use.MaskCols, 1, ph.latent[2], ph.latent[3])
	return tensor.Join(1, []*tensor.Tensor{own, rest}), nil
}

// encode returns the latents (1, channels, frames, height, width) of a video, whose frames are
// made as they are asked for.
func (ph *Phase) encode(ctx context.Context, count int, frame func(i int) []float32) (*tensor.Tensor, error) {
	source := func(_ context.Context, i int) (*tensor.Tensor, error) {
		return floats(frame(i), 1, 3, 1, ph.asked.Height, ph.asked.Width), nil
	}
	var parts []*tensor.Tensor
	keep := func(output string, at int, part *tensor.Tensor) error {
		if output != latentsOutput {
			return nil
		}
		if at != len(parts) {
			return fmt.Errorf("latent frame %d came where %d was awaited", at, len(parts))
		}
		part, err := part.As(dtype.F32)
		parts = append(parts, part)
		return err
	}
	if err := ph.parts.Autoencoder.Devices.Stream(ctx, videoInput, ph.videoShape(count), source, keep); err != nil {
		return nil, err
	}
	want := append([]int{1}, ph.latent...)
	want[2] = (count-1)/ph.use.FramesPerLatent + 1
	if len(parts) != want[2] {
		return nil, fault.New(models.ErrOutput, nil, "%s made %d latent frames: want %d", ph.parts.Autoencoder.Model.Name(), len(parts), want[2])
	}
	latents := tensor.Join(2, parts)
	if !slices.Equal(latents.Shape, want) {
		return nil, fault.New(models.ErrOutput, nil, "%s made latents %v: want %v", ph.parts.Autoencoder.Model.Name(), latents.Shape, want)
	}
	return latents, nil
}

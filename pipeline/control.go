package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/internal/userfile"
	"weft/models"
	"weft/picture"
	"weft/pipeline/control"
	"weft/request"
	"weft/tensor"
)

// controls are the control video, its mask and the reference images of a video.
type controls struct {
	given control.Given
	sums  map[string]string // of what was read, by its name in a state
	phase *control.Phase
}

// asksControl says whether a control video, or what belongs to one, is asked for.
func (o Options) asksControl() bool {
	return o.Video != "" || o.Mask != "" || len(o.References) > 0 || len(o.ConditioningScale) > 0
}

// openControls reads the control video, its mask and the reference images that are asked for.
func (s *settled) openControls() error {
	if s.onlyChecked {
		return nil
	}
	var errs fault.List
	c := &s.controls
	c.sums = map[string]string{}
	for _, v := range []struct {
		name, path string
		to         **picture.Video
	}{{"control video", s.o.Video, &c.given.Video}, {"mask", s.o.Mask, &c.given.Mask}} {
		if v.path == "" || v.to == &c.given.Video && s.p.imageUse().Replaced != nil {
			continue
		}
		video, notes, err := picture.OpenVideo(v.path, 0)
		errs.Add(err)
		s.notes = append(s.notes, notes...)
		if *v.to = video; err == nil {
			c.sums[v.name] = video.Sum
		}
	}
	for i, path := range s.o.References {
		raw, err := userfile.Read(path, maxImageFile)
		if err != nil {
			errs.Add(err)
			continue
		}
		im, notes, err := picture.Decode(raw, path, 0)
		errs.Add(err)
		s.notes = append(s.notes, notes...)
		sum := sha256.Sum256(raw)
		c.given.References = append(c.given.References, im)
		c.sums[fmt.Sprint("reference ", i+1)] = hex.EncodeToString(sum[:])
	}
	c.given.Scales = s.o.ConditioningScale
	if err := errs.Err(); err != nil {
		return err
	}
	return control.CheckGiven(s.p.Denoiser(), c.given)
}

// readsControl says whether the transformer reads a control video.
func (s *settled) readsControl() bool { return s.p.generator().Control != nil }

// settleControls checks everything that is asked of the control video, and chooses the mesh of its
// autoencoder.
func (s *settled) settleControls(d Devices) error {
	if s.latent == nil || !s.readsControl() {
		return nil // the size is refused already, or what is given is
	}
	var err error
	s.controls.phase, err = control.Check(s.imageParts(d), control.Request{Given: s.controls.given, Layout: s.p.conditionsLayout(), Fit: s.o.Fit,
		Width: s.o.Width, Height: s.o.Height, Frames: s.o.Frames})
	return err
}

// fitControl takes the size and the number of frames of a control video where none are asked for.
// from is where the size is from then.
func (s *settled) fitControl(from string) string {
	v := s.controls.given.Video
	if v == nil || !s.readsControl() {
		return from
	}
	if from != "" { // no size is asked for
		w, h := control.VideoSize(s.p.Denoiser(), s.p.conditionsLayout(), v, s.o.Width, s.o.Height)
		if w != s.o.Width || h != s.o.Height {
			from = "the control video, and the area of " + from
		}
		s.o.Width, s.o.Height = w, h
	}
	if s.o.Frames == 0 {
		s.o.Frames = len(v.Frames)
	}
	return from
}

// referenceFrames is how many latent frames stand before those of the video while it is denoised.
func (s *settled) referenceFrames() int { return len(s.controls.given.References) }

// loopLatent is the shape of the latents that are denoised: those of the video, and before them
// those of reference images.
func (s *settled) loopLatent() []int {
	if s.latent == nil {
		return nil
	}
	return []int{s.latent[0], s.latent[1] + s.referenceFrames(), s.latent[2], s.latent[3]}
}

// loopRequest is the request that the loop denoises: the frames of reference images are before
// those of the video.
func (s *settled) loopRequest() request.Request {
	r := s.o.Request
	if n := s.referenceFrames(); n > 0 {
		r.Frames += n * s.p.generator().Control.FramesPerLatent
	}
	return r
}

// blankControl adds conditions of the right shapes, to check a loop before any are computed.
func (s *settled) blankControl(f features) {
	for name, shape := range control.BlankConditions(s.p.Denoiser(), s.loopLatent()) {
		f[name] = tensor.New(dtype.F32, shape...)
	}
}

// encodeControl makes what the loop reads of the control video.
func (g *generation) encodeControl(ctx context.Context) error {
	if g.controls.phase == nil {
		return nil
	}
	f, notes, err := g.controls.phase.Run(ctx)
	if err != nil {
		return err
	}
	for name, t := range f {
		g.features[name] = t
	}
	g.notes = append(g.notes, notes...)
	return nil
}

// askedControls are what was given for control as a state compares it.
func (s *settled) askedControls(out map[string]string) {
	for name, sum := range s.controls.sums {
		out[name] = sum
	}
	if s.controls.given.Video != nil {
		out["fit"] = fmt.Sprint(s.o.Fit)
	}
	if len(s.controls.given.Scales) > 0 {
		out["conditioning scale"] = strings.Trim(fmt.Sprint(s.controls.given.Scales), "[]")
	}
}

// withoutReferences are latents (1, channels, frames, height, width) without their first frames.
func withoutReferences(z *tensor.Tensor, references int) *tensor.Tensor {
	if references == 0 {
		return z
	}
	return z.Slice(2, references, z.Shape[2])
}

// cutReferences cuts the frames of reference images, whose number a file's metadata has, off its
// latents.
func cutReferences(z *tensor.Tensor, meta map[string]string) (*tensor.Tensor, error) {
	said := meta[referencesKey]
	if said == "" {
		return z, nil
	}
	n := 0
	if _, err := fmt.Sscan(said, &n); err != nil || n < 1 || n >= z.Shape[2] {
		return nil, fault.New(models.ErrInputs, nil, "its metadata %s is %.20q: want how many of the latents' %d frames are those of reference images", referencesKey, said, z.Shape[2])
	}
	return withoutReferences(z, n), nil
}

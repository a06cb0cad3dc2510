package conditions

import (
	"cmp"
	"fmt"

	"weft/fault"
	"weft/models"
)

// ErrVideo: a video for a model that goes on from none, or one that is too short. The fields are
// ImageRefused for the former.
var ErrVideo = fault.NewKind("video-refused")

// checkVideo holds the video that is given against what the generator goes on from.
func (ph *Phase) checkVideo() error {
	r, name, use := ph.asked, ph.parts.Generator.Name(), ph.use.Replaced
	var l fault.List
	if r.VideoLatents != 0 && r.Video == nil {
		l.Add(fault.New(models.ErrInputs, nil, "%s %d without %s: it says how many latent frames a video gives", videoLatentsFlag, r.VideoLatents, videoFlag))
	}
	if r.Video == nil {
		return l.Err()
	}
	if use == nil && ph.readsControl() {
		return l.Err() // package control holds it against the model
	}
	if use == nil {
		takes := presetsThat(func(u models.ImageUse) bool { return u.Replaced != nil })
		return fault.New(ErrVideo, ImageRefused{videoFlag, name, takes}, "%s: %s goes on from no video; of the models known by name these do: %v", videoFlag, name, takes)
	}
	if r.Image != nil {
		l.Add(fault.New(ErrVideo, ImageRefused{Flag: videoFlag, Model: name}, "%s and %s: a video begins with one of the two", imageFlag, videoFlag))
	}
	if n := r.VideoLatents; n < 0 || n > use.MostLatents {
		l.Add(fault.New(models.ErrInputs, nil, "%s %d: %s goes on from 1 to %d latent frames of a video", videoLatentsFlag, n, name, use.MostLatents))
	}
	return l.Err()
}

// keptLatents is how many latent frames are given.
func (ph *Phase) keptLatents() int {
	if ph.asked.Video == nil || ph.use.Replaced == nil {
		return 1
	}
	return cmp.Or(ph.asked.VideoLatents, ph.use.Replaced.Latents)
}

// checkLength refuses a video of fewer frames than are encoded.
func (ph *Phase) checkLength() error {
	v := ph.asked.Video
	if v == nil || ph.use.Replaced == nil {
		return nil
	}
	if need := ph.videoShape()[2]; v.Length() < need {
		advice := ""
		if ph.keptLatents() > 1 && v.Length() >= 1 {
			advice = fmt.Sprintf("; %s 1 takes one frame alone", videoLatentsFlag)
		}
		return fault.New(ErrVideo, nil, "%s has %d frames: %d latent frames are made of %d%s", videoFlag, v.Length(), ph.keptLatents(), need, advice)
	}
	return nil
}

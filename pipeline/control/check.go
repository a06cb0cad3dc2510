package control

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/fault"
	"weft/models"
	"weft/picture"
	"weft/pipeline/conditions"
)

// ErrControl: a control video, a mask or a reference image for a model that takes none, or that do
// not fit together. The fields are Refused.
var ErrControl = fault.NewKind("control-refused")

// Refused is the flag that something was given with, and the models that take it.
type Refused struct {
	Flag   string   `json:"flag"`
	Model  string   `json:"model"`
	Models []string `json:"models,omitempty"`
}

// The flags, as messages call them.
const (
	videoFlag     = "--video"
	maskFlag      = "--mask"
	referenceFlag = "--reference"
	scaleFlag     = "--conditioning-scale"
)

// Given are the pictures that are given. Mask is white where the video is made anew.
type Given struct {
	Video, Mask *picture.Video
	References  []*picture.Image
	// Scales are one for all control blocks, or one for each; nil is 1 for all.
	Scales []float64
}

// Any says whether anything is given.
func (g Given) Any() bool {
	return g.Video != nil || g.Mask != nil || len(g.References) > 0 || len(g.Scales) > 0
}

// Request is what is asked of the phase.
type Request struct {
	Given
	Layout conditions.Layout
	// Fit says how the control video and its mask fill the frame; "" is the layout's own way.
	Fit picture.Fit
	// Width, Height and Frames are the video's.
	Width, Height, Frames int
}

// useOf is what a model reads of a control video, nil for one that reads none.
func useOf(m models.Model) *models.ControlUse {
	if g := m.Features().Generator; g != nil {
		return g.Control
	}
	return nil
}

// CheckGiven reports what is given for a model that takes none of it, and a video, a mask and
// scales that do not fit together. It needs no size. Error: ErrControl.
func CheckGiven(m models.Model, g Given) error {
	use, name := useOf(m), m.Name()
	var l fault.List
	refuse := func(flag string, takes []string, format string, args ...any) {
		text := flag + ": " + fmt.Sprintf(format, args...)
		if len(takes) > 0 {
			text += "; of the models known by name these do: " + strings.Join(takes, ", ")
		}
		l.Add(fault.New(ErrControl, Refused{flag, name, takes}, "%s", text))
	}
	if use == nil {
		for _, c := range []struct {
			flag, what string
			given      bool
		}{{videoFlag, "control video", g.Video != nil}, {maskFlag, "mask", g.Mask != nil}, {referenceFlag, "reference image", len(g.References) > 0},
			{scaleFlag, "scale of control blocks", len(g.Scales) > 0}} {
			switch {
			case c.given && c.flag == videoFlag:
				refuse(c.flag, presetsThatReadVideos(), "%s takes no %s, and goes on from no video", name, c.what)
			case c.given:
				refuse(c.flag, presetsThatTake(), "%s takes no %s", name, c.what)
			}
		}
		return l.Err()
	}
	if g.Mask != nil && g.Video == nil {
		refuse(maskFlag, nil, "a mask says which parts of a video are made anew, and no %s is given", videoFlag)
	}
	if g.Mask != nil && g.Video != nil && len(g.Mask.Frames) != len(g.Video.Frames) {
		refuse(maskFlag, nil, "%d frames, and the video has %d: want as many", len(g.Mask.Frames), len(g.Video.Frames))
	}
	for _, s := range g.Scales {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			refuse(scaleFlag, nil, "%g is no finite number", s)
		}
	}
	if n := len(g.Scales); n > 1 && n != use.Scales {
		refuse(scaleFlag, nil, "%d scales: %s has %d control blocks; want one scale for all, or %[3]d", n, name, use.Scales)
	}
	return l.Err()
}

// presetsThatTake lists the presets that read a control video.
func presetsThatTake() []string {
	return presetsWhere(func(m models.Model) bool { return useOf(m) != nil })
}

// presetsThatReadVideos are the names of the models that take a control video, and behind them of those
// that go on from one.
func presetsThatReadVideos() []string {
	return append(presetsThatTake(), presetsWhere(func(m models.Model) bool {
		g := m.Features().Generator
		return g != nil && g.Image.Replaced != nil
	})...)
}

// presetsWhere are the names of the models that are so.
func presetsWhere(is func(m models.Model) bool) (names []string) {
	for _, name := range models.Presets() {
		if m, err := models.ByName(name); err == nil && is(m) {
			names = append(names, name)
		}
	}
	return names
}

// Phase is a request that was checked, ready to run.
type Phase struct {
	parts  conditions.Parts
	asked  Request
	use    *models.ControlUse
	latent []int // (channels, frames, height, width) of the video, without references
}

// Check reports everything that is wrong with a request, without reading a weight: what
// CheckGiven reports, sizes that the generator does not make, a video of too few frames, an
// autoencoder that is missing or belongs to another generator, devices that cannot run it.
// Errors: ErrControl, conditions.ErrPart, picture.ErrFit, those of models.VideoLatents and of
// Devices.CheckSplit.
//
// The result is nil for a generator that reads no control video and is given none.
func Check(p conditions.Parts, r Request) (*Phase, error) {
	ph := &Phase{parts: p, asked: r, use: useOf(p.Generator)}
	var l fault.List
	l.Add(CheckGiven(p.Generator, r.Given))
	if ph.use == nil {
		return nil, l.Err()
	}
	if _, err := picture.ParseFit(string(r.Fit)); r.Fit != "" && err != nil {
		l.Add(err)
	}
	latent, err := models.VideoLatents(p.Generator.Features().Generator, 1, r.Width, r.Height, r.Frames)
	l.Add(err)
	if ph.latent = latent; err == nil {
		l.Add(ph.checkAutoencoder())
	}
	if v := r.Video; v != nil && len(v.Frames) < r.Frames {
		l.Add(fault.New(ErrControl, Refused{videoFlag, p.Generator.Name(), nil}, "%s: %d frames for a video of %d: want as many, or more, of which the first are taken; %s",
			videoFlag, len(v.Frames), r.Frames, nearestFrames(len(v.Frames), ph.use.FramesPerLatent)))
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return ph, nil
}

// nearestFrames names the largest number of frames that a video of so many can have.
func nearestFrames(n, perLatent int) string {
	return fmt.Sprintf("nearest: --frames %d", (n-1)/perLatent*perLatent+1)
}

// checkAutoencoder refuses an autoencoder that makes other latents than the generator reads.
func (ph *Phase) checkAutoencoder() error {
	name, want := ph.parts.Generator.Name(), ph.parts.Generator.Features().Generator.Companions.Decoder
	refuse := func(is, format string, args ...any) error {
		return fault.New(conditions.ErrPart, conditions.WrongPart{Part: "autoencoder", Is: is, Want: want}, format, args...)
	}
	p := ph.parts.Autoencoder
	if p == nil {
		return refuse("", "%s reads the latents of a control video, and no autoencoder is given: its own is %s", name, want)
	}
	reader := p.Model.Features().Frames
	if reader == nil {
		return refuse(p.Model.Name(), "%s encodes no video: the autoencoder of %s is %s", p.Model.Name(), name, want)
	}
	req, err := reader.Request(videoInput, ph.videoShape(ph.asked.Frames))
	if err != nil || !slices.Equal(req.Latent, ph.latent) || ph.latent[0] != ph.use.LatentChannels ||
		ph.latent[2]*ph.use.MaskRows != ph.asked.Height || ph.latent[3]*ph.use.MaskCols != ph.asked.Width {
		return refuse(p.Model.Name(), "%s makes latents %v (channels, frames, height, width) of %d frames of %dx%d, where %s reads %v: its own autoencoder is %s",
			p.Model.Name(), req.Latent, ph.asked.Frames, ph.asked.Width, ph.asked.Height, name, ph.latent, want)
	}
	return p.Devices.CheckSplit(req)
}

// videoShape is that of a video of so many frames that is encoded.
func (ph *Phase) videoShape(frames int) []int {
	return []int{1, 3, frames, ph.asked.Height, ph.asked.Width}
}

// The names that autoencoders have for what they read and make.
const (
	videoInput    = "video"  // pixels from -1 to 1
	latentsOutput = "encode" // the posterior's mode, normalised
)

func (ph *Phase) diffusers() bool { return ph.asked.Layout == conditions.Diffusers }

// VideoSize is the size of the video where nobody asks for one: of a control video, as the
// layout's own code takes it. width and height are the release's own.
func VideoSize(m models.Model, l conditions.Layout, v *picture.Video, width, height int) (int, int) {
	use := useOf(m)
	switch {
	case use == nil || v == nil:
		return width, height
	case l == conditions.Diffusers:
		return picture.DiffusersControlSize(v.Width, v.Height, width, height, use.StepWidth, use.StepHeight)
	}
	latents := (len(v.Frames)-1)/use.FramesPerLatent + 1
	return picture.OfficialControlSize(v.Width, v.Height, latents, width*height, use.StepWidth, use.StepHeight)
}

// BlankConditions are conditions of the right shapes, to check a loop before any are computed.
// latent is the shape of the latents with those of references.
func BlankConditions(m models.Model, latent []int) map[string][]int {
	use := useOf(m)
	if use == nil {
		return nil
	}
	return map[string][]int{use.Context: append([]int{1, 2*use.LatentChannels + use.MaskRows*use.MaskCols}, latent[1:]...), use.Scale: {1, use.Scales}}
}

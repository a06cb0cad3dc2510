package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"weft/denoise"
	"weft/dtype"
	"weft/fault"
	"weft/footage"
	"weft/identify"
	"weft/internal/userfile"
	"weft/mesh"
	"weft/models"
	"weft/picture"
	"weft/pipeline/conditions"
	"weft/tensor"
)

// images are the pictures that a video begins and ends with.
type images struct {
	first, last *picture.Image
	sums        [2]string // of the files
	video       *footage.Footage
	phase       *conditions.Phase
	cost        Cost // of the phase, as its models run
}

// maxImageFile bounds the file of a picture.
const maxImageFile = 1 << 30

// videoFrames are the frames of the video that is given, as conditions takes them.
type videoFrames struct{ *footage.Footage }

// Length is how many frames there are.
func (v videoFrames) Length() int { return v.Frames }

// openVideo opens the video that the new one goes on from. One that controls it is openControls'.
func (s *settled) openVideo() error {
	if s.o.Video == "" || s.onlyChecked || s.p.imageUse().Replaced == nil {
		return nil
	}
	v, err := footage.Open(s.o.Video)
	if err != nil {
		return err
	}
	s.images.video = v
	s.notes = append(s.notes, v.Notes...)
	return nil
}

// openImages reads the pictures that are asked for, and opens the video.
func (s *settled) openImages() error {
	var errs fault.List
	errs.Add(s.openVideo())
	for i, path := range []string{s.o.Image, s.o.LastImage} {
		if path == "" || s.onlyChecked {
			continue
		}
		raw, err := userfile.Read(path, maxImageFile)
		if err != nil {
			errs.Add(err)
			continue
		}
		im, notes, err := picture.Decode(raw, path, 0)
		errs.Add(err)
		s.notes = append(s.notes, notes...)
		sum := sha256.Sum256(raw)
		s.images.sums[i] = hex.EncodeToString(sum[:])
		if i == 0 {
			s.images.first = im
		} else {
			s.images.last = im
		}
	}
	return errs.Err()
}

// imageUse is what the transformer reads of images.
func (p *Pipeline) imageUse() models.ImageUse { return p.generator().Image }

// conditionsLayout is the folder's layout as the image phase has it.
func (p *Pipeline) conditionsLayout() conditions.Layout {
	if p.Layout == Diffusers {
		return conditions.Diffusers
	}
	return conditions.Official
}

// settleImages checks everything that is asked of the image phase, and chooses its meshes.
func (s *settled) settleImages(d Devices) error {
	if s.latent == nil {
		return nil // the size is refused already
	}
	r := conditions.Request{Layout: s.p.conditionsLayout(), Image: s.images.first, Last: s.images.last, Fit: s.o.Fit, Width: s.o.Width, Height: s.o.Height, Frames: s.o.Frames}
	if s.p.imageUse().DrawsPosterior() {
		r.Sample = s.samplePosterior
	}
	if r.VideoLatents = s.o.VideoLatents; s.images.video != nil {
		r.Video = videoFrames{s.images.video}
	}
	var errs fault.List
	parts := s.imageParts(d)
	if s.p.vision != nil {
		own, notes, err := s.p.readImageProcessor()
		r.VisionPreparation = own
		s.notes = append(s.notes, notes...)
		errs.Add(err)
	}
	var err error
	s.images.phase, err = conditions.Check(parts, r)
	errs.Add(err)
	return errs.Err()
}

// imageParts are the models of the image phase on the devices.
func (s *settled) imageParts(d Devices) conditions.Parts {
	parts := conditions.Parts{Generator: s.p.Denoiser()}
	if s.p.vae != nil {
		encoded := s.latent
		if s.p.imageUse().EncodesAlone() {
			encoded = append([]int{s.latent[0], 1}, s.latent[2:]...)
		}
		place := Placement{DType: s.o.autoencoderType()}
		place.Mesh, _ = firstLegal(pictureMeshes(d.Count(), s.latent[2], s.latent[3]), func(m []mesh.Axis) error {
			return d.CheckSplit(s.p.vae, models.Request{Batch: 1, Latent: encoded, Encode: true}, Placement{Mesh: m, DType: place.DType})
		})
		parts.Autoencoder = s.imagePart(d, s.p.vae, place)
	}
	if s.p.vision != nil {
		place := Placement{DType: s.o.ComputeType(), Stream: true}
		place.Mesh, _ = firstLegal(textMeshes(d.Count()), func(m []mesh.Axis) error {
			return d.CheckSplit(s.p.vision, models.Request{Batch: s.p.imageUse().VisionImages()}, Placement{Mesh: m, DType: place.DType})
		})
		parts.Vision = s.imagePart(d, s.p.vision, place)
	}
	return parts
}

// imageProcessors are the folders in which diffusers' layout says how images are prepared.
var imageProcessors = []string{"image_processor", "feature_extractor"}

// readImageProcessor reads how a folder in diffusers' layout prepares images for the vision
// encoder; nil where it does not say.
func (p *Pipeline) readImageProcessor() (*picture.VisionPreparation, []string, error) {
	if p.Layout != Diffusers {
		return nil, nil, nil
	}
	for _, folder := range imageProcessors {
		path := filepath.Join(p.Dir, folder, "preprocessor_config.json")
		raw, err := userfile.Read(path, maxRequest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		v, notes, err := conditions.ReadImageProcessor(raw)
		if err != nil {
			return nil, nil, within(path, err)
		}
		for i, n := range notes {
			notes[i] = path + ": " + n
		}
		return &v, notes, nil
	}
	return nil, nil, nil
}

// imagePart is a model of the image phase, whose costs are those of the video's.
func (s *settled) imagePart(d Devices, m *identify.Match, place Placement) *conditions.Part {
	return &conditions.Part{Model: m.Model, Devices: partDevices{d: d, m: m, cost: &s.images.cost, place: func() Placement {
		place := place
		place.Again = s.again
		return place
	}}}
}

// ConditionPart is a model of the image phase on devices, as package conditions takes it, for a
// caller that makes an image's conditions without a pipeline.
func ConditionPart(d Devices, m *identify.Match, place Placement) *conditions.Part {
	return &conditions.Part{Model: m.Model, Devices: partDevices{d: d, m: m, cost: new(Cost), place: func() Placement { return place }}}
}

// partDevices are the devices of one model of the image phase.
type partDevices struct {
	d     Devices
	m     *identify.Match
	cost  *Cost // that calls add to
	place func() Placement
}

func (p partDevices) CheckSplit(r models.Request) error { return p.d.CheckSplit(p.m, r, p.place()) }

func (p partDevices) Forward(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, cost, err := p.d.Forward(ctx, p.m, []map[string]*tensor.Tensor{inputs}, p.place())
	p.cost.addRun(cost)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func (p partDevices) Stream(ctx context.Context, input string, shape []int, frames conditions.FrameSource, visit conditions.Visit) error {
	cost, err := p.d.StreamFrames(ctx, p.m, input, shape, frames, p.place(), visit)
	p.cost.addRun(cost)
	return err
}

// addRun adds what another model of a phase took. The mesh is the last one's.
func (c *Cost) addRun(more Cost) {
	c.Mesh, c.DType = more.Mesh, more.DType
	c.BytesRead += more.BytesRead
	c.Resident = max(c.Resident, more.Resident)
	c.Notes = append(c.Notes, more.Notes...)
}

// keptLatents is how many latent frames are given.
func (im *images) keptLatents(use models.ImageUse, asked int) int {
	if im.video == nil || use.Replaced == nil {
		return 1
	}
	return cmp.Or(asked, use.Replaced.Latents)
}

// blankConditions are conditions of the right shapes, to check a loop before any are computed.
func (s *settled) blankConditions(f features) {
	use := s.p.imageUse()
	if s.images.first == nil && s.images.video == nil || s.latent == nil {
		return
	}
	if use.LatentChannels > 0 {
		y := tensor.New(dtype.F32, append([]int{1, use.MaskChannels + use.LatentChannels}, s.latent[1:]...)...)
		f[conditions.NameOfY] = s.p.generator().LatentOrder.Arrange(y)
	}
	if use.Offset != 0 {
		f[conditions.NameOfOffset] = tensor.New(dtype.F32, 1)
	}
	if use.FeatureWidth > 0 && s.p.vision != nil && s.p.vision.Features().Vision != nil {
		v := s.p.vision.Features().Vision
		f[use.FeatureCondition()] = tensor.New(dtype.F32, 1, use.VisionImages()*v.Rows, use.FeatureWidth)
	}
	if use.KeepsFirst {
		f[conditions.NameOfKept] = tensor.New(dtype.F32, 1, s.latent[0], s.images.keptLatents(use, s.o.VideoLatents), s.latent[2], s.latent[3])
	}
}

// loopConditions are the conditions and the kept frame among the features, as a loop takes them.
func (f features) loopConditions() (map[string]*tensor.Tensor, *denoise.Kept) {
	c := conditions.FromTensors(f.selectConditions())
	return c.Conditions, c.Kept
}

// encodeImage makes what the loop reads of the images, and keeps all features.
func (g *generation) encodeImage(ctx context.Context) (Cost, error) {
	if g.complete { // they come with the state
		return Cost{}, nil
	}
	if g.images.phase != nil {
		f, err := g.images.phase.Run(ctx)
		if err != nil {
			return g.images.cost, err
		}
		for name, t := range f.Tensors() {
			g.features[name] = t
		}
		g.notes = append(g.notes, f.Notes...)
	}
	if err := g.encodeControl(ctx); err != nil {
		return g.images.cost, err
	}
	g.complete = true
	return g.images.cost, g.keepFeatures()
}

// askedImages are the images as a state compares them.
func (s *settled) askedImages(out map[string]string) {
	for i, name := range []string{"image", "last image"} {
		if s.images.sums[i] != "" {
			out[name] = s.images.sums[i]
		}
	}
	if v := s.images.video; v != nil {
		out["video"] = v.Sum
		out["latent frames of the video"] = fmt.Sprint(s.images.keptLatents(s.p.imageUse(), s.o.VideoLatents))
	}
	if s.images.first != nil || s.images.video != nil {
		out["fit"] = fmt.Sprint(s.o.Fit)
	}
	s.askedControls(out)
}

package pipeline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/denoise"
	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/sampler"
	"weft/tensor"
)

// mixing are the numbers of what some releases mix into latents: noise into a given first frame,
// and noise before they are decoded.
type mixing struct {
	frame           *denoise.Mixed // nil for a model that mixes no frame in
	timestep, scale float64        // of decoding
	reads           bool           // the decoder reads a timestep
	// draw is the number of the draw that a file of latents names; nil where there is no file.
	draw *int
}

// settleMixing decides the numbers: those that are asked for, or the release's own. Those of which
// the release has none are refused.
func (s *settled) settleMixing() error {
	var errs fault.List
	pick := func(name, flag string, asked *float64, own func() (float64, string, bool), most float64) float64 {
		value, from, ok := own()
		switch {
		case asked == nil && !ok:
			return 0
		case !ok:
			errs.Add(fault.New(models.ErrInputs, nil, "%s %g: %s has no such number", flag, *asked, s.p.Name()))
			return 0
		case asked != nil:
			value, from = *asked, models.FromFlag
		}
		if !(value >= 0 && value <= most) {
			errs.Add(fault.New(models.ErrInputs, nil, "%s %g: want a number from 0 to %g", flag, value, most))
		}
		s.mixed[name] = models.Setting{Value: value, From: from}
		return value
	}
	s.mixed = map[string]models.Setting{}
	mixed := s.p.imageUse().Mixed
	if mixed != nil && s.images.first == nil {
		mixed = nil // there is no frame to mix in
	}
	frame := func(of func(*models.MixedFrame) float64) func() (float64, string, bool) {
		return func() (float64, string, bool) {
			if mixed == nil {
				return 0, "", false
			}
			return of(mixed), mixed.Source, true
		}
	}
	strength := pick("strength", "--strength", s.o.Strength, frame(func(m *models.MixedFrame) float64 { return m.Strength }), 1)
	noise := pick("image_noise_scale", "--image-noise-scale", s.o.ImageNoiseScale, frame(func(m *models.MixedFrame) float64 { return m.NoiseScale }), 1)
	if mixed != nil {
		s.mix.frame = &denoise.Mixed{Strength: strength, NoiseScale: noise}
	}
	return fault.Join(errs.Err(), s.settleDecodingTimestep(pick))
}

// settleDecodingTimestep decides what a decoder is told of the noise that latents have left.
func (s *settled) settleDecodingTimestep(pick func(string, string, *float64, func() (float64, string, bool), float64) float64) error {
	var own *models.DecodingTimestep
	if s.p.vae != nil {
		own = s.p.vae.Features().Decoder.Timestep
	}
	decoding := func(of func(*models.DecodingTimestep) float64) func() (float64, string, bool) {
		return func() (float64, string, bool) {
			if own == nil {
				return 0, "", false
			}
			return of(own), own.Source, true
		}
	}
	s.mix.reads = own != nil
	s.mix.timestep = pick("decode_timestep", "--decode-timestep", s.o.DecodeTimestep, decoding(func(d *models.DecodingTimestep) float64 { return d.Timestep }), 1)
	s.mix.scale = pick("decode_noise_scale", "--decode-noise-scale", s.o.DecodeNoiseScale, decoding(func(d *models.DecodingTimestep) float64 { return d.Scale }), 1)
	return nil
}

// firstDraw is the number of the first draw behind the latents: 1 where the release's pipeline
// draws them in the same sequence, 0 where they are given.
func (s *settled) firstDraw() int {
	if s.p.imageUse().Mixed != nil && !s.latentsGiven {
		return 1
	}
	return 0
}

// decodingDraw is the number of the draw that is mixed into the latents before they are decoded:
// the one behind those of the steps.
func (s *settled) decodingDraw() int {
	if s.mix.draw != nil {
		return *s.mix.draw
	}
	n := s.firstDraw()
	if f := s.mix.frame; f != nil && f.NoiseScale > 0 {
		steps, _ := s.settings["steps"].Value.(int)
		n += steps
	}
	return n
}

// takeDecodingDraw takes the number of the draw, and where none is asked for the seed, from the
// metadata of a file of latents, so that they are decoded as they were made to be.
func (s *settled) takeDecodingDraw(meta map[string]string) error {
	if !s.mix.reads || meta[drawKey] == "" {
		return nil
	}
	var n int
	if _, err := fmt.Sscan(meta[drawKey], &n); err != nil || n < 0 {
		return fault.New(models.ErrInputs, nil, "%s of the latents is %.40q: want the number of a draw", drawKey, meta[drawKey])
	}
	s.mix.draw = &n
	if s.o.Seed != 0 || meta[seedKey] == "" {
		return nil
	}
	if _, err := fmt.Sscan(meta[seedKey], &s.o.Seed); err != nil {
		return fault.New(models.ErrInputs, nil, "%s of the latents is %.40q: want a seed", seedKey, meta[seedKey])
	}
	return nil
}

// The streams of the seed's noise that no step draws from.
const (
	posteriorStream = 1 << 32
	planeStream     = 1 << 33 // and behind it
)

// drawNoise is a draw by its name, in a shape: the one that is given, or the seed's.
func (s *settled) drawNoise(name string, stream uint64, shape []int) (*tensor.Tensor, error) {
	if t := s.draws[name]; t != nil {
		if t.Elements() != tensor.Elements(shape) {
			return nil, fault.New(models.ErrInputs, nil, "%s of %s is %v: want %v", name, s.o.Noise, t.Shape, shape)
		}
		return t.As(dtype.F32)
	}
	if s.o.Noise != "" {
		s.notes = append(s.notes, fmt.Sprintf("no draw %s is given: from seed %d", name, s.o.Seed))
	}
	values := make([]float32, tensor.Elements(shape))
	sampler.Fill(s.o.Seed, stream, 0, values)
	return tensor.FromFloat32s(dtype.F32, values, shape...)
}

// readStatistics reads the mean and the standard deviation of each channel of the latents.
func (p *Pipeline) readStatistics(ctx context.Context, of *models.LatentStatistics) (mean, std []float32, err error) {
	for name, to := range map[string]*[]float32{of.Mean: &mean, of.Std: &std} {
		if name == "" {
			continue
		}
		t, err := p.vae.Checkpoint.Load(ctx, p.vae.Stored(name), dtype.F32)
		if err != nil {
			return nil, nil, err
		}
		if *to, err = t.Float32s(); err != nil {
			return nil, nil, err
		}
	}
	return mean, std, nil
}

// decodingInputs are the autoencoder's inputs: the latents, and for a decoder that reads how much
// noise they have left the timestep, with noise mixed in.
func (g *generation) decodingInputs(ctx context.Context) (map[string]*tensor.Tensor, error) {
	in := map[string]*tensor.Tensor{"z": g.latents.Slice(2, g.latent[1]-g.decodedLatents()[1], g.latent[1])}
	if !g.mix.reads {
		return in, nil
	}
	d := g.p.vae.Features().Decoder
	if g.mix.scale > 0 {
		raw, err := g.mixNoise(ctx, d.Statistics)
		if err != nil {
			return nil, err
		}
		in = map[string]*tensor.Tensor{d.Timestep.Raw: raw}
	}
	var err error
	if in["timestep"], err = tensor.FromFloat32s(dtype.F32, []float32{float32(g.mix.timestep)}, 1); err != nil {
		return nil, err
	}
	return in, g.addPlanes(in)
}

// mixNoise makes latents that are not normalised of the video's, and mixes noise into them.
func (g *generation) mixNoise(ctx context.Context, of *models.LatentStatistics) (*tensor.Tensor, error) {
	mean, std, err := g.p.readStatistics(ctx, of)
	if err != nil {
		return nil, err
	}
	n := g.decodingDraw()
	noise, err := g.drawNoise(fmt.Sprintf("noise.%d", n), uint64(n), g.latents.Shape)
	if err != nil {
		return nil, err
	}
	drawn, err := noise.Float32s()
	if err != nil {
		return nil, err
	}
	x, err := g.latents.Float32s()
	if err != nil {
		return nil, err
	}
	x = slices.Clone(x)
	each, by := len(x)/len(mean), float32(g.mix.scale)
	for i, v := range x {
		c := i / each
		x[i] = (1-by)*(v*std[c]/float32(of.Scale)+mean[c]) + by*drawn[i]
	}
	return tensor.FromFloat32s(dtype.F32, x, g.latents.Shape...)
}

// addPlanes adds the planes of noise that a decoder injects, where it has any.
func (g *generation) addPlanes(in map[string]*tensor.Tensor) error {
	if !slices.ContainsFunc(g.p.vae.Inputs(), func(name string) bool { return strings.HasPrefix(name, "noise.") }) {
		return nil
	}
	like, err := g.p.vae.Example(1, g.latent, 0)
	if err != nil {
		return err
	}
	for name, t := range like {
		number, plane := strings.CutPrefix(name, "noise.")
		if !plane {
			continue
		}
		var n uint64
		if _, err := fmt.Sscan(number, &n); err != nil {
			return err
		}
		if in[name], err = g.drawNoise("vae_"+name, planeStream+n, t.Shape); err != nil {
			return err
		}
		in[name] = &tensor.Tensor{DType: in[name].DType, Shape: t.Shape, Data: in[name].Data}
	}
	return nil
}

// samplePosterior draws latents of one frame: the normalised mean, and the standard deviation of
// the posterior, logvar of which is the logarithm of its square, times noise.
func (s *settled) samplePosterior(ctx context.Context, mean, logvar *tensor.Tensor) (*tensor.Tensor, error) {
	of := s.p.vae.Features().Decoder.Statistics
	if of == nil {
		return nil, fault.New(models.ErrVariant, nil, "%s has no statistics of its latents: no posterior is sampled", s.p.vae.Name())
	}
	_, std, err := s.p.readStatistics(ctx, of)
	if err != nil {
		return nil, err
	}
	noise, err := s.drawNoise("encode_noise.0", posteriorStream, mean.Shape)
	if err != nil {
		return nil, err
	}
	var values [3][]float32
	for i, t := range []*tensor.Tensor{mean, logvar, noise} {
		if values[i], err = t.Float32s(); err != nil {
			return nil, err
		}
	}
	if std == nil { // those of all channels are 1
		std = []float32{1}
	}
	out := slices.Clone(values[0])
	each := len(out) / len(std)
	for i := range out {
		out[i] += float32(math.Exp(float64(values[1][i])/2)) * values[2][i] * float32(of.Scale) / std[i/each]
	}
	return tensor.FromFloat32s(dtype.F32, out, mean.Shape...)
}

package pipeline

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/checkpoint"
	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// latentsName is the tensor of a file that has a video's latents.
const latentsName = "latents"

// drawNames are those of draws besides the latents.
var drawNames = regexp.MustCompile(`^(encode_|vae_)?noise\.[0-9]{1,6}$`)

// readNoise reads the draws that are given in place of the seed's: the latents to start from, and
// what else the release's pipeline draws.
func (s *settled) readNoise(ctx context.Context) error {
	if s.o.Noise == "" || s.latent == nil {
		return nil
	}
	all, _, others, err := checkpoint.LoadNamed(ctx, s.o.Noise, func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n != latentsName && !drawNames.MatchString(n) })
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fault.New(models.ErrInputs, nil, "%s has no tensor %q and no draw \"noise.0\": it has %q", s.o.Noise, latentsName, others)
	}
	order := s.p.generator().LatentOrder
	var errs fault.List
	restore := func(name string, t *tensor.Tensor) *tensor.Tensor {
		if order == models.TokenRows && len(t.Shape) == 5 { // as the pipeline draws what it does not pack
			return t
		}
		restored, err := order.Restore(t, s.loopLatent())
		if err == nil && t.Shape[0] != 1 {
			err = fault.New(models.ErrInputs, nil, "%d videos: want 1", t.Shape[0])
		}
		if err != nil {
			errs.Add(fmt.Errorf("%s of %s: %w", name, s.o.Noise, err))
		}
		return restored
	}
	s.draws = map[string]*tensor.Tensor{}
	for name, t := range all {
		switch {
		case name == latentsName:
			s.noise, s.latentsGiven = restore(name, t), true
		case strings.HasPrefix(name, "vae_"), strings.HasPrefix(name, "encode_"): // of another shape than latents
			s.draws[name] = t
		default:
			s.draws[name] = restore(name, t)
		}
	}
	if first := s.draws["noise.0"]; first != nil && s.noise == nil && s.firstDraw() == 1 {
		s.noise = first
	}
	if s.noise == nil {
		s.notes = append(s.notes, fmt.Sprintf("%s has no latents to start from: from seed %d", s.o.Noise, s.o.Seed))
	}
	return errs.Err()
}

// The metadata of a file of latents: the order of their dims, and their shape as (channels,
// frames, height, width), which rows of tokens do not tell. For a decoder that noise is mixed in
// for, there are the number of the draw and the seed too.
const (
	orderKey = "weft_latent_order"
	shapeKey = "weft_latent_shape"
	drawKey  = "weft_decoding_draw"
	seedKey  = "weft_seed"
	// referencesKey is how many of the latents' first frames are those of reference images.
	referencesKey = "weft_reference_frames"
)

// addReferences adds the number of reference images to metadata, where there are any.
func addReferences(meta map[string]string, references int) {
	if references > 0 {
		meta[referencesKey] = fmt.Sprint(references)
	}
}

// writeLatentsFile writes latents (1, channels, frames, height, width), by the names "latents"
// and "latents_0" and so on, in the release's order, and other tensors as they are.
func (g *generation) writeLatentsFile(all map[string]*tensor.Tensor) error {
	order := g.p.generator().LatentOrder
	out := map[string]*tensor.Tensor{}
	for name, t := range all {
		if name == latentsName || strings.HasPrefix(name, latentsName+"_") {
			t = order.Arrange(t)
		}
		out[name] = t
	}
	meta := map[string]string{"format": "pt"}
	if order != models.ChannelsFirst {
		meta[orderKey], meta[shapeKey] = string(order), strings.Trim(fmt.Sprint(g.loopLatent()), "[]")
	}
	if g.mix.reads {
		meta[drawKey], meta[seedKey] = fmt.Sprint(g.decodingDraw()), fmt.Sprint(g.o.Seed)
	}
	addReferences(meta, g.referenceFrames())
	return checkpoint.Write(g.o.LatentsOut, out, meta, checkpoint.WriteOptions{Force: g.o.Force})
}

// readLatentsFile reads latents, (1, channels, frames, height, width), and those of the optional
// tensors that the file has, and its metadata. Latents of another program's file are taken to be in an order.
func readLatentsFile(ctx context.Context, path string, order models.LatentOrder, optional ...string) (all map[string]*tensor.Tensor, meta map[string]string, err error) {
	all, meta, others, err := checkpoint.LoadNamed(ctx, path, func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n != latentsName && !slices.Contains(optional, n) })
	})
	if err != nil {
		return nil, nil, err
	}
	z := all[latentsName]
	if z == nil {
		return nil, nil, fault.New(models.ErrInputs, nil, "%s has no tensor %q: it has %q", path, latentsName, others)
	}
	if meta["weft_denoise_state"] != "" { // as the loop has them
		order = models.ChannelsFirst
	}
	latent, err := shapeOfLatents(z, order, meta[shapeKey])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if all[latentsName], err = order.Restore(z, latent); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, meta, nil
}

// shapeOfLatents is (channels, frames, height, width) of the latents of one video in an order;
// said is what the file's metadata says of it.
func shapeOfLatents(z *tensor.Tensor, order models.LatentOrder, said string) ([]int, error) {
	wrong := func(want string) error {
		return fault.New(models.ErrInputs, nil, "latents are %v: want %s of a floating-point type", z, want)
	}
	if !z.DType.IsFloat() || len(z.Shape) < 1 || z.Shape[0] != 1 {
		return nil, wrong("those of one video, with a batch of 1,")
	}
	switch order {
	case models.TokenRows:
		latent := make([]int, 4)
		if n, err := fmt.Sscan(said, &latent[0], &latent[1], &latent[2], &latent[3]); err != nil || n != 4 || slices.Min(latent) < 1 {
			return nil, fault.New(models.ErrInputs, nil, "latents %v are rows of tokens, and the file does not say of how many frames, rows and columns: "+
				"want a file that --latents-out has written, whose metadata %s has \"channels frames height width\"", z, shapeKey)
		}
		return latent, nil
	case models.FramesFirst:
		if len(z.Shape) != 5 {
			return nil, wrong("(1, frames, channels, height, width)")
		}
		return []int{z.Shape[2], z.Shape[1], z.Shape[3], z.Shape[4]}, nil
	}
	if len(z.Shape) != 5 {
		return nil, wrong("(1, channels, frames, height, width)")
	}
	return z.Shape[1:], nil
}

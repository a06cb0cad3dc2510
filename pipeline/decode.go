package pipeline

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/pipeline/conditions"
	"weft/tensor"
	"weft/video"
)

// decodeFrames decodes the latents. Frames go to the files as they come: none is kept.
func (g *generation) decodeFrames(ctx context.Context) (Cost, error) {
	if g.o.Out == "" && g.o.FramesOut == "" {
		return Cost{}, nil
	}
	var cost Cost
	decode := func(sinks ...func([]float32) error) (err error) {
		if g.o.OnFrame != nil {
			sinks = append(sinks, g.o.OnFrame)
		}
		cost, err = g.streamFrames(ctx, sinks...)
		return err
	}
	withFrames := func(sinks ...func([]float32) error) error {
		if g.o.FramesOut == "" {
			return decode(sinks...)
		}
		g.result.Files["frames"] = g.o.FramesOut
		return writeFramesFile(g.o.FramesOut, g.o.Force, []int{g.frames(), g.height, g.width, 3}, func(add func([]float32) error) error {
			return decode(append(sinks, add)...)
		})
	}
	if g.plan == nil {
		err := withFrames() // which sets cost
		return cost, err
	}
	written, err := video.Write(ctx, g.plan, func(sink *video.Sink) error { return withFrames(sink.Floats) })
	if err != nil {
		return cost, err
	}
	g.result.Files["video"] = g.o.Out
	g.result.Video.Clamped = written.Clamped
	return cost, nil
}

// streamFrames decodes the latents and hands each frame, (height, width, 3) in [0, 1], to
// every sink.
func (g *generation) streamFrames(ctx context.Context, sinks ...func([]float32) error) (Cost, error) {
	inputs, err := g.decodingInputs(ctx)
	if err != nil {
		return Cost{}, err
	}
	done, skip := 0, 0
	if cuts := g.p.generator().Cuts; cuts != nil {
		skip = cuts.Frames
	}
	visit := func(_ string, _ int, t *tensor.Tensor) error {
		for i := range t.Shape[2] {
			if skip > 0 {
				skip--
				continue
			}
			frame, err := g.frameOf(t.Slice(2, i, i+1))
			if err != nil {
				return err
			}
			for _, sink := range sinks {
				if err := sink(frame); err != nil {
					return err
				}
			}
			done++
		}
		g.progress("decode", done, g.frames(), 0)
		return nil
	}
	place := g.decode
	place.Again = g.again
	place.Spool = filepath.Dir(filepath.Clean(g.o.base())) // there is room for a video at least
	return g.d.Stream(ctx, g.p.vae, inputs, place, visit)
}

// frameOf makes a frame of pixels (1, 3, 1, height, width) from -1 to 1: rows of red, green
// and blue in [0, 1], cropped. It is x/2 + 1/2, clamped, which diffusers' post-processing and
// Wan's own code compute.
func (g *generation) frameOf(t *tensor.Tensor) ([]float32, error) {
	if len(t.Shape) != 5 || t.Shape[1] != 3 || t.Shape[3] != g.o.Height || t.Shape[4] != g.o.Width {
		return nil, fault.New(models.ErrOutput, nil, "the autoencoder gives a frame of %v: want [1 3 1 %d %d]", t.Shape, g.o.Height, g.o.Width)
	}
	t, err := t.As(dtype.F32)
	if err != nil {
		return nil, err
	}
	values, err := t.Float32s()
	if err != nil {
		return nil, err
	}
	top, left := (g.o.Height-g.height)/2, (g.o.Width-g.width)/2
	out := make([]float32, g.pixels())
	for c := range 3 {
		for y := range g.height {
			row := values[(c*g.o.Height+top+y)*g.o.Width+left:]
			for x := range g.width {
				out[3*(y*g.width+x)+c] = min(max(row[x]/2+0.5, 0), 1)
			}
		}
	}
	return out, nil
}

// Decode makes a video of latents in a file: "latents", (1, channels, frames, height, width).
// Size and frames are those of the latents.
func (p *Pipeline) Decode(ctx context.Context, d Devices, latents string, o Options) (*Result, error) {
	s, z, err := p.settleDecoding(ctx, d, latents, o)
	if err != nil {
		return nil, err
	}
	g := &generation{settled: s, d: d, state: noState, latents: z, result: s.newResult(), video: 1, videos: 1}
	if err := g.runPhase(ctx, "decode", (*generation).decodeFrames); err != nil {
		return nil, err
	}
	g.finishResult()
	return g.result, nil
}

// putFirstFrames returns latents (1, channels, frames, height, width) with their first frames
// replaced by those that a generation kept.
func putFirstFrames(z, kept *tensor.Tensor) (*tensor.Tensor, error) {
	n := 0
	if len(kept.Shape) == 5 {
		n = kept.Shape[2]
	}
	if n < 1 || n > z.Shape[2] || !slices.Equal(kept.Shape, []int{1, z.Shape[1], n, z.Shape[3], z.Shape[4]}) || kept.DType != z.DType {
		return nil, fault.New(models.ErrInputs, nil, "%s is %v: want the first frames of latents %v", conditions.NameOfKept, kept, z)
	}
	if n == z.Shape[2] {
		return kept, nil
	}
	return tensor.Join(2, []*tensor.Tensor{kept, z.Slice(2, n, z.Shape[2])}), nil
}

// settleDecoding decides and checks everything that is asked of a decoding alone.
func (p *Pipeline) settleDecoding(ctx context.Context, d Devices, path string, o Options) (*settled, *tensor.Tensor, error) {
	given, meta, err := readLatentsFile(ctx, path, p.generator().LatentOrder, conditions.NameOfKept)
	if err != nil {
		return nil, nil, err
	}
	z := given[latentsName]
	if kept := given[conditions.NameOfKept]; kept != nil {
		if z, err = putFirstFrames(z, kept); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if z, err = cutReferences(z, meta); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	decode := p.vae.Features().Decoder.VideoShape
	frames, surplus, err := p.generator().FramesOf(z.Shape[1:], decode)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	shape, err := decode([]int{z.Shape[1], z.Shape[2] - surplus, z.Shape[3], z.Shape[4]})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &settled{p: p, o: o, latent: z.Shape[1:], settings: map[string]models.Setting{}}
	s.o.Frames, s.o.Height, s.o.Width = frames, shape[2], shape[3]
	s.settleSize()
	var errs fault.List
	if o.Out == "" && o.FramesOut == "" {
		errs.Add(fault.New(models.ErrInputs, nil, "nothing to write: name a video or a file of frames"))
	} else {
		errs.Add(s.checkOutputs())
	}
	errs.Add(s.settleLatents())
	errs.Add(s.readNoise(ctx))
	errs.Add(s.settleMixing())
	errs.Add(s.takeDecodingDraw(meta))
	errs.Add(s.placeDecoding(d))
	if err := errs.Err(); err != nil {
		return nil, nil, err
	}
	s.settings["size"] = models.Setting{Value: fmt.Sprintf("%dx%d", s.o.Width, s.o.Height), From: path}
	s.settings["frames"] = models.Setting{Value: s.o.Frames, From: path}
	maps.Copy(s.settings, s.mixed)
	s.settings["fps"] = s.fps
	return s, z, s.checkVideo(ctx)
}

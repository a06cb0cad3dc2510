package pipeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"weft/denoise"
	"weft/fault"
	"weft/internal/userfile"
	"weft/mesh"
	"weft/models"
	"weft/pipeline/conditions"
	"weft/tensor"
	"weft/video"
)

// settled is a generation of which everything is decided and checked, before any weight is
// read.
type settled struct {
	p *Pipeline
	o Options // with the release's size and frames, and the seed

	settings map[string]models.Setting
	fps      models.Setting
	latent   []int // (channels, frames, height, width)
	rows     int   // of text
	guided   bool
	prompt   *prompt
	negative *prompt                   // nil without guidance
	noise    *tensor.Tensor            // the latents to start from, nil for the seed's
	draws    map[string]*tensor.Tensor // the other draws that are given, nil where none may be
	images   images
	controls controls
	// latentsGiven says that the latents to start from are a file's "latents".
	latentsGiven bool
	mix          mixing
	mixed        map[string]models.Setting // the numbers of mix, with their sources

	text            []textPlaces // of each text
	denoise, decode Placement
	width, height   int         // of the frames that are written
	onlyChecked     bool        // there are no outputs, and images are given as they are
	plan            *video.Plan // nil where no video is asked for
	again           bool        // another video follows, with the same models
	notes           []string
}

// settle decides and checks everything that is asked. The error has all violations.
func (p *Pipeline) settle(ctx context.Context, d Devices, o Options) (*settled, error) {
	s := &settled{p: p, o: o, notes: slices.Clone(p.Notes)}
	if err := s.decide(ctx, d); err != nil {
		return nil, err
	}
	return s, nil
}

// decide does what settle does.
func (s *settled) decide(ctx context.Context, d Devices) error {
	var errs fault.List
	errs.Add(s.openImages())
	errs.Add(s.openControls())
	size, sizeFrom := s.settleSize()
	errs.Add(s.settleSeed())
	errs.Add(s.checkOutputs())
	errs.Add(s.settleLatents())
	errs.Add(s.readNoise(ctx))
	errs.Add(s.settleMixing())
	errs.Add(s.checkPreview())
	if err := errs.Err(); err != nil {
		return err
	}
	if out := s.p.generator().LeftOut; out != "" {
		s.notes = append(s.notes, s.p.Name()+": "+out)
	}
	errs.Add(s.settlePrompts())
	if s.prompt == nil {
		return errs.Err() // a loop without a text would only say so again
	}
	if err := fault.Join(s.settleImages(d), s.settleControls(d)); err != nil { // a loop without conditions would only say so again
		errs.Add(err)
		return errs.Err()
	}
	loop, _, err := s.newLoop(d, s.blankFeatures(), true)
	if err == nil {
		defer loop.Close()
		s.settings, s.notes = loop.Settings(), append(s.notes, loop.Notes()...)
		s.guided = loop.Settings()["passes"].Value == 2
		if frames, ok := s.settings["frames"]; ok && s.referenceFrames() > 0 { // the loop's has those of references
			s.settings["frames"] = models.Setting{Value: s.o.Frames, From: frames.From}
		}
	}
	errs.Add(err)
	if s.guided {
		errs.Add(s.settleNegative())
	}
	errs.Add(s.refuseGuidedImage())
	errs.Add(s.placePhases(d))
	if err := errs.Err(); err != nil {
		return err
	}
	if sizeFrom != "" {
		s.settings["size"] = models.Setting{Value: size, From: sizeFrom}
	}
	maps.Copy(s.settings, s.mixed)
	s.settings["fps"] = s.fps
	if len(s.o.LoRA) > 0 {
		s.settings["lora"] = models.Setting{Value: s.o.LoRANames(), From: models.FromFlag}
	}
	s.settings["prompt"] = models.Setting{Value: s.o.Prompt, From: models.FromFlag}
	return s.checkVideo(ctx)
}

// releaseSettings are those of the release, as it is run with the adapters that are asked for.
func (s *settled) releaseSettings() models.Settings { return s.o.SettingsWithLoRA(s.p.Settings) }

// settleSize takes the release's size where none is asked for. from is its source then.
func (s *settled) settleSize() (size, from string) {
	if only := s.p.generator().OnlySize; only != [3]int{} {
		if s.o.Width == 0 && s.o.Height == 0 {
			s.o.Width, s.o.Height, from = only[0], only[1], "the size of the model's positions"
		}
		s.o.Frames = cmp.Or(s.o.Frames, only[2])
	}
	if s.o.Width == 0 && s.o.Height == 0 {
		v, _ := s.releaseSettings().Get("size")
		_, _ = fmt.Sscanf(v.Text(), "%dx%d", &s.o.Width, &s.o.Height)
		from = v.From
		if im := s.images.first; im != nil {
			w, h := s.p.conditionsLayout().VideoSize(conditions.Parts{Generator: s.p.Denoiser()}, im, s.o.Width, s.o.Height)
			if w != s.o.Width || h != s.o.Height {
				from = "the image's aspect, and the area of " + v.From
			}
			s.o.Width, s.o.Height = w, h
		}
	}
	from = s.fitControl(from)
	size = fmt.Sprintf("%dx%d", s.o.Width, s.o.Height)
	s.o.Frames = cmp.Or(s.o.Frames, s.releaseSettings().ForSize(size).Count("frames"))
	s.rows = cmp.Or(s.o.TextLen, s.releaseSettings().Count("text_len"))
	s.width, s.height = s.o.Width, s.o.Height
	return size, from
}

// settleSeed draws a seed where one is wanted. It is below 2^53, so that every reader of JSON
// has it whole.
func (s *settled) settleSeed() error {
	if !s.o.DrawSeed {
		return nil
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	s.o.Seed, s.o.DrawSeed = binary.LittleEndian.Uint64(b[:])>>11, false
	return nil
}

// settleLatents finds the shape of the latents, the frame rate and the size of the frames.
func (s *settled) settleLatents() error {
	var errs fault.List
	latent, err := models.VideoLatents(s.p.generator(), 1, s.o.Width, s.o.Height, s.o.Frames)
	errs.Add(err)
	if err != nil {
		errs.Add(s.adviseSize())
	}
	s.latent = latent
	errs.Add(s.checkDecodedFrames())
	fps, _ := s.releaseSettings().Get("fps")
	if s.fps = fps; s.o.FPS != 0 {
		s.fps = models.Setting{Value: s.o.FPS, From: models.FromFlag}
		if own := s.releaseSettings().Number("fps"); own != s.o.FPS {
			s.notes = append(s.notes, fmt.Sprintf("%g frames a second are asked for: %s was trained for %g (%s), so movements are %.2g times as fast",
				s.o.FPS, s.p.Name(), own, fps.From, s.o.FPS/own))
		}
		if s.releaseSettings().Text("time") == "" && !s.p.generator().ReadsRate {
			s.o.FPS = 0 // the file's rate alone: the model's positions are no seconds
		}
	}
	if c := s.o.Crop; c != nil {
		if c[0] < 1 || c[1] < 1 || c[0] > s.o.Width || c[1] > s.o.Height {
			errs.Add(fault.New(models.ErrSize, nil, "a crop to %dx%d of frames of %dx%d: want no more than the frames", c[0], c[1], s.o.Width, s.o.Height))
		}
		s.width, s.height = c[0], c[1]
	}
	return errs.Err()
}

// checkDecodedFrames refuses a number of frames of which the autoencoder would make another one:
// some decode an odd number of latent frames alone to frames of which the first stands alone.
func (s *settled) checkDecodedFrames() error {
	if s.latent == nil || s.p.vae == nil {
		return nil
	}
	made := func(frames int) int {
		latent, err := s.p.generator().LatentShape(s.o.Width, s.o.Height, frames)
		if err != nil {
			return -1
		}
		shape, err := s.p.vae.Features().Decoder.VideoShape(s.p.generator().DecodedLatents(latent, frames))
		if err != nil {
			return -1
		}
		return s.p.generator().ShownFrames(shape[1])
	}
	n := made(s.o.Frames)
	if n == s.o.Frames || n < 0 {
		return nil
	}
	var legal []int
	for _, step := range []int{-1, 1} {
		for f := s.o.Frames + step; f >= 1 && f <= s.o.Frames+64; f += step {
			if made(f) == f {
				legal = append(legal, f)
				break
			}
		}
	}
	return fault.NewChoice(models.ErrSize, models.SizeRefused{What: "frames", Size: s.o.Frames, Nearest: legal},
		"frames %d: their %d latent frames are decoded to %d frames by %s", s.o.Frames, s.latent[1], n, s.p.vae.Name())
}

// adviseSize names the legal size that is nearest in aspect to one that is refused, and how
// exactly the size that was asked for can be had.
func (s *settled) adviseSize() error {
	w, h := s.o.Width, s.o.Height
	if w < 1 || h < 1 || w > math.MaxUint16 || h > math.MaxUint16 {
		return nil
	}
	widthStep, heightStep, _ := s.p.generator().SizeSteps(legalSize(s.p.generator()))
	steps := [2]int{max(1, widthStep), max(1, heightStep)}
	if w%steps[0] == 0 && h%steps[1] == 0 {
		return nil // it is the frames
	}
	aspect := float64(w) / float64(h)
	best, off := [2]int{}, math.Inf(1)
	for dw := -2; dw <= 3; dw++ {
		for dh := -2; dh <= 3; dh++ {
			n := [2]int{(w/steps[0] + dw) * steps[0], (h/steps[1] + dh) * steps[1]}
			if n[0] < steps[0] || n[1] < steps[1] {
				continue
			}
			a := math.Abs(math.Log(float64(n[0]) / float64(n[1]) / aspect))
			if moved := math.Abs(math.Log(float64(n[0]*n[1]) / float64(w*h))); a+moved/100 < off {
				best, off = n, a+moved/100
			}
		}
	}
	up := [2]int{(w + steps[0] - 1) / steps[0] * steps[0], (h + steps[1] - 1) / steps[1] * steps[1]}
	return fault.New(models.ErrSize, nil, "size %dx%d: nearest in aspect: %dx%d; --size %dx%d --crop %dx%d gives exactly what is asked for",
		w, h, best[0], best[1], up[0], up[1], w, h)
}

// videoFacts are what a prompt may state of the video.
func (s *settled) videoFacts(negative bool) models.VideoFacts {
	fps, _ := s.fps.Value.(float64)
	return models.VideoFacts{Width: s.o.Width, Height: s.o.Height, Frames: s.o.Frames, FPS: fps, Negative: negative}
}

// settlePrompts makes ids of the prompt.
func (s *settled) settlePrompts() error {
	var err error
	if s.prompt, err = s.p.readPrompt("the prompt", s.o.Prompt, s.rows, s.videoFacts(false)); err != nil {
		return err
	}
	return s.acceptPrompt(s.prompt)
}

// settleNegative makes ids of the negative prompt: the one that is asked for, or the release's.
func (s *settled) settleNegative() error {
	text := s.releaseSettings().Negative()
	if s.o.Negative != nil {
		text = models.Setting{Value: *s.o.Negative, From: models.FromFlag}
	}
	s.settings["negative_prompt"] = text
	var err error
	if s.negative, err = s.p.readPrompt("the negative prompt", text.Value.(string), s.rows, s.videoFacts(true)); err != nil {
		return err
	}
	return s.acceptPrompt(s.negative)
}

// acceptPrompt takes a prompt's notes, and refuses one that was cut where that is asked for.
func (s *settled) acceptPrompt(p *prompt) error {
	s.notes = append(s.notes, p.notes...)
	var errs fault.List
	for _, t := range append([]Text{p.text}, p.more...) {
		if s.o.NoTruncate && t.CutAt != "" {
			errs.Add(fault.New(ErrTruncated, t, "%s has %d tokens, and %s reads %d: it would be cut at %q; shorten it, or leave --no-truncate out",
				p.what, t.Tokens, t.Encoder, t.Used, t.CutAt))
		}
	}
	return errs.Err()
}

// texts are the prompts that the text phase encodes.
func (s *settled) texts() []*prompt {
	if s.negative == nil {
		return []*prompt{s.prompt}
	}
	return []*prompt{s.prompt, s.negative}
}

// blankFeatures are features of the right shapes, to check a loop before any are computed.
func (s *settled) blankFeatures() features {
	f := s.blankTexts()
	s.blankConditions(f)
	s.blankControl(f)
	return f
}

// newLoop makes the denoising loop on the devices, or one that is only checked.
func (s *settled) newLoop(d Devices, f features, onlyCheck bool) (*denoise.Loop, Denoiser, error) {
	den := d.Denoiser(s.p.experts, s.again)
	names := []string{"high noise", "low noise"}
	if len(s.p.experts) == 1 {
		names = []string{""}
	}
	var experts []denoise.Expert
	for i, m := range s.p.experts {
		experts = append(experts, denoise.Expert{Name: names[i], Model: m.Model, Devices: den.Expert(i), Second: len(s.p.experts) == 1 && m.IsSecondExpert()})
	}
	given, kept := f.loopConditions()
	if kept != nil {
		kept.Mixed = s.mix.frame
	}
	noise, err := s.startLatents(f, onlyCheck)
	if err != nil {
		return nil, nil, err
	}
	loop, err := denoise.New(experts, s.releaseSettings(), f["context"], f["negative"], denoise.Options{
		Request: s.loopRequest(), Noise: noise, Draws: s.draws, FirstDraw: s.firstDraw(), Conditions: given, Kept: kept, AllowNonFinite: s.o.AllowNonFinite, OnlyCheck: onlyCheck,
	})
	return loop, den, err
}

// placeTower chooses the mesh of the tower that makes an image's rows for a text.
func (p *Pipeline) placeTower(d Devices, t *textPart, like Placement) Placement {
	place := Placement{DType: like.DType, Stream: true}
	place.Mesh, _ = firstLegal(textMeshes(d.Count()), func(m []mesh.Axis) error {
		return d.CheckSplit(t.vision, models.Request{Batch: 1}, Placement{Mesh: m, DType: place.DType})
	})
	return place
}

// placePhases chooses a mesh for each phase besides denoising, whose mesh is asked for.
func (s *settled) placePhases(d Devices) error {
	s.denoise = Placement{Mesh: s.o.Mesh, DType: s.o.ComputeType()}
	return fault.Join(s.placeText(d), s.placeDecoding(d))
}

// textPlaces are where the models of one text run: its encoder, and the stages behind it.
type textPlaces struct {
	encoder Placement
	stages  []Placement
}

// placeText chooses the mesh of each text encoder.
func (s *settled) placeText(d Devices) error {
	s.text = nil
	var errs fault.List
	for _, t := range s.p.texts {
		if t.use.Tokens {
			s.text = append(s.text, textPlaces{})
			continue
		}
		place := Placement{DType: s.o.ComputeType(), Stream: true}
		r := models.Request{Batch: len(s.texts()), Text: t.use.EncoderRows(s.rows, t.imageRows()), Masked: t.use.Masked, TextRows: t.model.Features().TokenTable != ""}
		var err error
		place.Mesh, err = firstLegal(textMeshes(d.Count()), func(m []mesh.Axis) error {
			return d.CheckSplit(t.model, r, Placement{Mesh: m, DType: place.DType})
		})
		errs.Add(err)
		stages, err := s.placeStages(d, t)
		errs.Add(err)
		s.text = append(s.text, textPlaces{place, stages})
	}
	return errs.Err()
}

// placeDecoding chooses the mesh of the autoencoder.
func (s *settled) placeDecoding(d Devices) error {
	if s.latent == nil {
		return nil // refused already
	}
	var errs fault.List
	var err error
	s.decode = Placement{DType: s.o.autoencoderType(), Tiles: s.o.Tiles}
	s.decode.Mesh, err = firstLegal(pictureMeshes(d.Count(), s.latent[2], s.latent[3]), func(m []mesh.Axis) error {
		return d.CheckSplit(s.p.vae, models.Request{Batch: 1, Latent: s.decodedLatents()}, Placement{Mesh: m, DType: s.decode.DType})
	})
	errs.Add(err)
	if t := s.o.Tiles; t != nil {
		if tiler := s.p.vae.Features().Tiled; tiler != nil {
			_, _, _, err := tiler.Tile(models.Request{Batch: 1, Latent: s.decodedLatents()}, *t)
			errs.Add(err)
		}
	}
	return errs.Err()
}

// checkOutputs finds what would make an output fail that is no video.
func (s *settled) checkOutputs() error {
	var errs fault.List
	if s.onlyChecked {
		return nil
	}
	if s.o.base() == "" {
		errs.Add(fault.New(models.ErrInputs, nil, "nothing to write: name the video with --out, or the frames or the latents"))
	}
	for _, path := range []string{s.o.FramesOut, s.o.LatentsOut, s.o.FeaturesOut} {
		if path != "" {
			errs.Add(userfile.CheckWritable(userfile.Output{Path: path, Force: s.o.Force, Keep: s.reads()}))
		}
	}
	return errs.Err()
}

// reads are the files that no output may replace.
func (s *settled) reads() []string {
	files := s.p.ReadFiles()
	if s.o.Noise != "" {
		files = append(files, s.o.Noise)
	}
	for _, path := range append([]string{s.o.Image, s.o.LastImage, s.o.Video, s.o.Mask}, s.o.References...) {
		if path != "" {
			files = append(files, path)
		}
	}
	return files
}

// pixels is how many values a frame has.
func (s *settled) pixels() int { return 3 * s.width * s.height }

// decodedLatents is the shape of the latents that are decoded.
func (s *settled) decodedLatents() []int {
	return s.p.generator().DecodedLatents(s.latent, s.o.Frames)
}

// frames is how many frames the latents decode to.
func (s *settled) frames() int { return s.o.Frames }

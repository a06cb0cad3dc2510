package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weft"
	"weft/fault"
	"weft/models"
	"weft/picture"
	"weft/pipeline"
	"weft/sampler"
)

// pipelineFlags are the flags of generate, encode and decode.
type pipelineFlags struct {
	runFlags
	files pipeline.Files
	video pipeline.Options
}

func (f *pipelineFlags) addParts(c *cobra.Command, text, decoder bool) {
	if text {
		pathFlag(c, &f.files.TextEncoder, "text-encoder", "the text encoder's file or folder, where it is not in the release's folder")
		pathFlag(c, &f.files.Tokenizer, "tokenizer", "the tokenizer's file or folder")
		pathFlag(c, &f.files.SecondEncoder, "text-encoder-2", "the second text encoder's file or folder, for models that read two")
		pathFlag(c, &f.files.SecondTokens, "tokenizer-2", "the second tokenizer's file or folder")
		pathFlag(c, &f.files.Connectors, "text-connectors", "the file or folder of what LTX-2.5's text goes through behind its encoder, where it is elsewhere")
		pathFlag(c, &f.files.ImageEncoder, "image-encoder", "the image encoder's file or folder, for models that read one")
	}
	if decoder {
		pathFlag(c, &f.files.VAE, "vae", "the autoencoder's file or folder")
	}
}

// addText adds the flags of the text phase. negative is nil until the flag is given.
func (f *pipelineFlags) addText(c *cobra.Command) {
	c.Flags().StringVar(&f.video.Prompt, "prompt", "", "what the video shows")
	c.Flags().Func("negative", "what it is guided away from (default: the release's own; \"\" is the empty text)", func(text string) error {
		f.video.Negative = &text
		return nil
	})
	pathFlag(c, &f.video.Image, "image", "a picture that the video begins with, for models that take one: PNG, JPEG or WebP")
	pathFlag(c, &f.video.Video, "video", "a video that the new one goes on from, or that controls it, for models that read one: a folder of pictures, an animated PNG or an AVI of Motion JPEG")
	c.Flags().IntVar(&f.video.VideoLatents, "video-latents", 0, "how many latent frames the last frames of --video make (default: the release's)")
	pathFlag(c, &f.video.LastImage, "last-image", "a picture that the video ends with, for models that take one")
	pathFlag(c, &f.video.Mask, "mask", "which parts of the control video are made anew, white, and which are kept, black: as many frames in the same forms (default: all are made anew)")
	c.Flags().Func("reference", "a picture that the new video refers to, for models that take control videos; it may be given several times", func(text string) error {
		var path pathName
		err := path.Set(text)
		f.video.References = append(f.video.References, string(path))
		return err
	})
	c.Flags().Func("conditioning-scale", "by how much the control video counts: one number, or one for each control block, with commas between (default: 1)", func(text string) error {
		f.video.ConditioningScale = nil
		for one := range strings.SplitSeq(text, ",") {
			v, err := parseFinite(one)
			if err != nil {
				return err
			}
			f.video.ConditioningScale = append(f.video.ConditioningScale, v)
		}
		return nil
	})
	c.Flags().StringVar((*string)(&f.video.Fit), "fit", string(picture.FitRelease), fmt.Sprintf("how the pictures fill the frames: %v", picture.Fits))
	optionalNumber(c, &f.video.Strength, "strength", "how much of the given picture is in the video, up to 1, for models that mix it into the latents (default: the release's)")
	optionalNumber(c, &f.video.ImageNoiseScale, "image-noise-scale", "noise that such a picture gets in every step (default: the release's)")
	c.Flags().BoolVar(&f.video.NoTruncate, "no-truncate", false, "refuse a prompt of more tokens than the text encoder reads, which is cut otherwise")
}

// optionalNumber adds a flag of a number that stays nil until it is given.
func optionalNumber(c *cobra.Command, to **float64, name, help string) {
	c.Flags().Func(name, help, func(text string) error {
		v, err := strconv.ParseFloat(text, 64)
		*to = &v
		return err
	})
}

// addMixing adds the flags of what is mixed into latents before they are decoded.
func (f *pipelineFlags) addMixing(c *cobra.Command) {
	optionalNumber(c, &f.video.DecodeTimestep, "decode-timestep", "how much noise the decoder is told that latents have left, 0 to 1, for decoders that read it (default: the release's)")
	optionalNumber(c, &f.video.DecodeNoiseScale, "decode-noise-scale", "share of noise that is mixed into latents before such a decoder, 0 to 1 (default: the release's)")
}

// addDecoding adds the flags of the decoding, and what they write.
func (f *pipelineFlags) addDecoding(c *cobra.Command, crop *string) {
	c.Flags().StringVar(crop, "crop", "", "cut the middle WIDTHxHEIGHT out of each frame")
	f.addAutoencoder(c)
	f.add(c, "fps", "", "frames a second (default: the release's)")
	pathFlag(c, &f.video.FramesOut, "frames-out", "safetensors file for the frames: frames (frames, height, width, 3) in [0, 1], and frames_u8")
	f.addMixing(c)
}

// addOutput adds --out and --force.
func (f *pipelineFlags) addOutput(c *cobra.Command, help string) {
	pathFlag(c, &f.video.Out, "out", help)
	c.Flags().BoolVar(&f.video.Force, "force", false, "replace existing output files")
}

// readCrop reads --crop.
func (f *pipelineFlags) readCrop(crop string) error {
	if crop == "" {
		return nil
	}
	var c [2]int
	if _, err := fmt.Sscanf(crop, "%dx%d", &c[0], &c[1]); err != nil || fmt.Sprintf("%dx%d", c[0], c[1]) != crop {
		return usageError("--crop %q: want WIDTHxHEIGHT in pixels, such as 1920x1080", crop)
	}
	f.video.Crop = &c
	return nil
}

// generateOptions are the options of a run with the flags that were read.
func (f *pipelineFlags) generateOptions(a *app) (weft.GenerateOptions, error) {
	run, err := f.runOptions(a)
	f.video.Request = run.Request
	f.video.Weft = weft.Version()
	f.video.OnProgress, f.video.AllowNonFinite = a.reportPhase, f.nonFinite
	run.Progress = nil // phases and steps are shown
	return weft.GenerateOptions{Video: f.video, Run: run}, err
}

// isTensorsFile says of a name whether it is a safetensors file's.
func isTensorsFile(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".safetensors") }

func (a *app) generateCommand() *cobra.Command {
	var f pipelineFlags
	var crop, prompts string
	c := &cobra.Command{
		Use:   "generate --model DIR --prompt TEXT --out VIDEO",
		Short: "Make a video of a prompt",
		Long: `generate runs a release's phases in order: the text encoder, the denoising loop, the
autoencoder. The folder is a release's own or diffusers' copy; parts that lie elsewhere are
named one by one. What no flag says is the folder's, or else the release's own, and the
output lists every setting and where it is from.

Each phase has the devices to itself and its own mesh of them: --mesh is that of the
denoising. Frames go to the video as they are decoded. .mp4 and .webm need ffmpeg, which is
tried before the first step; .avi, .png and folders of PNGs (a name with a slash at its end)
are written without it.

The latents of each step go to a folder beside the output (--state). A generation that was
ended, by whatever, goes on from there with --resume, to the same bytes on the same mesh and
engine. Without --seed one is drawn and printed. A seed's noise is the same on every mesh
and engine; it is not torch's, whose latents --noise takes.`,
		Example: `  weft generate --model testdata/pipelines/wan21_t2v --prompt "A cat walks on the grass" \
    --size 64x32 --frames 9 --steps 4 --seed 1 --out /tmp/cat.avi`,
		Args: cobra.NoArgs,
		RunE: f.withTimeLimit(a, func(cmd *cobra.Command, _ []string) error {
			err := f.readCrop(crop)
			o, runErr := f.generateOptions(a)
			given := cmd.Flags().Changed
			if given("prompt") == (prompts != "") {
				err = fault.Join(err, usageError("want one of --prompt and --prompts"))
			}
			if f.video.Trace && f.video.LatentsOut == "" {
				err = fault.Join(err, usageError("--trace adds latents of each step to --latents-out, which is not given"))
			}
			if err := fault.Join(err, runErr); err != nil {
				return err
			}
			o.Video.DrawSeed = !given("seed")
			p, err := weft.OpenPipeline(f.model, pipeline.OpenOptions{Files: f.files, Release: f.release})
			if err != nil {
				return err
			}
			defer p.Close()
			if prompts != "" {
				return a.generateList(cmd.Context(), p, o, prompts)
			}
			r, err := p.Generate(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.printResult(r, func() { a.showGenerated(r) })
		}),
	}
	f.addFlags(c)
	f.addMesh(c, "how devices are arranged for the denoising: dp=1,tp=4,sp=1; auto is one device. The other phases share the same devices in their own way")
	f.addLoRA(c)
	f.addParts(c, true, true)
	f.addText(c)
	pathFlag(c, &prompts, "prompts", "a file of prompts, one video each: a line is a prompt, or in .jsonl a JSON string or an object with prompt, negative, seed")
	f.addVideo(c, "video size in pixels, e.g. 832x480 (default: the release's)", "video frames: 1+4k (default: the release's)")
	f.add(c, "steps", "", "steps of the scheduler (default: the release's)")
	f.add(c, "sampler", "", strings.Join(sampler.Names(), ", ")+" (default: the folder's, or the release's)")
	f.add(c, "shift", "", "warp of the noise levels (default: the folder's, or the release's)")
	f.add(c, "guidance", "", "guidance scale, or HIGH,LOW for a pair of experts, first the one that runs first; 1 is one pass (default: the release's)")
	f.add(c, "boundary", "", "share of the noise levels above which the first of two experts runs (default: the release's)")
	f.add(c, "integer-timesteps", "", "truncate what the model is fed to an integer (default: as the release and diffusers do)")
	f.addCFG(c)
	f.add(c, "seed", "", "seed of the noise (default: one is drawn, and printed)")
	pathFlag(c, &f.video.Noise, "noise", "safetensors file with latents to start from, \"latents\", in place of the seed's")
	pathFlag(c, &f.video.LatentsOut, "latents-out", "safetensors file for the latents after the last step, written before they are decoded")
	c.Flags().BoolVar(&f.video.Trace, "trace", false, "with --latents-out: the latents after each step too, latents_0, ...")
	pathFlag(c, &f.video.FeaturesOut, "features-out", "safetensors file for what the text became: context, negative")
	f.addDecoding(c, &crop)
	pathFlag(c, &f.video.State, "state", "folder for the latents of each step (default: the output's name with .state); it goes when the video is whole")
	c.Flags().BoolVar(&f.video.Resume, "resume", false, "go on from the state that an earlier run left")
	c.Flags().IntVar(&f.video.Preview, "preview", 0, "write a small picture beside the output every N steps")
	c.Flags().BoolVar(&a.lines, "progress", false, "write a line to stderr for each step where it is no terminal: phase, step, seconds left, memory")
	f.addOutput(c, "the video: .mp4, .webm, .avi, .png (animated) or a folder of PNGs/")
	completeFlag(c, "sampler", sampler.Names()...)
	f.setPreset(c, "dtype", "bf16")
	return c
}

// setPreset changes what a command takes where a flag is not given.
func (f *requestFlags) setPreset(c *cobra.Command, name, preset string) {
	f.text[name] = preset
	c.Flags().Lookup(name).DefValue = preset
}

// showGenerated prints a result for people.
func (a *app) showGenerated(r *weft.Generated) {
	for _, s := range r.Steps {
		a.say("step %3d  t %8.3f  sigma %.5f  %8.3f s  %s", s.Step, s.Timestep, s.Sigma, s.Seconds, s.Expert)
	}
	for _, p := range r.Phases {
		a.say("%-8s mesh %-16s %s  %8.2f s  %10s read  peak %s", p.Name, p.Mesh, p.DType, p.Seconds, weft.Bytes(p.BytesRead), weft.Bytes(p.PeakRSS))
	}
	names := append([]string{"negative_prompt"}, models.SettingNames...)
	for _, name := range names {
		if s, ok := r.Settings[name]; ok {
			a.say("  %-17s %-15s from %s", name, s.Text(), s.From)
		}
	}
	a.say("  %-17s %d", "seed", r.Seed)
	for _, n := range r.Notes {
		a.say("  note: %s", n)
	}
	for _, what := range []string{"features", "latents", "preview", "frames", "video"} {
		if path := r.Files[what]; path != "" {
			a.say("wrote %s (%s)", path, what)
		}
	}
}

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft"
	"weft/fault"
	"weft/models"
	features "weft/pipeline/conditions"
	"weft/sampler"
	"weft/tensor"
)

func (a *app) sampleCommand() *cobra.Command {
	var f runFlags
	var o weft.SampleOptions
	var contextFile, negative, noise string
	var out outputFlags
	var conditions string
	c := &cobra.Command{
		Use:   "sample --model DIR --context FILE --size WxH --frames N --steps K --seed S --out FILE",
		Short: "Denoise latents with a scheduler",
		Long: `sample starts from a seed's noise, or given latents, runs the model once a step
(for guidance on both texts), and writes "latents" (batch, channels, frames,
height, width). The text's keys and values are computed once for all steps.

A folder with high_noise_model and low_noise_model (Wan2.2 A14B), or transformer
and transformer_2, is two experts; only the one a step needs is on the devices.

--guidance needs --negative. With --cfg batch both texts are one batch, so dp=2
runs them in parallel; sequential runs one after the other in half the memory; none
runs the prompt's pass alone, as without --negative and with --guidance 1.

What no flag says is taken from the folder (model_index.json and
scheduler/scheduler_config.json beside the model or above it), and else from the
release: the output lists every setting and where it is from. Releases that share a
configuration are told apart by the folder or its name, or by --release.`,
		Example: `  weft sample --model testdata/wan21_t2v --context testdata/wan21_t2v/inputs.safetensors \
    --size 64x64 --frames 9 --steps 4 --shift 5 --seed 0 --mesh tp=2 --out /tmp/latents.safetensors`,
		Args: cobra.NoArgs,
		RunE: f.withTimeLimit(a, func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Options, err = f.runOptions(a); err != nil {
				return err
			}
			if err := out.checkWritable(0, contextFile, negative, noise, conditions); err != nil {
				return err
			}
			m, err := weft.OpenSampling(f.model, f.release)
			if err != nil {
				return err
			}
			defer m.Close()
			o.OutputBytes = func(latents, _ int64) error { return out.checkWritable(latents, m.Files()...) }
			var notes []string
			one := func(path string, names ...string) (*tensor.Tensor, error) {
				t, left, err := oneTensor(cmd.Context(), path, names...)
				notes = append(notes, unreadNote(path, left)...)
				return t, err
			}
			text, err := one(contextFile, "context", "text", "ids")
			if err != nil {
				return err
			}
			var neg *tensor.Tensor
			if negative != "" {
				if neg, err = one(negative, "negative", "context", "text", "ids"); err != nil {
					return err
				}
			}
			if noise != "" {
				if o.Noise, err = one(noise, "latents"); err != nil {
					return err
				}
			}
			if conditions != "" {
				o.Conditions, _, err = weft.ReadTensorsNamed(cmd.Context(), conditions, withoutTexts)
				if err != nil {
					return err
				}
				f := features.FromTensors(o.Conditions)
				o.Conditions, o.Kept = f.Conditions, f.Kept
			}
			// The bar counts steps: the calls within one would only flicker.
			o.OnStep = func(s weft.SampleStep) { a.progress.reportProgress("sample", int64(s.Step+1), int64(s.Of)) }
			res, err := m.Sample(cmd.Context(), text, neg, o)
			if err != nil {
				return err
			}
			if err := weft.WriteTensors(out.Path, map[string]*tensor.Tensor{"latents": res.Latents}, out.Force); err != nil {
				return err
			}
			res.Report.Notes = append(res.Report.Notes, notes...)
			return a.printResult(res, func() {
				for _, s := range res.Steps {
					a.say("step %3d  t %8.3f  sigma %.5f  %8.3f s  %s", s.Step, s.Timestep, s.Sigma, s.Seconds, s.Expert)
				}
				a.printBlock(res.Report.Text())
				a.showSettings(res.Settings)
				for _, n := range res.Report.Notes {
					a.say("  note: %s", n)
				}
				a.say("wrote %s", out.Path)
			})
		}),
	}
	f.addFlags(c)
	f.addMesh(c, oneDevice)
	f.addLoRA(c)
	pathFlag(c, &contextFile, "context", "safetensors file with the prompt's embedding, tensor \"context\", or its token ids, \"ids\", where the model reads these")
	pathFlag(c, &negative, "negative", "the same for the negative prompt")
	pathFlag(c, &noise, "noise", "safetensors file with latents to start from, tensor \"latents\"")
	pathFlag(c, &conditions, "conditions", "safetensors file with what the model reads besides: y and clip_fea for Wan i2v, kept "+
		"(an image's latents) for Wan TI2V, y and ofs for CogVideoX; what belongs to the negative prompt as negative_NAME")
	f.add(c, "boundary", "", "share of the noise levels above which the first of two experts runs (default: the release's)")
	f.addVideo(c, "video size in pixels, e.g. 832x480", "video frames: 1+4k, or 1+8k for LTX; 0 is the release's")
	f.add(c, "fps", "", "frames a second, for models whose positions are seconds (LTX, Cosmos3; default: the release's)")
	f.add(c, "steps", "", "steps of the scheduler; 0 is the release's")
	f.add(c, "sampler", "", strings.Join(sampler.Names(), ", ")+" (default: the folder's, or the release's)")
	f.add(c, "shift", "", "warp of the noise levels (default: the folder's, or the release's)")
	f.add(c, "guidance", "", "guidance scale, or HIGH,LOW for a pair of experts, first the one that runs first; 1 is one pass (default: the release's with --negative, none without)")
	f.add(c, "integer-timesteps", "", "truncate what the model is fed to an integer (default: as the release and diffusers do; =false feeds it as it is)")
	f.addCFG(c)
	f.add(c, "seed", "", "seed of the noise")
	out.addFlags(c)
	for _, name := range []string{"context", "size"} {
		must(c.MarkFlagRequired(name))
	}
	completeFlag(c, "sampler", sampler.Names()...)
	return c
}

// withoutTexts leaves out of a file of features, as weft encode writes it, what is no
// condition: the texts.
func withoutTexts(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "context" || name == "negative" })
}

// showSettings lists the settings that were used, and where each came from.
func (a *app) showSettings(settings map[string]models.Setting) {
	for _, name := range models.SettingNames {
		if s, ok := settings[name]; ok {
			a.say("  %-17s %-15s from %s", name, s.Text(), s.From)
		}
	}
}

// oneTensor reads from a file the first tensor that has one of these names, or the only
// tensor in the file. left lists the others, which are not read.
func oneTensor(ctx context.Context, path string, names ...string) (t *tensor.Tensor, left []string, err error) {
	pick := func(have []string) []string {
		for _, name := range names {
			if slices.Contains(have, name) {
				return []string{name}
			}
		}
		if len(have) == 1 {
			return have
		}
		return nil
	}
	ts, left, err := weft.ReadTensorsNamed(ctx, path, pick)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range ts {
		return t, left, nil
	}
	return nil, nil, fault.New(models.ErrInputs, nil, "%s has no tensor %s: %v", path, strings.Join(names, " or "), left)
}

package main

import (
	"github.com/spf13/cobra"

	"weft"
	"weft/pipeline"
)

func (a *app) encodeCommand() *cobra.Command {
	var f pipelineFlags
	c := &cobra.Command{
		Use:   "encode --model DIR --prompt TEXT --out FILE",
		Short: "Turn a prompt into what the denoising reads",
		Long: `encode runs the text phase of generate alone: the prompt and the negative prompt, cleaned
and as token ids, go through the text encoder. The file has the rows under the names that
weft sample reads: "context" and "negative" for --context and --negative.`,
		Example: `  weft encode --model testdata/pipelines/wan21_t2v --prompt "A cat walks on the grass" --dtype f32 --out /tmp/features.safetensors`,
		Args:    cobra.NoArgs,
		RunE: f.withTimeLimit(a, func(cmd *cobra.Command, _ []string) error {
			o, err := f.generateOptions(a)
			if err != nil {
				return err
			}
			o.Video.FeaturesOut, o.Video.Out = o.Video.Out, ""
			p, err := weft.OpenPipeline(f.model, pipeline.OpenOptions{Files: f.files, Release: f.release, Need: []pipeline.Part{pipeline.TextEncoder, pipeline.Tokenizer}})
			if err != nil {
				return err
			}
			defer p.Close()
			r, err := p.Encode(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.printResult(r, func() { a.showGenerated(r) })
		}),
	}
	f.addFlags(c)
	f.addMesh(c, "how many devices there are; the text encoder is split over them in its own way")
	f.addParts(c, true, false)
	f.addText(c)
	f.addOutput(c, "safetensors file to write")
	must(c.MarkFlagRequired("out"))
	must(c.MarkFlagRequired("prompt"))
	f.setPreset(c, "dtype", "bf16")
	return c
}

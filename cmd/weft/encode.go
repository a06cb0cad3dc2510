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
		Short: "Turn a prompt and an image into what the denoising reads",
		Long: `encode runs the phases of generate before the denoising: the prompt and the negative
prompt, cleaned and as token ids, go through the text encoder, and an image through the
autoencoder and the image encoder. The file has the results under the names that weft
sample reads: "context" and "negative" for --context and --negative, and "y", "clip_fea" or
"kept" for --conditions.`,
		Example: `  weft encode --model testdata/pipelines/wan21_t2v --prompt "A cat walks on the grass" --dtype f32 --out /tmp/features.safetensors`,
		Args:    cobra.NoArgs,
		RunE: f.withTimeLimit(a, func(cmd *cobra.Command, _ []string) error {
			o, err := f.generateOptions(a)
			if err != nil {
				return err
			}
			o.Video.FeaturesOut, o.Video.Out = o.Video.Out, ""
			need := []pipeline.Part{pipeline.TextEncoder, pipeline.Tokenizer}
			if f.video.Image != "" || f.video.LastImage != "" || f.video.Video != "" {
				need = append(need, pipeline.ImageEncoder, pipeline.Autoencoder)
			}
			p, err := weft.OpenPipeline(f.model, pipeline.OpenOptions{Files: f.files, Release: f.release, Need: need})
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
	f.addParts(c, true, true)
	f.addText(c)
	f.addVideo(c, "size of the video that begins with the image, e.g. 832x480 (default: the release's)", "its frames (default: the release's)")
	f.addAutoencoderType(c)
	f.addOutput(c, "safetensors file to write")
	must(c.MarkFlagRequired("out"))
	must(c.MarkFlagRequired("prompt"))
	f.setPreset(c, "dtype", "bf16")
	return c
}

package main

import (
	"github.com/spf13/cobra"

	"weft"
	"weft/pipeline"
)

func (a *app) decodeCommand() *cobra.Command {
	var f pipelineFlags
	var crop, latents string
	c := &cobra.Command{
		Use:   "decode --model DIR --latents FILE --out VIDEO",
		Short: "Turn latents into a video",
		Long: `decode runs the last phase of generate alone: "latents" of a file, as generate and sample
write them, go through the release's autoencoder. --out is a video, or a .safetensors file
for the frames.`,
		Example: `  weft decode --model testdata/pipelines/wan21_t2v --latents testdata/pipelines/wan21_t2v/inputs.safetensors --out /tmp/noise.avi`,
		Args:    cobra.NoArgs,
		RunE: f.withTimeLimit(a, func(cmd *cobra.Command, _ []string) error {
			if err := f.readCrop(crop); err != nil {
				return err
			}
			if isTensorsFile(f.video.Out) {
				if f.video.FramesOut != "" {
					return usageError("--out %s and --frames-out %s are both files of frames: leave one of them out", f.video.Out, f.video.FramesOut)
				}
				f.video.Out, f.video.FramesOut = "", f.video.Out
			}
			o, err := f.generateOptions(a)
			if err != nil {
				return err
			}
			p, err := weft.OpenPipeline(f.model, pipeline.OpenOptions{Files: f.files, Release: f.release, Need: []pipeline.Part{pipeline.Autoencoder}})
			if err != nil {
				return err
			}
			defer p.Close()
			r, err := p.Decode(cmd.Context(), latents, o)
			if err != nil {
				return err
			}
			return a.printResult(r, func() { a.showGenerated(r) })
		}),
	}
	f.addFlags(c)
	f.addMesh(c, "how many devices there are; the pictures are split over them in rows and columns")
	f.addParts(c, false, true)
	pathFlag(c, &latents, "latents", "safetensors file with \"latents\" (1, channels, frames, height, width)")
	f.addDecoding(c, &crop)
	f.addOutput(c, "the video, or a .safetensors file for the frames")
	must(c.MarkFlagRequired("latents"))
	must(c.MarkFlagRequired("out"))
	return c
}

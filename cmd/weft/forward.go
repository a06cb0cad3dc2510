package main

import (
	"slices"

	"github.com/spf13/cobra"

	"weft"
	"weft/dtype"
	"weft/models"
)

func (a *app) forwardCommand() *cobra.Command {
	var f runFlags
	var inputs, compiled string
	var out outputFlags
	var repeat int
	var intermediates, profile bool
	c := &cobra.Command{
		Use:   "forward --model DIR --inputs FILE --out FILE",
		Short: "Run one step of a model on a mesh",
		Long: `forward reads a step's inputs from a safetensors file (x, t and context for Wan;
ids and mask for a text encoder; latents z to decode or a video to encode for an
autoencoder), runs it, and writes
"out" and every other output that the inputs allow; one of another batch that the mesh does
not divide is left out and noted. The split is checked before any weight is read; each
device's part of the weights is read straight into place.`,
		Example: `  weft forward --model testdata/wan21_t2v --inputs testdata/wan21_t2v/inputs.safetensors \
    --out /tmp/out.safetensors --mesh tp=2,sp=2`,
		Args: cobra.NoArgs,
		RunE: f.withTimeLimit(a, func(cmd *cobra.Command, _ []string) error {
			o, err := f.runOptions(a)
			if err != nil {
				return err
			}
			if o.Compiled = compiled; compiled != "" && !cmd.Flags().Changed("dtype") {
				o.DType = dtype.Invalid // the programs' own
			}
			if repeat < 1 {
				return usageError("--repeat %d: want 1 or more", repeat)
			}
			if err := checkTiles(o.Tiles, cmd.Flags().Changed); err != nil {
				return err
			}
			if err := out.checkWritable(0, inputs); err != nil {
				return err
			}
			m, err := weft.OpenAs(f.model, f.release)
			if err != nil {
				return err
			}
			defer m.Close()
			in, left, err := weft.ReadTensorsNamed(cmd.Context(), inputs, func(names []string) []string { return wantedNames(names, m.Inputs()) })
			if err != nil {
				return err
			}
			o.OutputBytes = func(outputs, values int64) error {
				if intermediates {
					outputs += values
				}
				return out.checkWritable(outputs, m.Files()...)
			}
			result, err := m.Forward(cmd.Context(), in, weft.ForwardOptions{Options: o, Repeat: repeat, Intermediates: intermediates, Profile: profile})
			if err != nil {
				return err
			}
			rep := &result.Report
			if err := weft.WriteTensors(out.Path, result.Outputs, out.Force); err != nil {
				return err
			}
			rep.Notes = append(rep.Notes, unreadNote(inputs, left)...)
			return a.printResult(result, func() {
				a.printBlock(rep.Text())
				for _, c := range rep.Collectives {
					a.say("  %-20s %-8s %5d calls  %10s sent by each device a step", c.Op, c.Axis, c.Count, weft.Bytes(c.Bytes))
				}
				attentionText(a.say, "", rep.Attention)
				profileText(a.say, rep.Profile)
				for _, n := range rep.Notes {
					a.say("  note: %s", n)
				}
				a.say("wrote %s", out.Path)
			})
		}),
	}
	f.addFlags(c)
	f.addMesh(c, oneDevice)
	f.addLoRA(c)
	pathFlag(c, &compiled, "compiled", "folder of programs that weft compile made: loaded in place of compiling; the mesh, type and layers are theirs")
	pathFlag(c, &inputs, "inputs", "safetensors file with the step's inputs")
	out.addFlags(c)
	f.addTiles(c, "of an autoencoder: compute pictures in overlapping tiles, which gives other pixels")
	c.Flags().IntVar(&repeat, "repeat", 1, "run the step N times and report the fastest")
	c.Flags().BoolVar(&intermediates, "intermediates", false, "write the values along the way too (block_0, ...)")
	c.Flags().BoolVar(&profile, "profile", false, "run one step more, call by call, and print where its time goes")
	must(c.MarkFlagRequired("inputs"))
	return c
}

// wantedNames returns those of names that are also in wanted.
func wantedNames(names, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(wanted, name) })
}

// checkTiles refuses --tile together with flags that mean one graph.
func checkTiles(tiles *models.Tiles, changed func(flag string) bool) error {
	for _, other := range []string{"repeat", "intermediates", "compiled", "profile"} {
		if tiles != nil && changed(other) {
			return usageError("--tile with --%s: tiles of several sizes are several steps; leave one of the two out", other)
		}
	}
	return nil
}

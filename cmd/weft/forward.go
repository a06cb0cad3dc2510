package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"weft"
	"weft/models"
	"weft/tensor"
)

func (a *app) forwardCommand() *cobra.Command {
	var f runFlags
	var inputs, compiled, tile string
	var out outputFlags
	var repeat int
	var intermediates bool
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
				o.DType = "" // the programs' own
			}
			if repeat < 1 {
				return usageError("--repeat %d: want 1 or more", repeat)
			}
			tiles, err := parseTile(tile, cmd.Flags().Changed)
			if err != nil {
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
			var rep weft.Report
			result := map[string]*tensor.Tensor{}
			for i, v := range models.Runs(m.Model, in) {
				one, err := runForward(cmd.Context(), m, v, o, tiles, repeat, intermediates && i == 0, result)
				switch {
				case i > 0 && errors.Is(err, models.ErrBatch): // a further step with a batch of its own
					rep.Notes = append(rep.Notes, fmt.Sprintf("out%s is left out: %v", v.Suffix, err))
				case err != nil:
					return err
				case i == 0:
					rep = one
				default:
					rep.Notes = append(rep.Notes, fmt.Sprintf("out%s: a step of its own, %.3f s", v.Suffix, one.Seconds))
				}
			}
			if err := weft.WriteTensors(out.Path, result, out.Force); err != nil {
				return err
			}
			rep.Notes = append(rep.Notes, unreadNote(inputs, left)...)
			return a.printResult(rep, func() {
				a.printBlock(rep.Text())
				for _, c := range rep.Collectives {
					a.say("  %-20s %-8s %5d calls  %10s sent by each device a step", c.Op, c.Axis, c.Count, weft.Bytes(c.Bytes))
				}
				attentionText(a.say, "", rep.Attention)
				for _, n := range rep.Notes {
					a.say("  note: %s", n)
				}
				a.say("wrote %s", out.Path)
			})
		}),
	}
	f.addFlags(c)
	f.addMesh(c)
	pathFlag(c, &compiled, "compiled", "folder of programs that weft compile made: loaded in place of compiling; the mesh, type and layers are theirs")
	pathFlag(c, &inputs, "inputs", "safetensors file with the step's inputs")
	out.addFlags(c)
	c.Flags().StringVar(&tile, "tile", "", `of an autoencoder: compute pictures in overlapping tiles, which gives other pixels; "release" for the release's sizes, or 256x256,192x192`)
	c.Flags().IntVar(&repeat, "repeat", 1, "run the step N times and report the fastest")
	c.Flags().BoolVar(&intermediates, "intermediates", false, "write the values along the way too (block_0, ...)")
	must(c.MarkFlagRequired("inputs"))
	return c
}

// wantedNames returns those of names that are also in wanted.
func wantedNames(names, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(wanted, name) })
}

// parseTile reads --tile; nil means whole pictures. Tiles are refused together with flags that
// mean one graph.
func parseTile(text string, changed func(flag string) bool) (*models.Tiles, error) {
	if text == "" {
		return nil, nil
	}
	for _, other := range []string{"repeat", "intermediates", "compiled"} {
		if changed(other) {
			return nil, usageError("--tile with --%s: tiles of several sizes are several steps; leave one of the two out", other)
		}
	}
	t, err := models.ParseTiles(text)
	return &t, err
}

// runForward runs one step repeat times, or in tiles, into result and reports on it.
func runForward(ctx context.Context, m *weft.Model, v models.Variant, o weft.Options, tiles *models.Tiles, repeat int, intermediates bool, result map[string]*tensor.Tensor) (weft.Report, error) {
	if tiles != nil {
		outs, report, err := m.ForwardTiled(ctx, v.Inputs, *tiles, o)
		for name, t := range outs {
			result[name+v.Suffix] = t
		}
		return report, err
	}
	r, err := m.Start(ctx, v.Inputs, o)
	if err != nil {
		return weft.Report{}, err
	}
	defer r.Close()
	for i := range repeat {
		var visit func(string, *tensor.Tensor) error
		if intermediates && i == 0 {
			visit = func(name string, t *tensor.Tensor) error { result[name] = t; return nil }
		}
		outs, err := r.Trace(ctx, visit)
		if err != nil {
			return weft.Report{}, err
		}
		for name, t := range outs {
			result[name+v.Suffix] = t
		}
	}
	return r.Report(), nil
}

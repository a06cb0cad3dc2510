package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"weft"
	"weft/internal/userfile"
	"weft/models"
	"weft/tensor"
)

func (a *app) forward() *cobra.Command {
	var f runFlags
	var inputs, out, compiled string
	var repeat int
	var force, intermediates bool
	c := &cobra.Command{
		Use:   "forward --model DIR --inputs FILE --out FILE",
		Short: "Run one step of a model on a mesh",
		Long: `forward reads a step's inputs from a safetensors file (x, t and context for Wan;
ids and mask for a text encoder; latents z for an autoencoder), runs it, and writes
"out" and every other output that the inputs allow; one of another batch that the mesh does
not divide is left out and noted. The split is checked before any weight is read; each
device's part of the weights is read straight into place.`,
		Example: `  weft forward --model testdata/wan21_t2v --inputs testdata/wan21_t2v/inputs.safetensors \
    --out /tmp/out.safetensors --mesh tp=2,sp=2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(a)
			if err != nil {
				return err
			}
			if o.Compiled = compiled; compiled != "" && !cmd.Flags().Changed("dtype") {
				o.DType = "" // the programs' own
			}
			if repeat < 1 {
				return usage("--repeat %d: want 1 or more", repeat)
			}
			if err := userfile.CheckWritable(userfile.Output{Path: out, Force: force}); err != nil {
				return err
			}
			m, err := weft.OpenAs(f.model, f.release)
			if err != nil {
				return err
			}
			defer m.Close()
			in, err := weft.ReadTensors(inputs)
			if err != nil {
				return err
			}
			var rep weft.Report
			result := map[string]*tensor.Tensor{}
			for i, v := range models.Runs(m.Model, in) {
				one, err := runForward(cmd.Context(), m, v, o, repeat, intermediates && i == 0, result)
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
			if err := weft.WriteTensors(out, result, force); err != nil {
				return err
			}
			return a.print(rep, func() {
				a.say("%s", rep.Text())
				for _, c := range rep.Collectives {
					a.say("  %-20s %-8s %5d calls  %10s sent by each device a step", c.Op, c.Axis, c.Count, weft.Bytes(c.Bytes))
				}
				for _, n := range rep.Notes {
					a.say("  note: %s", n)
				}
				a.say("wrote %s", out)
			})
		},
	}
	f.add(c)
	f.addMesh(c)
	c.Flags().StringVar(&compiled, "compiled", "", "folder of programs that weft compile made: loaded in place of compiling; the mesh, type and layers are theirs")
	c.Flags().StringVar(&inputs, "inputs", "", "safetensors file with the step's inputs")
	c.Flags().StringVar(&out, "out", "", "safetensors file to write")
	c.Flags().IntVar(&repeat, "repeat", 1, "run the step N times and report the fastest")
	c.Flags().BoolVar(&force, "force", false, "replace an existing output file")
	c.Flags().BoolVar(&intermediates, "intermediates", false, "write the values along the way too (block_0, ...)")
	must(c.MarkFlagRequired("inputs"))
	must(c.MarkFlagRequired("out"))
	return c
}

// runForward runs one step repeat times into result and reports on it.
func runForward(ctx context.Context, m *weft.Model, v models.Variant, o weft.Options, repeat int, intermediates bool, result map[string]*tensor.Tensor) (weft.Report, error) {
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

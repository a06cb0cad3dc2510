package main

import (
	"github.com/spf13/cobra"

	"weft/fault"
	"weft/mesh"
	"weft/strategy"
)

type degreesDoc struct {
	Devices int         `json:"devices"`
	Mesh    []mesh.Axis `json:"mesh"` // outermost first
}

func (a *app) strategyDegrees() *cobra.Command {
	var devices int
	var text string
	c := &cobra.Command{
		Use:   "degrees --devices N [--degrees LIST]",
		Short: "The mesh that degrees of parallelism make of a number of devices",
		Long: `degrees puts the axes in their order, outermost first: pp, dp, fsdp, sp, tp,
the one with the most traffic innermost. One degree may be fill: it takes what
the others leave. Every device is used; degrees left out are 1. Without
--degrees all devices shard the parameters: fsdp=fill.`,
		Example: `  weft strategy degrees --devices 32 --degrees tp=8,fsdp=fill
  weft strategy degrees --devices 8 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := strategy.Degrees{Shard: strategy.Fill}
			var l fault.List
			if cmd.Flags().Changed("degrees") {
				var err error
				d, err = strategy.ParseDegrees(text)
				l.Add(err)
			}
			if l.Err() != nil && devices < 1 {
				_, err := strategy.Degrees{}.Resolve(devices)
				l.Add(err)
			}
			if err := l.Err(); err != nil {
				return err
			}
			d, err := d.Resolve(devices)
			if err != nil {
				return err
			}
			m, err := d.Mesh()
			if err != nil {
				return err
			}
			return a.printResult(degreesDoc{devices, m.Axes()}, func() {
				a.say("%s", m)
				for _, axis := range m.Axes() {
					a.say("%-5s %6d", axis.Name, axis.Size)
				}
			})
		},
	}
	c.Flags().IntVar(&devices, "devices", 0, "number of devices, all of which are used")
	c.Flags().StringVar(&text, "degrees", "fsdp=fill", "as in tp=8,fsdp=fill")
	must(c.MarkFlagRequired("devices"))
	return c
}

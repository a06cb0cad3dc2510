package main

import (
	"strings"

	"github.com/spf13/cobra"

	"weft/fault"
	"weft/sharding"
)

type reshardDoc struct {
	Mesh  string       `json:"mesh"`
	From  string       `json:"from"`
	To    string       `json:"to"`
	Steps []collective `json:"steps"`
	Bytes int64        `json:"bytes"` // that a device sends in all
}

func (a *app) strategyReshard() *cobra.Command {
	var meshText, shapeFlag, dtypeName, fromText, toText string
	c := &cobra.Command{
		Use:   "reshard --mesh M --shape S --from SPEC --to SPEC",
		Short: "The collectives that bring a tensor from one spec to another",
		Long: `reshard lists the steps with the fewest bytes sent by a device, counted on a
ring. dim is the dim that is sliced, gathered or scattered, or that an
all-to-all newly splits (from_dim is the other); -1 where there is none. No
tensor becomes partial.`,
		Example: `  weft strategy reshard --mesh x=2,y=4 --shape 16x8 --dtype f32 \
    --from 'x,-' --to '-,x+y'
  weft strategy reshard --mesh dp=2,tp=4 --shape 16x8 \
    --from 'dp,-|tp' --to 'dp,tp'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var l fault.List
			m, err := givenMesh(meshText)
			l.Add(err)
			shape, err := parseShape("--shape", shapeFlag)
			l.Add(err)
			elem, err := elemBytes("--dtype", dtypeName)
			l.Add(err)
			_, ferr := sharding.ParseSpec(fromText)
			_, terr := sharding.ParseSpec(toText)
			l.Add(ferr)
			l.Add(terr)
			if err := l.Err(); err != nil {
				return err
			}
			from, _ := givenSpec(m, fromText)
			to, _ := givenSpec(m, toText)
			steps, err := sharding.Reshard(m, from, to, shape, elem)
			if err != nil {
				return err
			}
			doc := reshardDoc{m.String(), specText(from.Canonical(m, len(shape))), specText(to.Canonical(m, len(shape))), listCollectives(steps), 0}
			for _, s := range steps {
				doc.Bytes += s.Bytes
			}
			return a.printResult(doc, func() {
				for i, s := range doc.Steps {
					a.sayWrapped(padRight(numberText(float64(i+1)), 3), strings.Fields(s.line()))
				}
				if len(steps) == 0 {
					a.sayWrapped("", strings.Fields("no step: "+orWhole(doc.From)+" and "+orWhole(doc.To)+" place the tensor alike"))
				}
				a.say("%d bytes sent by each device", doc.Bytes)
			})
		},
	}
	fl := c.Flags()
	fl.StringVar(&meshText, "mesh", "", "axes and sizes, outermost first: x=2,y=4")
	fl.StringVar(&shapeFlag, "shape", "", "sizes joined by x, as in 16x8, or scalar")
	fl.StringVar(&dtypeName, "dtype", "f32", "element type: f32, bf16, f16, ...")
	fl.StringVar(&fromText, "from", "", "spec before, as in x,-")
	fl.StringVar(&toText, "to", "", "spec after, as in -,x+y")
	for _, name := range []string{"mesh", "shape", "from", "to"} {
		must(c.MarkFlagRequired(name))
	}
	completeFlag(c, "dtype", "f32", "bf16", "f16")
	return c
}

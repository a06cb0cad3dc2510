package main

import (
	"strings"

	"github.com/spf13/cobra"

	"weft"
	"weft/fault"
	"weft/strategy"
)

type strategySpecDoc struct {
	Mesh       string `json:"mesh"`
	Tensor     string `json:"tensor"`
	Spec       string `json:"spec"`
	LocalShape []int  `json:"local_shape"`
	LocalBytes int64  `json:"local_bytes"`
	Gradient   struct {
		Before      string       `json:"before"`
		After       string       `json:"after"`
		Collectives []collective `json:"collectives"`
	} `json:"gradient"`
	Gather []collective `json:"gather"`
	Notes  []string     `json:"notes"`
}

func (a *app) strategySpec() *cobra.Command {
	var meshText, tensor string
	var f strategyFlags
	c := &cobra.Command{
		Use:   "spec --mesh M --strategy S --tensor NAME:DIMS:SHAPE:TYPE",
		Short: "How strategies split one tensor, and how its gradient is reduced",
		Long: `spec refines the spec of a tensor by strategies: tp takes the dim its rules
name, fsdp the largest dim that divides and is free, dp the dim named batch. tp
comes before fsdp and fsdp before dp, in whatever order they are given. It
prints the piece each device holds, the gradient before and after its reduction
with the collectives between, what FSDP gathers before the parameter is used,
and what was not applied and why.

A strategy may name its axes: fsdp=dp+sp. Rules say which dim tp splits: the
first whose pattern matches the name and whose dim the tensor has. Without
--rule the names of Megatron, Wan, diffusers and LLaMA are known: q, k, v and
the way up of the feed-forward split dim out; the attention's output and the
way down split dim in.`,
		Example: `  weft strategy spec --mesh data=2,fsdp=4,model=8 --strategy tp,fsdp,dp \
    --tensor blocks.3.attn.q.weight:out,in:11008x4096:bf16
  weft strategy spec --mesh dp=2,sp=2 --strategy fsdp=dp+sp \
    --tensor w:out,in:5120x5120:f32
  weft strategy spec --mesh tp=8 --strategy tp --rule '*.attn.k.*=out:8' \
    --tensor blocks.3.attn.k.weight:out,in:1024x4096:bf16`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var l fault.List
			m, err := givenMesh(meshText)
			l.Add(err)
			plan, err := f.parsePlan()
			l.Add(err)
			t, err := parseTensor(tensor)
			l.Add(err)
			if err := l.Err(); err != nil {
				return err
			}
			report, err := plan.Explain(m, []strategy.Tensor{t})
			if err != nil {
				return err
			}
			g, err := plan.Gradient(m, t)
			if err != nil {
				return err
			}
			gather, err := plan.Gather(m, t)
			if err != nil {
				return err
			}
			placed := report.Tensors[0]
			doc := strategySpecDoc{Mesh: m.String(), Tensor: t.Name, Spec: specText(placed.Spec),
				LocalShape: placed.LocalShape, LocalBytes: placed.LocalBytes, Gather: listCollectives(gather), Notes: []string{}}
			doc.Gradient.Before, doc.Gradient.After = specText(g.Before), specText(g.After)
			doc.Gradient.Collectives = listCollectives(g.Steps)
			for _, n := range append(placed.Notes, report.Notes...) {
				doc.Notes = append(doc.Notes, n.Text)
			}
			return a.printResult(doc, func() { a.showStrategySpec(doc, t) })
		},
	}
	fl := c.Flags()
	fl.StringVar(&meshText, "mesh", "", "axes and sizes: data=2,fsdp=4,model=8")
	fl.StringVar(&f.names, "strategy", "", "some of tp, fsdp and dp; fsdp=dp+sp names axes")
	fl.StringVar(&tensor, "tensor", "", "NAME:DIMS:SHAPE:DTYPE, as in w:out,in:64x32:bf16")
	fl.StringArrayVar(&f.rules, "rule", nil, "PATTERN=DIM[:HEADS] for tp, or PATTERN=-; repeated")
	fl.IntVar(&f.minSize, "min-size", strategy.DefaultMinSize, "fewest elements fsdp shards, 0 all")
	for _, name := range []string{"mesh", "strategy", "tensor"} {
		must(c.MarkFlagRequired(name))
	}
	completeFlag(c, "strategy", "tp,fsdp,dp", "fsdp,dp", "tp", "fsdp", "dp")
	return c
}

func (a *app) showStrategySpec(doc strategySpecDoc, t strategy.Tensor) {
	a.sayWrapped("tensor    ", []string{t.Name, "(" + strings.Join(t.Dims, ",") + ")", shapeText(t.Shape), "on", doc.Mesh})
	a.sayWrapped("spec      ", []string{orWhole(doc.Spec)})
	a.say("local     %s, %s on each device", shapeText(doc.LocalShape), weft.Bytes(doc.LocalBytes))
	a.sayWrapped("gradient  ", []string{orWhole(doc.Gradient.Before), "->", orWhole(doc.Gradient.After)})
	for _, c := range doc.Gradient.Collectives {
		a.sayWrapped("          ", strings.Fields(c.line()))
	}
	for _, c := range doc.Gather {
		a.sayWrapped("gather    ", strings.Fields(c.line()))
	}
	for _, n := range doc.Notes {
		a.sayWrapped("note      ", strings.Fields(n))
	}
}

// orWhole shows the empty spec of a scalar as "(scalar)".
func orWhole(spec string) string {
	if spec == "" {
		return "(scalar)"
	}
	return spec
}

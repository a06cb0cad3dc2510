package main

import (
	"github.com/spf13/cobra"
)

func (a *app) strategyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "strategy",
		Short: "Split tensors, layers and devices by named strategies",
		Long: `strategy answers four questions on paper, with no device: how a tensor is split
by tensor parallelism (tp), FSDP (fsdp) and data parallelism (dp), and how its
gradient is reduced; which layers each stage of a pipeline holds and in what
order it runs them; which collectives bring a tensor from one layout to
another; and which mesh a set of degrees is.

A spec has one entry a dim: - for a whole dim, an axis, or axes joined by +
with the major one first; after a bar stand the axes the tensor is partial
over: model,-|data. Axes are printed as the mesh names them.`,
		Example: `  weft strategy spec --mesh data=2,fsdp=4,model=8 --strategy tp,fsdp,dp \
    --tensor blocks.3.attn.q.weight:out,in:11008x4096:bf16
  weft strategy stages --layers 30 --stages 4
  weft strategy reshard --mesh x=2,y=4 --shape 16x8 --from 'x,-' --to '-,x+y'
  weft strategy degrees --devices 32 --degrees tp=8,fsdp=fill`,
	}
	c.AddCommand(a.strategySpec(), a.strategyStages(), a.strategyReshard(), a.strategyDegrees())
	return c
}

package engine

import (
	"fmt"

	"weft/cpukernel"
	"weft/program"
	"weft/spmd"
	"weft/targets"
	"weft/xla"
)

// RegisterKernels gives a CPU plugin weft's kernels for processors, and says whether programs may
// call them. A program that calls them is neither compiled nor loaded before.
func RegisterKernels(p *xla.Plugin) spmd.HostKernels {
	kernels := targets.CPU().HostKernels
	if !kernels.Available {
		return kernels
	}
	for name, call := range map[string]func(*xla.ForeignCall) error{cpukernel.CallName: callAttention, cpukernel.ConvCallName: callConvolution,
		cpukernel.CopyCallName: callCopy, cpukernel.OrderCallName: func(*xla.ForeignCall) error { return nil }} {
		if err := p.RegisterForeign(name, program.ForeignConfig, call); err != nil {
			return spmd.HostKernels{Why: err.Error()}
		}
	}
	return kernels
}

// callAttention computes an attention that a program asks for: operands q, k, v and, where there is
// one, a bias.
func callAttention(c *xla.ForeignCall) error {
	a, err := cpukernel.ParseConfig(c.Config)
	if err != nil {
		return err
	}
	operands := 3
	if a.BiasBatch > 0 {
		operands = 4
	}
	if len(c.Args) != operands || len(c.Results) != 1 {
		return fmt.Errorf("%s: %d operands and %d results; want %d and 1", cpukernel.CallName, len(c.Args), len(c.Results), operands)
	}
	o := cpukernel.Operands{Q: c.Args[0].Data, K: c.Args[1].Data, V: c.Args[2].Data, Out: c.Results[0].Data}
	if operands > 3 {
		o.Bias = c.Args[3].Data
	}
	return a.Run(o)
}

// callConvolution computes a convolution that a program asks for: operands are the frames, or one operand
// with all of them, and the weights.
func callConvolution(c *xla.ForeignCall) error {
	conv, err := cpukernel.ParseConvConfig(c.Config)
	if err != nil {
		return err
	}
	if len(c.Args) < 2 || len(c.Results) != 1 {
		return fmt.Errorf("%s: %d operands and %d results; want 2 or more and 1", cpukernel.ConvCallName, len(c.Args), len(c.Results))
	}
	last := len(c.Args) - 1
	o := cpukernel.ConvOperands{W: c.Args[last].Data, Out: c.Results[0].Data}
	for _, x := range c.Args[:last] {
		o.X = append(o.X, x.Data)
	}
	return conv.Run(o)
}

// callCopy writes operand 1 into the memory of operand 0, which is the result's. Operand 2 is only what has to be
// computed before.
func callCopy(c *xla.ForeignCall) error {
	if len(c.Args) != 3 || len(c.Results) != 1 {
		return fmt.Errorf("%s: %d operands and %d results; want 3 and 1", cpukernel.CopyCallName, len(c.Args), len(c.Results))
	}
	return cpukernel.Copy(c.Results[0].Data, c.Args[1].Data)
}

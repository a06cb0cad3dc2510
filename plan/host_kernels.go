package plan

import "weft/program"

// addHostKernel adds what a kernel for processors computes. It does the arithmetic of its meaning, at what
// processors reach without it: its own speed is the machine's, and bench cpu measures it.
func (c *programMeasures) addHostKernel(p *program.Program, in *program.Instr, times int, log *programLog) {
	in.Kernel.Walk(func(inner *program.Instr, rounds int) {
		switch inner.Op {
		case program.OpDot:
			f := dotFLOPs(p, inner, times*rounds)
			c.attention += f
			log.addFLOPs(in, attentionFLOPs, f, f)
		case program.OpConv:
			f := convFLOPs(p, inner, times*rounds)
			c.matmul += f
			log.addFLOPs(in, matmulFLOPs, f, f)
		}
	})
}

// convFLOPs counts a convolution's operations.
func convFLOPs(p *program.Program, in *program.Instr, times int) float64 {
	w := p.Values[in.Args[1]]
	return 2 * float64(times) * float64(p.Values[in.Out[0]].Elements()) * float64(w.Elements()/w.Shape[0])
}

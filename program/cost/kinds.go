package cost

import "weft/program"

// Kinds are the FLOPs of a program's contractions by what they compute.
type Kinds struct {
	// Matmuls have one matrix for the whole batch, above all weights.
	Matmuls int64 `json:"matmul_flops"`
	// Attention are products of activations with activations, and kernels.
	Attention    int64 `json:"attention_flops"`
	Convolutions int64 `json:"convolution_flops"`
}

// KindsOf counts the FLOPs of one device in one run of a program by kind. Their sum is Work.Flops.
func KindsOf(p *program.Program) Kinds {
	var k Kinds
	p.Walk(func(in *program.Instr, times int) {
		flops, _ := countArithmetic(p, in)
		flops *= int64(times)
		switch {
		case in.Op == program.OpKernel || in.Op == program.OpDot && len(in.Dot.LeftBatch) > 0:
			k.Attention += flops
		case in.Op == program.OpConv:
			k.Convolutions += flops
		default:
			k.Matmuls += flops
		}
	})
	return k
}

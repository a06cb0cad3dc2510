package spmd

import (
	"weft/dtype"
)

// Target describes the device that a program will run on. It changes into which blocks
// a computation is cut and how many padding tokens there are, never what is computed
// nor which collectives there are. The zero value cuts nothing.
type Target struct {
	// RowTile cuts a matmul by weights into blocks of about so many rows; 0 does
	// not cut. Eigen's f32 matmul by 1536 x 1536 weights on two Zen 3 cores gives
	// 131 GFLOP/s on 585 rows and 89 on 4680.
	RowTile int
	// WideBF16 widens bf16 operands of a matmul to f32, whose products and sums
	// are the same to f32 accuracy: for processors without bf16 matmul
	// instructions, where it is faster (89 against 73 GFLOP/s).
	WideBF16 bool
	// FlatConv runs a convolution over three spatial dims or more as several over
	// the rest, one for each place of the kernel along the first, added up: for XLA's
	// CPU plugin, whose kernels are made for two. A kernel of 3 x 3 x 3 did 41, 33
	// and 19 GFLOP a second of processor time whole, at 384, 192 and 96 channels, and
	// 59, 87 and 83 so, in f32 on Zen 3.
	FlatConv bool
	// Attention blocks: queries and keys by HeadBlock heads at a time; 0 leaves the
	// choice to package attention.
	QueryBlock, KeyBlock, HeadBlock int
	// Chip is the TPU's generation, "v4", or the GPU's short name, "h100"; "" is neither.
	Chip string
	// HostKernels says whether programs may call kernels of weft's own for processors.
	// The zero value is for a target that is none.
	HostKernels HostKernels
	// Platform is "cuda" for GPUs, as a program has it; "" elsewhere.
	Platform string
	// Attention is the form that attention takes, as package attention names them;
	// "" leaves the choice to it.
	Attention string
	// TokenMultiple asks the model to pad the number of tokens on a device to a
	// multiple of it; 0 or 1 asks for no more than the layout needs. The model says
	// where it pads. Padding tokens are computed and exchanged like any other.
	TokenMultiple int
}

// HostKernels says whether a processor runs weft's kernels (package cpukernel), and if not,
// why.
type HostKernels struct {
	Available bool
	Why       string
}

// WithTarget builds a program for a target.
func WithTarget(t Target) Option { return func(b *Builder) { b.target = t } }

// Option is an option of Build.
type Option func(*Builder)

// Target is the target that the program is built for.
func (b *Builder) Target() Target { return b.target }

// widenOperand is x as an operand of a matmul, in f32 where the target wants that. A
// value that is defined outside of loops, above all a weight, is widened once, outside.
func (b *Builder) widenOperand(x Local) Local {
	if !b.target.WideBF16 || x.DType != dtype.BF16 {
		return x
	}
	if w, ok := b.widened[x.ID]; ok {
		return w
	}
	if b.depths[x.ID] > 0 {
		return b.LConvert(x, dtype.F32)
	}
	inner, depth := b.body, b.depth
	b.body, b.depth = b.root, 0 // before the loop under construction, which is not there yet
	w := b.LConvert(x, dtype.F32)
	b.body, b.depth = inner, depth
	b.widened[x.ID] = w
	return w
}

package cpukernel

import (
	"fmt"
	"runtime"

	"weft/dtype"
	"weft/fault"
)

var (
	// ErrUnsupported: the kernel does not compute this attention, or not on this processor.
	ErrUnsupported = fault.NewKind("cpu-kernel-unsupported")
	// ErrOperand: memory that is not as long as its shape says.
	ErrOperand = fault.NewKind("cpu-kernel-operand")
)

// Attention is one call: q (Batch, Queries, Heads, HeadDim), k and v (Batch, Keys, KVHeads, HeadDim), and the
// result like q, each row-major. Query head h reads key head h / (Heads/KVHeads).
type Attention struct {
	DType                   dtype.DType `json:"-"` // F32 or BF16
	Batch, Queries, Keys    int
	Heads, KVHeads, HeadDim int
	// Real is how many keys at the front count; the others are padding.
	Real int
	// Scale multiplies the scores, and is positive.
	Scale float64
	// BiasBatch is 1 or Batch where a bias (BiasBatch, Keys) in f32, already multiplied by
	// log2(e), is added to the scaled scores of each key; 0 where none is.
	BiasBatch int
}

// maxHeadDim is the largest head dim whose blocks fit a second-level cache of half a megabyte.
const maxHeadDim = 256

// Check gives every reason why the kernel does not compute the attention. Error: ErrUnsupported.
func (a Attention) Check() error {
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(ErrUnsupported, nil, format, args...)) }
	if a.DType != dtype.F32 && a.DType != dtype.BF16 {
		bad("operands are %v; the kernel takes f32 and bf16", a.DType)
	}
	if a.HeadDim < 2 || a.HeadDim > maxHeadDim || a.HeadDim%2 != 0 {
		bad("head dim %d; the kernel takes even ones up to %d", a.HeadDim, maxHeadDim)
	}
	if a.Batch < 1 || a.Queries < 1 || a.Heads < 1 || a.KVHeads < 1 || a.Heads%max(1, a.KVHeads) != 0 {
		bad("%d x %d queries, %d heads over %d of keys; each is at least 1, and heads are a multiple of the keys'", a.Batch, a.Queries, a.Heads, a.KVHeads)
	}
	if a.Real < 1 || a.Real > a.Keys {
		bad("%d real keys of %d; at least 1 is real", a.Real, a.Keys)
	}
	if !(a.Scale > 0 && a.Scale < 1e6) {
		bad("scores times %g; the kernel takes a positive factor", a.Scale)
	}
	if a.BiasBatch != 0 && a.BiasBatch != 1 && a.BiasBatch != a.Batch {
		bad("a bias of batch %d beside queries of batch %d; want 1 or %d", a.BiasBatch, a.Batch, a.Batch)
	}
	return l.Err()
}

// blocks are the sizes into which a call is cut, in the order of the loops.
type blocks struct {
	routines
	elt          int // bytes of a number in panels
	depth, width int // HeadDim padded, along q k^T's sum and along v's columns
	keys         int // Real padded to whole panels
	queryRows    int // queries of a block; a multiple of rowGroup
	keyRows      int // keys of a block; a multiple of panel
	headsAtOnce  int // heads of keys whose panels exist at a time
}

// cut chooses the sizes for a level and a number of workers.
func (a Attention) cut(level Level, workers int) blocks {
	b := blocks{routines: routinesOf(level, a.DType), elt: 4}
	depthUnit := 4
	if b.pairs {
		b.elt, depthUnit = 2, 32
	}
	b.depth, b.width = roundUp(a.HeadDim, depthUnit), roundUp(a.HeadDim, b.panel)
	b.keys = roundUp(a.Real, b.panel)
	b.queryRows = evenly(a.Queries, b.wantQueryRows, b.rowGroup)
	b.keyRows = evenly(b.keys, b.wantKeyRows, b.panel)
	// Workers wait for each other between heads, so they get many blocks for each wait.
	tasks := (a.Queries + b.queryRows - 1) / b.queryRows * (a.Heads / a.KVHeads)
	b.headsAtOnce = min((16*workers+tasks-1)/tasks, a.Batch*a.KVHeads)
	return b
}

// evenly is the size, a multiple of unit, of the parts that n is cut into so that they are
// about equal and not much above want.
func evenly(n, want, unit int) int {
	parts := (n + want - 1) / want
	return roundUp((n+parts-1)/parts, unit)
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// headBytes is the memory of the panels of one head of keys and values.
func (b blocks) headBytes() int { return b.keys * (b.depth + b.width) * b.elt }

// workerFloats are the parts of a worker's memory, in f32, each a multiple of 16 numbers: queries,
// scores, accumulator, the running maximum, sum and factor, the bias of a block, and rows that are widened.
func (b blocks) workerFloats() [8]int {
	stat := roundUp(b.queryRows, 16)
	return [8]int{roundUp(b.queryRows*b.depth*b.elt/4, 16), b.queryRows * b.keyRows, b.queryRows * b.width, stat, stat, stat, b.keyRows, 16 * roundUp(b.depth, 16)}
}

// Workers is how many goroutines compute a call.
func Workers() int { return runtime.GOMAXPROCS(0) }

// ScratchBytes is the memory that a call needs beside operands and result on this processor.
func (a Attention) ScratchBytes() int64 {
	level, workers := Best(a.DType), Workers()
	if level == None || a.Check() != nil {
		return 0
	}
	b := a.cut(level, workers)
	n := int64(b.headsAtOnce) * int64(b.headBytes())
	for _, f := range b.workerFloats() {
		n += int64(workers) * int64(f) * 4
	}
	return n
}

// checkOperands holds the memory of operands and result against their shapes. Error: ErrOperand.
func (a Attention) checkOperands(o Operands) error {
	var l fault.List
	q := a.Batch * a.Queries * a.Heads * a.HeadDim * a.DType.Size()
	kv := a.Batch * a.Keys * a.KVHeads * a.HeadDim * a.DType.Size()
	for _, x := range []struct {
		name string
		have []byte
		want int
	}{{"q", o.Q, q}, {"k", o.K, kv}, {"v", o.V, kv}, {"bias", o.Bias, a.BiasBatch * a.Keys * 4}, {"result", o.Out, q}} {
		if len(x.have) != x.want {
			l.Add(fault.New(ErrOperand, nil, "%s has %d bytes, and %v needs %d", x.name, len(x.have), a, x.want))
		}
	}
	return l.Err()
}

func (a Attention) String() string {
	return fmt.Sprintf("attention of %v, %d x %d queries and %d of %d keys, %d heads over %d, head dim %d",
		a.DType, a.Batch, a.Queries, a.Real, a.Keys, a.Heads, a.KVHeads, a.HeadDim)
}

package triton

import (
	"fmt"
	"math"
	"math/bits"

	"weft/dtype"
	"weft/fault"
	"weft/topology"
)

// ErrUnsupported: the kernel cannot compute an attention of this shape.
var ErrUnsupported = fault.NewKind("gpu-kernel-unsupported")

// Kernel describes the kernel of one attention, as one device holds it: q (B, Sq, H, D) and k, v
// (B, Sk, Hkv, D), or with HeadsFirst (B, H, Sq, D) and (B, Hkv, Sk, D).
type Kernel struct {
	Chip           string // the GPU's short name, "h100"
	DType          dtype.DType
	Batch          int
	Queries, Keys  int // as held, padding included
	Heads, KVHeads int
	HeadDim        int
	HeadsFirst     bool
	// Real lists the keys that are not padding, in ascending order and apart; nil means
	// all keys. Padding is never read.
	Real []Range
	// Mask says that an operand behind v, (B|1, 1, Sk) f32, is added to the scores.
	Mask bool
	// MaskBatch is the size of the mask's first dim: Batch or 1.
	MaskBatch int
	// Scale multiplies the scores within the kernel; 0 or 1 says that q has it already.
	// The kernel takes powers of 2, so Scale is the softmax's scale times log2(e).
	Scale float64
	// StateIn says that the last operands are the state that other keys left: m and l, (B, H, Sq)
	// f32, and acc, laid out as q is, f32. With StateOut the kernel leaves such a state as its
	// results, in place of the attention's.
	StateIn, StateOut bool
	// Tile overrides the block sizes of the chip; the zero value leaves them as they are.
	Tile topology.GPUTile
}

// Range is the keys From up to, but without, To.
type Range struct{ From, To int }

// Param is an operand or a result of the kernel: its name in the text, its element type and
// its shape as the custom call has it.
type Param struct {
	Name  string
	DType dtype.DType
	Shape []int
}

// Limits of what the kernel takes. A block of tensor cores has at least 16 columns, and
// with more than 256 the accumulators do not fit into the registers.
const (
	minHeadDim = 16
	maxHeadDim = 256
	// maxGridYZ bounds the grid's y and z, which are heads and batch.
	maxGridYZ = 65535
	// maxTokens keeps places of tokens within 32 bits with room for a block.
	maxTokens = 1 << 30
)

// paddedDim is the head dim in registers: a power of two.
func (s Kernel) paddedDim() int {
	return max(minHeadDim, 1<<bits.Len(uint(s.HeadDim-1)))
}

// tile gives the block sizes of the chip for the padded head dim, or those that override them;
// false for a chip without any, and for a head that is too wide for its registers.
func (s Kernel) tile() (topology.GPUTile, bool) {
	if s.Tile != (topology.GPUTile{}) {
		return s.Tile, true
	}
	g, ok := topology.GPUByName(s.Chip)
	if !ok || g.Names[0] != s.Chip || g.Kernel() == nil {
		return topology.GPUTile{}, false
	}
	switch tiles := g.Kernel().Tiles; {
	case s.paddedDim() <= 64:
		return tiles.HeadDim64, true
	case s.paddedDim() <= 128:
		return tiles.HeadDim128, true
	case tiles.HeadDim256 != nil:
		return *tiles.HeadDim256, true
	}
	return topology.GPUTile{}, false
}

// Tiles gives the block sizes that the kernel uses: few queries or keys need no more than the
// power of two above their number. The caller has made sure that Check finds nothing wrong.
func (s Kernel) Tiles() topology.GPUTile {
	t, _ := s.tile()
	longest := 0
	for _, r := range s.realRanges() {
		longest = max(longest, r.To-r.From)
	}
	t.Keys = min(t.Keys, max(minBlock, 1<<bits.Len(uint(longest-1))))
	return t
}

// minBlock is the least number of rows or columns of a contraction by tensor cores.
const minBlock = 16

// Chips lists the GPUs that the kernel has block sizes for.
func Chips() []string {
	var names []string
	for _, g := range topology.GPUs() {
		if g.Kernel() != nil {
			names = append(names, g.Names[0])
		}
	}
	return names
}

// realRanges returns the keys that are not padding.
func (s Kernel) realRanges() []Range {
	if s.Real == nil {
		return []Range{{0, s.Keys}}
	}
	return s.Real
}

// scalesInKernel reports whether the kernel multiplies the scores; elsewhere q has the scale.
func (s Kernel) scalesInKernel() bool { return s.Scale != 0 && s.Scale != 1 }

// Check reports every reason why there is no kernel for s; nil where there is one.
// Error: ErrUnsupported.
func (s Kernel) Check() error {
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(ErrUnsupported, nil, format, args...)) }
	if s.DType != dtype.BF16 && s.DType != dtype.F16 {
		bad("operands are %v; the kernel takes bf16 and f16", s.DType)
	}
	if s.HeadDim < 1 || s.HeadDim > maxHeadDim {
		bad("head dim %d; 1 to %d have a kernel", s.HeadDim, maxHeadDim)
		return l.Err()
	}
	t, ok := s.tile()
	switch {
	case !ok:
		bad("no block sizes are known for chip %q and head dim %d; %v have some, for a head dim of more than 128 those with larger tensor cores", s.Chip, s.HeadDim, Chips())
	case !isPowerOfTwo(t.Queries) || !isPowerOfTwo(t.Keys) || t.Queries < minBlock || t.Keys < minBlock || !isPowerOfTwo(t.Warps) || t.Warps > 32 || t.Stages < 1:
		bad("blocks of %d queries by %d keys, %d warps, %d stages: want powers of two, blocks of at least %d, at most 32 warps, and a stage", t.Queries, t.Keys, t.Warps, t.Stages, minBlock)
	}
	if s.Batch < 1 || s.Queries < 1 || s.Keys < 1 || s.Heads < 1 || s.KVHeads < 1 || s.Heads%s.KVHeads != 0 {
		bad("batch %d, %d queries, %d keys, %d heads of q and %d of k: each at least 1, k's heads divide q's", s.Batch, s.Queries, s.Keys, s.Heads, s.KVHeads)
		return l.Err()
	}
	if s.Heads > maxGridYZ || s.Batch > maxGridYZ || s.Queries > maxTokens || s.Keys > maxTokens {
		bad("batch %d, %d heads, %d queries, %d keys: at most %d of the first two and %d of the others", s.Batch, s.Heads, s.Queries, s.Keys, maxGridYZ, maxTokens)
	}
	if s.Mask && s.MaskBatch != 1 && s.MaskBatch != s.Batch {
		bad("a mask for %d of %d batches: want 1 or all", s.MaskBatch, s.Batch)
	}
	at := 0
	for _, r := range s.realRanges() {
		if r.From < at || r.To <= r.From || r.To > s.Keys {
			bad("real keys %v of %d: want ascending ranges apart", s.Real, s.Keys)
			break
		}
		at = r.To + 1
	}
	if len(s.realRanges()) == 0 {
		bad("none of %d keys is real", s.Keys)
	}
	return l.Err()
}

func isPowerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

// tokensShape is the shape of q, k, v or a result with so many tokens and heads.
func (s Kernel) tokensShape(tokens, heads int) []int {
	if s.HeadsFirst {
		return []int{s.Batch, heads, tokens, s.HeadDim}
	}
	return []int{s.Batch, tokens, heads, s.HeadDim}
}

// stateParams are the state's three arrays under names that end alike.
func (s Kernel) stateParams(suffix string) []Param {
	rows := []int{s.Batch, s.Heads, s.Queries}
	return []Param{{"m" + suffix, dtype.F32, rows}, {"l" + suffix, dtype.F32, rows}, {"acc" + suffix, dtype.F32, s.tokensShape(s.Queries, s.Heads)}}
}

// Operands lists what the kernel reads, in the order of its call.
func (s Kernel) Operands() []Param {
	q, k := s.tokensShape(s.Queries, s.Heads), s.tokensShape(s.Keys, s.KVHeads)
	list := []Param{{"q", s.DType, q}, {"k", s.DType, k}, {"v", s.DType, k}}
	if s.Mask {
		list = append(list, Param{"mask", dtype.F32, []int{s.MaskBatch, 1, s.Keys}})
	}
	if s.StateIn {
		list = append(list, s.stateParams("_in")...)
	}
	return list
}

// Results lists what the kernel writes, in the order of its call.
func (s Kernel) Results() []Param {
	if s.StateOut {
		return s.stateParams("_out")
	}
	return []Param{{"out", s.DType, s.tokensShape(s.Queries, s.Heads)}}
}

// Grid counts the programs of the kernel: blocks of queries, heads, batch.
func (s Kernel) Grid() [3]int {
	t := s.Tiles()
	return [3]int{(s.Queries + t.Queries - 1) / t.Queries, s.Heads, s.Batch}
}

// Name is the function's name in the text and in the call. Two kernels of a program that
// differ have different names.
func (s Kernel) Name() string {
	t := s.Tiles()
	name := fmt.Sprintf("weft_attention_%v_b%d_q%d_k%d_h%d_%d_d%d_t%d_%d",
		s.DType, s.Batch, s.Queries, s.Keys, s.Heads, s.KVHeads, s.HeadDim, t.Queries, t.Keys)
	for i, r := range s.Real {
		name += fmt.Sprintf("_r%d_%d_%d", i, r.From, r.To)
	}
	for _, x := range []struct {
		on   bool
		text string
	}{{s.HeadsFirst, "_heads_first"}, {s.Mask, fmt.Sprintf("_mask%d", s.MaskBatch)},
		{s.scalesInKernel(), fmt.Sprintf("_scale%x", math.Float32bits(float32(s.Scale)))}, {s.StateIn, "_from_state"}, {s.StateOut, "_to_state"}} {
		if x.on {
			name += x.text
		}
	}
	return name
}

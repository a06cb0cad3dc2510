package mosaic

import "weft/fault"

// ErrUnsupported: the kernel cannot compute an attention of this shape.
var ErrUnsupported = fault.NewKind("kernel-unsupported")

// Kernel describes the kernel of one attention, as one device holds it: q (B, Sq, H, D) and k, v
// (B, Sk, Hkv, D) in bf16, each stored as (B, tokens, heads*D).
type Kernel struct {
	Chip           string // the TPU's generation, "v4"
	Batch          int
	Queries, Keys  int // as held, padding included
	Heads, KVHeads int
	HeadDim        int
	// Real lists the keys that are not padding, in ascending order and apart; nil means
	// all keys. Padding never reaches the result, whatever it holds.
	Real []Range
	// Mask says that a fourth operand, (B|1, 1, Sk) f32, is added to the scores.
	Mask bool
	// MaskBatch is the size of the mask's first dim: Batch or 1.
	MaskBatch int
	// Scale multiplies the scores within the kernel; 0 or 1 says that q has it already.
	// The kernel takes powers of 2, so Scale is the softmax's scale times log2(e).
	Scale float64
	// Blocks overrides the block sizes of the chip; the zero value leaves them as they are.
	Blocks Blocks
}

// Range is the keys From up to, but without, To.
type Range struct{ From, To int }

// lanes is the width of a vector register, and of a tile of the matrix unit.
const lanes = 128

// headsPerStep is how many heads share the lanes: 1 of head dim 128, or 2 of 64.
func (s Kernel) headsPerStep() int { return lanes / s.HeadDim }

// queryHeadsPerKey is how many query heads use one key head.
func (s Kernel) queryHeadsPerKey() int { return s.Heads / s.KVHeads }

// realRanges returns the keys that are not padding.
func (s Kernel) realRanges() []Range {
	if s.Real == nil {
		return []Range{{0, s.Keys}}
	}
	return s.Real
}

// realEnd is the first key after the last one that is real.
func (s Kernel) realEnd() int {
	real := s.realRanges()
	return real[len(real)-1].To
}

// scalesInKernel reports whether the kernel multiplies the scores; elsewhere q has the scale.
func (s Kernel) scalesInKernel() bool { return s.Scale != 0 && s.Scale != 1 }

// Check reports every reason why there is no kernel for s; nil where there is one.
// Error: ErrUnsupported.
func (s Kernel) Check() error {
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(ErrUnsupported, nil, format, args...)) }
	if _, ok := blocksOf(s.Chip, s.HeadDim); !ok {
		bad("no block sizes are known for chip %q; %s are", s.Chip, knownChips())
	}
	if s.HeadDim != 64 && s.HeadDim != 128 {
		bad("head dim %d; 64 and 128 have a kernel", s.HeadDim)
		return l.Err()
	}
	if s.Batch < 1 || s.Queries < 1 || s.Keys < 1 || s.Heads < 1 || s.KVHeads < 1 || s.Heads%s.KVHeads != 0 {
		bad("batch %d, %d queries, %d keys, %d heads of q and %d of k: each at least 1, k's heads divide q's", s.Batch, s.Queries, s.Keys, s.Heads, s.KVHeads)
		return l.Err()
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

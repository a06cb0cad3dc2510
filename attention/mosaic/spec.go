package mosaic

import (
	"weft/fault"
)

// ErrUnsupported: an attention that the kernel has no form for.
var ErrUnsupported = fault.NewKind("kernel-unsupported")

// Spec is one attention as one device holds it: q (B, Sq, H, D), k and v
// (B, Sk, Hkv, D), bf16, each as (B, tokens, heads*D).
type Spec struct {
	Chip           string // "v4", "v5e", "v5p", "v6e", "tpu7x"
	Batch          int
	Queries, Keys  int // as held, padding included
	Heads, KVHeads int
	HeadDim        int
	// Real are the keys that count, in ascending order and apart; nil is all of
	// them. What stands elsewhere never reaches the result.
	Real []Range
	// Mask: there is a fourth operand (B|1, 1, Sk) f32 that is added to the scores.
	Mask bool
	// MaskBatch is its first dim.
	MaskBatch int
	// Scale multiplies the scores within the kernel; 1 or 0 where q has it already.
	// Scores are taken to the base 2: a softmax's scale times log2(e).
	Scale float64
	// Blocks are taken from the chip's table where they are zero.
	Blocks Blocks
}

// Range is keys [From, To).
type Range struct{ From, To int }

// lanes is the width of a vector register and of a matrix unit's tile.
const lanes = 128

func (s Spec) headsPerStep() int { return lanes / s.HeadDim } // heads

func (s Spec) queryHeadsPerKey() int { return s.Heads / s.KVHeads }

func (s Spec) realRanges() []Range {
	if s.Real == nil {
		return []Range{{0, s.Keys}}
	}
	return s.Real
}

// realEnd is the first key after the last real one.
func (s Spec) realEnd() int {
	real := s.realRanges()
	return real[len(real)-1].To
}

func (s Spec) scalesInKernel() bool { return s.Scale != 0 && s.Scale != 1 }

// Check says why there is no kernel for the spec, every reason.
func (s Spec) Check() error {
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(ErrUnsupported, nil, format, args...)) }
	if _, ok := blockTable[s.Chip]; !ok {
		bad("no block sizes are known for chip %q; v4, v5e, v5p, v6e and tpu7x are", s.Chip)
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

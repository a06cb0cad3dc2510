package sharding

import (
	"slices"

	"weft/fault"
)

// Layout says how one dim of a tensor may be cut, where its size alone does not:
// several matrices stacked in one (q, k and v), and rows that belong together (a
// head). The zero value is a dim that may be cut anywhere.
type Layout struct {
	// Dim that the layout speaks of.
	Dim int `json:"dim,omitempty"`
	// Parts are the sizes of what is stacked, in elements, in order. A split
	// takes each part's share. Empty is one part, the whole dim.
	Parts []int `json:"parts,omitempty"`
	// Heads are, for each part, how many units it has that may not be cut; 0 for
	// a part that may be cut anywhere. A split over more devices than a part has
	// heads gives neighbouring devices a copy of the same head. Empty is all 0.
	Heads []int `json:"heads,omitempty"`
}

// IsZero reports whether the layout says nothing.
func (l Layout) IsZero() bool { return len(l.Parts) == 0 && len(l.Heads) == 0 }

// checkParts returns the parts of a dim of this size and the heads of each part, 0 where
// the layout gives none; or the error that says what is wrong.
func (l Layout) checkParts(tensor string, size int) (parts, heads []int, err error) {
	parts, heads = slices.Clone(l.Parts), slices.Clone(l.Heads)
	if len(parts) == 0 {
		parts = []int{size}
	}
	if len(heads) == 0 {
		heads = make([]int, len(parts))
	}
	sum, bad := 0, len(heads) != len(parts)
	for i, n := range parts {
		if n < 0 || n > size-sum {
			bad = true
			break
		}
		sum += n
		if !bad && (heads[i] < 0 || heads[i] > 0 && n%heads[i] != 0) {
			bad = true
		}
	}
	if bad || sum != size {
		return nil, nil, fault.New(ErrFusedLayout, FusedLayout{tensor, l.Dim, size, slices.Clone(l.Parts)},
			"%sthe layout of dim %d, parts %v with heads %v, does not describe its size %d; parts are not negative and sum to the size, and there are as many heads as parts, each number dividing its part", tensorPrefix(tensor), l.Dim, parts, heads, size)
	}
	return parts, heads, nil
}

// Ranges are the stretches of a dim of size that shard index of split holds, in
// order; neighbours are not joined, so that there is one for each part. Errors:
// ErrFusedLayout when the layout does not describe the size, ErrUneven for a
// part that does not divide, ErrKVHeads for heads that can be neither divided
// nor copied, ErrPosition for an index outside split.
func (l Layout) Ranges(size, split, index int) ([]Range, error) {
	return l.rangesForTensor("", size, split, index)
}

func (l Layout) rangesForTensor(tensor string, size, split, index int) ([]Range, error) {
	if err := checkPosition(index, split); err != nil {
		return nil, err
	}
	parts, heads, err := l.checkParts(tensor, size)
	if err != nil {
		return nil, err
	}
	var list fault.List
	out := make([]Range, len(parts))
	start := 0
	for i, n := range parts {
		r, err := cutPart(tensor, l.Dim, n, heads[i], split, index)
		list.Add(err)
		out[i] = Range{start + r.Lo, start + r.Hi}
		start += n
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// cutPart gives the range that shard index holds of a part of n elements.
func cutPart(tensor string, dim, n, heads, split, index int) (Range, error) {
	switch {
	case heads == 0 && n%split != 0:
		return Range{}, unevenError(tensor, dim, n, split, nil)
	case heads == 0 || heads%split == 0:
		share := n / split
		return Range{index * share, (index + 1) * share}, nil
	case split%heads == 0:
		share, head := n/heads, index/(split/heads)
		return Range{head * share, (head + 1) * share}, nil
	}
	return Range{}, kvHeads(tensor, 0, heads, split)
}

package array

import (
	"weft/checkpoint"
	"weft/engine"
)

// NewBlock returns n bytes of fresh memory that devices can read in place: it is aligned and
// lies outside the garbage-collected heap.
func NewBlock(n int) (*engine.Block, error) {
	m, err := checkpoint.Alloc(n)
	if err != nil {
		return nil, err
	}
	return &engine.Block{Data: m.Bytes(), Release: func() { _ = m.Free() }}, nil
}

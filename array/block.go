package array

import (
	"weft/checkpoint"
	"weft/engine"
)

// NewBlock is fresh memory that devices can take as it is: aligned, outside the collector.
func NewBlock(n int) (*engine.Block, error) {
	m, err := checkpoint.Alloc(n)
	if err != nil {
		return nil, err
	}
	return &engine.Block{Data: m.Bytes(), Release: func() { _ = m.Free() }}, nil
}

package session

import (
	"weft/checkpoint"
	"weft/engine"
)

// newBlock is fresh memory that devices can take as it is.
func newBlock(n int) (*engine.Block, error) {
	m, err := checkpoint.Alloc(n)
	if err != nil {
		return nil, err
	}
	return &engine.Block{Data: m.Bytes(), Release: func() { _ = m.Free() }}, nil
}

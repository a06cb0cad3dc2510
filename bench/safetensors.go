package main

import (
	"context"
	"encoding/binary"
	"math"

	"weft/checkpoint"
	"weft/dtype"
)

// readTensor reads one tensor as float32.
func readTensor(path, name string) ([]int, []float32, error) {
	c, err := checkpoint.Open(path, checkpoint.Exact())
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	t, err := c.Load(context.Background(), name, dtype.F32)
	if err != nil {
		return nil, nil, err
	}
	out := make([]float32, t.Elements())
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return t.Shape, out, nil
}

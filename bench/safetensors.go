package main

import (
	"context"
	"encoding/binary"
	"math"

	"weft/checkpoint"
	"weft/dtype"
	"weft/tensor"
)

// writeTensors fills the tensors with their noise and writes them as BF16, rounded to nearest even, or as F32.
func writeTensors(path string, d dtype.DType, seed uint64, ps []param) error {
	tensors := map[string]*tensor.Tensor{}
	for _, p := range ps {
		values := make([]float32, tensor.Elements(p.shape))
		p.values(seed, values)
		t, err := tensor.FromFloat32s(d, values, p.shape...)
		if err != nil {
			return err
		}
		tensors[p.name] = t
	}
	return checkpoint.Write(path, tensors, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: true})
}

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

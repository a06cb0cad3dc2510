package main

import (
	"testing"

	"weft/dtype"
	"weft/tensor"
)

type tensorT = tensor.Tensor

// scaled is t times f, as f32.
func scaled(tb testing.TB, t *tensor.Tensor, f float32) *tensor.Tensor {
	tb.Helper()
	fs, err := t.Float32s()
	if err != nil {
		tb.Fatal(err)
	}
	for i := range fs {
		fs[i] *= f
	}
	out, err := tensor.FromFloat32s(dtype.F32, fs, t.Shape...)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

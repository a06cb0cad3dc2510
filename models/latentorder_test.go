package models_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/models"
	"weft/tensor"
)

// Latents that were brought into an order come back as they were, and have the order's shape; of
// another shape none come back.
func TestLatentOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		latent := make([]int, 4)
		for i := range latent {
			latent[i] = rapid.IntRange(1, 4).Draw(t, "size")
		}
		x := tensor.New(dtype.I32, append([]int{rapid.IntRange(1, 2).Draw(t, "batch")}, latent...)...)
		for i := range x.Elements() {
			x.Data[4*i], x.Data[4*i+1] = byte(i), byte(i>>8)
		}
		order := rapid.SampledFrom([]models.LatentOrder{models.ChannelsFirst, models.FramesFirst, models.TokenRows}).Draw(t, "order")
		arranged := order.Arrange(x)
		if want := append([]int{x.Shape[0]}, order.Shape(latent)...); !slices.Equal(arranged.Shape, want) {
			t.Fatalf("%q of %v: %v, want %v", order, x.Shape, arranged.Shape, want)
		}
		back, err := order.Restore(arranged, latent)
		if err != nil || !slices.Equal(back.Shape, x.Shape) || !bytes.Equal(back.Data, x.Data) {
			t.Fatalf("%q of %v comes back as %v: %v", order, x, back, err)
		}
		latent[rapid.IntRange(0, 3).Draw(t, "dim")]++
		if _, err := order.Restore(arranged, latent); !errors.Is(err, models.ErrInputs) {
			t.Errorf("%q of %v as latents %v: %v", order, arranged.Shape, latent, err)
		}
	})
	x, err := tensor.FromFloat32s(dtype.F32, []float32{0, 1, 2, 3}, 1, 2, 2, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for order, want := range map[models.LatentOrder][]float32{models.ChannelsFirst: {0, 1, 2, 3}, models.FramesFirst: {0, 2, 1, 3}, models.TokenRows: {0, 2, 1, 3}} {
		if got, err := order.Arrange(x).Float32s(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v, want %v", order, got, err, want)
		}
	}
}

package models

import (
	"slices"

	"weft/fault"
	"weft/tensor"
)

// LatentOrder is how a release's pipelines arrange the latents of videos, in files and in what
// they draw. Inside weft they are (batch, channels, frames, height, width).
type LatentOrder string

// The orders of latents.
const (
	ChannelsFirst LatentOrder = ""             // (batch, channels, frames, height, width)
	FramesFirst   LatentOrder = "frames first" // (batch, frames, channels, height, width)
	TokenRows     LatentOrder = "tokens"       // (batch, frames x height x width, channels)
)

// Shape is the shape of a video's latents (channels, frames, height, width) in the order,
// without the batch.
func (o LatentOrder) Shape(latent []int) []int {
	switch o {
	case FramesFirst:
		return []int{latent[1], latent[0], latent[2], latent[3]}
	case TokenRows:
		return []int{latent[1] * latent[2] * latent[3], latent[0]}
	}
	return slices.Clone(latent)
}

// Arrange brings latents (batch, channels, frames, height, width) into the order.
func (o LatentOrder) Arrange(t *tensor.Tensor) *tensor.Tensor {
	switch o {
	case FramesFirst:
		return t.Transpose(0, 2, 1, 3, 4)
	case TokenRows:
		rows := t.Transpose(0, 2, 3, 4, 1)
		return &tensor.Tensor{DType: rows.DType, Shape: append([]int{t.Shape[0]}, o.Shape(t.Shape[1:])...), Data: rows.Data}
	}
	return t
}

// Restore brings latents of a video (channels, frames, height, width) back from the order.
// Error: ErrInputs for another shape.
func (o LatentOrder) Restore(t *tensor.Tensor, latent []int) (*tensor.Tensor, error) {
	if len(t.Shape) < 1 || !slices.Equal(t.Shape[1:], o.Shape(latent)) {
		return nil, fault.New(ErrInputs, nil, "%v: want %v", t.Shape, append([]int{1}, o.Shape(latent)...))
	}
	switch o {
	case FramesFirst:
		return t.Transpose(0, 2, 1, 3, 4), nil
	case TokenRows:
		video := &tensor.Tensor{DType: t.DType, Shape: []int{t.Shape[0], latent[1], latent[2], latent[3], latent[0]}, Data: t.Data}
		return video.Transpose(0, 4, 1, 2, 3), nil
	}
	return t, nil
}

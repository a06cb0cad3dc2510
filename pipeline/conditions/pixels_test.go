package conditions_test

import (
	"context"
	"slices"
	"testing"

	"weft/internal/modeltest"
	"weft/pipeline/conditions"
	"weft/tensor"
)

// capturingDevices keep what a model is given.
type capturingDevices struct {
	conditions.Devices
	inputs map[string]*tensor.Tensor
	frames []*tensor.Tensor
}

func (d *capturingDevices) Forward(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	d.inputs = inputs
	return d.Devices.Forward(ctx, inputs)
}

func (d *capturingDevices) Stream(ctx context.Context, input string, shape []int, frames conditions.FrameSource, visit conditions.Visit) error {
	return d.Devices.Stream(ctx, input, shape, func(ctx context.Context, i int) (*tensor.Tensor, error) {
		x, err := frames(ctx, i)
		d.frames = append(d.frames, x)
		return x, err
	}, visit)
}

// closeTo compares with a tensor of the same number of elements in a file.
func closeTo(t testing.TB, what string, got *tensor.Tensor, file, name string) {
	t.Helper()
	want := modeltest.Tensors(t, file)[name]
	if got == nil || want == nil || got.Elements() != want.Elements() {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
	modeltest.Close(t, what, got, want, 2e-6)
}

// The pixels that the models are given are the release's, in both layouts. 2e-6 sees one byte
// of Pillow's that is off by one.
func TestPixels(t *testing.T) {
	for _, layout := range []conditions.Layout{conditions.Diffusers, conditions.Official} {
		p := parts(t, i2v, "transformer", place{"reference", ""})
		vae, vision := &capturingDevices{Devices: p.Autoencoder.Devices}, &capturingDevices{Devices: p.Vision.Devices}
		p.Autoencoder.Devices, p.Vision.Devices = vae, vision
		run(t, p, conditions.Request{Layout: layout, Image: openImage(t, i2v+"/image.png"), Width: 64, Height: 32, Frames: 5})
		prefix := map[conditions.Layout]string{conditions.Official: "official."}[layout]
		closeTo(t, prefix+"image", vae.frames[0], i2v+"/expected.safetensors", prefix+"image")
		closeTo(t, prefix+"clip_pixels", vision.inputs["x"], i2v+"/expected.safetensors", prefix+"clip_pixels")
		if len(vae.frames) != 5 || slices.ContainsFunc(vae.frames[4].Data, func(b byte) bool { return b != 0 }) {
			t.Error("behind the image the video is not grey")
		}
	}
	p := parts(t, ti2v, "transformer", place{"reference", ""})
	vae := &capturingDevices{Devices: p.Autoencoder.Devices}
	p.Autoencoder.Devices = vae
	run(t, p, conditions.Request{Layout: conditions.Diffusers, Image: openImage(t, ti2v+"/image.png"), Width: 64, Height: 32, Frames: 5})
	closeTo(t, "i2v.image", vae.frames[0], ti2v+"/image.safetensors", "i2v.image")
	if len(vae.frames) != 1 {
		t.Errorf("%d frames are encoded of one that is kept", len(vae.frames))
	}
}

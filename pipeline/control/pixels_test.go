package control_test

import (
	"math"
	"testing"

	"weft/internal/modeltest"
	"weft/picture"
	"weft/tensor"
)

// closePlanes compares planes with a tensor of as many values. It returns how many values differ by
// more than the tolerance.
func farPlanes(t *testing.T, what string, got []float32, want *tensor.Tensor, tolerance float64) (far int, most float64) {
	t.Helper()
	values, err := want.Float32s()
	if err != nil || len(values) != len(got) {
		t.Fatalf("%s: %d values, want %v, %v", what, len(got), want, err)
	}
	for i, v := range values {
		d := math.Abs(float64(got[i] - v))
		if most = max(most, d); d > tolerance {
			far++
		}
	}
	return far, most
}

// Reference images and frames become the pixels that PyTorch makes of them.
func TestPixelsAreTheReleases(t *testing.T) {
	want := modeltest.Tensors(t, vace+"/values.safetensors")
	im := references(t)[0]
	for name, rounded := range map[string]bool{"reference": true, "official.reference": false} {
		if far, most := farPlanes(t, name, im.OnCanvas(48, 32, rounded).Data, want[name], 2e-6); far > 0 {
			t.Errorf("%s: %d values differ, by up to %g", name, far, most)
		}
	}
	// Bytes that PyTorch resizes with weights of 16 bits: some differ by one.
	v, n := openVideo(t, vace+"/video.png"), 48*32
	for i := range 2 {
		planes, _ := picture.OfficialControl.Prepare(v.Frames[i], "", picture.Frame{Width: 48, Height: 32}, "")
		frame := want["official.frames"].Slice(1, i, i+1)
		far, most := farPlanes(t, "official.frames", planes.Data, frame, 2e-6)
		if t.Logf("frame %d: %d of %d values differ, by up to %g", i, far, 3*n, most); far > 3*n/20 || most > 2.0/255+1e-5 {
			t.Errorf("frame %d: %d of %d values differ, by up to %g", i, far, 3*n, most)
		}
	}
}

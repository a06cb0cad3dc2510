package cosmos3_test

import (
	"encoding/binary"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/request"
	"weft/tensor"
)

func ids(numbers ...uint32) *tensor.Tensor {
	t := tensor.New(dtype.I32, len(numbers))
	for i, n := range numbers {
		binary.LittleEndian.PutUint32(t.Data[4*i:], n)
	}
	return t
}

// Guidance by texts of different lengths, as one batch with the shorter padded
// and masked, is guidance by two passes, on one device and on several.
func TestSampleReadsIDs(t *testing.T) {
	m := modeltest.Open(t, nanoDir)
	text, negative := ids(5, 9, 100, 31, 2), ids(7, 8)
	var first *tensor.Tensor
	for _, o := range []weft.SampleOptions{
		{Options: weft.Options{Request: request.Must("--cfg sequential")}},
		{},
		{Options: weft.Options{Request: request.Must("--mesh dp=2,tp=2")}},
		{Options: weft.Options{Request: request.Must("--cfg sequential --mesh sp=4")}},
		{Options: weft.Options{Request: request.Must("--mesh pp=2")}},
	} {
		o.Device, o.Width, o.Height, o.Frames, o.Steps, o.Seed = "reference", 64, 96, 9, 3, 4
		got, err := m.Sample(t.Context(), text, negative, o)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got.Latents
			if got.Steps[0].Sigma < 0.99 { // Karras' grid begins at 200/201
				t.Errorf("the first noise level is %g", got.Steps[0].Sigma)
			}
		}
		modeltest.Close(t, o.Request.String(), got.Latents, first, 2e-4) // of some tens of values through 3 steps
	}
	if _, err := m.Sample(t.Context(), tensor.New(dtype.F32, 3, 4), nil, weft.SampleOptions{Options: weft.Options{Request: request.Must("--size 64x96 --frames 9 --steps 1")}}); err == nil {
		t.Error("an embedding taken as ids")
	}
	if _, err := m.Sample(t.Context(), ids(5, 160), nil, weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 64x96 --frames 9 --steps 1")}}); err == nil {
		t.Error("an id outside the vocabulary")
	}
}

package clip_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
)

const (
	visionDir = "../../testdata/clip_vit"
	textDir   = "../../testdata/clip_text"
)

var (
	image  = modeltest.Case{Dir: visionDir, Tolerance: 1e-4}
	pooled = modeltest.Case{Dir: textDir, Tolerance: 1e-4}
)

func TestOnEveryLegalMesh(t *testing.T) {
	for _, c := range []modeltest.Case{image, pooled} {
		c.Everywhere(t)
		split := c
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
		c.On(t, "reference", "pp=2")
		c.On(t, "reference", "fsdp=4")
		shared := c
		shared.Options = weft.Options{Request: request.Must("--fsdp sp")}
		shared.On(t, "reference", "sp=2")
	}
}

// transformers' names, with q, k and v apart, are the same model.
func TestUnderTransformersNames(t *testing.T) {
	in := modeltest.Tensors(t, visionDir+"/inputs.safetensors")
	want := modeltest.Tensors(t, visionDir+"/expected.safetensors")
	for _, on := range []string{"", "tp=4", "tp=2,sp=2"} {
		out := modeltest.Forward(t, modeltest.Open(t, visionDir+"/transformers"), in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
		modeltest.Close(t, on, out["out"], want["out_transformers"], 1e-4)
	}
}

// All tokens of a text, beside the pooled one.
func TestHidden(t *testing.T) {
	in := modeltest.Tensors(t, textDir+"/inputs.safetensors")
	want := modeltest.Tensors(t, textDir+"/expected.safetensors")
	for _, on := range []string{"", "dp=2,sp=2", "tp=3"} {
		out := modeltest.Forward(t, modeltest.Open(t, textDir), in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
		modeltest.Close(t, on, out["out_hidden"], want["out_hidden"], 1e-4)
	}
}

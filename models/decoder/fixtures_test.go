package decoder_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
)

const (
	reasonDir = "../../testdata/reason1"
	llamaDir  = "../../testdata/llama_text"
	gemmaDir  = "../../testdata/gemma4"
)

var (
	reason = modeltest.Case{Dir: reasonDir, Tolerance: 1e-4}
	llama  = modeltest.Case{Dir: llamaDir, Tolerance: 1e-4}
	gemma4 = modeltest.Case{Dir: gemmaDir, Tolerance: 1e-4}
)

func TestOnEveryLegalMesh(t *testing.T) {
	for _, c := range []modeltest.Case{reason, llama, gemma4} {
		c.Everywhere(t)
		split := c
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
		c.On(t, "reference", "pp=2")
		c.On(t, "reference", "fsdp=4")
	}
}

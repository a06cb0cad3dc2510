package stablehlo

import (
	"testing"

	"weft/program"
)

// Every operation of the table has a text: one of its own, or that of an elementwise
// operation, of a loop.
func TestEveryOperationHasText(t *testing.T) {
	for _, op := range program.Ops() {
		if !op.Is(program.ElementwiseOp) && op != program.OpLoop && emitters[op] == nil {
			t.Errorf("%s has no text in StableHLO", op)
		}
	}
}

package spmd

import "testing"

// Every operation of the table has a text: one of its own, or that of an elementwise
// operation, of a loop.
func TestEveryOperationHasText(t *testing.T) {
	for _, op := range Ops() {
		if !op.Is(ElementwiseOp) && op != OpLoop && emitters[op] == nil {
			t.Errorf("%s has no text in StableHLO", op)
		}
	}
}

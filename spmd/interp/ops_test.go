package interp

import (
	"testing"

	"weft/spmd"
)

// The interpreter computes every operation of the table, and no other. That the
// results are right is TestEveryOperation's to say.
func TestInterpreterComputesEveryOperation(t *testing.T) {
	for _, op := range spmd.Ops() {
		f := op.Facts()
		_, computed := computations[op]
		_, exchanged := exchanges[op]
		switch {
		case f.Class == spmd.CollectiveOp:
			if computed || !exchanged {
				t.Errorf("%s is a collective and has to be in exchanges alone", op)
			}
		case f.Class == spmd.ControlOp:
			if computed || exchanged {
				t.Errorf("%s runs a body", op)
			}
		case exchanged:
			t.Errorf("%s exchanges nothing", op)
		case computed:
		case f.Class != spmd.ElementwiseOp || f.Operands > 2:
			t.Errorf("%s is not computed", op)
		case f.Operands == 1 && f.Elements != spmd.IntegerElements && floatFunctions[op] == nil:
			t.Errorf("%s of floats is not computed", op)
		}
	}
}

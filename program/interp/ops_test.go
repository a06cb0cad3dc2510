package interp

import (
	"testing"

	"weft/program"
)

// The interpreter computes every operation of the table, and no other. That the
// results are right is TestEveryOperation's to say.
func TestInterpreterComputesEveryOperation(t *testing.T) {
	for _, op := range program.Ops() {
		f := op.Facts()
		_, computed := computations[op]
		_, exchanged := exchanges[op]
		switch {
		case f.Class == program.CollectiveOp:
			if computed || !exchanged {
				t.Errorf("%s is a collective and has to be in exchanges alone", op)
			}
		case f.Class == program.ControlOp:
			if computed || exchanged {
				t.Errorf("%s runs a body", op)
			}
		case exchanged:
			t.Errorf("%s exchanges nothing", op)
		case computed:
		case f.Class != program.ElementwiseOp || f.Operands > 2:
			t.Errorf("%s is not computed", op)
		case f.Operands == 1 && f.Elements != program.IntegerElements && floatFunctions[op] == nil:
			t.Errorf("%s of floats is not computed", op)
		}
	}
}

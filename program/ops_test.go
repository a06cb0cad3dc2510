package program

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every operation that is declared is in the table, and has every fact that its
// readers ask for.
func TestOpTableIsComplete(t *testing.T) {
	if got, want := Ops(), declaredOps(t); !slices.Equal(got, want) {
		t.Errorf("the table has\n%v\ndeclared are\n%v", got, want)
	}
	names := map[string]Op{}
	for _, op := range Ops() {
		f := op.Facts()
		switch {
		case f.Class < SourceOp || f.Class > CollectiveOp:
			t.Errorf("%s has no class", op)
		case f.Elements < AnyElements || f.Elements > ReducibleElements:
			t.Errorf("%s does not say which element types it takes", op)
		case f.Arithmetic < NoArithmetic || f.Arithmetic > ArithmeticOfBody:
			t.Errorf("%s does not say what it computes", op)
		case f.Memory < ReadsOperands || f.Memory > MovesByBody:
			t.Errorf("%s does not say what it reads and writes", op)
		case f.attributes == nil:
			t.Errorf("%s has no printed form", op)
		case f.StableHLO == "":
			t.Errorf("%s has no name in StableHLO", op)
		case (f.result == nil) != (f.Class == ControlOp):
			t.Errorf("%s: the type of its result has to follow from a rule, or from its body", op)
		case (f.Summed == nil) != (f.Arithmetic != MultiplyAdds):
			t.Errorf("%s: multiply-adds have to be counted, and nothing else", op)
		case (f.Operands == 0) != (f.Class == SourceOp):
			t.Errorf("%s is of class %d with %d operands", op, f.Class, f.Operands)
		case f.Class == CollectiveOp && (f.Operands != 1 || !f.LooksBeyond):
			t.Errorf("%s: a collective has one operand and looks beyond the device", op)
		case f.Class == ElementwiseOp && (f.Arithmetic != OncePerResult || !f.ReadsOnTheFly):
			t.Errorf("%s: an elementwise operation computes each element once, on the fly", op)
		}
		if other, ok := names[f.StableHLO]; ok {
			t.Errorf("%s and %s are both %s in StableHLO", op, other, f.StableHLO)
		}
		names[f.StableHLO] = op
	}
}

// declaredOps reads the constants of type Op out of the source.
func declaredOps(t *testing.T) []Op {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "program.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ops []Op
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Op") {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, Op(text))
		return true
	})
	slices.Sort(ops)
	return ops
}

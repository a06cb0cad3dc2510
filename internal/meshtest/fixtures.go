package meshtest

import (
	"context"
	"sync"

	"weft/checkpoint"
	"weft/program/interp"
)

// Primitive gives an input or a result of the numeric fixtures, which are read once, by its
// name. They lie in the folder testdata/primitives of the module, one folder above the
// packages that use them.
func Primitive(t TB, name string) *interp.Array {
	t.Helper()
	all, err := readPrimitives()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if all[name] == nil {
		t.Fatalf("the fixtures have no %s", name)
	}
	return all[name]
}

var readPrimitives = sync.OnceValues(func() (map[string]*interp.Array, error) {
	all := map[string]*interp.Array{}
	for _, file := range []string{"inputs", "expected"} {
		tensors, _, err := checkpoint.LoadFile(context.Background(), "../testdata/primitives/"+file+".safetensors")
		if err != nil {
			return nil, err
		}
		for name, x := range tensors {
			all[name] = interp.FromTensor(x)
		}
	}
	return all, nil
})

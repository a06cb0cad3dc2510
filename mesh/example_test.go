package mesh_test

import (
	"fmt"

	"weft/mesh"
)

// A mesh from its text, with the axes that are left out.
func ExampleParse() {
	axes, err := mesh.Parse("model=4,context=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := mesh.Local(mesh.Standard(axes)...)
	fmt.Println(m, err)
	fmt.Println(m.Groups("tp"))
	fmt.Println(m.Groups("tp", "sp"))
	// Output:
	// dp=1,tp=4,sp=2 <nil>
	// [[0 2 4 6] [1 3 5 7]]
	// [[0 1 2 3 4 5 6 7]]
}

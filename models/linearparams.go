package models

// LinearParams returns a linear layer's name.weight (out, in) and, with bias, its
// name.bias.
func LinearParams(name string, out, in int, bias bool) []Param {
	ps := []Param{{Name: name + ".weight", Shape: []int{out, in}, Matmul: true}}
	if bias {
		ps = append(ps, Param{Name: name + ".bias", Shape: []int{out}})
	}
	return ps
}

package models

// LinearParams are a linear layer's weight (out, in) and, with a bias, its bias:
// name.weight and name.bias, which the peer keeps as flax/kernel, the other way
// round, and flax/bias.
func LinearParams(name, flax string, out, in int, bias bool) []Param {
	ps := []Param{{Name: name + ".weight", Shape: []int{out, in}, Matmul: true, Flax: flax + "/kernel", FlaxPerm: []int{1, 0}}}
	if bias {
		ps = append(ps, Param{Name: name + ".bias", Shape: []int{out}, Flax: flax + "/bias"})
	}
	return ps
}

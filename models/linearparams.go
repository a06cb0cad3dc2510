package models

// LinearParams returns a linear layer's name.weight (out, in) and, with bias, its
// name.bias. The peer has them as flax/kernel, which is transposed, and flax/bias.
func LinearParams(name, flax string, out, in int, bias bool) []Param {
	ps := []Param{{Name: name + ".weight", Shape: []int{out, in}, Matmul: true, Flax: flax + "/kernel", FlaxPerm: []int{1, 0}}}
	if bias {
		ps = append(ps, Param{Name: name + ".bias", Shape: []int{out}, Flax: flax + "/bias"})
	}
	return ps
}

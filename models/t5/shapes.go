package t5

import (
	"maps"
	"slices"
)

// configOfShapes returns the encoder that tensors of these names and shapes are of. The
// greatest distance of positions and the norms' eps, which shapes do not tell, are as in all
// releases.
func configOfShapes(shapes map[string][]int) (Config, bool) {
	for _, publisher := range slices.Sorted(maps.Keys(published)) {
		c := Config{Names: publisher, MaxDistance: 128, Eps: 1e-6}
		n := published[publisher]
		m := Model{c: c, n: n}
		shape := func(layer int, name string) [2]int {
			if s := shapes[m.blockPrefix(layer)+name+".weight"]; len(s) == 2 {
				return [2]int(s)
			}
			return [2]int{}
		}
		table := shapes[n.tokens+".weight"]
		q, up, bias := shape(0, n.q), shape(0, n.up), shape(0, n.bias)
		if len(table) != 2 || q[0] == 0 || up[0] == 0 || bias[1] == 0 || q[0]%bias[1] != 0 || bias[0]%4 != 0 {
			continue
		}
		c.Vocab, c.Dim, c.DimAttn, c.DimFFN, c.Buckets, c.Heads = table[0], table[1], q[0], up[0], bias[0], bias[1]
		for shape(c.Layers, n.q)[0] > 0 {
			c.Layers++
		}
		c.SharedPos = c.Layers > 1 && shape(1, n.bias)[0] == 0
		return c, c.MaxDistance > c.Buckets/4
	}
	return Config{}, false
}

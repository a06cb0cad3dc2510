package vae

import (
	"fmt"
	"slices"

	"weft/models"
	"weft/sharding"
)

// Params collects the parameters of an autoencoder. Each module has an official name and, where
// the publishers differ, a name in diffusers.
type Params struct {
	List     []models.Param
	Official map[string]string // by diffusers' name
}

// Add adds a parameter, and its official name as the translation of diffusers'.
func (t *Params) Add(p models.Param, diffusers string) {
	t.List = append(t.List, p)
	if t.Official == nil {
		t.Official = map[string]string{}
	}
	t.Official[diffusers] = p.Name
}

// AddConv adds a convolution's kernel and bias. A kernel of one position is viewed as a
// matrix, since it is a matmul.
func (t *Params) AddConv(name, diffusers string, out, in int, kernel ...int) {
	w := models.Param{Name: name + ".weight", Shape: append([]int{out, in}, kernel...), Matmul: true}
	if len(kernel) > 0 && slices.Max(kernel) == 1 {
		w.View = []int{out, in}
	}
	t.Add(w, diffusers+".weight")
	t.Add(models.Param{Name: name + ".bias", Shape: []int{out}}, diffusers+".bias")
}

// OfficialName translates diffusers' names.
func (t *Params) OfficialName(name string) string {
	if o, ok := t.Official[name]; ok {
		return o
	}
	return name
}

// WholeRules replicate the weights below each of the names. Rows and columns of the pictures are
// sharded instead, and every device applies the whole kernel to its own part.
func WholeRules(below ...string) sharding.Rules {
	var rules sharding.Rules
	for _, name := range below {
		rules = append(rules, sharding.Rule{Match: fmt.Sprintf("%s.*", name), Spec: sharding.NewSpec()})
	}
	return rules
}

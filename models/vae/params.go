package vae

import (
	"fmt"
	"slices"

	"weft/models"
	"weft/sharding"
)

// Params collects the parameters of an autoencoder. Each module has a name here and one of another
// publisher, which may be the same.
type Params struct {
	List     []models.Param
	Official map[string]string // by the other publisher's name
}

// Add adds a parameter, and its name as the translation of the other publisher's.
func (t *Params) Add(p models.Param, other string) {
	t.List = append(t.List, p)
	if t.Official == nil {
		t.Official = map[string]string{}
	}
	t.Official[other] = p.Name
}

// AddConv adds a convolution's kernel and bias. A kernel of one position is viewed as a
// matrix, since it is a matmul.
func (t *Params) AddConv(name, other string, out, in int, kernel ...int) {
	w := models.Param{Name: name + ".weight", Shape: append([]int{out, in}, kernel...), Matmul: true}
	if len(kernel) > 0 && slices.Max(kernel) == 1 {
		w.View = []int{out, in}
	}
	t.Add(w, other+".weight")
	t.Add(models.Param{Name: name + ".bias", Shape: []int{out}}, other+".bias")
}

// AddNorm adds the weight and the bias of a norm of so many channels.
func (t *Params) AddNorm(name, other string, channels int) {
	for _, what := range []string{".weight", ".bias"} {
		t.Add(models.Param{Name: name + what, Shape: []int{channels}}, other+what)
	}
}

// OfficialName translates the other publisher's names.
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

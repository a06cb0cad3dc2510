package t5

import (
	"regexp"
	"strings"
)

// naming holds the names that a publisher gives to an encoder's tensors, without ".weight".
type naming struct {
	block                                          string // begins the names of layer %d's tensors
	q, k, v, o, gate, up, down, norm1, norm2, bias string
	tokens, norm                                   string
	tied                                           string // another name of tokens, or ""
}

// t5Naming is the naming of a package that uses T5's own names inside a layer; the names
// around them differ.
func t5Naming(block, tokens, norm, tied string) naming {
	return naming{block: block, tokens: tokens, norm: norm, tied: tied,
		q: "layer.0.SelfAttention.q", k: "layer.0.SelfAttention.k", v: "layer.0.SelfAttention.v", o: "layer.0.SelfAttention.o",
		gate: "layer.1.DenseReluDense.wi_0", up: "layer.1.DenseReluDense.wi_1", down: "layer.1.DenseReluDense.wo",
		norm1: "layer.0.layer_norm", norm2: "layer.1.layer_norm", bias: "layer.0.SelfAttention.relative_attention_bias"}
}

var published = map[string]naming{
	"wan": {block: "blocks.%d.", tokens: "token_embedding", norm: "norm",
		q: "attn.q", k: "attn.k", v: "attn.v", o: "attn.o", gate: "ffn.gate.0", up: "ffn.fc1", down: "ffn.fc2",
		norm1: "norm1", norm2: "norm2", bias: "pos_embedding.embedding"},
	"transformers": t5Naming("encoder.block.%d.", "shared", "encoder.final_layer_norm", "encoder.embed_tokens"),
	"byt5":         t5Naming("block.%d.", "embed_tokens", "final_layer_norm", ""),
}

// layerNames lists the tensors of a layer in the order of naming's fields, so that two
// publishers' lists correspond.
func (n naming) layerNames() []string {
	return []string{n.q, n.k, n.v, n.o, n.gate, n.up, n.down, n.norm1, n.norm2, n.bias}
}

// layerPattern matches the names of a layer's tensors. Its groups are the layer's number and
// the rest of the name.
func (n naming) layerPattern() *regexp.Regexp {
	return regexp.MustCompile("^" + strings.Replace(regexp.QuoteMeta(n.block), "%d", `(\d+)`, 1) + `(.*)\.weight$`)
}

// renamer translates one publisher's names into another's.
type renamer struct {
	layer  *regexp.Regexp
	from   []string // names in a layer
	to     []string
	block  string
	others map[string]string // whole names outside of layers
}

func newRenamer(from, to naming) renamer {
	r := renamer{layer: from.layerPattern(), from: from.layerNames(), to: to.layerNames(), block: to.block,
		others: map[string]string{from.tokens + ".weight": to.tokens + ".weight", from.norm + ".weight": to.norm + ".weight"}}
	if from.tied != "" {
		r.others[from.tied+".weight"] = to.tokens + ".weight"
	}
	return r
}

// translateName translates a name, and says whether it was one of the publisher's.
func (r renamer) translateName(name string) (string, bool) {
	if to, ok := r.others[name]; ok {
		return to, true
	}
	if m := r.layer.FindStringSubmatch(name); m != nil {
		for i, slot := range r.from {
			if slot == m[2] {
				return strings.Replace(r.block, "%d", m[1], 1) + r.to[i] + ".weight", true
			}
		}
	}
	return name, false
}

// Official translates the names of every publisher into those of the model's own.
func (m *Model) Official(name string) string {
	for _, r := range m.renamers {
		if to, ok := r.translateName(name); ok {
			return to
		}
	}
	return name
}

// listTiedNames lists the names of the token table. Checkpoints may store the one table under either
// name, or under both: it is loaded once.
func listTiedNames() [][]string {
	n := published["transformers"]
	return [][]string{{n.tokens + ".weight", n.tied + ".weight"}}
}

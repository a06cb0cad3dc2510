package t5

import (
	"fmt"
	"strings"

	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

// PeerWhole says that the peer replicates all weights: HunyuanVideo's script does so with
// its text encoders.
func (m *Model) PeerWhole() bool { return m.c.Names == "byt5" }

// blockPrefix begins the names of the tensors of layer i.
func (m *Model) blockPrefix(i int) string { return fmt.Sprintf(m.n.block, i) }

// Params lists the parameters under their official names.
func (m *Model) Params(layers int) []models.Param {
	c := m.c
	layers = models.Request{Layers: layers}.Run(c.Layers)
	ps := []models.Param{}
	table := func(name, flax string, rows, cols int, matmul bool) {
		ps = append(ps, models.Param{Name: name + ".weight", Shape: []int{rows, cols}, Matmul: matmul, Flax: flax + "/embedding"})
	}
	table(m.n.tokens, "token_embedding", c.Vocab, c.Dim, true)
	for i := range layers {
		b, flax := m.blockPrefix(i), fmt.Sprintf("blocks_%d/", i)
		linear := func(name, path string, out, in int) {
			ps = append(ps, models.LinearParams(b+name, flax+path, out, in, false)...)
		}
		norm := func(name, path string) {
			ps = append(ps, models.Param{Name: b + name + ".weight", Shape: []int{c.Dim}, Flax: flax + path + "/scale"})
		}
		norm(m.n.norm1, "norm1")
		linear(m.n.q, "attn_q", c.DimAttn, c.Dim)
		linear(m.n.k, "attn_k", c.DimAttn, c.Dim)
		linear(m.n.v, "attn_v", c.DimAttn, c.Dim)
		linear(m.n.o, "attn_o", c.Dim, c.DimAttn)
		switch {
		case !c.SharedPos:
			table(b+m.n.bias, flax+"pos_embedding", c.Buckets, c.Heads, false)
		case i == 0:
			table(b+m.n.bias, "relative_attention_bias", c.Buckets, c.Heads, false)
		}
		norm(m.n.norm2, "norm2")
		linear(m.n.gate, "ffn_gate_0", c.DimFFN, c.Dim)
		linear(m.n.up, "ffn_fc1", c.DimFFN, c.Dim)
		linear(m.n.down, "ffn_fc2", c.Dim, c.DimFFN)
	}
	return append(ps, models.Param{Name: m.n.norm + ".weight", Shape: []int{c.Dim}, Flax: "norm/scale"})
}

// Rules shard what the peer shards, and two tables that it replicates: the token table by
// rows of the vocabulary, the bias by heads. README.md lists the bytes saved.
func (m *Model) Rules() sharding.Rules {
	first, second, whole := sharding.NewSpec([]string{mesh.TP}), sharding.NewSpec(nil, []string{mesh.TP}), sharding.NewSpec()
	// The size of a vocabulary is the tokenizer's and need not divide: the table is
	// replicated then.
	rules := sharding.Rules{{Match: m.n.tokens + ".weight", Spec: first, WholeIfUneven: true}, {Match: m.n.norm + ".weight", Spec: whole}}
	for _, r := range []struct {
		spec  sharding.Spec
		names []string
	}{
		{first, []string{m.n.q, m.n.k, m.n.v, m.n.gate, m.n.up}},
		{second, []string{m.n.o, m.n.down, m.n.bias}},
		{whole, []string{m.n.norm1, m.n.norm2}},
	} {
		for _, name := range r.names {
			rules = append(rules, sharding.Rule{Match: strings.Replace(m.n.block, "%d", "*", 1) + name + ".weight", Spec: r.spec})
		}
	}
	return rules
}

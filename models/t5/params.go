package t5

import (
	"fmt"
	"strings"

	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// blockPrefix begins the names of the tensors of layer i.
func (m *Model) blockPrefix(i int) string { return fmt.Sprintf(m.n.block, i) }

// Params lists the parameters under their official names.
func (m *Model) Params(layers int) []models.Param {
	c := m.c
	layers = models.Request{Layers: layers}.Run(c.Layers)
	ps := []models.Param{}
	table := func(name string, rows, cols int, matmul bool) {
		ps = append(ps, models.Param{Name: name + ".weight", Shape: []int{rows, cols}, Matmul: matmul})
	}
	table(m.n.tokens, c.Vocab, c.Dim, true)
	for i := range layers {
		b := m.blockPrefix(i)
		linear := func(name string, out, in int) {
			ps = append(ps, models.LinearParams(b+name, out, in, false)...)
		}
		norm := func(name string) {
			ps = append(ps, models.Param{Name: b + name + ".weight", Shape: []int{c.Dim}})
		}
		norm(m.n.norm1)
		linear(m.n.q, c.DimAttn, c.Dim)
		linear(m.n.k, c.DimAttn, c.Dim)
		linear(m.n.v, c.DimAttn, c.Dim)
		linear(m.n.o, c.Dim, c.DimAttn)
		if !c.SharedPos || i == 0 {
			table(b+m.n.bias, c.Buckets, c.Heads, false)
		}
		norm(m.n.norm2)
		linear(m.n.gate, c.DimFFN, c.Dim)
		linear(m.n.up, c.DimFFN, c.Dim)
		linear(m.n.down, c.Dim, c.DimFFN)
	}
	return append(ps, models.Param{Name: m.n.norm + ".weight", Shape: []int{c.Dim}})
}

// Rules shard attention and FFN, the token table by rows of the vocabulary, and the bias by
// heads. README.md lists the bytes that this saves.
func (m *Model) Rules() sharding.Rules {
	whole := sharding.NewSpec()
	// The size of a vocabulary is the tokenizer's and need not divide: the table is
	// replicated then.
	rules := sharding.Rules{{Match: m.n.tokens + ".weight", Spec: strategy.SpecOf(strategy.Vocab), WholeIfUneven: true}, {Match: m.n.norm + ".weight", Spec: whole}}
	for _, r := range []struct {
		spec  sharding.Spec
		names []string
	}{
		{strategy.ColumnParallel(strategy.Heads), []string{m.n.q, m.n.k, m.n.v}},
		{strategy.RowParallel(strategy.Heads), []string{m.n.o}},
		{strategy.SpecOf(strategy.None, strategy.Heads), []string{m.n.bias}},
		{strategy.ColumnParallel(strategy.FFN), []string{m.n.gate, m.n.up}},
		{strategy.RowParallel(strategy.FFN), []string{m.n.down}},
		{whole, []string{m.n.norm1, m.n.norm2}},
	} {
		for _, name := range r.names {
			rules = append(rules, sharding.Rule{Match: strings.Replace(m.n.block, "%d", "*", 1) + name + ".weight", Spec: r.spec})
		}
	}
	return rules
}

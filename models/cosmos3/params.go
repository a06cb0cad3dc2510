package cosmos3

import (
	"fmt"

	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// stream names a layer's modules in one of the two streams.
type stream struct {
	q, k, v, o, qNorm, kNorm string // below self_attn
	norm1, norm2, mlp        string
}

var (
	text  = stream{"to_q", "to_k", "to_v", "to_out", "norm_q", "norm_k", "input_layernorm", "post_attention_layernorm", "mlp"}
	video = stream{"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out", "norm_added_q", "norm_added_k",
		"input_layernorm_moe_gen", "post_attention_layernorm_moe_gen", "mlp_moe_gen"}
)

// kForGen names the norm that the text's keys pass through before the video reads them.
const kForGen = "self_attn.k_norm_und_for_gen"

// Params lists the parameters under their official names, which diffusers shares.
func (m *Model) Params(layers int) []models.Param {
	c := m.c
	if layers <= 0 || layers > c.Layers {
		layers = c.Layers
	}
	ps := []models.Param{}
	linear := func(name string, out, in int) {
		ps = append(ps, models.LinearParams(name, out, in, false)...)
	}
	norm := func(name string, n int) { ps = append(ps, models.Param{Name: name + ".weight", Shape: []int{n}}) }
	biased := func(name string, out, in int) {
		ps = append(ps, models.LinearParams(name, out, in, true)...)
	}
	ps = append(ps, models.Param{Name: "embed_tokens.weight", Shape: []int{c.Vocab, c.Width}, Matmul: true})
	biased("proj_in", c.Width, c.Channels*c.Patch*c.Patch)
	biased("time_embedder.linear_1", c.Width, timeDim)
	biased("time_embedder.linear_2", c.Width, c.Width)
	for i := range layers {
		b := fmt.Sprintf("layers.%d.", i)
		for _, s := range []stream{text, video} {
			a := b + "self_attn."
			linear(a+s.q, c.Heads*c.HeadDim, c.Width)
			linear(a+s.k, c.KVHeads*c.HeadDim, c.Width)
			linear(a+s.v, c.KVHeads*c.HeadDim, c.Width)
			linear(a+s.o, c.Width, c.Heads*c.HeadDim)
			if s == video || c.QKNormText {
				norm(a+s.qNorm, c.HeadDim)
				norm(a+s.kNorm, c.HeadDim)
			} else if c.normsKeysForGen() {
				norm(b+kForGen, c.HeadDim)
			}
			norm(b+s.norm1, c.Width)
			norm(b+s.norm2, c.Width)
			if c.Act == silu {
				linear(b+s.mlp+".gate_proj", c.FFN, c.Width)
			}
			linear(b+s.mlp+".up_proj", c.FFN, c.Width)
			linear(b+s.mlp+".down_proj", c.Width, c.FFN)
		}
	}
	norm("norm_moe_gen", c.Width)
	biased("proj_out", c.Channels*c.Patch*c.Patch, c.Width)
	return ps
}

// Rules shard the layers of both streams, the token table and the timestep's layers.
// README.md lists the bytes that this saves.
// Keys and values are cut between heads only; where tp is a multiple of their heads,
// neighbouring devices hold copies of one head.
func (m *Model) Rules() sharding.Rules {
	toHeads, fromHeads := strategy.ColumnParallel(strategy.Heads), strategy.RowParallel(strategy.Heads)
	toFFN, fromFFN := strategy.ColumnParallel(strategy.FFN), strategy.RowParallel(strategy.FFN)
	vocab, whole := strategy.SpecOf(strategy.Vocab), sharding.NewSpec()
	heads := sharding.Layout{Heads: []int{m.c.KVHeads}}
	rule := func(match string, s sharding.Spec) sharding.Rule { return sharding.Rule{Match: match, Spec: s} }
	rules := sharding.Rules{
		{Match: "embed_tokens.weight", Spec: vocab, WholeIfUneven: true}, // a vocabulary need not divide
		{Match: "time_embedder.linear_1.weight", Spec: toFFN, WholeIfUneven: true},
		{Match: "time_embedder.linear_1.bias", Spec: toFFN, WholeIfUneven: true},
		{Match: "time_embedder.linear_2.weight", Spec: fromFFN, WholeIfUneven: true},
		rule("time_embedder.linear_2.bias", whole),
		rule("proj_*", whole),
		rule("norm_moe_gen.weight", whole),
	}
	for _, s := range []stream{text, video} {
		a := "layers.*.self_attn."
		rules = append(rules, rule(a+s.qNorm+".weight", whole), rule(a+s.kNorm+".weight", whole),
			rule(a+s.q+".weight", toHeads), rule(a+s.o+".weight", fromHeads),
			sharding.Rule{Match: a + s.k + ".weight", Spec: toHeads, Layout: heads}, sharding.Rule{Match: a + s.v + ".weight", Spec: toHeads, Layout: heads},
			rule("layers.*."+s.norm1+".weight", whole), rule("layers.*."+s.norm2+".weight", whole),
			rule("layers.*."+s.mlp+".down_proj.weight", fromFFN), rule("layers.*."+s.mlp+".*_proj.weight", toFFN))
	}
	return append(rules, rule("layers.*."+kForGen+".weight", whole))
}

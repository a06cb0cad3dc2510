package strategy

import (
	"slices"

	"weft/fault"
)

// family is the names that the checkpoints of one kind of model give the two
// halves of a tensor-parallel pair.
type family struct {
	name   string
	fused  []string // q, k and v in one matrix: to be viewed with a dim of heads
	column []string // split along out: q, k, v; the first half of the feed-forward
	row    []string // split along in: the attention's output; the second half
	vocab  []string // token embedding and language-model head
}

// families are in the order in which DefaultRules tries them. Patterns of modules:
// ".weight" and ".bias" follow.
var families = []family{
	{ // Megatron-LM and the short names papers use.
		name:   "megatron",
		fused:  []string{"*qkv"},
		column: []string{"*attn.q", "*attn.k", "*attn.v", "*mlp.up", "*mlp.gate", "*ffn.up", "*ffn.gate", "*linear_fc1"},
		row:    []string{"*attn.o", "*attn.out", "*mlp.down", "*ffn.down", "*linear_fc2", "*linear_proj"},
	},
	{ // Wan's own names; umT5 in Wan's repository.
		name:   "wan",
		column: []string{"*attn.q", "*attn.k", "*attn.v", "*attn.k_img", "*attn.v_img", "*ffn.0", "*ffn.gate.0", "*ffn.fc1"},
		row:    []string{"*attn.o", "*ffn.2", "*ffn.fc2"},
		vocab:  []string{"*token_embedding"},
	},
	{ // diffusers: Wan, CogVideoX, LTX, HunyuanVideo.
		name:   "diffusers",
		column: []string{"*.to_q", "*.to_k", "*.to_v", "*.add_q_proj", "*.add_k_proj", "*.add_v_proj", "*ff*.net.0.proj"},
		row:    []string{"*.to_out.0", "*.to_add_out", "*ff*.net.2"},
	},
	{ // LLaMA, Qwen, Gemma, and Cosmos, which names its attention so.
		name:   "llama",
		column: []string{"*q_proj", "*k_proj", "*v_proj", "*gate_proj", "*up_proj", "*mlp.layer1"},
		row:    []string{"*o_proj", "*output_proj", "*down_proj", "*mlp.layer2"},
		vocab:  []string{"*embed_tokens", "*lm_head"},
	},
}

// listRules lists the rules of a family.
func (f family) listRules() []Rule {
	var out []Rule
	for _, m := range f.fused {
		out = append(out, Rule{Match: m + ".*", Dim: "heads"})
	}
	for _, m := range f.column {
		out = append(out, Rule{Match: m + ".*", Dim: "out"})
	}
	for _, m := range f.row {
		out = append(out, Rule{Match: m + ".*", Dim: "in"})
	}
	for _, m := range f.vocab { // the rows of both are the vocabulary, by whatever name
		out = append(out, Rule{Match: m + ".*", Dim: "vocab"}, Rule{Match: m + ".*", Dim: "out"})
	}
	return out
}

// common are rules for the tensors that no family splits.
var common = []Rule{
	{Match: "*norm*"}, {Match: "*modulation*"}, {Match: "*scale_shift_table*"},
	{Match: "*patch_embed*"}, {Match: "*time_embed*"}, {Match: "*pos_embed*"},
}

var defaultRules = allRules()

func allRules() []Rule {
	var out []Rule
	for _, f := range families {
		out = append(out, f.listRules()...)
	}
	return append(out, common...)
}

// DefaultRules gives the rules of every family that RulesFor knows, in its order. q, k, v
// and the feed-forward's way up are split along out, the attention's output and
// the way down along in, token embedding and head along the vocabulary; norms,
// modulation, and the embedders of patches, time and position are kept whole.
func DefaultRules() []Rule { return slices.Clone(defaultRules) }

// RulesFor are the tensor-parallel rules shipped for the checkpoint names of one
// family: megatron, wan, diffusers or llama. Error: ErrFamily.
func RulesFor(name string) ([]Rule, error) {
	var known []string
	for _, f := range families {
		if f.name == name {
			return append(f.listRules(), common...), nil
		}
		known = append(known, f.name)
	}
	return nil, fault.New(ErrFamily, Family{name, known}, "no rules are shipped for family %q; known: %s", name, joinWords(known))
}

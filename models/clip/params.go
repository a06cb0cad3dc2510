package clip

import (
	"fmt"
	"strings"

	"weft/internal/bystander"
	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// naming holds a publisher's names of a tower's tensors. block is the prefix of layer
// %d; names of modules come without ".weight" and ".bias".
type naming struct {
	block                               string
	qkv                                 []string // three, or one that stacks them
	proj, up, down, norm1, norm2        string
	tokens, places, class, patch, first string
	last                                string // the norm at the end of a text, or of SigLIP's image
	up2, down2                          string // LLaVA's layers behind the tower
}

// namesOf returns the names of the publisher that a configuration states.
func namesOf(c Config) naming {
	hf := func(tower string) naming {
		return naming{block: tower + "encoder.layers.%d.", qkv: []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
			proj: "self_attn.out_proj", up: "mlp.fc1", down: "mlp.fc2", norm1: "layer_norm1", norm2: "layer_norm2"}
	}
	switch {
	case c.Tower == text:
		n := hf("text_model.")
		n.tokens, n.places, n.last = "text_model.embeddings.token_embedding", "text_model.embeddings.position_embedding.weight", "text_model.final_layer_norm"
		return n
	case c.Names == siglip:
		n := hf("vision_model.")
		n.places, n.patch, n.last = "vision_model.embeddings.position_embedding.weight", "vision_model.embeddings.patch_embedding", "vision_model.post_layernorm"
		return n
	case c.Names == llava:
		n := hf(llavaTower)
		n.class, n.places = llavaTower+"embeddings.class_embedding", llavaTower+"embeddings.position_embedding.weight"
		n.patch, n.first = llavaTower+"embeddings.patch_embedding", llavaTower+"pre_layrnorm"
		n.up2, n.down2 = "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"
		return n
	case c.Names == "transformers":
		n := hf("vision_model.")
		n.class, n.places = "vision_model.embeddings.class_embedding", "vision_model.embeddings.position_embedding.weight"
		n.patch, n.first = "vision_model.embeddings.patch_embedding", "vision_model.pre_layrnorm"
		return n
	}
	return naming{block: "visual.transformer.%d.", qkv: []string{"attn.to_qkv"}, proj: "attn.proj", up: "mlp.0", down: "mlp.2", norm1: "norm1", norm2: "norm2",
		class: "visual.cls_embedding", places: "visual.pos_embedding", patch: "visual.patch_embedding", first: "visual.pre_norm"}
}

// llavaTower begins the names of the tower in LLaVA's files.
const llavaTower = "vision_tower.vision_model."

// blockPrefix returns the prefix of the names of layer i.
func (m *Model) blockPrefix(i int) string { return fmt.Sprintf(m.n.block, i) }

// Params lists the parameters under their official names.
func (m *Model) Params(layers int) []models.Param {
	c, n := m.c, m.n
	ps := []models.Param{}
	linear := func(name string, out, in int) {
		ps = append(ps, models.LinearParams(name, out, in, true)...)
	}
	norm := func(name string) {
		ps = append(ps, models.Param{Name: name + ".weight", Shape: []int{c.Dim}}, models.Param{Name: name + ".bias", Shape: []int{c.Dim}})
	}
	table := func(name string, shape ...int) { ps = append(ps, models.Param{Name: name, Shape: shape}) }
	if c.Tower == vision {
		class, places := []int{1, 1, c.Dim}, []int{1, c.Tokens(), c.Dim}
		if c.Names != "wan" {
			class, places = class[2:], places[1:]
		}
		if n.class != "" {
			table(n.class, class...)
		}
		table(n.places, places...)
		ps = append(ps, models.Param{Name: n.patch + ".weight", Shape: []int{c.Dim, 3, c.PatchSize, c.PatchSize}, View: []int{c.Dim, 3 * c.PatchSize * c.PatchSize},
			Matmul: true})
		if c.Names == siglip {
			table(n.patch+".bias", c.Dim)
		} else {
			norm(n.first)
		}
	} else {
		table(n.tokens+".weight", c.Vocab, c.Dim)
		ps[0].Matmul = true
		table(n.places, c.Places, c.Dim)
	}
	for i := range (models.Request{Layers: layers}).Run(c.Layers) {
		b := m.blockPrefix(i)
		norm(b + n.norm1)
		for _, name := range n.qkv {
			linear(b+name, 3*c.Dim/len(n.qkv), c.Dim)
		}
		linear(b+n.proj, c.Dim, c.Dim)
		norm(b + n.norm2)
		linear(b+n.up, c.FFNDim, c.Dim)
		linear(b+n.down, c.Dim, c.FFNDim)
	}
	if n.last != "" {
		norm(n.last)
	}
	if c.Projector > 0 {
		linear(n.up2, c.Projector, c.Dim)
		linear(n.down2, c.Projector, c.Projector)
	}
	return ps
}

// Rules shard heads, the FFN and a text's token table, by rows of the vocabulary. README.md
// lists the bytes that this saves.
func (m *Model) Rules() sharding.Rules {
	n := m.n
	block := strings.Replace(n.block, "%d", "*", 1)
	toHeads, fromHeads := strategy.ColumnParallel(strategy.Heads), strategy.RowParallel(strategy.Heads)
	toFFN, fromFFN := strategy.ColumnParallel(strategy.FFN), strategy.RowParallel(strategy.FFN)
	vocab, whole := strategy.SpecOf(strategy.Vocab), sharding.NewSpec()
	var stacked sharding.Layout
	if len(n.qkv) == 1 {
		stacked.Parts = []int{m.c.Dim, m.c.Dim, m.c.Dim}
	}
	rules := sharding.Rules{}
	for _, name := range n.qkv {
		rules = append(rules, sharding.Rule{Match: block + name + ".*", Spec: toHeads, Layout: stacked})
	}
	rules = append(rules, sharding.Rule{Match: block + n.up + ".*", Spec: toFFN})
	rules = append(rules, sharding.Rule{Match: block + n.proj + ".weight", Spec: fromHeads}, sharding.Rule{Match: block + n.proj + ".bias", Spec: whole},
		sharding.Rule{Match: block + n.down + ".weight", Spec: fromFFN}, sharding.Rule{Match: block + n.down + ".bias", Spec: whole})
	rules = append(rules, sharding.Rule{Match: block + n.norm1 + ".*", Spec: whole}, sharding.Rule{Match: block + n.norm2 + ".*", Spec: whole},
		sharding.Rule{Match: n.places, Spec: whole})
	if m.c.Tower == vision {
		rules = append(rules, sharding.Rule{Match: n.patch + ".*", Spec: whole})
		if n.class != "" {
			rules = append(rules, sharding.Rule{Match: n.class, Spec: whole}, sharding.Rule{Match: n.first + ".*", Spec: whole})
		}
		if n.last != "" {
			rules = append(rules, sharding.Rule{Match: n.last + ".*", Spec: whole})
		}
		if n.up2 != "" {
			rules = append(rules, sharding.Rule{Match: n.up2 + ".*", Spec: toFFN}, sharding.Rule{Match: n.down2 + ".weight", Spec: fromFFN},
				sharding.Rule{Match: n.down2 + ".bias", Spec: whole})
		}
		return rules
	}
	// The table is replicated where tp does not divide the vocabulary, whose size the
	// tokenizer decides.
	return append(rules, sharding.Rule{Match: n.tokens + ".weight", Spec: vocab, WholeIfUneven: true}, sharding.Rule{Match: n.last + ".*", Spec: whole})
}

// Official adds the tower's name, which newer versions of transformers leave out.
func (m *Model) Official(name string) string {
	if m.c.Names == llava {
		name = strings.TrimPrefix(name, "model.")
		if own, ok := strings.CutPrefix(name, "vision_tower."); ok && !strings.HasPrefix(name, llavaTower) {
			return llavaTower + own
		}
		return name
	}
	tower := strings.SplitAfter(m.n.block, ".")[0]
	for _, own := range []string{"embeddings.", "encoder.", "pre_layrnorm.", "post_layernorm.", "final_layer_norm."} {
		if m.c.Names != "wan" && strings.HasPrefix(name, own) {
			return tower + name
		}
	}
	return name
}

// Ignore lists the other tower and the tensors behind the last layer that is run.
func (m *Model) Ignore() []bystander.Kind {
	if m.c.Tower == text {
		return []bystander.Kind{bystander.ImageTower}
	}
	switch m.c.Names {
	case siglip:
		return []bystander.Kind{{Name: "the head that pools an image", Globs: []string{"vision_model.head.*", "head.*"}}, bystander.TextTower,
			{Name: "the factors of the loss", Globs: []string{"logit_*"}}}
	case llava:
		return []bystander.Kind{{Name: "the layers behind the last that is run", Globs: []string{m.blockPrefix(m.c.Layers) + "*", llavaTower + "post_layernorm.*",
			strings.Replace(m.blockPrefix(m.c.Layers), "vision_model.", "", 1) + "*", "vision_tower.post_layernorm.*",
			"model.vision_tower.*", "model.multi_modal_projector.*"}},
			{Name: "the language model", Globs: []string{"language_model.*", "model.language_model.*", "lm_head.*"}}}
	}
	last := m.blockPrefix(m.c.Layers) + "*"
	behind := bystander.Kind{Name: "the layers behind the last that is run", Globs: []string{last, "visual.post_norm.*", "visual.head*", "*post_layernorm.*"}}
	if m.c.Names == "transformers" {
		behind.Globs = append(behind.Globs, strings.TrimPrefix(last, "vision_model."))
		return []bystander.Kind{behind, bystander.TextTower}
	}
	return []bystander.Kind{behind, bystander.OpenCLIPText}
}

package params

import (
	"regexp"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/peer"
	"weft/models"
	"weft/models/clip"
	"weft/models/cogvae"
	"weft/models/cogvideox"
	"weft/models/cosmos25"
	"weft/models/cosmos3"
	"weft/models/decoder"
	"weft/models/hunyuan"
	"weft/models/hunyuan15vae"
	"weft/models/hunyuanvae"
	"weft/models/ltx"
	"weft/models/t5"
	"weft/models/wan"
	"weft/models/wanvae"
)

// naming says how vidax's tree holds the parameters of a family.
type naming struct {
	// rules turn an official name into vidax's path, one after another. commonLeaves come
	// after them, and then join stands in place of each dot that is left.
	rules []rewrite
	join  string
	// apart matches the official names of stacked matrices whose parts vidax keeps apart.
	apart *regexp.Regexp
	// flattened is the path of a kernel that vidax stores with its window and its input
	// channels in one dim.
	flattened string
	// whole says that vidax's script replicates the model, whatever its names.
	whole bool
}

// rewrite replaces every match of a pattern.
type rewrite struct {
	match *regexp.Regexp
	to    string
}

// rewrites makes rules of pairs: a pattern and what stands in its place.
func rewrites(pairs ...string) (rules []rewrite) {
	for pair := range slices.Chunk(pairs, 2) {
		rules = append(rules, rewrite{regexp.MustCompile(pair[0]), pair[1]})
	}
	return rules
}

var (
	commonLeaves = rewrites(`(embed_tokens|token_embedding|position_embedding|cond_type_embedding)\.weight$`, "$1/embedding",
		`\.weight$`, "/kernel", `\.bias$`, "/bias", `\.gamma$`, "/scale")
	// flatScales and flatBiases name a norm's vectors without a level of their own.
	flatScales = rewrites(`(norm\w*)\.weight$`, "${1}_scale")
	flatBiases = rewrites(`(norm\w*)\.bias$`, "${1}_bias")
)

var (
	wanNaming = naming{join: "_", rules: rewrites(`^blocks\.(\d+)\.`, "blocks_$1/", `^(head|img_emb|final_layer)\.`, "$1/")}

	cogvideoxNaming = naming{join: "_", rules: slices.Concat(flatScales, flatBiases, rewrites(
		`^transformer_blocks\.(\d+)\.(\w+)\.`, "transformer_blocks_$1/$2/", `^patch_embed\.pos_`, "pos_", `^patch_embed\.`, "patch_embed/"))}

	// LTX-2.5 names the timestep's embedder otherwise than the first LTX.
	ltx2Naming = naming{join: "_", rules: slices.Concat(flatScales, rewrites(
		`^adaln_single\.linear`, "adaln_linear", `^.*(transformer_1d_blocks|learnable_registers)`, "$1", `^transformer_blocks`, "blocks",
		`blocks\.(\d+)\.(\w+)\.`, "blocks_$1/$2/", `blocks\.(\d+)\.`, "blocks_$1/", `/net\.0\.proj`, "/ff_proj", `/net\.2`, "/ff_out"))}
	ltxNaming = naming{join: "_", rules: slices.Concat(rewrites(`^adaln_single\.emb\.`, "adaln_"), ltx2Naming.rules)}

	hunyuanNaming = naming{join: "/", apart: regexp.MustCompile(`^(double|single)_blocks\.`), flattened: "img_in_proj/kernel", rules: rewrites(
		`^txt_in\.individual_token_refiner\.blocks\.(\d+)\.`, "txt_in/blocks_$1/", `^(double|single)_blocks\.`, "${1}_blocks_",
		`\.(img|txt)_attn_([qkv](_norm)?)\.`, "/${1}_attn/attn_$2.", `^(single_blocks_\d+)\.(q|k|v|mlp)\.`, "$1/linear1_$2.",
		`^vision_in\.proj\.([04])`, "vision_in/ln_$1", `^vision_in\.proj\.`, "vision_in/linear_",
		`^img_in\.`, "img_in_", `c_embedder\.`, "c_embedder_", `\.(\d+)\.(weight|bias)$`, "_$1.$2")}

	// The text decoders and Cosmos3, whose layers are a decoder's.
	layersNaming = naming{join: "/", rules: rewrites(`^model\.`, "", `^layers\.`, "layers_", `^time_embedder\.`, "time_embedder_")}

	t5Naming = naming{join: "_", rules: rewrites(
		`^(shared|embed_tokens)\.weight$`, "token_embedding/embedding", `^(encoder\.)?final_layer_norm`, "norm",
		`^(encoder\.)?blocks?\.(\d+)\.`, "blocks_$2/", `(pos_embedding\.embedding|layer\.0\.SelfAttention\.relative_attention_bias)\.weight$`, "pos_embedding/embedding",
		`layer\.0\.SelfAttention\.`, "attn_", `layer\.0\.layer_norm`, "norm1", `layer\.1\.layer_norm`, "norm2",
		`layer\.1\.DenseReluDense\.wi_0`, "ffn_gate_0", `layer\.1\.DenseReluDense\.wi_1`, "ffn_fc1", `layer\.1\.DenseReluDense\.wo`, "ffn_fc2")}
	sharedBias = rewrites(`^blocks_0/pos_embedding`, "relative_attention_bias")

	openCLIPNaming = naming{join: "_", whole: true, rules: rewrites(`^visual\.`, "", `^transformer\.(\d+)\.`, "transformer_$1/")}
	clipNaming     = naming{join: "/", whole: true, rules: rewrites(`^(text|vision)_model\.(encoder\.)?`, "", `^layers\.`, "layers_", `^embeddings\.`, "embeddings_")}
	// Vision towers of either publisher have one path for what stands before the layers.
	clipVision = rewrites(`^embeddings_class_`, "cls_", `^embeddings_position_embedding\.weight`, "pos_embedding", `^embeddings_patch_`, "patch_")

	cogvaeNaming = naming{join: "/", rules: rewrites(`(norm\w*)\.weight$`, "$1/norm/scale", `(norm\w*)\.bias$`, "$1/norm/bias", `\.(\d+)`, "_$1")}

	hunyuanvaeNaming = naming{join: "/", whole: true, rules: rewrites(`\.conv\.(weight|bias)$`, ".$1", `(downsamplers\.\d+)\.conv`, "$1", `(upsamplers\.\d+)\.conv`, "${1}_conv",
		`(up_blocks|down_blocks)\.(\d+)\.(\w+)\.(\d+)`, "${1}_${2}_${3}_$4", `mid_block\.(\w+)\.(\d+)`, "mid_block_${1}_$2", `to_out\.0`, "to_out_0")}

	hunyuan15vaeNaming = naming{join: "/", whole: true, rules: rewrites(`\.conv\.(weight|bias)$`, ".$1", `\.gamma$`, "/gamma",
		`(up|down)_blocks\.(\d+)\.resnets\.(\d+)`, "${1}_${2}_block_$3", `(up|down)_blocks\.(\d+)\.(up|down)samplers\.0\.?(conv)?`, "${1}_${2}_${3}sample/conv",
		`mid_block\.resnets\.0`, "mid_block_1", `mid_block\.resnets\.1`, "mid_block_2", `mid_block\.attentions\.0`, "mid_attn_1", `\.to_([qkv])\.`, ".$1.")}

	vaeNaming = naming{join: "/", rules: rewrites(
		`residual\.0`, "norm1", `residual\.2`, "conv1", `residual\.3`, "norm2", `residual\.6`, "conv2", `\.(\d+)`, "_$1")}
)

// namingOf gives the naming of a model's family. Error: peer.ErrPeer for a family that
// vidax does not run.
func namingOf(m models.Model) (naming, error) {
	switch c := m.Config().(type) {
	case wan.Config, cosmos25.Config:
		return wanNaming, nil
	case cogvideox.Config:
		return cogvideoxNaming, nil
	case ltx.Config:
		if !c.Second {
			return ltxNaming, nil
		}
		return ltx2Naming, nil
	case ltx.ConnectorConfig:
		return ltx2Naming, nil
	case hunyuan.Config:
		return hunyuanNaming, nil
	case cosmos3.Config:
		return layersNaming, nil
	case decoder.Config:
		return decoderNaming(c), nil
	case t5.Config:
		return namingOfT5(c), nil
	case clip.Config:
		return namingOfCLIP(c), nil
	case wanvae.Config:
		return vaeNaming, nil
	case cogvae.Config:
		return cogvaeNaming, nil
	case hunyuanvae.Config:
		return hunyuanvaeNaming, nil
	case hunyuan15vae.Config:
		return hunyuan15vaeNaming, nil
	}
	return naming{}, fault.New(peer.ErrPeer, nil, "vidax runs no %s that anything is known of here", m.Name())
}

// decoderNaming is the naming of a text decoder. vidax's scripts for HunyuanVideo and LTX
// replicate it; they read a layer before the last. Those for Cosmos, which read every
// layer, shard it.
func decoderNaming(c decoder.Config) naming {
	n := layersNaming
	n.whole = c.SkipLayers > 0
	if c.ModelType == "gemma4_unified_text" {
		n.rules = slices.Concat(flatScales, n.rules)
	}
	return n
}

// namingOfT5 is the naming of an encoder. HunyuanVideo's script replicates byT5.
func namingOfT5(c t5.Config) naming {
	n := t5Naming
	n.whole = c.Names == "byt5"
	if c.SharedPos {
		n.rules = slices.Concat(n.rules, sharedBias)
	}
	return n
}

func namingOfCLIP(c clip.Config) naming {
	if c.Names == "wan" {
		return openCLIPNaming
	}
	n := clipNaming
	if c.Tower == "vision" {
		n.rules = slices.Concat(n.rules, clipVision)
	}
	return n
}

// path returns vidax's path of a parameter with an official name and a number of dims.
func (n naming) path(name string, rank int) string {
	for _, r := range slices.Concat(n.rules, commonLeaves) {
		name = r.match.ReplaceAllString(name, r.to)
	}
	if module, ok := strings.CutSuffix(name, "/kernel"); ok && rank == 1 { // of a norm
		name = module + "/scale"
	}
	return strings.ReplaceAll(name, ".", n.join)
}

// held is how vidax holds one parameter.
type held struct {
	path string
	// perm gives, for each dim of vidax's tensor, the dim of the official tensor or, if
	// viewed, of the view that programs read.
	perm   []int
	viewed bool
	// parts are the paths of a stacked matrix's parts, where vidax keeps them apart.
	parts []string
}

// hold says how vidax holds a parameter. A kernel's window comes first, then its input and its
// output channels; every other tensor keeps its dims, except that vectors have no dims of 1.
func (n naming) hold(p models.Param) held {
	h := held{path: n.path(p.Name, len(p.Shape))}
	kernel := strings.HasSuffix(h.path, "/kernel")
	h.viewed = p.View != nil && (!kernel || h.path == n.flattened)
	shape := p.Shape
	if h.viewed {
		shape = p.View
	}
	for d := range shape {
		h.perm = append(h.perm, d)
	}
	if kernel {
		h.perm = append(h.perm[2:], 1, 0)
	}
	if n.apart != nil && n.apart.MatchString(p.Name) {
		for _, piece := range p.Pieces {
			h.parts = append(h.parts, n.path(piece.Name, len(p.Shape)))
		}
	}
	return h
}

// Path returns vidax's path of a model's parameter. Error: peer.ErrPeer for a family that
// vidax does not run.
func Path(m models.Model, p models.Param) (string, error) {
	n, err := namingOf(m)
	if err != nil {
		return "", err
	}
	return n.path(p.Name, len(p.Shape)), nil
}

package checkpoint

import (
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/glob"
	"weft/internal/printable"
)

// quantization is a form of quantized weights that weft does not read. It is recognised
// by the names of tensors that only such files have.
type quantization struct {
	name    string
	globs   []string // of the names by which it is recognised
	instead string
}

// quantizations are in the order in which they are tried; the more specific come first.
var quantizations = []quantization{
	{"4-bit weights of bitsandbytes (nf4)", []string{"*.quant_state.bitsandbytes__nf4"}, takeSafetensors},
	{"4-bit weights of bitsandbytes (fp4)", []string{"*.quant_state.bitsandbytes__fp4"}, takeSafetensors},
	{"4-bit weights of bitsandbytes", []string{"*.absmax", "*.quant_map", "*.nested_absmax", "*.nested_quant_map"}, takeSafetensors},
	{"8-bit weights of bitsandbytes", []string{"*.SCB", "*.weight_format"}, takeSafetensors},
	{"weights of SVDQuant (nunchaku)", []string{"*.wscales", "*.wtscale", "*.smooth_orig", "*.smooth_factor_orig"}, takeSafetensors},
	{"weights of GPTQ or AWQ", []string{"*.qweight", "*.qzeros", "*.g_idx"}, takeSafetensors},
	{"weights of HQQ", []string{"*.W_q"}, takeSafetensors},
	{"packed weights of compressed-tensors", []string{"*.weight_packed", "*.weight_global_scale", "*.weight_zero_point"}, takeSafetensors},
	{"4-bit weights in blocks (nvfp4)", []string{"*.weight_scale_2", "*.weight_block_scale"}, takeSafetensors},
	{"fp8 weights with a scale a block", []string{"*.weight_scale_inv"}, takeSafetensors},
	{"weights of quanto or torchao", []string{"*.weight._data", "*.weight._scale", "*.weight:_weight_qdata", "*.weight_qdata"}, takeSafetensors},
}

// adapterGlobs match the tensors of adapters, which are to be added to a model's weights.
// A file with an adapter is refused, because without the adapter the model computes
// something else.
var adapterGlobs = []string{"*.lora_A.*", "*.lora_B.*", "*.lora_down.*", "*.lora_up.*", "*.lora_a.*", "*.lora_b.*", "*.lora.down.*", "*.lora.up.*", "lora_unet_*",
	"lora_te*_*", "lora_transformer_*",
	"*.lokr_w1*", "*.lokr_w2*", "*.hada_w1_*", "*.hada_w2_*", "*.oft_blocks", "*.oft_diag", "*.dora_scale", "*.lora_magnitude_vector*", "*.diff", "*.diff_b"}

// Quantized names a form of weights that weft does not read, and the tensors by which it
// was recognised.
type Quantized struct {
	Format  string   `json:"format"`
	Tensors []string `json:"tensors"`
	Instead string   `json:"instead"`
}

// refuseQuantized gives an error for weights in a form that weft does not read, and for
// adapters. It comes before every other check of the tensors, whose errors would hide the
// reason. Only the names in own are looked at.
func (c *Checkpoint) refuseQuantized(own map[string]bool) error {
	matching := func(globs []string) []string {
		var found []string
		for _, name := range c.names {
			if own[name] && glob.Any(globs, name) {
				found = append(found, name)
			}
		}
		return found
	}
	for _, q := range quantizations {
		if found := matching(q.globs); len(found) > 0 {
			return fault.New(ErrQuantized, Quantized{q.name, found, q.instead}, "%s holds %s (%s: %s); %s",
				c.path, q.name, plural(len(found), "tensor"), printable.ListNames(found), q.instead)
		}
	}
	if found := matching(adapterGlobs); len(found) > 0 {
		what, instead := "a LoRA or another adapter", "merge it into the model's weights first, with the tool that made it, and open the result"
		if 2*len(found) < len(c.names) {
			what = "an adapter's tensors (LoRA) beside a model's"
		}
		return fault.New(ErrAdapter, Quantized{what, found, instead}, "%s holds %s (%s: %s), which weft does not apply; %s",
			c.path, what, plural(len(found), "tensor"), printable.ListNames(found), instead)
	}
	var integers []string
	for _, name := range c.names {
		r := c.records[name]
		if !own[name] {
			continue
		}
		if isBlockScale(r) {
			return fault.New(ErrQuantized, Quantized{"weights in blocks with a scale each", []string{name}, takeSafetensors},
				"%s: %s is %s %s: a scale for each block; %s", c.path, name, r.Stored, shapeText(r.Shape), takeSafetensors)
		}
		if weight, scales := scaledName(name); scales && c.records[weight] != nil && slices.Contains([]string{"I8", "U8"}, c.records[weight].Stored) {
			integers = append(integers, weight)
		}
	}
	if len(integers) > 0 {
		return fault.New(ErrQuantized, Quantized{"weights of 8-bit integers with scales", integers, takeSafetensors},
			"%s holds weights of 8-bit integers with scales (%s: %s); %s", c.path, plural(len(integers), "tensor"), printable.ListNames(integers), takeSafetensors)
	}
	return nil
}

// isBlockScale says whether a tensor has the scales of small blocks, as mxfp8 and nvfp4
// do: such scales have 8 bits and there are several.
func isBlockScale(r *record) bool {
	_, scales := scaledName(r.Name)
	return scales && slices.Contains([]string{"U8", "F8_E8M0", "F8_E4M3"}, r.Stored) && r.Elements() > 1
}

// tokenizerGlobs match the last part of the names under which checkpoints hold a
// tokenizer's file as a tensor of bytes.
var tokenizerGlobs = []string{"spiece_model", "spiece.model", "sentencepiece_model", "sentencepiece.bpe.model", "tokenizer_json", "tokenizer.json",
	"tokenizer_model", "tokenizer.model",
	"tokenizer", "tokenizer_*", "tekken_model", "tekken.json", "tekken_json", "vocab_json", "vocab.json", "vocab_txt", "vocab.txt", "vocab", "merges_txt", "merges.txt", "merges",
	"hf_asset__*", "special_tokens_map*", "added_tokens*", "chat_template*"}

// isTokenizer says whether a tensor is the bytes of a tokenizer's file.
func isTokenizer(r *record) bool {
	if r.Stored != "U8" && r.Stored != "I8" || len(r.Shape) != 1 {
		return false
	}
	for name := r.Name; ; {
		if glob.Any(tokenizerGlobs, name) {
			return true
		}
		_, rest, more := strings.Cut(name, ".")
		if !more {
			return false
		}
		name = rest
	}
}

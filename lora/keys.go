package lora

import (
	"slices"
	"strings"
)

// role is what a tensor of an adapter's file is for.
type role uint8

const (
	noRole     role = iota
	down            // (rank, in)
	up              // (out, rank)
	upBias          // (out), scaled as the product is
	alpha           // a number
	diff            // of the weight, whole
	diffBias        // of the bias, whole
	otherForms      // of an adapter that is no LoRA, or more than one
)

// markers are what stands between a module's name and the rest of a key.
var markers = []struct {
	text string
	role role
}{
	{".lora_A", down}, {".lora_down", down}, {".lora.down", down},
	{".lora_B", up}, {".lora_up", up}, {".lora.up", up},
}

// leaves are the last parts of the other keys.
var leaves = map[string]role{
	"alpha": alpha, "diff": diff, "diff_b": diffBias,
	"dora_scale": otherForms, "lora_magnitude_vector": otherForms, "magnitude": otherForms, "lora_mid": otherForms, "set_weight": otherForms,
	"reshape_weight": otherForms, "diff_m": otherForms, "w_norm": otherForms, "b_norm": otherForms, "oft_blocks": otherForms, "oft_diag": otherForms,
	"hada_w1_a": otherForms, "hada_w1_b": otherForms, "hada_w2_a": otherForms, "hada_w2_b": otherForms, "hada_t1": otherForms, "hada_t2": otherForms,
	"lokr_w1": otherForms, "lokr_w2": otherForms, "lokr_w1_a": otherForms, "lokr_w1_b": otherForms, "lokr_w2_a": otherForms, "lokr_w2_b": otherForms,
	"lokr_t1": otherForms, "lokr_t2": otherForms,
}

// splitKey cuts a key into the name of a module, as the file has it, and the role. PEFT may have the
// adapter's name in between: "to_q.lora_A.default.weight".
func splitKey(key string) (module string, r role) {
	for _, m := range markers {
		i := strings.LastIndex(key, m.text)
		if i < 0 {
			continue
		}
		rest := strings.Split(strings.TrimPrefix(key[i+len(m.text):], "."), ".")
		last := rest[len(rest)-1]
		switch {
		case key[i+len(m.text):] != "" && key[i+len(m.text)] != '.' || len(rest) > 2:
		case last == "bias" && m.role == up:
			return key[:i], upBias
		case last == "bias":
			return key[:i], otherForms
		default:
			return key[:i], m.role
		}
	}
	parts := strings.Split(strings.TrimSuffix(key, ".weight"), ".")
	for n := len(parts) - 1; n > 0 && n >= len(parts)-2; n-- {
		if r := leaves[parts[n]]; r != noRole && (n == len(parts)-1 || r == otherForms) {
			return strings.Join(parts[:n], "."), r
		}
	}
	return key, noRole
}

// prefixes are what programs put in front of a module's name, and flatPrefixes those of names that
// have _ in place of dots.
var (
	prefixes     = []string{"base_model.model.", "model.diffusion_model.", "diffusion_model.", "transformer.", "unet.", "dit.", "model.", "module."}
	flatPrefixes = []string{"lora_unet_", "lora_transformer_", "lora_dit_", "lycoris_"}
)

// bareNames lists what a module may be called by the model: its name as it is, and with one prefix
// after another left out.
func bareNames(module string) []string {
	names := []string{module}
	for more := true; more; {
		more = false
		for _, p := range prefixes {
			if rest, is := strings.CutPrefix(names[len(names)-1], p); is {
				names, more = append(names, rest), true
				break
			}
		}
	}
	return names
}

// flatName gives the name of a module that has _ in place of dots.
func flatName(module string) (name string, is bool) {
	i := slices.IndexFunc(flatPrefixes, func(p string) bool { return strings.HasPrefix(module, p) })
	if i < 0 || strings.Contains(module, ".") {
		return "", false
	}
	return module[len(flatPrefixes[i]):], true
}

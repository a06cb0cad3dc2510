package ltxvae

import (
	"regexp"
	"slices"
	"strings"
)

// Official files number all modules of a half through, where diffusers has a tree of blocks. Some
// names are in both and stand for different modules, such as
// decoder.up_blocks.0.time_embedder: other names of the file tell whose they are.

// officialModule is the beginning of a name of the official file that belongs to a numbered module.
var officialModule = regexp.MustCompile(`^((?:encoder\.down_blocks|decoder\.up_blocks)\.\d+)\.(.*)$`)

// officialParts are the names of parts within a module: the official one and diffusers'.
var officialParts = strings.NewReplacer("res_blocks.", "resnets.", "norm3.norm.", "norm3.", "conv_shortcut.", "conv_shortcut.conv.")

// officialNames are names that stand for themselves.
var officialNames = map[string]string{
	"per_channel_statistics.mean-of-means": "latents_mean",
	"per_channel_statistics.std-of-means":  "latents_std",
	"decoder.last_scale_shift_table":       "decoder.scale_shift_table",
}

const (
	officialLastEmbedder = "decoder.last_time_embedder."
	lastEmbedder         = "decoder.time_embedder."
)

// Official translates a name of the official file that no file of diffusers has. The others come
// back as they are.
func (m *Model) Official(name string) string {
	if _, own := m.params.Official[name]; own {
		return name
	}
	return m.ofOfficialFile(name)
}

// ofOfficialFile translates a name of the official file.
func (m *Model) ofOfficialFile(name string) string {
	if own, ok := officialNames[name]; ok {
		return own
	}
	if rest, ok := strings.CutPrefix(name, officialLastEmbedder); ok {
		return lastEmbedder + rest
	}
	at := officialModule.FindStringSubmatch(name)
	if at == nil || m.params.official[at[1]] == "" {
		return name
	}
	return m.params.official[at[1]] + "." + officialParts.Replace(at[2])
}

// Translate returns the translation for a file with these names: those of the official file if
// one of them is nowhere else.
func (m *Model) Translate(names []string) func(name string) string {
	own := func(name string) bool {
		return strings.HasPrefix(name, "per_channel_statistics.") || strings.Contains(name, ".res_blocks.")
	}
	if slices.ContainsFunc(names, own) {
		return m.ofOfficialFile
	}
	return m.Official
}

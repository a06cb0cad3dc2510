package vae

import "weft/models"

// CheckBlockTypes refuses a list of the kinds of stages that names another kind than want.
func CheckBlockTypes(r *models.ConfigReader, key, want string, stages int) {
	if !r.Gives(key) {
		return
	}
	kinds := r.Strings(key)
	for i, kind := range kinds {
		if kind != want {
			r.Unsupported("%s[%d] %q: this version has stages of the kind %q alone", key, i, kind, want)
		}
	}
	if len(kinds) != stages && r.Sound(key, "block_out_channels") {
		r.Refuse("%d %s for %d block_out_channels: want one of each a stage", len(kinds), key, stages)
	}
}

// CheckStages refuses numbers of stages and widths that the layers cannot have.
func CheckStages(r *models.ConfigReader, widths []int, least, groups int) {
	if n := len(widths); n < least || n > 8 {
		r.Refuse("%d block_out_channels: want %d to 8", n, least)
	}
	for i, w := range widths {
		if groups > 0 && w%groups != 0 {
			r.Refuse("block_out_channels[%d] is %d: want a multiple of norm_num_groups %d", i, w, groups)
		}
	}
}

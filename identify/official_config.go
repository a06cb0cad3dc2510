package identify

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"

	"weft/checkpoint"
	"weft/internal/userfile"
	"weft/models"
)

// withOfficialKeys adds the length of the text to a diffusers config that does not give
// it. It is taken from the official config in the folder above, which is there when a
// diffusers copy lies inside an official release. Nothing else in the config's text is
// changed, so that its reader still finds every error in it.
func withOfficialKeys(raw []byte, where string) ([]byte, string) {
	c, err := models.ReadConfig(raw)
	if err != nil || !c.Has("num_attention_heads") || c.Gives("text_len") {
		return raw, ""
	}
	above := filepath.Join(filepath.Dir(filepath.Dir(where)), "config.json")
	official, err := userfile.Read(above, checkpoint.MaxConfig)
	if err != nil {
		return raw, ""
	}
	up, err := models.ReadConfig(official)
	if err != nil || !up.Has("text_len") || up.Has("num_attention_heads") {
		return raw, ""
	}
	rows := up.Int("text_len", 0, models.RowBound)
	if !up.OK() {
		return raw, ""
	}
	end := bytes.LastIndexByte(raw, '}')
	return slices.Concat(raw[:end], fmt.Appendf(nil, ",\"text_len\":%d", rows), raw[end:]), "config.json has no text_len: taken from " + above
}

package hunyuan_test

import (
	"errors"
	"strings"
	"testing"

	"weft/models"
	_ "weft/models/hunyuan"
)

// SkyReels-V1's image-to-video is refused by its own name, with what runs; its text-to-video is
// HunyuanVideo.
func TestSkyReelsIsRefusedByName(t *testing.T) {
	const config = `{"_class_name":"HunyuanVideoTransformer3DModel","_diffusers_version":"0.32.0","attention_head_dim":128,"guidance_embeds":true,"in_channels":CHANNELS,"mlp_ratio":4.0,
		"num_attention_heads":24,"num_layers":20,"num_refiner_layers":2,"num_single_layers":40,"out_channels":16,"patch_size":2,"patch_size_t":1,"pooled_projection_dim":768,
		"qk_norm":"rms_norm","rope_axes_dim":[16,56,56],"rope_theta":256.0,"text_embed_dim":4096}`
	_, err := models.FromConfig([]byte(strings.Replace(config, "CHANNELS", "32", 1)), "config.json")
	if !errors.Is(err, models.ErrVariant) || !strings.Contains(err.Error(), "SkyReels-V1's image-to-video") || !strings.Contains(err.Error(), "wan2.1-i2v-14b") {
		t.Errorf("32 channels: %v", err)
	}
	if m, err := models.FromConfig([]byte(strings.Replace(config, "CHANNELS", "16", 1)), "config.json"); err != nil || m.Name() != "hunyuanvideo-cfgdistill" {
		t.Errorf("16 channels: %v, %v", m, err)
	}
}

package all_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weft/models"
)

// Configurations that are not what the programs compute are refused by what is wrong with them.
func TestConfigsRefused(t *testing.T) {
	for _, c := range []struct {
		config string
		kind   error
		says   string
	}{
		{`{`, models.ErrConfig, "JSON"},
		{`{"_class_name":"FluxTransformer2DModel"}`, models.ErrUnknownModel, "FluxTransformer2DModel"},
		{`{"_class_name":"WanModel","model_type":"s2v","dim":96,"ffn_dim":192,"num_heads":4,"num_layers":2}`, models.ErrVariant, "speech to video"},
		{`{"_class_name":"WanModel","dim":96,"ffn_dim":192,"num_heads":5,"num_layers":2}`, models.ErrConfig, "num_heads 5"},
		{`{"_class_name":"WanModel","dim":96,"ffn_dim":0,"num_heads":4,"num_layers":-2}`, models.ErrConfig, "num_layers is -2"},
		{`{"_class_name":"WanModel","dim":96,"ffn_dim":192,"num_heads":4,"num_layers":2,"qk_norm":false}`, models.ErrVariant, "qk_norm"},
		{`{"_class_name":"WanModel","dim":96,"ffn_dim":192,"num_heads":4,"num_layers":2,"window_size":[8,8]}`, models.ErrVariant, "window_size"},
		{`{"_class_name":"WanTransformer3DModel","num_attention_heads":4,"attention_head_dim":24,"ffn_dim":192,"num_layers":2,"in_channels":16,"out_channels":16,"qk_norm":"layer_norm"}`, models.ErrVariant, "layer_norm"},
		{`{"_class_name":"WanModel","dim":96,"ffn_dim":192,"num_heads":4,"num_layers":2,"patch_size":[1,2]}`, models.ErrConfig, "patch_size"},
	} {
		_, err := models.FromConfig([]byte(c.config), "config.json")
		if !errors.Is(err, c.kind) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.config, err, c.kind, c.says)
		}
	}
}

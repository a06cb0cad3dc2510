package wan_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/models"
	"weft/models/wan"
	"weft/tensor"
)

// Relatives of Wan that are not run are refused by their own name, by their configuration or by
// their tensors, with what is missing and the nearest that runs.
func TestRelativesAreRefusedByName(t *testing.T) {
	const rest = `"dim":5120,"ffn_dim":13824,"num_heads":40,"num_layers":40,"out_dim":16,"freq_dim":256,"text_len":512`
	const diffusers = `"num_attention_heads":40,"attention_head_dim":128,"num_layers":40,"ffn_dim":13824,"out_channels":16`
	for name, c := range map[string]struct {
		config string
		says   []string
	}{
		"Wan2.2-S2V":       {`{"_class_name":"WanModel_S2V","model_type":"s2v","in_dim":16,"cond_dim":16,"audio_dim":1024,` + rest + `}`, []string{"Wan2.2-S2V", "encoder of sound", "wan2.2-i2v-a14b"}},
		"Wan2.2-Animate":   {`{"_class_name":"WanAnimateModel","model_type":"animate","in_dim":36,"motion_encoder_dim":512,` + rest + `}`, []string{"Wan2.2-Animate", "encoder of faces", "wan2.1-vace-14b"}},
		"diffusers' copy":  {`{"_class_name":"WanAnimateTransformer3DModel","in_channels":36,` + diffusers + `}`, []string{"Wan2.2-Animate"}},
		"Animate 2":        {`{"_class_name":"WanAnimate2Transformer3DModel","in_dim":36,` + rest + `}`, []string{"Wan2.2-Animate"}},
		"Fun control":      {`{"_class_name":"Wan2_2Transformer3DModel","model_type":"i2v","in_dim":52,"add_ref_conv":true,"in_dim_ref_conv":16,` + rest + `}`, []string{"Fun-Control", "the control video's latents", "wan2.1-vace-14b"}},
		"Fun control, 2.1": {`{"model_type":"i2v","in_dim":48,` + rest + `}`, []string{"in_dim 48", "Fun-Control"}},
		"Fun camera":       {`{"model_type":"i2v","in_dim":36,"add_control_adapter":true,"in_dim_control_adapter":24,` + rest + `}`, []string{"Fun-Control-Camera", "the adapter of camera paths"}},
		"Fun inpaint":      {`{"_class_name":"Wan2_2Transformer3DModel","model_type":"i2v","in_dim":36,` + rest + `}`, []string{"Fun-InP", "wan2.1-flf2v-14b"}},
		"SkyReels-V2":      {`{"_class_name":"SkyReelsV2Transformer3DModel","in_channels":16,"inject_sample_info":false,` + diffusers + `}`, []string{"SkyReels-V2 (diffusion forcing)", "block-causal attention", "wan2.1-t2v-14b"}},
		"its own config":   {`{"_class_name":"WanModel","model_type":"t2v","in_dim":16,"inject_sample_info":true,` + rest + `}`, []string{"inject_sample_info is true", "SkyReels-V2"}},
		"HuMo":             {`{"model_type":"humo","in_dim":36,` + rest + `}`, []string{"HuMo", "wan2.1-i2v-14b"}},
		"a type of nobody": {`{"model_type":"t3v","in_dim":16,` + rest + `}`, []string{`"t3v"`, "t2v, i2v, ti2v, flf2v, vace"}},
	} {
		_, err := models.FromConfig([]byte(c.config), "config.json")
		if !errors.Is(err, models.ErrVariant) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in: %v", name, want, err)
			}
		}
	}

	weights, config := modeltest.Tensors(t, i2vDir+"/model.safetensors"), readConfig(t, i2vDir)
	for name, variant := range map[string]string{
		"casual_audio_encoder.encoder.final_linear.weight": "S2V", "audio_injector.injector.0.q.weight": "S2V",
		"face_adapter.fuser_blocks.0.k_norm.weight": "Animate", "pose_patch_embedding.weight": "Animate", "motion_encoder.dec.direction.weight": "Animate",
		"ref_conv.weight": "Fun-Control", "control_adapter.conv.weight": "Fun-Control-Camera", "fps_embedding.weight": "SkyReels-V2",
		"audio_proj.audio_proj_glob_1.layer.bias": "HuMo",
	} {
		ts := map[string]*tensor.Tensor{name: tensor.New(dtype.F32, 1)}
		for n, x := range weights {
			ts[n] = x
		}
		_, err := weft.Open(modeltest.Folder(t, config, ts))
		f, ok := fault.Fields[wan.UnsupportedVariant](err)
		if !errors.Is(err, models.ErrVariant) || !ok || !strings.Contains(f.Variant, variant) || f.Lacks == "" || f.Nearest == "" || len(f.Tensors) != 1 || f.Tensors[0] != name {
			t.Errorf("%s: %v, fields %+v", name, err, f)
		}
	}
}

// What only tensors tell of runnable kinds: positions of two images in a file whose configuration
// is image-to-video's make the model of two frames; a control block beside another configuration
// is refused with what belongs to it.
func TestKindsByTensors(t *testing.T) {
	weights, config := modeltest.Tensors(t, i2vDir+"/model.safetensors"), readConfig(t, i2vDir)
	with := func(name string, shape ...int) string {
		ts := map[string]*tensor.Tensor{name: tensor.New(dtype.F32, shape...)}
		for n, x := range weights {
			ts[n] = x
		}
		return modeltest.Folder(t, config, ts)
	}
	m, err := weft.Open(with("img_emb.emb_pos", 1, 514, 48))
	if err != nil || m.Name() != "wan2.1-flf2v" || !m.Features().Generator.Image.NeedsLast {
		t.Fatalf("%v, %v", m, err)
	}
	m.Close()
	if _, err := weft.Open(with("vace_patch_embedding.weight", 1)); !errors.Is(err, models.ErrVariant) || !strings.Contains(err.Error(), "VACE") {
		t.Errorf("a control video in image-to-video's configuration: %v", err)
	}
}

func readConfig(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(dir + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

package decoder_test

import (
	"errors"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/sharding"
	"weft/tensor"
)

// The raw state two layers before the last, of the same weights.
func TestSkippedLayers(t *testing.T) {
	in := modeltest.Tensors(t, reasonDir+"/inputs.safetensors")
	want := modeltest.Tensors(t, reasonDir+"/expected.safetensors")["skip2"]
	dir := modeltest.Folder(t, `{"model_type":"qwen2_5_vl","vocab_size":96,"hidden_size":64,"intermediate_size":144,"num_hidden_layers":4,
		"num_attention_heads":8,"num_key_value_heads":2,"rms_norm_eps":1e-6,"rope_theta":1000000.0,"hidden_state_skip_layer":2}`,
		modeltest.Tensors(t, reasonDir+"/model.safetensors"))
	for _, on := range []string{"", "tp=4", "dp=2,sp=2", "pp=2"} {
		r, err := modeltest.Open(t, dir).Start(t.Context(), in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		out, err := r.Forward(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		modeltest.Close(t, on, out["out"], want, 1e-4)
		// Two of four layers and the table are read, and nothing more.
		if read := r.Report().BytesRead; on == "" && read != 4*(96*64+2*(64*64*2+2*16*64+64+2*16+3*144*64+2*64)) {
			t.Errorf("%d bytes are read", read)
		}
	}
}

// A decoder inside a vision-language checkpoint, under the names of either version.
func TestTowers(t *testing.T) {
	in := modeltest.Tensors(t, llamaDir+"/inputs.safetensors")
	want := modeltest.Tensors(t, llamaDir+"/expected.safetensors")["out"]
	config := `{"model_type":"llava","text_config":{"model_type":"llama","vocab_size":90,"hidden_size":48,"intermediate_size":112,"num_hidden_layers":4,
		"num_attention_heads":6,"num_key_value_heads":3,"rms_norm_eps":1e-5,"rope_theta":500000.0}}`
	for _, prefix := range []string{"language_model.model.", "model.language_model."} {
		ts := map[string]*tensor.Tensor{"multi_modal_projector.linear_1.weight": tensor.New(dtype.F32, 2, 2), "lm_head.weight": tensor.New(dtype.F32, 90, 48)}
		for name, x := range modeltest.Tensors(t, llamaDir+"/model.safetensors") {
			ts[prefix+name] = x
		}
		out := modeltest.Forward(t, modeltest.Open(t, modeltest.Folder(t, config, ts)), in, weft.Options{Device: "reference", Request: request.Must("--mesh sp=3")})
		modeltest.Close(t, prefix, out["out"], want, 1e-4)
	}
}

// Gemma normalises most often: vidax in bf16 is 0.30 from its own f32 there.
func TestBF16(t *testing.T) {
	for c, tolerance := range map[*modeltest.Case]float64{&reason: 0.12, &llama: 0.12, &gemma4: 0.2} {
		c := *c
		c.Tolerance, c.Options = tolerance, weft.Options{Request: request.Must("--dtype bf16")}
		for _, device := range modeltest.Devices() {
			c.On(t, device, "dp=2,tp=1,sp=1")
		}
	}
}

// Other sizes: a head wider than its share, more key heads, one key head, a
// vocabulary that divides over nothing.
func TestOtherSizesSplit(t *testing.T) {
	for _, config := range []string{
		`{"model_type":"qwen2","vocab_size":31,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":3,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":4}`,
		`{"model_type":"llama","vocab_size":33,"hidden_size":20,"intermediate_size":48,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":6}`,
		`{"model_type":"gemma4_unified_text","vocab_size":33,"hidden_size":20,"intermediate_size":48,"num_hidden_layers":3,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":4,
			"layer_types":["full_attention","sliding_attention","full_attention"],"global_head_dim":6,"num_global_key_value_heads":4,"sliding_window":13}`,
	} {
		if n := len(modeltest.Splits(t, modeltest.MadeUp(t, config), weft.VerifyOptions{})); n < 8 {
			t.Errorf("%s: %d meshes", config, n)
		}
	}
}

func TestRefusals(t *testing.T) {
	const rest = `"vocab_size":9,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":3,"num_attention_heads":4`
	for config, says := range map[string]string{
		`{"model_type":"qwen3",` + rest + `}`:                                                "_class_name",
		`{"model_type":"llama","attention_bias":true,` + rest + `}`:                          "attention_bias",
		`{"model_type":"qwen2","use_sliding_window":true,` + rest + `}`:                      "use_sliding_window",
		`{"model_type":"llama","rope_scaling":{"rope_type":"llama3"},` + rest + `}`:          `"llama3"`,
		`{"model_type":"qwen2","hidden_act":"gelu",` + rest + `}`:                            `"gelu"`,
		`{"model_type":"qwen2","num_key_value_heads":3,` + rest + `}`:                        "num_key_value_heads 3",
		`{"model_type":"qwen2","head_dim":3,` + rest + `}`:                                   "head_dim is 3",
		`{"model_type":"llama","hidden_state_skip_layer":3,` + rest + `}`:                    "0 to 2",
		`{"model_type":"qwen2","vocab_size":0,"num_hidden_layers":-1,"intermediate_size":8}`: "vocab_size is 0",
	} {
		if _, err := models.FromConfig([]byte(config), "config.json"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %q", config, err, says)
		}
	}
	m := modeltest.Open(t, reasonDir)
	in := modeltest.Tensors(t, reasonDir+"/inputs.safetensors")
	in["mask"] = in["ids"].Slice(1, 0, in["ids"].Shape[1]-1)
	if _, err := m.Request(in); !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "mask") {
		t.Errorf("a mask that is too short: %v", err)
	}
	r := models.Request{Batch: 2, Text: 37, DType: dtype.F32}
	for on, kind := range map[string]error{"tp=3": sharding.ErrHeadsNotDivisible, "tp=4,sp=4": sharding.ErrHeadsNotDivisible, "dp=4": models.ErrBatch} {
		if err := m.Check(meshtest.Mesh(t, on), r); !errors.Is(err, kind) {
			t.Errorf("%s: %v", on, err)
		}
	}
	l := modeltest.Open(t, llamaDir)
	if err := l.Check(meshtest.Mesh(t, "tp=2"), r); !errors.Is(err, sharding.ErrKVHeads) {
		t.Errorf("3 key heads over tp=2: %v", err)
	}
	// Llama's config over Qwen's weights: the biases are named.
	raw := `{"model_type":"llama","vocab_size":96,"hidden_size":64,"intermediate_size":144,"num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":2}`
	if _, err := weft.Open(modeltest.Folder(t, raw, modeltest.Tensors(t, reasonDir+"/model.safetensors"))); err == nil || !strings.Contains(err.Error(), "q_proj.bias") {
		t.Errorf("another family's weights: %v", err)
	}
}

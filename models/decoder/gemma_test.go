package decoder_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
)

// A text without a mask is one whose mask leaves nothing out.
func TestGemmaWithoutMask(t *testing.T) {
	in := modeltest.Tensors(t, gemmaDir+"/inputs.safetensors")
	delete(in, "mask")
	want := modeltest.Tensors(t, gemmaDir+"/expected.safetensors")["out_nomask"]
	if runs := models.Runs(modeltest.Config(t, gemmaDir), modeltest.Tensors(t, gemmaDir+"/inputs.safetensors")); len(runs) != 2 || runs[1].Suffix != "_nomask" || runs[1].Inputs["mask"] != nil {
		t.Errorf("with a mask %d runs", len(runs))
	}
	for _, on := range []string{"", "tp=2,sp=2", "dp=2,tp=4"} {
		out := modeltest.Forward(t, modeltest.Open(t, gemmaDir), in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
		modeltest.Close(t, on, out["out"], want, 1e-4)
	}
}

func TestGemmaRefusals(t *testing.T) {
	const rest = `"model_type":"gemma4_unified_text","vocab_size":9,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2`
	for config, says := range map[string]string{
		`"hidden_activation":"silu"`:                                         `"silu"`,
		`"attention_bias":true`:                                              "attention_bias",
		`"attention_k_eq_v":false`:                                           "attention_k_eq_v",
		`"num_kv_shared_layers":1`:                                           "num_kv_shared_layers is 1",
		`"use_double_wide_mlp":true`:                                         "use_double_wide_mlp",
		`"use_bidirectional_attention":"all"`:                                `"all"`,
		`"rope_scaling":{"rope_type":"linear"}`:                              "rope_scaling",
		`"rope_parameters":{"sliding_attention":{"rope_type":"yarn"}}`:       `sliding_attention.rope_type is "yarn"`,
		`"rope_parameters":{"full_attention":{"rope_type":"yarn"}}`:          `full_attention.rope_type is "yarn"`,
		`"rope_parameters":{"full_attention":{"partial_rotary_factor":1.5}}`: "partial_rotary_factor is 1.5",
		`"layer_types":["full_attention"]`:                                   "1 layer_types",
		`"layer_types":[]`:                                                   "0 layer_types",
		`"layer_types":["full_attention","sliding_attention"]`:               "the last full_attention",
		`"layer_types":["chunked_attention","full_attention"]`:               `layer_types[0] is "chunked_attention"`,
		`"num_global_key_value_heads":3`:                                     "num_global_key_value_heads 3",
		`"global_head_dim":7`:                                                "global_head_dim is 7",
		`"sliding_window":-1`:                                                "sliding_window is -1",
		`"hidden_state_skip_layer":1`:                                        "hidden_state_skip_layer is 1",
	} {
		if _, err := models.FromConfig([]byte("{"+config+","+rest+"}"), "config.json"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %q", config, err, says)
		}
	}
	// Texts up to the window are run, and none longer.
	m := modeltest.Config(t, gemmaDir)
	for n, want := range map[int]error{64: nil, 65: models.ErrInputs} {
		if err := m.Check(meshtest.Mesh(t, "tp=2"), models.Request{Batch: 1, Text: n, DType: dtype.F32}); !errors.Is(err, want) {
			t.Errorf("%d tokens: %v", n, err)
		} else if want != nil && !strings.Contains(err.Error(), "65 tokens: sliding_window is 64") {
			t.Error(err)
		}
	}
	// Full layers are told by their heads: a checkpoint without them is named.
	ts := modeltest.Tensors(t, gemmaDir+"/model.safetensors")
	delete(ts, "model.layers.5.layer_scalar")
	ts["model.layers.5.self_attn.v_proj.weight"] = ts["model.layers.5.self_attn.k_proj.weight"]
	_, err := weft.Open(modeltest.Folder(t, `{`+gemmaSizes+`}`, ts))
	for _, says := range []string{"model.layers.5.layer_scalar", "model.layers.5.self_attn.v_proj.weight"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not name %s", err, says)
		}
	}
}

// The same decoder in transformers' words, alone and beside other towers, and in a preset's.
func TestGemmaConfigs(t *testing.T) {
	want := modeltest.Config(t, gemmaDir).Config()
	for _, config := range []string{
		`{` + gemmaSizes + `}`,
		`{"model_type":"gemma4_unified","vision_config":{"hidden_size":5},"text_config":{` + gemmaSizes + `}}`,
	} {
		m, err := models.FromConfig([]byte(config), "config.json")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(m.Config(), want) {
			t.Errorf("%s: %+v, want %+v", config, m.Config(), want)
		}
	}
	// What the release says of its text, and nothing of the types of layers.
	m, err := models.FromConfig([]byte(`{"model_type":"gemma4_unified","text_config":{"model_type":"gemma4_unified_text","vocab_size":262144,"hidden_size":3840,"intermediate_size":15360,
		"num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":8,"num_global_key_value_heads":1,"attention_k_eq_v":true,
		"rope_parameters":{"sliding_attention":{"rope_type":"default","rope_theta":10000.0},"full_attention":{"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1000000.0}}}}`), "config.json")
	if err != nil || m.Name() != "ltx2.5-gemma4-12b" {
		t.Errorf("the release's config: %v, %v", m, err)
	}
}

// gemmaSizes are those of the fixture, in the words of a preset.
const gemmaSizes = `"model_type":"gemma4_unified_text","vocab_size":90,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":6,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":8,
	"global_head_dim":16,"num_global_key_value_heads":1,"sliding_window":64,"layer_types":["sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention"]`

// One layer of each type and the table's lookup. The fixture: B = 2, L = 21 tokens,
// D = 32, 8 heads of 8 with 4 key heads, in full layers 8 of 16 with one.
//
//	tp: the sums of o and down, B*L*D = 1344 each; the rows of the table, as many
//	sp: Lp = 22: q and the result B*Lp*64/sp each, k and v B*Lp*32/sp each; in full
//	    layers q and the result B*Lp*128/sp each, k and v, of a head for either
//	    device, B*Lp*32/sp each
func TestGemmaCollectives(t *testing.T) {
	r := models.Request{Batch: 2, Text: 21, DType: dtype.F32, Masked: true}
	modeltest.Moves(t, modeltest.Config(t, gemmaDir), r, []modeltest.Move{
		{Program: "block", Want: ""},
		{Program: "block_global", Want: ""},
		{On: "tp=2", Program: "embed", Want: "all-reduce tp 1 1344"},
		{On: "tp=2", Program: "block", Want: "all-reduce tp 2 2688"},
		{On: "tp=8", Program: "block", Want: "all-reduce tp 2 2688"},
		{On: "tp=8", Program: "block_global", Want: "all-reduce tp 2 2688"},
		{On: "tp=2", Program: "normal", Want: ""},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 4224"},
		{On: "sp=2", Program: "block_global", Want: "all-to-all sp 4 7040"},
		{On: "tp=2", Split: true, Program: "block_global", Want: "all-gather tp 2 1408; reduce-scatter tp 2 2816"},
	})
}

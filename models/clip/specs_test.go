package clip_test

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

var presets = []string{"wan2.1-clip-vit-h14", "hunyuan-clip-l-text"}

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range presets {
		modeltest.Oracle(t, name, "../../testdata/oracle/"+name+".json")
	}
}

func TestEveryNameOfTheMappings(t *testing.T) {
	for _, name := range presets {
		modeltest.Mapping(t, name, "../../testdata/oracle/mappings/"+name+".json", "")
	}
}

// What a device keeps less at tp=4 than under the peer's rules; README.md has it.
func TestSavedBytes(t *testing.T) {
	for name, want := range map[string]int64{"wan2.1-clip-vit-h14": 915060480, "hunyuan-clip-l-text": 184513536} {
		if got := modeltest.Saved(t, name, 4); got != want {
			t.Errorf("%s: %d bytes less, want %d", name, got, want)
		}
	}
}

// One layer: the sums of proj and the second FFN layer over tp, q, k, v and the
// result over sp. The image has B = 2, L = 17 tokens, Lp = 18 at sp=2, D = 48.
func TestCollectives(t *testing.T) {
	image := modeltest.Config(t, visionDir)
	modeltest.Moves(t, image, models.Request{Batch: 2, DType: dtype.F32}, []modeltest.Move{
		{Program: "block", Want: ""},
		{On: "dp=2", Program: "block", Want: ""},
		{On: "tp=2", Program: "embed", Want: ""},
		{On: "tp=2", Program: "block", Want: "all-reduce tp 2 3264"},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 3456"},
		{On: "tp=2,sp=2", Program: "block", Want: "all-reduce tp 2 1728; all-to-all sp 4 1728"},
		{On: "tp=2", Split: true, Program: "block", Want: "all-gather tp 2 1728; reduce-scatter tp 2 3456"},
	})
	// Ids of 15 tokens, their rows summed over tp; the end of each text over sp.
	modeltest.Moves(t, modeltest.Config(t, textDir), models.Request{Batch: 2, Text: 15, DType: dtype.F32}, []modeltest.Move{
		{On: "tp=3", Program: "embed", Want: "all-reduce tp 1 1440"},
		{On: "tp=3", Program: "block", Want: "all-reduce tp 2 2880"},
		{On: "sp=3", Program: "post", Want: "all-gather sp 1 480; all-reduce sp 1 96"},
	})
}

// q, k and v are stacked in one matrix, and each of the three is sharded by itself. Of
// twelve rows, a device of two has rows 0-1, 4-5 and 8-9: with rows 0-5 it would have
// all of q and half of k, and its heads would not fit together.
func TestStackedWeightsAreCutByParts(t *testing.T) {
	m := modeltest.Config(t, visionDir)
	on := meshtest.Mesh(t, "dp=1,tp=2,sp=1")
	assigned, err := models.Specs(m, on, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range assigned {
		if !strings.Contains(a.Name, "to_qkv") {
			continue
		}
		rs, err := a.Ranges(on, 1)
		if err != nil {
			t.Fatal(err)
		}
		if want := []sharding.Range{{Lo: 24, Hi: 48}, {Lo: 72, Hi: 96}, {Lo: 120, Hi: 144}}; len(rs[0]) != 3 || rs[0][0] != want[0] || rs[0][1] != want[1] || rs[0][2] != want[2] {
			t.Errorf("%s: device 1 has rows %v, want %v", a.Name, rs[0], want)
		}
	}
}

func TestBF16(t *testing.T) {
	for _, c := range []modeltest.Case{image, pooled} {
		c.Tolerance, c.Options = 0.1, weft.Options{Request: request.Must("--dtype bf16")}
		for _, device := range modeltest.Devices() {
			c.On(t, device, "dp=2,tp=2")
		}
	}
}

// Other sizes: an odd grid of patches, a vocabulary that divides over nothing.
func TestOtherSizesSplit(t *testing.T) {
	for _, config := range []string{
		`{"image_size":15,"patch_size":5,"dim":24,"mlp_ratio":2,"num_heads":8,"num_layers":2,"eps":1e-6}`,
		`{"model_type":"clip_vision_model","image_size":8,"patch_size":4,"hidden_size":24,"intermediate_size":40,"num_attention_heads":4,"num_hidden_layers":3,"hidden_act":"quick_gelu"}`,
		`{"model_type":"clip_text_model","vocab_size":31,"hidden_size":24,"intermediate_size":40,"num_attention_heads":8,"num_hidden_layers":2,"max_position_embeddings":14}`,
	} {
		if n := len(modeltest.Splits(t, modeltest.MadeUp(t, config), weft.VerifyOptions{})); n < 8 {
			t.Errorf("%s: %d meshes", config, n)
		}
	}
}

func TestRefusals(t *testing.T) {
	for config, says := range map[string]string{
		`{"image_size":15,"patch_size":4,"dim":24,"num_heads":8,"num_layers":2}`:                                                                                                              "image_size is 15: want a multiple of 4",
		`{"image_size":16,"patch_size":4,"dim":20,"num_heads":8,"num_layers":2}`:                                                                                                              "dim 20 over num_heads 8",
		`{"vision_dim":24,"vision_heads":4,"vision_layers":1,"image_size":16,"patch_size":4}`:                                                                                                 "vision_layers 1: the last layer is not run",
		`{"model_type":"clip_text_model","vocab_size":9,"hidden_size":8,"intermediate_size":8,"num_attention_heads":2,"num_hidden_layers":1,"max_position_embeddings":4,"hidden_act":"relu"}`: `"relu"`,
	} {
		if _, err := models.FromConfig([]byte(config), "config.json"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %q", config, err, says)
		}
	}
	m := modeltest.Open(t, visionDir)
	for what, x := range map[string]*tensor.Tensor{"of another size": tensor.New(dtype.F32, 1, 3, 27, 28), "colours last": tensor.New(dtype.F32, 1, 28, 28, 3), "of integers": tensor.New(dtype.I32, 1, 3, 28, 28)} {
		if _, err := m.Request(map[string]*tensor.Tensor{"x": x}); !errors.Is(err, models.ErrInputs) {
			t.Errorf("an image %s: %v", what, err)
		}
	}
	if _, err := modeltest.Open(t, textDir).Request(map[string]*tensor.Tensor{"ids": tensor.New(dtype.I32, 1, 20)}); err == nil || !strings.Contains(err.Error(), "places for 19") {
		t.Errorf("20 tokens: %v", err)
	}
	r := models.Request{Batch: 2, DType: dtype.F32}
	for on, kind := range map[string]error{"tp=3": sharding.ErrHeadsNotDivisible, "dp=4": models.ErrBatch, "tp=2,sp=4": sharding.ErrHeadsNotDivisible} {
		if err := m.Check(meshtest.Mesh(t, on), r); !errors.Is(err, kind) {
			t.Errorf("%s: %v", on, err)
		}
	}
	// An image tower's config over a text's weights.
	raw := `{"image_size":28,"patch_size":7,"dim":48,"num_heads":4,"num_layers":2}`
	if _, err := weft.Open(modeltest.Folder(t, raw, modeltest.Tensors(t, textDir+"/model.safetensors"))); err == nil || !strings.Contains(err.Error(), "visual.cls_embedding") || !strings.Contains(err.Error(), "text_model.") {
		t.Errorf("another tower's weights: %v", err)
	}
}

// The towers that the fixtures lack give the one-device answer on splits: LLaVA's with its
// projector, and SigLIP's, whose patches leave pixels over.
func TestSplitsOfOtherTowers(t *testing.T) {
	for _, config := range []string{
		`{"tower": "vision", "names": "llava", "dim": 32, "ffn_dim": 48, "num_heads": 4, "num_layers": 2, "hidden_act": "quick_gelu", "image_size": 21, "patch_size": 7, "projector_dim": 24}`,
		`{"tower": "vision", "names": "siglip", "dim": 32, "ffn_dim": 48, "num_heads": 4, "num_layers": 2, "hidden_act": "gelu_pytorch_tanh", "image_size": 30, "patch_size": 7}`,
	} {
		modeltest.Splits(t, modeltest.MadeUp(t, config), weft.VerifyOptions{Meshes: request.MustMeshes("tp=4", "sp=2", "tp=2,sp=2", "dp=2")})
	}
}

// Configurations of these towers that no program runs are refused.
func TestRefusedTowers(t *testing.T) {
	for config, want := range map[string]string{
		`{"tower": "vision", "names": "llava", "dim": 32, "ffn_dim": 48, "num_heads": 4, "num_layers": 2, "image_size": 21, "patch_size": 7}`:                                                          "projector_dim 0",
		`{"tower": "vision", "names": "siglip", "dim": 32, "ffn_dim": 48, "num_heads": 4, "num_layers": 2, "image_size": 6, "patch_size": 7}`:                                                          "at least one patch",
		`{"tower": "text", "names": "siglip", "dim": 32, "ffn_dim": 48, "num_heads": 4, "num_layers": 2}`:                                                                                              "with names \"siglip\"",
		`{"model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "hidden_act": "relu", "image_size": 28, "patch_size": 7}`: "hidden_act",
	} {
		if _, err := models.FromConfig([]byte(config), "config.json"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

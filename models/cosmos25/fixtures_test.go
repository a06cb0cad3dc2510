package cosmos25_test

import (
	"maps"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const dir = "../../testdata/cosmos25"

func drop(names ...string) func(map[string]*tensor.Tensor) {
	return func(in map[string]*tensor.Tensor) {
		for _, n := range names {
			delete(in, n)
		}
	}
}

// The fixture with one timestep, and with one for every frame, the first given.
var (
	oneTime = modeltest.Case{Dir: dir, Inputs: drop("t_frames", "condition_mask"), Tolerance: 1e-4}
	frames  = modeltest.Case{Dir: dir, Want: "out_frames", Inputs: drop("t"), Tolerance: 1e-4}
)

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range []string{"cosmos2.5-2b", "cosmos2.5-14b"} {
		modeltest.Oracle(t, name, "../../testdata/oracle/"+name+".json")
		modeltest.Mapping(t, name, "../../testdata/oracle/mappings/"+name+".json", "net.")
	}
}

// With the timestep of t in every frame and none given, the answer is that of t,
// and every value along the way is the peer's.
func TestEveryValueAlongTheWay(t *testing.T) {
	uniform := oneTime
	uniform.Inputs = func(in map[string]*tensor.Tensor) {
		ts, err := in["t"].Float32s()
		if err != nil {
			t.Fatal(err)
		}
		in["t_frames"], err = tensor.FromFloat32s(dtype.F32, []float32{ts[0], ts[0], ts[0]}, 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		drop("t", "condition_mask")(in)
	}
	if n := uniform.Traced(t); n != 5 {
		t.Errorf("%d values along the way, want 5", n)
	}
	uniform.On(t, "reference", "")
}

func TestEveryLegalMesh(t *testing.T) {
	for _, c := range []modeltest.Case{oneTime, frames} {
		c.Everywhere(t)
		split := c
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
		c.On(t, "reference", "pp=2")
		shared := c
		shared.Options = weft.Options{Request: request.Must("--fsdp sp")}
		shared.On(t, "reference", "tp=2,sp=2")
	}
}

// The weights under diffusers' names and in its config are the same model.
func TestUnderDiffusersNames(t *testing.T) {
	names := modeltest.Names(t, "../../testdata/oracle/mappings/cosmos2.5-2b.json", "net.")
	ts := map[string]*tensor.Tensor{}
	for name, x := range modeltest.Tensors(t, dir+"/model.safetensors") {
		if other := names[name[len("net."):]]; other != "" {
			ts[other] = x
		}
	}
	m := modeltest.Open(t, modeltest.Folder(t, `{"_class_name":"CosmosTransformer3DModel","in_channels":17,"out_channels":16,
		"num_attention_heads":4,"attention_head_dim":32,"num_layers":2,"mlp_ratio":2.0,"text_embed_dim":48,"adaln_lora_dim":32,
		"max_size":[128,240,240],"patch_size":[1,2,2],"rope_scale":[1.0,3.0,3.0],"concat_padding_mask":true,"extra_pos_embed_type":null,
		"use_crossattn_projection":true,"crossattn_proj_in_channels":56,"encoder_hidden_states_channels":48}`, ts))
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")
	oneTime.Inputs(in)
	out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=4")})
	modeltest.Close(t, "out", out["out"], want["out_diffusers"], 1e-4)
}

// Each kind of inputs gives an output of its own name.
func TestRunsEverythingTheInputsAllow(t *testing.T) {
	m := modeltest.Open(t, dir)
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	suffixes := map[string]bool{}
	for _, v := range models.Runs(m.Model, in) {
		suffixes[v.Suffix] = true
	}
	if !maps.Equal(suffixes, map[string]bool{"": true, "_frames": true}) {
		t.Errorf("outputs %v", suffixes)
	}
	drop("t")(in)
	if got := models.Runs(m.Model, in); len(got) != 1 || got[0].Suffix != "" {
		t.Errorf("without t: %v", got)
	}
}

package t5_test

import (
	"fmt"
	"maps"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const (
	umt5 = "../../testdata/umt5"
	v11  = "../../testdata/t5_v11"
)

func noMask(in map[string]*tensor.Tensor) { delete(in, "mask") }

func long(in map[string]*tensor.Tensor) { in["ids"] = in["ids_long"]; delete(in, "mask") }

var cases = []modeltest.Case{
	{Dir: umt5, Tolerance: 1e-4},
	{Dir: umt5, Want: "out_nomask", Inputs: noMask, Tolerance: 1e-4},
	{Dir: umt5, Want: "out_long", Inputs: long, Tolerance: 1e-4},
	{Dir: v11, Tolerance: 1e-4},
	{Dir: v11, Want: "out_long", Inputs: long, Tolerance: 1e-4}, // ids in i64
}

func TestOnEveryLegalMesh(t *testing.T) {
	for _, c := range cases {
		if c.Inputs == nil {
			c.Everywhere(t)
		} else {
			for _, on := range c.Meshes(t, 8) {
				c.On(t, "reference", on)
			}
		}
	}
	for _, c := range []modeltest.Case{cases[0], cases[3]} {
		split := c
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
		c.On(t, "reference", "pp=2")
		shared := c
		shared.Options = weft.Options{Request: request.Must("--fsdp sp")}
		shared.On(t, "reference", "sp=2")
		c.On(t, "reference", "fsdp=4")
	}
}

// transformers' names are the same model, for either peer's numbers.
func TestUnderTransformersNames(t *testing.T) {
	in := modeltest.Tensors(t, umt5+"/inputs.safetensors")
	want := modeltest.Tensors(t, umt5+"/expected.safetensors")
	m := modeltest.Open(t, umt5+"/transformers")
	if m.Name() != "umt5" {
		t.Errorf("it is called %s", m.Name())
	}
	out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})
	modeltest.Close(t, "out", out["out"], want["out_transformers"], 1e-4)
}

// With a mask, what is no text comes back as zeros besides.
func TestZeroedPads(t *testing.T) {
	in := modeltest.Tensors(t, umt5+"/inputs.safetensors")
	want := modeltest.Tensors(t, umt5+"/expected.safetensors")
	m := modeltest.Open(t, umt5)
	for _, on := range []string{"", "dp=2,tp=2,sp=2"} {
		out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on)})
		modeltest.Close(t, on, out["out_zeroed_pads"], want["out_zeroed_pads"], 1e-4)
	}
	noMask(in)
	if out := modeltest.Forward(t, m, in, weft.Options{Device: "reference"}); len(out) != 1 {
		t.Errorf("without a mask there are %d outputs", len(out))
	}
}

func TestRunsEverythingTheInputsAllow(t *testing.T) {
	m := modeltest.Open(t, umt5)
	in := modeltest.Tensors(t, umt5+"/inputs.safetensors")
	suffixes := map[string]bool{}
	for _, v := range models.Runs(m.Model, in) {
		suffixes[v.Suffix] = true
		if _, err := m.Request(v.Inputs); err != nil {
			t.Errorf("%q: %v", v.Suffix, err)
		}
	}
	if !maps.Equal(suffixes, map[string]bool{"": true, "_nomask": true, "_long": true}) {
		t.Errorf("outputs %v", suffixes)
	}
}

// bf16 against f32: matmuls' results are rounded to 2^-9 of themselves some ten
// times a layer, of numbers up to 4.
func TestBF16(t *testing.T) {
	for _, c := range []modeltest.Case{cases[0], cases[3]} {
		c.Tolerance, c.Options = 0.1, weft.Options{Request: request.Must("--dtype bf16")}
		for _, device := range modeltest.Devices() {
			c.On(t, device, "dp=2,tp=2")
		}
	}
}

// Other sizes: a vocabulary that divides over nothing, more heads than width.
func TestOtherSizesSplit(t *testing.T) {
	for _, config := range []string{
		`{"vocab":31,"dim":24,"dim_attn":48,"dim_ffn":40,"num_heads":8,"num_layers":3,"num_buckets":16,"max_distance":20}`,
		`{"model_type":"t5","vocab_size":64,"d_model":20,"d_kv":4,"d_ff":36,"num_heads":6,"num_layers":2,"feed_forward_proj":"gated-gelu"}`,
	} {
		dir := modeltest.MadeUp(t, config)
		for _, split := range []bool{false, true} {
			if n := len(modeltest.Splits(t, dir, weft.VerifyOptions{Options: weft.Options{Request: request.Must("--split-residual=" + fmt.Sprint(split))}})); n < 8 {
				t.Errorf("%s: %d meshes", config, n)
			}
		}
	}
}

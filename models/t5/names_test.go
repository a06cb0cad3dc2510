package t5_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/internal/modeltest"
	"weft/internal/peer/params"
	"weft/models"
	"weft/request"
	"weft/sharding"
	"weft/tensor"
)

var presets = []string{"umt5-xxl", "t5-v1.1-xxl", "hunyuan1.5-byt5"}

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

// A checkpoint may store the token table under either of its names or under both: it is
// read once. Two tables that differ are an error.
func TestTiedEmbedding(t *testing.T) {
	const shared, tied = "shared.weight", "encoder.embed_tokens.weight"
	config := `{"model_type":"umt5","vocab_size":128,"d_model":64,"d_kv":16,"d_ff":160,"num_heads":4,"num_layers":2,"feed_forward_proj":"gated-gelu"}`
	in := modeltest.Tensors(t, umt5+"/inputs.safetensors")
	want := modeltest.Tensors(t, umt5+"/expected.safetensors")["out"]
	var read []int64
	for _, names := range [][]string{{shared}, {tied}, {shared, tied}} {
		ts := modeltest.Tensors(t, umt5+"/transformers/model.safetensors")
		table := ts[shared]
		delete(ts, shared)
		for _, n := range names {
			ts[n] = table
		}
		m := modeltest.Open(t, modeltest.Folder(t, config, ts))
		r, err := m.Start(t.Context(), in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})
		if err != nil {
			t.Fatal(names, err)
		}
		defer r.Close()
		out, err := r.Forward(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		modeltest.Close(t, strings.Join(names, " and "), out["out"], want, 1e-4)
		read = append(read, r.Report().BytesRead)
	}
	if read[0] != read[1] || read[0] != read[2] {
		t.Errorf("bytes read %v: the table is read once, whatever its names", read)
	}
	ts := modeltest.Tensors(t, umt5+"/transformers/model.safetensors")
	ts[tied] = tensor.New(dtype.F32, 128, 64)
	if _, err := weft.Open(modeltest.Folder(t, config, ts)); !errors.Is(err, checkpoint.ErrTiedMismatch) {
		t.Errorf("two tables that differ: %v", err)
	}
}

// The real sizes: what a device keeps of bf16 weights over tp=4, under weft's
// rules and the peer's. README.md has these bytes.
func TestTablesAreSplit(t *testing.T) {
	on := meshtest.Mesh(t, "dp=1,tp=4,sp=1")
	for name, want := range map[string][2]int64{"umt5-xxl": {2840756224, 4416053248}, "t5-v1.1-xxl": {2381456384, 2578853888}} {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		assigned, err := models.Specs(m, on, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got [2]int64
		for i, peer := range []bool{false, true} {
			list, err := params.List(m, assigned, params.Torch, peer)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range list {
				local, err := p.Spec.Local(on, p.Shape)
				if err != nil {
					t.Fatal(err)
				}
				got[i] += 2 * int64(tensor.Elements(local))
			}
		}
		if got != want {
			t.Errorf("%s: %d bytes by weft's rules and %d by the peer's, want %v", name, got[0], got[1], want)
		}
	}
}

func TestRefusals(t *testing.T) {
	try := func(what, config string, kind error, says ...string) {
		t.Helper()
		_, err := models.FromConfig([]byte(config), "config.json")
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", what, err, s)
			}
		}
	}
	const rest = `"vocab_size":64,"d_model":20,"d_kv":4,"d_ff":36,"num_heads":6,"num_layers":2`
	try("T5 v1.0", `{"model_type":"t5",`+rest+`}`, models.ErrVariant, `"relu"`, "gated-gelu")
	try("another model", `{"model_type":"switch_transformers","feed_forward_proj":"gated-gelu",`+rest+`}`, models.ErrVariant, "switch_transformers")
	try("no sizes", `{"dim_attn":0,"dim_ffn":-1,"dim":4}`, models.ErrConfig, "vocab is missing", "dim_ffn is -1", "num_heads is missing", "dim_attn is 0")
	try("heads of no whole width", `{"vocab":8,"dim":4,"dim_attn":10,"dim_ffn":4,"num_heads":4,"num_layers":1}`, models.ErrConfig, "10", "4")
	try("buckets", `{"vocab":8,"dim":4,"dim_attn":8,"dim_ffn":4,"num_heads":4,"num_layers":1,"num_buckets":30}`, models.ErrConfig, "30")
	try("too near", `{"vocab":8,"dim":4,"dim_attn":8,"dim_ffn":4,"num_heads":4,"num_layers":1,"max_distance":8}`, models.ErrConfig, "max_distance 8")

	m := modeltest.Open(t, umt5)
	ids := modeltest.Tensors(t, umt5+"/inputs.safetensors")["ids"]
	far := &tensor.Tensor{DType: ids.DType, Shape: ids.Shape, Data: slices.Clone(ids.Data)}
	far.Data[4*43+1] = 7 // of the second text's fourth token
	for _, c := range []struct {
		what string
		in   map[string]*tensor.Tensor
		says []string
	}{
		{"nothing", nil, []string{`"ids" is missing`, "mask"}},
		{"floats", map[string]*tensor.Tensor{"ids": tensor.New(dtype.F32, 1, 4)}, []string{"f32", "i32 or i64"}},
		{"no tokens", map[string]*tensor.Tensor{"ids": tensor.New(dtype.I32, 1, 0)}, []string{"at least one token"}},
		{"a vector", map[string]*tensor.Tensor{"ids": tensor.New(dtype.I32, 4)}, []string{"2 dims"}},
		{"outside the vocabulary", map[string]*tensor.Tensor{"ids": far}, []string{"1 of ids", "0..127", "[1 3]"}},
		{"a mask of another shape", map[string]*tensor.Tensor{"ids": ids, "mask": tensor.New(dtype.I32, 2, 39)}, []string{"[2 39]", "[2 40]"}},
		{"a mask of floats", map[string]*tensor.Tensor{"ids": ids, "mask": tensor.New(dtype.F32, 2, 40)}, []string{"mask", "integers"}},
	} {
		_, err := m.Request(c.in)
		for _, s := range c.says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.what, err, s)
			}
		}
	}
	r, err := m.Request(map[string]*tensor.Tensor{"ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	r.DType = dtype.F32
	for on, kind := range map[string]error{"tp=3": sharding.ErrHeadsNotDivisible, "tp=2,sp=4": sharding.ErrHeadsNotDivisible, "dp=4": models.ErrBatch, "ep=2": models.ErrAxis} {
		if err := m.Check(meshtest.Mesh(t, on), r); !errors.Is(err, kind) {
			t.Errorf("%s: %v", on, err)
		}
	}
	r.Strict = true
	if err := m.Check(meshtest.Mesh(t, "sp=4"), r); err != nil { // 40 tokens divide
		t.Error(err)
	}
	r.Text = 41
	if err := m.Check(meshtest.Mesh(t, "sp=4"), r); !errors.Is(err, models.ErrSeq) {
		t.Errorf("41 tokens over sp=4: %v", err)
	}

	// Another model's weights under this config, all named in one error.
	config := `{"vocab":128,"dim":64,"dim_attn":64,"dim_ffn":160,"num_heads":4,"num_layers":2}`
	ts := modeltest.Tensors(t, umt5+"/model.safetensors")
	ts["norm.weight"] = tensor.New(dtype.F32, 63)
	ts["blocks.2.norm1.weight"] = tensor.New(dtype.F32, 64)
	delete(ts, "blocks.1.attn.q.weight")
	_, err = weft.Open(modeltest.Folder(t, config, ts))
	for _, s := range []string{"norm.weight", "63", "blocks.2.norm1.weight", "blocks.1.attn.q.weight"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%v does not say %q", err, s)
		}
	}
}

package strategy_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/models"
	_ "weft/models/all"
	"weft/sharding"
	"weft/strategy"
)

// Column- and row-parallel parameters, stored as (out,in) and as (in,out).
func TestTensorParallelStyles(t *testing.T) {
	m := grid(t, "data=1,model=8")
	for _, test := range []struct {
		name, dims string
		shape      []int
		want       string
		local      string
		reasons    string
	}{
		{"blocks.0.attn.q.weight", "out,in", []int{4096, 4096}, "[model,-]", "[512 4096]", ""},
		{"blocks.0.attn.k.weight", "out,in", []int{1024, 4096}, "[model,-]", "[128 4096]", ""},
		{"blocks.0.attn.v.weight", "out,in", []int{1024, 4096}, "[model,-]", "[128 4096]", ""},
		{"blocks.0.attn.o.weight", "out,in", []int{4096, 4096}, "[-,model]", "[4096 512]", ""},
		{"blocks.0.mlp.up.weight", "out,in", []int{11008, 4096}, "[model,-]", "[1376 4096]", ""},
		{"blocks.0.mlp.gate.weight", "out,in", []int{11008, 4096}, "[model,-]", "[1376 4096]", ""},
		{"blocks.0.mlp.down.weight", "out,in", []int{4096, 11008}, "[-,model]", "[4096 1376]", ""},
		{"blocks.0.attn.q.weight", "in,out", []int{4096, 4096}, "[-,model]", "[4096 512]", ""},
		{"blocks.0.attn.o.weight", "in_features,out_features", []int{4096, 4096}, "[model,-]", "[512 4096]", ""},
		{"blocks.0.attn.q.bias", "out", []int{4096}, "[model]", "[512]", ""},
		{"blocks.0.attn.o.bias", "out", []int{4096}, "[-]", "[4096]", "kept-whole"},
		{"blocks.0.mlp.down.bias", "out", []int{4096}, "[-]", "[4096]", "kept-whole"},
		{"model.embed_tokens.weight", "vocab,hidden", []int{32000, 4096}, "[model,-]", "[4000 4096]", ""},
		{"lm_head.weight", "vocab,hidden", []int{32000, 4096}, "[model,-]", "[4000 4096]", ""},
		{"lm_head.weight", "out,in", []int{32000, 4096}, "[model,-]", "[4000 4096]", ""},
		{"blocks.0.norm1.weight", "hidden", []int{4096}, "[-]", "[4096]", "kept-whole"},
		{"time_embedding.0.weight", "out,in", []int{4096, 256}, "[-,-]", "[4096 256]", "kept-whole"},
		{"patch_embedding.weight", "out,in,frames,height,width", []int{4096, 16, 1, 2, 2}, "[-,-,-,-,-]", "[4096 16 1 2 2]", "kept-whole"},
		{"scale", "", nil, "[]", "[]", "no-rule"},
		// The fused matrix is viewed by heads: 3 of each on 4 devices.
		{"blocks.0.attn.qkv.weight", "qkv,heads,head_dim,in", []int{3, 32, 128, 4096}, "[-,model,-,-]", "[3 4 128 4096]", ""},
	} {
		got, notes, err := strategy.TensorParallel{}.Refine(m, tensor(test.name, test.dims, test.shape...), sharding.Spec{})
		local, lerr := got.Local(m, test.shape)
		if err != nil || lerr != nil || got.String() != test.want || fmt.Sprint(local) != test.local || reasons(notes) != test.reasons {
			t.Errorf("%s (%s): %s %v, want %s %s; notes %v; %v", test.name, test.dims, got, local, test.want, test.local, notes, err)
		}
	}
	for _, test := range []struct{ dim, dims, want string }{
		{"heads", "batch,sequence,heads,head_dim", "[-,-,model,-]"},
		{"out", "out,in,kh,kw", "[model,-,-,-]"},
		{"in", "out,in,kh,kw", "[-,model,-,-]"},
		{"sequence", "batch,sequence,hidden", "[-,model,-]"},
		{"", "batch,sequence,hidden", "[-,-,-]"},
		{"heads", "heads,head_dim", "[model,-]"},
		{"in_features", "out_features,in_features", "[-,model]"},
		{"out_features", "in_features,out_features", "[-,model]"},
	} {
		x := tensor("x", test.dims, []int{64, 64, 64, 64}[:strings.Count(test.dims, ",")+1]...)
		got, _, err := strategy.TensorParallel{Rules: all(test.dim)}.Refine(m, x, sharding.Spec{})
		if err != nil || got.String() != test.want {
			t.Errorf("%q of (%s): %s, want %s: %v", test.dim, test.dims, got, test.want, err)
		}
	}
}

// The layout of attention's activations, with data parallelism.
func TestActivations(t *testing.T) {
	m := grid(t, "data=2,model=4")
	for _, test := range []struct {
		dim, dims string
		shape     []int
		want      string
	}{
		{"heads", "batch,sequence,heads,head_dim", []int{4, 64, 32, 128}, "[data,-,model,-]"},
		{"", "batch,sequence,hidden", []int{4, 64, 4096}, "[data,-,-]"},
		{"sequence", "batch,sequence,hidden", []int{4, 64, 4096}, "[data,model,-]"},
	} {
		p := strategy.Plan{strategy.TensorParallel{Rules: all(test.dim)}, strategy.DataParallel{}}
		got, _, err := p.Refine(m, tensor("x", test.dims, test.shape...), sharding.Spec{})
		if err != nil || got.String() != test.want {
			t.Errorf("%q of (%s): %s, want %s: %v", test.dim, test.dims, got, test.want, err)
		}
	}
}

func TestTensorParallelRefuses(t *testing.T) {
	for _, test := range []struct {
		mesh  string
		rule  strategy.Rule
		dims  string
		shape []int
		kind  error
		says  string
	}{
		{"tp=5", strategy.Rule{Match: "*", Dim: "out", Heads: 32}, "out,in", []int{4096, 4096}, sharding.ErrHeadsNotDivisible, "32 heads not divisible by 5"},
		{"tp=16", strategy.Rule{Match: "*", Dim: "out", Heads: 8}, "out,in", []int{1024, 4096}, sharding.ErrKVHeads, "an axis of 8 and copy over another of 2"},
		{"tp=5", strategy.Rule{Match: "*", Dim: "out"}, "out,in", []int{4096, 4096}, sharding.ErrUneven, "4095 and 4100"},
		{"tp=4", strategy.Rule{Match: "*", Dim: "banana"}, "out,in", []int{4096, 4096}, strategy.ErrNoDim, "(out,in)"},
		{"tp=4", strategy.Rule{Match: "*", Dim: "out"}, "", []int{4096, 4096}, strategy.ErrNoDim, "splits dim out"},
		{"tp=4", strategy.Rule{Match: "*", Dim: "hidden"}, "hidden,hidden", []int{8, 8}, sharding.ErrDuplicateAxis, "dims 0 and 1"},
		{"dp=4", strategy.Rule{Match: "*", Dim: "out"}, "out", []int{8}, mesh.ErrUnknownAxis, "tp"},
		{"pp=4,tp=2", strategy.Rule{}, "out", []int{8}, nil, ""},
	} {
		_, _, err := strategy.TensorParallel{Rules: []strategy.Rule{test.rule}}.Refine(grid(t, test.mesh), tensor("w", test.dims, test.shape...), sharding.Spec{})
		if test.kind == nil {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		faulttest.WantKinds(t, err, test.kind)
		if !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q does not say %q", err, test.says)
		}
	}
	// A rule for k and v at tp=16 that keeps them whole is the explicit choice.
	got, notes, err := strategy.TensorParallel{Rules: all("")}.Refine(grid(t, "tp=16"), tensor("k", "out,in", 1024, 4096), sharding.Spec{})
	if err != nil || !got.IsWhole() || reasons(notes) != "kept-whole" {
		t.Error(got, notes, err)
	}
	// The other: an axis of 8 and one of 2, which copies.
	got, _, err = strategy.TensorParallel{Axis: "kv", Rules: []strategy.Rule{{Match: "*", Dim: "out", Heads: 8}}}.Refine(grid(t, "kv=8,copy=2"), tensor("k", "out,in", 1024, 4096), sharding.Spec{})
	if local, _ := got.Local(grid(t, "kv=8,copy=2"), []int{1024, 4096}); err != nil || fmt.Sprint(local) != "[128 4096]" {
		t.Error(got, local, err)
	}
	_, _, err = strategy.TensorParallel{Axis: "pipeline"}.Refine(grid(t, "pp=2"), tensor("w", "out", 8), sharding.Spec{})
	faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
	f, _ := fault.Fields[strategy.Conflict](err)
	if fmt.Sprint(f.Strategies) != "[tp pp]" {
		t.Error(f)
	}
}

// The fused matrix of q, k and v over 4 devices: as it is stored, and viewed by heads.
func TestFusedQKV(t *testing.T) {
	m, tp := grid(t, "model=4"), strategy.TensorParallel{}
	_, _, err := tp.Refine(m, tensor("h.0.attn.qkv.weight", "out,in", 2304, 768), sharding.Spec{})
	faulttest.WantKinds(t, err, strategy.ErrNoDim) // never cut as one block
	shape := []int{3, 12, 64, 768}
	got, _, err := tp.Refine(m, tensor("h.0.attn.qkv.weight", "qkv,heads,head_dim,in", shape...), sharding.Spec{})
	if err != nil || got.String() != "[-,model,-,-]" {
		t.Fatal(got, err)
	}
	for pos := range 4 {
		r, err := got.Ranges(m, shape, pos)
		if want := fmt.Sprintf("[0-3 %d-%d 0-64 0-768]", 3*pos, 3*pos+3); err != nil || fmt.Sprint(r) != want {
			t.Errorf("device %d holds %v, want %s: %v", pos, r, want, err)
		}
	}
}

// The bytes of tensor parallelism's collectives: batch 4, sequence 2048, hidden 4096 in
// bf16, over 8 devices.
func TestTensorParallelTraffic(t *testing.T) {
	m, shape := grid(t, "data=1,model=8"), []int{4, 2048, 4096}
	bytes := func(from, to string) int64 {
		steps, err := sharding.Reshard(m, meshtest.Spec(t, from), meshtest.Spec(t, to), shape, 2)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, s := range steps {
			sum += s.Bytes
		}
		return sum
	}
	reduce := bytes("[data,-,-]|model", "[data,-,-]")
	scatter := bytes("[data,-,-]|model", "[data,model,-]")
	gather := bytes("[data,model,-]", "[data,-,-]")
	for _, row := range []struct {
		what      string
		got, want int64
	}{
		{"enter a column pair, plain", bytes("[data,-,-]", "[data,-,-]"), 0},
		{"enter a column pair, sequence parallel", gather, 58_720_256},
		{"leave the row, plain", reduce, 117_440_512},
		{"leave the row, sequence parallel", scatter, 58_720_256},
		{"backward, plain", reduce, 117_440_512},
		{"backward, sequence parallel", gather + scatter, 117_440_512},
		{"a layer forward and backward, plain", 4 * reduce, 469_762_048},
		{"a layer forward and backward, sequence parallel", 4*gather + 4*scatter, 469_762_048},
		{"a layer of inference, plain", 2 * reduce, 234_881_024},
		{"a layer of inference, sequence parallel", 2*gather + 2*scatter, 234_881_024},
	} {
		if row.got != row.want {
			t.Errorf("%s: %d bytes, want %d", row.what, row.got, row.want)
		}
	}
}

// The first rule that matches and whose dim the tensor has decides.
func TestRuleOrder(t *testing.T) {
	m := grid(t, "tp=2")
	rules := []strategy.Rule{{Match: "*.q.*", Dim: "vocab"}, {Match: "a.*", Dim: "in"}, {Match: "*", Dim: "out"}}
	for name, want := range map[string]string{"a.q.weight": "[-,tp]", "b.q.weight": "[tp,-]", "a": "[tp,-]"} {
		got, _, err := strategy.TensorParallel{Rules: rules}.Refine(m, tensor(name, "out,in", 8, 8), sharding.Spec{})
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, want %s: %v", name, got, want, err)
		}
	}
}

// The shipped rules, on the names released checkpoints have.
func TestShippedRules(t *testing.T) {
	m := grid(t, "tp=2")
	for family, names := range map[string]map[string]string{
		"wan": {
			"blocks.3.self_attn.q.weight": "[tp,-]", "blocks.3.cross_attn.v_img.weight": "[tp,-]", "blocks.3.cross_attn.o.weight": "[-,tp]",
			"blocks.3.ffn.0.weight": "[tp,-]", "blocks.3.ffn.2.weight": "[-,tp]", "blocks.3.attn.k.weight": "[tp,-]",
			"blocks.3.ffn.gate.0.weight": "[tp,-]", "blocks.3.ffn.fc1.weight": "[tp,-]", "blocks.3.ffn.fc2.weight": "[-,tp]",
			"token_embedding.weight": "[tp,-]", "time_embedding.0.weight": "[-,-]",
		},
		"diffusers": {
			"transformer_blocks.0.attn1.to_q.weight": "[tp,-]", "transformer_blocks.0.attn1.to_out.0.weight": "[-,tp]",
			"transformer_blocks.0.ff.net.0.proj.weight": "[tp,-]", "transformer_blocks.0.ff.net.2.weight": "[-,tp]",
			"transformer_blocks.0.attn.add_k_proj.weight": "[tp,-]", "transformer_blocks.0.attn.to_add_out.weight": "[-,tp]",
			"transformer_blocks.0.ff_context.net.0.proj.weight": "[tp,-]", "blocks.0.ffn.net.2.weight": "[-,tp]",
		},
		"llama": {
			"model.layers.0.self_attn.q_proj.weight": "[tp,-]", "model.layers.0.self_attn.o_proj.weight": "[-,tp]",
			"model.layers.0.mlp.gate_proj.weight": "[tp,-]", "model.layers.0.mlp.down_proj.weight": "[-,tp]",
			"lm_head.weight": "[tp,-]", "blocks.0.self_attn.output_proj.weight": "[-,tp]", "blocks.0.mlp.layer1.weight": "[tp,-]",
		},
		"megatron": {
			"decoder.layers.0.mlp.linear_fc1.weight": "[tp,-]", "decoder.layers.0.mlp.linear_fc2.weight": "[-,tp]",
			"decoder.layers.0.self_attention.linear_proj.weight": "[-,tp]", "blocks.3.attn.q.weight": "[tp,-]", "blocks.3.attn.o.weight": "[-,tp]",
		},
	} {
		rules, err := strategy.RulesFor(family)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range names {
			w := tensor(name, "out,in", 8, 8)
			got, _, err := strategy.TensorParallel{Rules: rules}.Refine(m, w, sharding.Spec{})
			inAll, _, aerr := strategy.TensorParallel{}.Refine(m, w, sharding.Spec{})
			if err != nil || aerr != nil || got.String() != want || inAll.String() != want {
				t.Errorf("%s of %s: %s, among all rules %s, want %s: %v %v", name, family, got, inAll, want, err, aerr)
			}
		}
	}
	_, err := strategy.RulesFor("gpt9")
	faulttest.WantKinds(t, err, strategy.ErrFamily)
}

// The rules shipped for Wan split the matrices that the family's own rules split
// in its layers, on the same dim. (The family splits text and time projections and
// the norms over heads besides.)
func TestShippedRulesAgreeWithTheFamily(t *testing.T) {
	model, err := models.ByName("wan2.1-t2v-14b")
	if err != nil {
		t.Fatal(err)
	}
	m := grid(t, "dp=1,tp=4,sp=1")
	assigned, err := models.Specs(model, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	rules, _ := strategy.RulesFor("wan")
	compared := 0
	for _, a := range assigned {
		if len(a.Shape) != 2 || !strings.HasPrefix(a.Name, "blocks.") {
			continue
		}
		got, _, err := strategy.TensorParallel{Rules: rules}.Refine(m, tensor(a.Name, "out,in", a.Shape...), sharding.Spec{})
		if err != nil || !got.Equal(a.Spec) {
			t.Errorf("%s: %s, the family has %s: %v", a.Name, got, a.Spec, err)
		}
		compared++
	}
	if compared != 10 {
		t.Errorf("%d matrices compared", compared)
	}
}

// Patterns mean what they mean in sharding.Rules.
func TestPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab.*")), 0, 6, -1)
		pattern, name := text.Draw(t, "pattern"), strings.ReplaceAll(text.Draw(t, "name"), "*", "a")
		_, err := sharding.Rules{{Match: pattern}}.Apply(grid4, []sharding.Param{{Name: name}})
		_, notes, terr := strategy.TensorParallel{Rules: []strategy.Rule{{Match: pattern}}}.Refine(grid4, strategy.Tensor{Name: name}, sharding.Spec{})
		if terr != nil || (err == nil) != (reasons(notes) == "kept-whole") {
			t.Fatalf("%q on %q: %v here, %v there", pattern, name, notes, err)
		}
	})
}

var grid4, _ = mesh.Local(mesh.Axis{Name: "tp", Size: 4})

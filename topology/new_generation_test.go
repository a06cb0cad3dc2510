package topology_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/attention/mosaic"
	"weft/dtype"
	"weft/models"
	_ "weft/models/wan"
	"weft/plan"
	"weft/request"
	"weft/topology"
)

type object = map[string]any

// madeUp reads the entry of a generation that does not exist.
func madeUp(t *testing.T) object {
	t.Helper()
	text, err := os.ReadFile("testdata/generation_v9.json")
	if err != nil {
		t.Fatal(err)
	}
	var entry object
	if err := json.Unmarshal(text, &entry); err != nil {
		t.Fatal(err)
	}
	return entry
}

// withEntry gives a copy of the data with one more generation.
func withEntry(t *testing.T, entry object) []byte {
	t.Helper()
	var doc object
	if err := json.Unmarshal(topology.DataJSON, &doc); err != nil {
		t.Fatal(err)
	}
	doc["generations"] = append(doc["generations"].([]any), entry)
	doc["sources"].(object)["made-up"] = "nobody: a test made it up"
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A new generation is one entry of the data: names, shapes and completions, the kernel's
// blocks and a plan's times follow from it.
func TestNewGenerationIsOneEntry(t *testing.T) {
	entry := madeUp(t)
	topology.UseData(t, withEntry(t, entry))
	for name, spec := range map[string]string{"v9-8": "v9:2x2x1", "figment-16": "v9:2x2x2", "v9-128": "v9:4x4x4", "v9:4x8x12": "v9:4x8x12"} {
		if s, err := topology.Lookup(name); err != nil || s.Spec() != spec {
			t.Errorf("%s: %s, %v", name, s.Spec(), err)
		}
	}
	if _, err := topology.Lookup("v9:4x4x52"); err == nil || !strings.Contains(err.Error(), "at most 12") {
		t.Error(err)
	}
	if large, err := topology.Lookup("v9:4x8x24"); err != nil || !strings.Contains(large.Note, "above the 512 chips") {
		t.Errorf("%q, %v", large.Note, err)
	}
	small, err := topology.Lookup("v9-8")
	if err != nil || small.Devices != 4 || small.HBMUsableBytes != 63.5*(1<<30) || small.Rates().BF16FLOPs != 1e15 {
		t.Errorf("%+v, %v", small, err)
	}
	if !slices.ContainsFunc(topology.Slices(), func(s topology.Slice) bool { return s.Spec() == "v9:2x2x1" }) {
		t.Error("the slices of the data lack v9:2x2x1")
	}
	if names := topology.SuggestedSlices(topology.TPU); !slices.Contains(names, "v9-8") || !slices.Contains(names, "v4-8") {
		t.Error(names)
	}

	if !slices.Contains(mosaic.Chips(), "v9") {
		t.Error(mosaic.Chips())
	}
	for headDim, want := range map[int]mosaic.Blocks{64: {Q: 512, K: 1024, Sub: 256, Kept: true}, 128: {Q: 768, K: 1536, Sub: 512}} {
		s := mosaic.Kernel{Chip: "v9", Batch: 1, Queries: 768 * 512, Keys: 1 << 15, Heads: 2, KVHeads: 2, HeadDim: headDim}
		if _, err := s.Text(); err != nil || s.Tiles() != want {
			t.Errorf("head dim %d: %+v, %v", headDim, s.Tiles(), err)
		}
	}

	// Half the kernel's efficiency is twice the time of attention, and nothing else.
	fast := planTime(t, small)
	entry["attention_kernel"].(object)["efficiency"].(object)["value"] = 0.25
	topology.UseData(t, withEntry(t, entry))
	slow := planTime(t, small)
	if fast.AttentionSeconds == 0 || slow.AttentionSeconds != 2*fast.AttentionSeconds || slow.MatmulSeconds != fast.MatmulSeconds {
		t.Errorf("efficiency 0.5: %+v, 0.25: %+v", fast, slow)
	}
}

// planTime gives the time of a step of Wan2.1-1.3B, sharded by sequence parallelism alone.
func planTime(t *testing.T, on topology.Slice) plan.Time {
	t.Helper()
	m, err := models.ByName("wan2.1-t2v-1.3b")
	if err != nil {
		t.Fatal(err)
	}
	r, err := plan.Search(t.Context(), m, plan.Options{Request: request.Request{Width: 832, Height: 480, Frames: 81, DType: dtype.BF16, On: request.Hardware{Slice: on}}})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Plans, func(p plan.Plan) bool { return p.Mesh == "dp=1,tp=1,sp=4" })
	if i < 0 {
		t.Fatalf("no plan for sp=4 among %d", len(r.Plans))
	}
	return r.Plans[i].Time
}

// optionalKeys may be left out of an entry.
var optionalKeys = []string{"also", "trust", "note"}

// Each key that is missing from an entry is an error that names file, entry and key.
func TestEveryForgottenKeyIsAnError(t *testing.T) {
	removed := 0
	var tryWithout func(entry object, at any)
	tryWithout = func(entry object, at any) {
		switch at := at.(type) {
		case []any:
			for _, v := range at {
				tryWithout(entry, v)
			}
		case object:
			for _, key := range slices.Sorted(maps.Keys(at)) {
				if slices.Contains(optionalKeys, key) {
					continue
				}
				value := at[key]
				delete(at, key)
				removed++
				err := topology.ReadData(withEntry(t, entry))
				of := fmt.Sprintf("generations[%v]", entry["name"])
				if key == "name" && entry["name"] == nil {
					of = "generations[7]"
				}
				if !errors.Is(err, topology.ErrData) || !strings.HasPrefix(err.Error(), "topology/data/accelerators.json: "+of) ||
					!strings.Contains(err.Error(), key+" is missing") {
					t.Errorf("without %s: %v", key, err)
				}
				at[key] = value
				if key != "value" {
					tryWithout(entry, value)
				}
			}
		}
	}
	entry := madeUp(t)
	tryWithout(entry, entry)
	if removed < 90 {
		t.Errorf("%d keys were removed", removed)
	}
	if err := topology.ReadData(withEntry(t, entry)); err != nil {
		t.Errorf("the whole entry: %v", err)
	}
}

// Values that cannot be are errors that name the key.
func TestWrongValuesOfAnEntry(t *testing.T) {
	for _, c := range []struct{ old, new, says string }{
		{`"most":12`, `"most":0`, "cubes.most is 0"},
		{`"2x2x2"`, `"2x2"`, `cubes.smaller_shapes has "2x2"`},
		{`"cubes":{"most":12,"smaller_shapes":["2x2x1","2x2x2"]}`, `"cubes":null`, "cubes is null"},
		{`"torus_dims":{"source":"made-up","value":3}`, `"torus_dims":{"source":"made-up","value":4}`, "facts.torus_dims is 4: want 2 or 3"},
		{`"torus_dims":{"source":"made-up","value":3}`, `"torus_dims":{"source":"made-up","value":2}`, "cubes is for a 3D torus"},
		{`"value":1000000000000000}`, `"value":null}`, "facts.peak_bf16_flops is <nil>: want a positive number"},
		{`"vmem_mib_per_core":{"source":"made-up"`, `"vmem_mib_per_core":{"source":"hearsay"`, `facts.vmem_mib_per_core has the source "hearsay"`},
		{`"chips":512`, `"chips":"many"`, "facts.max_slice has many chips"},
		{`"value":"TensorCores"`, `"value":"hosts"`, "facts.name_suffix_counts is hosts"},
		{`"suggested":["v9-8"]`, `"suggested":["v9-9"]`, `suggested has no slice: unknown slice "v9-9"`},
		{`"suggested":["v9-8"]`, `"suggested":["v4-8"]`, `suggested has "v4-8"`},
		{`"name_prefix":"v9"`, `"name_prefix":"nine"`, `name_prefix is "nine"`},
		{`"name":"v9","name_prefix"`, `"name":"v4","name_prefix"`, "name is another entry's too"},
		{`"chips":4,"devices":4`, `"chips":8,"devices":4`, "slices[2x2x1] has 8 chips: its shape has 4"},
		{`"chips":4,"devices":4`, `"chips":4,"devices":8`, "slices[2x2x1] has 8 devices: 4 chips of 1 make 4"},
		{`"name":"v9-8"`, `"name":"v9-4"`, `slices[2x2x1] is named "v9-4": its number of cores makes it v9-8`},
		{`"value":0.5`, `"value":1.5`, "attention_kernel.efficiency is 1.5"},
		{`"value":0.5`, `"value":-1`, "attention_kernel.efficiency is -1: want a positive number"},
		{`"status":"assumed"`, `"status":"guessed"`, `attention_kernel.efficiency has status "guessed"`},
		{`"sub_block":512`, `"sub_block":500`, "attention_kernel.blocks.head_dim_128 has 768 queries, 1536 keys and sub-blocks of 500"},
		{`"topology":"v9:2x2x1"`, `"topology":"v9:2x3x1"`, `attention_kernel.compiler.topology is "v9:2x3x1"`},
		{`"flops_per_cycle":131072`, `"flops_per_cycle":0`, "attention_kernel.compiler.flops_per_cycle is 0"},
		{`"queries":512`, `"queries":null`, "attention_kernel.blocks.head_dim_64.queries is null"},
		{`"queries":512`, `"queries":"512"`, `queries" holds a text: want a whole number`},
		{`"queries":512`, `"queries":512,"query":512`, `unknown field "query"`},
	} {
		whole := string(withEntry(t, madeUp(t)))
		at := strings.Index(whole, `"Figment"`) // of what stands twice, the entry's
		text := whole[:at] + strings.Replace(whole[at:], c.old, c.new, 1)
		if text == whole {
			t.Fatalf("the entry has no %s", c.old)
		}
		if err := topology.ReadData([]byte(text)); !errors.Is(err, topology.ErrData) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.new, err, c.says)
		}
	}
}

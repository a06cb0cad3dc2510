package wan

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"weft/mesh"
	"weft/models"
)

// The peer's table lists one block of many; the others are identical.
func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range []string{"wan2.1-t2v-1.3b", "wan2.1-t2v-14b", "wan2.1-i2v-14b", "wan2.2-ti2v-5b", "wan2.2-t2v-a14b", "wan2.2-i2v-a14b"} {
		raw, err := os.ReadFile("../../testdata/oracle/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var oracle struct {
			Leaves     int   `json:"leaf_count"`
			ParamCount int64 `json:"param_count"`
			Params     []struct {
				Path  string
				Shape []int
				Spec  []any
			}
		}
		if err := json.Unmarshal(raw, &oracle); err != nil {
			t.Fatal(err)
		}
		type leaf struct {
			Shape []int
			Spec  []any
		}
		want := map[string]string{}
		for _, p := range oracle.Params {
			b, _ := json.Marshal(leaf{p.Shape, p.Spec})
			want[p.Path] = string(b)
		}
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		on, err := mesh.Local(mesh.Axis{Name: "dp", Size: 1}, mesh.Axis{Name: "tp", Size: 2}, mesh.Axis{Name: "sp", Size: 1})
		if err != nil {
			t.Fatal(err)
		}
		assigned, err := models.Specs(m, on, 0)
		if err != nil {
			t.Fatal(err)
		}
		list := models.List(m, assigned, models.Flax, true)
		if len(list) != oracle.Leaves {
			t.Errorf("%s: %d leaves, the peer has %d", name, len(list), oracle.Leaves)
		}
		var count int64
		block := regexp.MustCompile(`^blocks_\d+/`)
		seen := map[string]bool{}
		for _, l := range list {
			n := int64(1)
			for _, s := range l.Shape {
				n *= int64(s)
			}
			count += n
			key := block.ReplaceAllString(l.Path, "blocks_0/")
			spec, _ := json.Marshal(l.Spec)
			shape, _ := json.Marshal(l.Shape)
			got := `{"Shape":` + string(shape) + `,"Spec":` + string(spec) + `}`
			if got != want[key] {
				t.Errorf("%s: %s is %s, the peer has %s", name, l.Path, got, want[key])
			}
			seen[key] = true
		}
		for path := range want {
			if !seen[path] {
				t.Errorf("%s: %s is missing", name, path)
			}
		}
		if count != oracle.ParamCount {
			t.Errorf("%s: %d parameters, the peer counts %d", name, count, oracle.ParamCount)
		}
		if !strings.HasPrefix(list[0].Path, "patch_embedding/") {
			t.Errorf("%s: order changed", name)
		}
	}
}

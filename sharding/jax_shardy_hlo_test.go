package sharding_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/internal/meshtest"
	"weft/mesh"
)

// The basic specs on one mesh, in the three forms that JAX 0.10.2 printed for them.
func TestGroundRules(t *testing.T) {
	m := grid(t, "data", 2, "model", 4)
	tests := []struct {
		spec, local string
		first       string // of each device, the range of the first split dim
		hlo, shardy string
	}{
		{"[data,-]", "[8 8]", "0-8 0-8 0-8 0-8 8-16 8-16 8-16 8-16", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", `[{"data"}, {}]`},
		{"[model,-]", "[4 8]", "0-4 4-8 8-12 12-16 0-4 4-8 8-12 12-16", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", `[{"model"}, {}]`},
		{"[-,model]", "[16 2]", "0-2 2-4 4-6 6-8 0-2 2-4 4-6 6-8", "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", `[{}, {"model"}]`},
		{"[data,model]", "[8 2]", "0-8,0-2 0-8,2-4 0-8,4-6 0-8,6-8 8-16,0-2 8-16,2-4 8-16,4-6 8-16,6-8", "{devices=[2,4]<=[8]}", `[{"data"}, {"model"}]`},
		{"[model,data]", "[4 4]", "0-4,0-4 4-8,0-4 8-12,0-4 12-16,0-4 0-4,4-8 4-8,4-8 8-12,4-8 12-16,4-8", "{devices=[4,2]<=[2,4]T(1,0)}", `[{"model"}, {"data"}]`},
		{"[data+model,-]", "[2 8]", "0-2 2-4 4-6 6-8 8-10 10-12 12-14 14-16", "{devices=[8,1]<=[8]}", `[{"data","model"}, {}]`},
		{"[model+data,-]", "[2 8]", "0-2 4-6 8-10 12-14 2-4 6-8 10-12 14-16", "{devices=[8,1]<=[2,4]T(1,0)}", `[{"model","data"}, {}]`},
		{"[]", "[16 8]", "all all all all all all all all", "{replicated}", "[{}, {}]"},
	}
	shape := []int{16, 8}
	for _, test := range tests {
		t.Run(test.spec, func(t *testing.T) {
			s := meshtest.Spec(t, test.spec)
			local, err := s.Local(m, shape)
			if err != nil || fmt.Sprint(local) != test.local {
				t.Errorf("local %v, want %s: %v", local, test.local, err)
			}
			var first []string
			for pos := range m.NumDevices() {
				ranges, err := s.Ranges(m, shape, pos)
				if err != nil {
					t.Fatal(err)
				}
				var split []string
				for i, r := range ranges {
					if r.Len() < shape[i] {
						split = append(split, r.String())
					}
				}
				if len(split) == 0 {
					split = []string{"all"}
				}
				first = append(first, strings.Join(split, ","))
			}
			if got := strings.Join(first, " "); got != test.first {
				t.Errorf("ranges %s, want %s", got, test.first)
			}
			if got := s.HLO(m, 2); got != test.hlo {
				t.Errorf("HLO %s, want %s", got, test.hlo)
			}
			if got := s.Shardy(m, 2); got != test.shardy {
				t.Errorf("Shardy %s, want %s", got, test.shardy)
			}
		})
	}

	s := meshtest.Spec(t, "[data]") // on rank 3
	if local, err := s.Local(m, []int{16, 8, 4}); err != nil || fmt.Sprint(local) != "[8 8 4]" {
		t.Error(local, err)
	}
	if got := s.HLO(m, 3); got != "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}" {
		t.Error(got)
	}
	if got := s.Shardy(m, 3); got != `[{"data"}, {}, {}]` {
		t.Error(got)
	}
}

// Every row of testdata/jax.json, which JAX itself wrote: see make_jax.py there.
func TestAgainstJAX(t *testing.T) {
	data, err := os.ReadFile("testdata/jax.json")
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct {
		Rows []struct {
			Mesh, Spec, HLO, Shardy string
			Shape, Local            []int
			Ranges                  [][][2]int
		}
	}
	if err := json.Unmarshal(data, &oracle); err != nil {
		t.Fatal(err)
	}
	if len(oracle.Rows) < 200 {
		t.Fatalf("only %d rows", len(oracle.Rows))
	}
	for _, row := range oracle.Rows {
		m := plainGrid(t, row.Mesh)
		s, rank := meshtest.Spec(t, row.Spec), len(row.Shape)
		if got := s.HLO(m, rank); got != row.HLO {
			t.Errorf("%s on %s: HLO %s, JAX has %s", row.Spec, row.Mesh, got, row.HLO)
		}
		if got, want := s.Shardy(m, rank), withoutOnes(m, row.Shardy); got != want {
			t.Errorf("%s on %s: Shardy %s, JAX has %s", row.Spec, row.Mesh, got, want)
		}
		if s.Partial() != nil {
			continue // JAX places no partial tensor
		}
		if local, err := s.Local(m, row.Shape); err != nil || !cmp.Equal(local, row.Local) {
			t.Errorf("%s on %s: local %v, JAX has %v: %v", row.Spec, row.Mesh, local, row.Local, err)
		}
		for pos, want := range row.Ranges {
			ranges, err := s.Ranges(m, row.Shape, pos)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range ranges {
				if want[i] != [2]int{r.Lo, r.Hi} {
					t.Errorf("%s on %s: device %d dim %d is %v, JAX has %v", row.Spec, row.Mesh, pos, i, r, want[i])
				}
			}
		}
	}
}

// plainGrid keeps the spelling of names, as JAX does.
func plainGrid(t *testing.T, text string) *mesh.Mesh {
	t.Helper()
	var args []any
	for part := range strings.SplitSeq(text, ",") {
		name, size, _ := strings.Cut(part, "=")
		var n int
		fmt.Sscan(size, &n)
		args = append(args, name, n)
	}
	return grid(t, args...)
}

// withoutOnes rewrites JAX's Shardy text without axes of size 1, which weft's
// canonical form leaves out, and with weft's blanks.
func withoutOnes(m *mesh.Mesh, text string) string {
	text = strings.ReplaceAll(text, `", "`, `","`)
	for _, a := range m.Axes() {
		if a.Size == 1 {
			text = strings.ReplaceAll(text, `"`+a.Name+`",`, "")
			text = strings.ReplaceAll(text, `,"`+a.Name+`"`, "")
			text = strings.ReplaceAll(text, `"`+a.Name+`"`, "")
		}
	}
	return strings.TrimSuffix(text, ", unreduced={}")
}

func TestJAXForm(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                 "P()",
		"[-]":                "P(None)",
		"[data,-,data+fsdp]": "P('data', None, ('data','fsdp'))",
		"[-,tp]|sp":          "P(None, 'tp', unreduced={'sp'})",
		"|tp+sp":             "P(unreduced={'sp','tp'})",
		"[model+data,-,-]":   "P(('model','data'), None, None)",
	} {
		if got := meshtest.Spec(t, text).JAX(); got != want {
			t.Errorf("%s in JAX is %s, want %s", text, got, want)
		}
	}
}

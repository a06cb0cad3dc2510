package sharding_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
)

func TestRules(t *testing.T) {
	m := grid(t, "dp", 1, "tp", 4, "sp", 1)
	rules := sharding.Rules{
		{Match: "blocks.*.attn.o.weight", Spec: meshtest.Spec(t, "[-,tp]")},
		{Match: "blocks.*.attn.*.weight", Spec: meshtest.Spec(t, "[dp+tp]")},
		{Match: "*.norm", Spec: sharding.Whole(0)},
	}
	params := []sharding.Param{
		{Name: "blocks.0.attn.q.weight", Shape: []int{16, 8}},
		{Name: "blocks.0.attn.o.weight", Shape: []int{16, 8}},
		{Name: "blocks.10.norm", Shape: []int{7}},
	}
	got, err := rules.Apply(m, params)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"blocks.0.attn.q.weight": "[tp,-]", "blocks.0.attn.o.weight": "[-,tp]", "blocks.10.norm": "[-]"}
	for _, a := range got {
		if a.Spec.String() != want[a.Name] {
			t.Errorf("%s is %s, want %s", a.Name, a.Spec, want[a.Name])
		}
	}
	if len(got) != 3 || got[1].Rule != "blocks.*.attn.o.weight" || got[1].Name != params[1].Name {
		t.Errorf("%+v", got)
	}
	if local, err := got[0].Local(m); err != nil || fmt.Sprint(local) != "[4 8]" {
		t.Error(local, err)
	}
	b, err := json.Marshal(got[0])
	if err != nil || string(b) != `{"path":"blocks.0.attn.q.weight","shape":[16,8],"spec":["tp",null],"rule":"blocks.*.attn.*.weight"}` {
		t.Error(string(b), err)
	}
	params[0].Shape[0] = 99
	if got[0].Shape[0] != 16 {
		t.Error("an assignment changed after it was made")
	}
}

func TestRulesRefuse(t *testing.T) {
	m := grid(t, "tp", 4)
	rules := sharding.Rules{
		{Match: "a*", Spec: meshtest.Spec(t, "[tp]")},
		{Match: "qkv", Spec: meshtest.Spec(t, "[tp]"), Layout: sharding.Layout{Parts: []int{4, 4}}},
		{Match: "odd", Spec: meshtest.Spec(t, "[tp]"), Layout: sharding.Layout{Parts: []int{4, 6}}},
		{Match: "deep", Spec: meshtest.Spec(t, "[tp]"), Layout: sharding.Layout{Dim: 1, Parts: []int{4}}},
		{Match: "unknown", Spec: meshtest.Spec(t, "[model]")},
	}
	_, err := rules.Apply(m, []sharding.Param{
		{Name: "a.ok", Shape: []int{4}}, {Name: "x", Shape: []int{4}}, {Name: "a.odd", Shape: []int{6}}, {Name: "a.scalar"},
		{Name: "qkv", Shape: []int{12}}, {Name: "odd", Shape: []int{10}}, {Name: "deep", Shape: []int{4}}, {Name: "unknown", Shape: []int{4}},
		{Name: "a.ok", Shape: []int{4}}, {Name: "y", Shape: []int{4}},
	})
	faulttest.WantKinds(t, err, sharding.ErrUneven, sharding.ErrRank, sharding.ErrFusedLayout, sharding.ErrUneven, sharding.ErrFusedLayout,
		mesh.ErrUnknownAxis, sharding.ErrDuplicateParam, sharding.ErrNoRule)
	none, _ := fault.Fields[sharding.NoRule](err)
	if d := cmp.Diff(sharding.NoRule{Params: []string{"x", "y"}}, none); d != "" {
		t.Error(d)
	}
	for i, name := range []string{"a.odd", "a.scalar", "qkv", "odd", "deep", "unknown"} {
		if got := fault.Violations(err)[i].Error(); !strings.HasPrefix(got, name+": ") {
			t.Errorf("%q does not name its parameter %s", got, name)
		}
	}
	if _, err := (sharding.Rules{}).Apply(m, nil); err != nil {
		t.Error("no parameters need no rules:", err)
	}
}

// A fused weight: dim 0 in three stretches, dim 1 in one.
func TestAssignedRanges(t *testing.T) {
	m := grid(t, "dp", 2, "tp", 2)
	rules := sharding.Rules{
		{Match: "qkv", Spec: meshtest.Spec(t, "[tp,dp]"), Layout: sharding.Layout{Parts: []int{4, 4, 4}}},
		{Match: "qkv.flax", Spec: meshtest.Spec(t, "[-,tp]"), Layout: sharding.Layout{Dim: 1, Parts: []int{4, 4, 4}}},
		{Match: "k", Spec: meshtest.Spec(t, "[dp+tp]"), Layout: sharding.Layout{Heads: []int{2}}},
	}
	got, err := rules.Apply(m, []sharding.Param{
		{Name: "qkv", Shape: []int{12, 6}}, {Name: "qkv.flax", Shape: []int{5, 12}}, {Name: "k", Shape: []int{6}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		param, pos    int
		ranges, local string
	}{
		{0, 1, "[[2-4 6-8 10-12] [0-3]]", "[6 3]"},
		{0, 2, "[[0-2 4-6 8-10] [3-6]]", "[6 3]"},
		{1, 3, "[[0-5] [2-4 6-8 10-12]]", "[5 6]"},
		{2, 1, "[[0-3]]", "[3]"}, // two heads over four devices: a copy each
		{2, 2, "[[3-6]]", "[3]"},
	} {
		a := got[test.param]
		ranges, err := a.Ranges(m, test.pos)
		if err != nil || fmt.Sprint(ranges) != test.ranges {
			t.Errorf("%s at %d: %v, want %s: %v", a.Name, test.pos, ranges, test.ranges, err)
		}
		if local, err := a.Local(m); err != nil || fmt.Sprint(local) != test.local {
			t.Errorf("%s has local shape %v, want %s: %v", a.Name, local, test.local, err)
		}
	}
	if _, err := got[0].Ranges(m, 4); !errors.Is(err, sharding.ErrPosition) {
		t.Error(err)
	}
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "a.b.c", true}, {"", "", true}, {"", "a", false},
		{"a", "a", true}, {"a", "ab", false}, {"a*", "a", true}, {"*a", "ba", true}, {"a*a", "a", false}, {"a*a", "aa", true},
		{"blocks.*.q.weight", "blocks.10.attn.q.weight", true}, {"blocks.*.q.weight", "blocks.q.weight", false},
		{"*q*k*", "xkyq", false}, {"*q*k*", "q.k", true}, {"a*bc*bcd", "abcbcbcd", true}, {"a**b", "ab", true}, {"a.b", "axb", false}, {"?", "a", false},
	} {
		_, err := sharding.Rules{{Match: test.pattern}}.Apply(grid(t), []sharding.Param{{Name: test.name}})
		if got := err == nil; got != test.want {
			t.Errorf("%q matches %q: %v", test.pattern, test.name, got)
		}
	}
}

// Against the plainest way to match.
func TestGlobAgainstRecursion(t *testing.T) {
	m := grid(t)
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*]{0,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab]{0,10}`).Draw(t, "name")
		_, err := sharding.Rules{{Match: pattern}}.Apply(m, []sharding.Param{{Name: name}})
		if got, want := err == nil, slowGlob(pattern, name); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, name, got, want)
		}
	})
}

func slowGlob(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	if pattern[0] == '*' {
		return slowGlob(pattern[1:], name) || name != "" && slowGlob(pattern, name[1:])
	}
	return name != "" && name[0] == pattern[0] && slowGlob(pattern[1:], name[1:])
}

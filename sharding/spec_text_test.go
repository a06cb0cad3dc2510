package sharding_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/sharding"
)

func TestParseSpec(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "[]",
		"[]":                      "[]",
		" [ ] ":                   "[]",
		"-":                       "[-]",
		"model,-,data+fsdp":       "[model,-,data+fsdp]",
		" [ model , - , a + b ] ": "[model,-,a+b]",
		"[-]|tp":                  "[-]|tp",
		"|tp+sp":                  "[]|sp+tp",
		"a | b":                   "[a]|b",
		"a+a":                     "[a+a]", // S2 is Check's
	} {
		got, err := sharding.ParseSpec(text)
		if err != nil || got.String() != want {
			t.Errorf("%q is %s, want %s: %v", text, got, want, err)
		}
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for text, violations := range map[string]int{
		",": 2, "a,": 1, "a,,b": 1, "a+": 1, "+": 1, "[a": 1, "a]": 1, "[": 1, "[[a]]": 1, "a b": 1,
		"a|": 1, "a|-": 1, "a|b|c": 1, "|": 1, "a+-": 1, "a=2": 1, "None": 0, "'a'": 1, "*": 1, "a+,+b|+": 3,
	} {
		_, err := sharding.ParseSpec(text)
		kinds := make([]error, violations)
		for i := range kinds {
			kinds[i] = sharding.ErrSpecSyntax
		}
		t.Run(text, func(t *testing.T) { faulttest.WantKinds(t, err, kinds...) })
	}
}

func TestSpecJSON(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                  `[]`,
		"[-]":                 `[null]`,
		"[data,-,fsdp+model]": `["data",null,["fsdp","model"]]`,
		"[-,a]|b+c":           `{"dims":[null,"a"],"partial":["b","c"]}`,
	} {
		got, err := json.Marshal(meshtest.Spec(t, text))
		if err != nil || string(got) != want {
			t.Errorf("%s in JSON is %s, want %s: %v", text, got, want, err)
		}
	}
	if got, _ := json.Marshal(sharding.Spec{}); string(got) != "[]" {
		t.Error("the zero spec is an empty list, not", string(got))
	}
	for _, text := range []string{`[["a"]]`, `{"dims":["a"]}`, `["a", []]`, `{"dims":["a"],"partial":[]}`} {
		var s sharding.Spec
		if err := json.Unmarshal([]byte(text), &s); err != nil || !s.Equal(meshtest.Spec(t, "[a]")) {
			t.Errorf("%s is %s, want [a]: %v", text, s, err)
		}
	}
	for _, text := range []string{`3`, `"a"`, `[1]`, `[[1]]`, `[["a",null]]`, `[""]`, `["a b"]`, `[{"a":1}]`, `{"dims":3}`, `{"dims":[],"partial":["+"]}`,
		`{"dims":[],"partial":[1]}`, `true`} {
		s := meshtest.Spec(t, "[kept]")
		err := s.UnmarshalJSON([]byte(text))
		faulttest.WantKinds(t, err, sharding.ErrSpecSyntax)
		if s.String() != "[kept]" {
			t.Errorf("%s: a spec that could not be read changed to %s", text, s)
		}
	}
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		m := anyMesh(r)
		s := anySpec(r, m, anyRank(r), m.Names())
		parsed, err := sharding.ParseSpec(s.String())
		if err != nil || parsed.String() != s.String() || !parsed.Equal(s) || parsed.Rank() != s.Rank() {
			t.Fatalf("%s comes back as %s: %v", s, parsed, err)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var decoded sharding.Spec
		if err := json.Unmarshal(b, &decoded); err != nil || decoded.String() != s.String() {
			t.Fatalf("%s, in JSON %s, comes back as %s: %v", s, b, decoded, err)
		}
	})
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"", "[a,-,b+c]|d", "|", "[", "[]]", "-,-", "+,|"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := sharding.ParseSpec(text)
		if err != nil {
			return
		}
		again, err := sharding.ParseSpec(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is %s, which comes back as %s: %v", text, s, again, err)
		}
	})
}

func FuzzUnmarshalSpec(f *testing.F) {
	for _, s := range []string{`[]`, `["a",null,["b"]]`, `{"dims":[null],"partial":["a"]}`, `{}`, `null`, `[[[]]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s sharding.Spec
		if s.UnmarshalJSON(b) != nil {
			return
		}
		if again, err := sharding.ParseSpec(s.String()); err != nil || again.String() != s.String() {
			t.Fatalf("%s is %s, which comes back as %s: %v", b, s, again, err)
		}
	})
}

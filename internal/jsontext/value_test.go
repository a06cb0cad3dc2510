package jsontext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestParseObject(t *testing.T) {
	keys := Options{Keys: true}
	for _, test := range []struct {
		name, text string
		o          Options
		reason     string // part of the fault's; "" for none
	}{
		{"plain", ` {"a": [1, -2.5e3, true, false, null, "s", {}]} `, keys, ""},
		{"a key twice", `{"a":1,"b":2,"a":1}`, keys, `key "a" twice`},
		{"a key twice, once escaped", `{"a":1,"\u0061":1}`, Options{}, `key "a" twice`},
		{"a key twice further in", `{"a":[{"b":1,"b":2}]}`, Options{}, `key "b" twice`},
		{"a key in another case", `{"num_heads":4,"NUM_HEADS":8}`, keys, `"NUM_HEADS" is "num_heads" in another case`},
		{"words in another case", `{"a":1,"A":2}`, Options{}, ""},
		{"text after the end", `{"a":1} {}`, keys, "after the closing brace"},
		{"an array", `[1]`, keys, "an object expected"},
		{"nothing", ``, keys, "an object expected"},
		{"NaN", `{"a":NaN}`, keys, `key "a": NaN and Infinity`},
		{"Infinity", `{"b":{"a":-Infinity}}`, keys, `key "b": key "a": NaN and Infinity`},
		{"too large", `{"a":1e999}`, keys, "beyond the largest number"},
		{"a leading zero", `{"a":01}`, keys, "number expected"},
		{"a comma too many", `{"a":1,}`, keys, "expected"},
		{"a comment", "{\"a\":1 // one\n}", keys, "expected"},
		{"a byte-order mark", "\ufeff{}", keys, "an object expected"},
		{"bad UTF-8", "{\"a\":\"\xff\"}", keys, "bad UTF-8"},
		{"cut", `{"a":{"b":`, keys, "expected"},
		{"deep", `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, keys, "nested"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, fault := ParseObject([]byte(test.text), test.o)
			switch {
			case test.reason == "" && fault != nil:
				t.Error(fault)
			case test.reason != "" && (fault == nil || !strings.Contains(fault.Error(), test.reason)):
				t.Errorf("fault %v, want %q", fault, test.reason)
			case test.reason == "" && v == nil:
				t.Error("no value")
			}
		})
	}
}

// FuzzParseObject: what is accepted is what encoding/json reads, and has no key twice.
func FuzzParseObject(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":[1,-2.5e3,true,null,"s\u00e9\ud83d\ude00",{"b":{}}]}`, `{"a":1,"A":2}`, `{"a":1,"a":2}`, ` {"x":1e308} `, `{"a":1}x`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, fault := ParseObject(b, Options{})
		if fault != nil {
			if fault.Pos < 0 || fault.Pos > len(b) {
				t.Errorf("a fault at %d of %d", fault.Pos, len(b))
			}
			return
		}
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.UseNumber()
		var want map[string]any
		if err := d.Decode(&want); err != nil {
			t.Fatalf("encoding/json refuses what was taken: %v", err)
		}
		if !reflect.DeepEqual(v, want) {
			t.Errorf("%v, want %v", v, want)
		}
	})
}

func TestDecode(t *testing.T) {
	type inner struct {
		Hours map[string]float64 `json:"hours"`
	}
	type doc struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
		In    inner  `json:"in"`
	}
	for _, test := range []struct{ text, reason string }{
		{`{"name":"x","count":2,"in":{"hours":{"a":1.5}}}`, ""},
		{`{"name":"x","name":"y"}`, `key "name" twice`},
		{`{"name":"x","NAME":"y"}`, "in another case"},
		{`{"name":"x"}{}`, "after the closing brace"},
		{`{"name":1}`, `key "name" holds a number: want a text`},
		{`{"count":1.5}`, `key "count" holds the number 1.5: want a whole number`},
		{`{"count":"1"}`, `key "count" holds a text: want a whole number`},
		{`{"in":{"hours":{"a":"b"}}}`, `holds a text: want a number`},
		{`{"in":[]}`, `key "in" holds a list: want an object`},
		{`{"other":1}`, `unknown field "other"`},
	} {
		var d doc
		err := Decode([]byte(test.text), Options{Keys: true}, &d)
		if test.reason == "" && (err != nil || d.In.Hours["a"] != 1.5) || test.reason != "" && (err == nil || !strings.Contains(err.Error(), test.reason)) {
			t.Errorf("%s: %v, want %q", test.text, err, test.reason)
		}
		if err != nil && (strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "jsontext.")) {
			t.Errorf("%s: %v names a Go type", test.text, err)
		}
	}
}

// TestDecodeWhole: with Whole every key of the struct has to be there, at any depth, and the
// error names all that are not.
func TestDecodeWhole(t *testing.T) {
	type inner struct {
		N    int  `json:"n"`
		Note *int `json:"note"`
	}
	type base struct {
		Name string `json:"name"`
	}
	type element struct {
		base
		In  inner            `json:"in"`
		By  map[string]inner `json:"by"`
		Any any              `json:"any"`
		Opt string           `json:"opt,omitempty"`
	}
	type document struct {
		List []element       `json:"list"`
		Raw  json.RawMessage `json:"raw"`
	}
	const whole = `{"list":[{"name":"a","in":{"n":1,"note":null},"by":{"x":{"n":2,"note":3}},"any":null}],"raw":{}}`
	for text, want := range map[string][]string{
		whole:                                   nil,
		`{"raw":{}}`:                            {"list is missing"},
		`{"list":[]}`:                           {"raw is missing"},
		strings.Replace(whole, `"n":1,`, ``, 1): {"list[a].in.n is missing"},
		strings.Replace(whole, `"n":1`, `"n":null`, 1):               {"list[a].in.n is null"},
		strings.Replace(whole, `,"note":3`, ``, 1):                   {"list[a].by[x].note is missing"},
		strings.Replace(whole, `"name":"a",`, ``, 1):                 {"list[0].name is missing"},
		strings.Replace(whole, `"in":{"n":1,"note":null},`, ``, 1):   {"list[a].in is missing"},
		strings.Replace(whole, `{"n":1,"note":null}`, `null`, 1):     {"list[a].in is null"},
		`{"list":[{"name":"a","in":{"note":1},"by":{}}],"raw":null}`: {"list[a].in.n is missing", "list[a].any is missing"},
	} {
		var d document
		err := Decode([]byte(text), Options{Whole: true}, &d)
		var got []string
		if err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if err := Decode([]byte(text), Options{}, &document{}); err != nil {
			t.Errorf("%s: without Whole: %v", text, err)
		}
	}
}

package request

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/editdistance"
	"weft/internal/jsontext"
)

// Text is a request as people write it: the value of each flag that is given, by the
// flag's name. A switch has "true" or "false".
type Text map[string]string

// Parse reads a request and checks it. The error has every violation, each with the flag
// that it came from: ErrSyntax, those of Request.Check, models.ErrSize, mesh.Parse and
// topology.Lookup. What could be read is returned beside an error.
func Parse(t Text) (Request, error) {
	var r Request
	var l fault.List
	for _, f := range flags {
		text, given := t[f.name]
		if !given {
			continue
		}
		err := f.read(&r, text)
		l.Add(err)
		if err == nil && f.setting != "" && f.text(&r) == "" {
			r.Asked = append(r.Asked, f.setting)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if flagNamed(name) == nil {
			l.Add(unknownFlag(name))
		}
	}
	whole := l.Err() == nil
	l.Add(r.checkEach())
	if whole { // else a flag that was not read would contradict others
		l.Add(r.checkTogether())
	}
	return r, l.Err()
}

// unknownFlag is the error for a name that no flag has, with the flag of the likest name.
func unknownFlag(name string) error {
	near := slices.MinFunc(Flags(), func(a, b string) int {
		return editdistance.Between(name, a) - editdistance.Between(name, b)
	})
	return fault.New(ErrSyntax, Refused{Flag: name}, "--%s: a request has no flag of this name; the likest is --%s", name, near)
}

// ParseFlags reads a request from the words of a command line: --mesh tp=2, --mesh=tp=2.
// The value of a switch stands behind "=" or is left out. Errors: those of Parse.
func ParseFlags(words ...string) (Request, error) {
	t := Text{}
	var l fault.List
	for i := 0; i < len(words); i++ {
		word, isFlag := strings.CutPrefix(words[i], "--")
		name, value, has := strings.Cut(word, "=")
		if !isFlag {
			l.Add(fault.New(ErrSyntax, Refused{Value: words[i]}, "%q is no flag: a request is written as flags, as in --mesh tp=4 --dtype bf16", words[i]))
			continue
		}
		f := flagNamed(name)
		switch {
		case has:
		case f == nil:
			l.Add(unknownFlag(name))
			if i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
				i++ // its value
			}
			continue
		case f.kind == "bool":
			value = "true"
		case i+1 == len(words):
			l.Add(fault.New(ErrSyntax, Refused{Flag: name}, "--%s: its value is missing", name))
			continue
		default:
			i++
			value = words[i]
		}
		if _, twice := t[name]; twice {
			l.Add(fault.New(ErrSyntax, Refused{name, value}, "--%s is given twice: want once", name))
		}
		t[name] = value
	}
	r, err := Parse(t)
	l.Add(err)
	return r, l.Err()
}

// Must reads a request from flags with blanks between them: request.Must("--mesh
// tp=2,sp=2 --dtype bf16"). It is for programs that know the text to be right, and panics if it is not.
func Must(flags string) Request {
	r, err := ParseFlags(strings.Fields(flags)...)
	if err != nil {
		panic(fmt.Sprintf("request.Must(%q): %v", flags, err))
	}
	return r
}

// MarshalJSON writes an object of the flags that say something, with underscores in their
// names: {"size": "832x480", "frames": 81, "mesh": "dp=1,tp=4,sp=1"}. Settings are left out.
func (r Request) MarshalJSON() ([]byte, error) {
	doc := map[string]any{}
	for _, a := range r.Arguments() {
		var value any = a.Value
		switch KindOf(a.Flag) {
		case "int", "uint", "float", "bool":
			value = json.RawMessage(a.Value)
		case "floats":
			value = json.RawMessage("[" + a.Value + "]")
		}
		doc[strings.ReplaceAll(a.Flag, "-", "_")] = value
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads what MarshalJSON writes. Errors: those of Parse, and ErrSyntax for a
// text that is no such object.
func (r *Request) UnmarshalJSON(b []byte) error {
	doc, bad := jsontext.ParseObject(b, jsontext.Options{Keys: true})
	if bad != nil {
		return fault.New(ErrSyntax, nil, "a request is an object of flags: %v", bad)
	}
	t := Text{}
	for key, value := range doc {
		parts, isList := value.([]any)
		if !isList {
			parts = []any{value}
		}
		var texts []string
		for _, part := range parts {
			texts = append(texts, fmt.Sprint(part))
		}
		t[strings.ReplaceAll(key, "_", "-")] = strings.Join(texts, ",")
	}
	var err error
	*r, err = Parse(t)
	return err
}

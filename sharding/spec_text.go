package sharding

import (
	"encoding/json"
	"strings"

	"weft/fault"
)

// String is the form people read and ParseSpec takes: in brackets one entry a
// dim, - for a whole dim, axes of one dim joined with + and major first, and
// after a bar the partial axes:
//
//	[]  [data,-,model]  [data+fsdp,-]  [-,-]|tp  []|sp+tp
func (s Spec) String() string {
	dims := make([]string, len(s.dims))
	for i, d := range s.dims {
		dims[i] = strings.Join(d, "+")
		if len(d) == 0 {
			dims[i] = "-"
		}
	}
	text := "[" + strings.Join(dims, ",") + "]"
	if len(s.partial) > 0 {
		text += "|" + strings.Join(s.partial, "+")
	}
	return text
}

// ParseSpec reads the form of String; the brackets may be left out, and blanks
// are ignored: "model,-,data+fsdp". Empty text is rank 0. Axis names are taken
// as they are: what they mean, only a mesh knows. Errors: ErrSpecSyntax, all
// that apply joined.
func ParseSpec(text string) (Spec, error) {
	var list fault.List
	body, partial, bar := strings.Cut(text, "|")
	body = strings.TrimSpace(body)
	if open, shut := strings.HasPrefix(body, "["), strings.HasSuffix(body, "]"); open && shut && len(body) > 1 {
		body = strings.TrimSpace(body[1 : len(body)-1])
	}
	var s Spec
	if body != "" {
		for entry := range strings.SplitSeq(body, ",") {
			s.dims = append(s.dims, parseAxes(&list, text, entry, true))
		}
	}
	if bar {
		s = s.WithPartial(parseAxes(&list, text, partial, false)...)
	}
	if err := list.Err(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// parseAxes reads "a+b"; where dash is set, "-" is no axes.
func parseAxes(list *fault.List, text, entry string, dash bool) []string {
	if dash && strings.TrimSpace(entry) == "-" {
		return nil
	}
	var axes []string
	for name := range strings.SplitSeq(entry, "+") {
		name = strings.TrimSpace(name)
		if !legalName(name) {
			list.Add(syntaxError(text, strings.TrimSpace(entry)))
			return nil
		}
		axes = append(axes, name)
	}
	return axes
}

// legalName reports whether a spec's texts can hold a name: what mesh.New takes.
func legalName(name string) bool {
	return name != "" && !strings.ContainsAny(name, " \t\r\n=,+-|[]{}()*'\"")
}

func syntaxError(text, part string) error {
	return fault.New(ErrSpecSyntax, SpecSyntax{text, part},
		"%q in spec %q is not the axes of a dim; write an axis, axes joined with +, or - for a whole dim, as in [data+fsdp,-,model], and partial axes after a bar, as in [-]|tp", part, text)
}

// specObject is the JSON of a partial spec.
type specObject struct {
	Dims    []any    `json:"dims"`
	Partial []string `json:"partial"`
}

// MarshalJSON gives a list with, for each dim, null, an axis, or a list of axes:
// ["data",null,["fsdp","model"]]. A spec with partial axes is an object:
// {"dims":[null],"partial":["tp"]}.
func (s Spec) MarshalJSON() ([]byte, error) {
	dims := make([]any, len(s.dims))
	for i, d := range s.dims {
		switch len(d) {
		case 0:
		case 1:
			dims[i] = d[0]
		default:
			dims[i] = d
		}
	}
	if len(s.partial) == 0 {
		return json.Marshal(dims)
	}
	return json.Marshal(specObject{dims, s.partial})
}

// UnmarshalJSON reads what MarshalJSON writes. Errors: ErrSpecSyntax, all that
// apply joined.
func (s *Spec) UnmarshalJSON(b []byte) error {
	var o specObject
	err := json.Unmarshal(b, &o.Dims)
	if err != nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		return fault.New(ErrSpecSyntax, SpecSyntax{string(b), ""},
			"spec %s is not a list of null, axis or list of axes: %w", b, err)
	}
	var list fault.List
	parsed := Spec{dims: make([][]string, len(o.Dims))}
	for i, d := range o.Dims {
		axes, ok := jsonAxes(d)
		if !ok {
			part, _ := json.Marshal(d)
			list.Add(syntaxError(string(b), string(part)))
		}
		parsed.dims[i] = axes
	}
	for _, name := range o.Partial {
		if !legalName(name) {
			list.Add(syntaxError(string(b), name))
		}
	}
	if err := list.Err(); err != nil {
		return err
	}
	*s = parsed.WithPartial(o.Partial...)
	return nil
}

// jsonAxes reads null, an axis, or a list of axes.
func jsonAxes(v any) (axes []string, ok bool) {
	entries, isList := v.([]any)
	if !isList && v != nil {
		entries = []any{v}
	}
	for _, e := range entries {
		name, isText := e.(string)
		if !isText || !legalName(name) {
			return nil, false
		}
		axes = append(axes, name)
	}
	return axes, true
}

package mesh

import (
	"strconv"
	"strings"

	"weft/fault"
)

// Parse reads "dp=1,tp=4,sp=2": axes outermost first, in either spelling of
// their names. The result has canonical names and the order given. Empty text is a
// mesh of one device without axes. Errors, all that apply joined: ErrMeshSyntax,
// ErrAxisSize, ErrDuplicateAxisName (also for both spellings of one axis).
func Parse(text string) ([]Axis, error) {
	if strings.TrimSpace(text) == "" {
		return []Axis{}, nil
	}
	var list fault.List
	var axes []Axis
	for part := range strings.SplitSeq(text, ",") {
		a, err := parseAxis(text, strings.TrimSpace(part))
		list.Add(err)
		if err == nil {
			axes = append(axes, a)
		}
	}
	checkNames(&list, axes)
	checkSizes(&list, axes)
	if err := list.Err(); err != nil {
		return nil, err
	}
	return axes, nil
}

// parseAxis reads one part of a mesh text: "dp=2".
func parseAxis(text, part string) (Axis, error) {
	name, size, ok := strings.Cut(part, "=")
	name, size = strings.TrimSpace(name), strings.TrimSpace(size)
	if !ok || name == "" {
		return Axis{}, syntaxError(text, part)
	}
	n, err := strconv.Atoi(size)
	if err != nil {
		return Axis{}, syntaxError(text, part)
	}
	return Axis{Canonical(name), n}, nil
}

// syntaxError says which part of a mesh text is malformed and how a right one looks.
func syntaxError(text, part string) error {
	return fault.New(ErrMeshSyntax, MeshSyntax{text, part},
		"%q in mesh %q is not an axis; write name=size with a whole number, as in dp=1,tp=4,sp=2", part, text)
}

package mesh

import (
	"strconv"
	"strings"

	"weft/fault"
)

// Canonical is the one spelling weft prints: data is dp, model is tp, context
// is sp, pipeline is pp. Every other name is itself.
func Canonical(name string) string {
	switch name {
	case "data":
		return "dp"
	case "model":
		return "tp"
	case "context":
		return "sp"
	case "pipeline":
		return "pp"
	}
	return name
}

// Parse reads "dp=1,tp=4,sp=2": axes outermost first, in either spelling of
// their names; the result has canonical names and the order given. Empty text
// is a mesh of one device, no axes. Errors, all that apply joined:
// ErrMeshSyntax, ErrAxisSize, ErrDuplicateAxisName (also for both spellings of
// one axis).
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

func syntaxError(text, part string) error {
	return fault.New(ErrMeshSyntax, MeshSyntax{text, part},
		"%q in mesh %q is not an axis; write name=size with a whole number, as in dp=1,tp=4,sp=2", part, text)
}

// Standard adds those of dp, tp and sp that are missing, with size 1, and puts
// the axes weft knows in their order, outermost first: pp, dp, fsdp, tp, sp;
// then the others as given. The axis with the most traffic a step is innermost.
func Standard(axes []Axis) []Axis {
	var out, others []Axis
	taken := map[int]bool{}
	for _, known := range []string{"pp", "dp", "fsdp", "tp", "sp"} {
		found := false
		for i, a := range axes {
			if Canonical(a.Name) == known {
				out, taken[i], found = append(out, Axis{known, a.Size}), true, true
			}
		}
		if !found && (known == "dp" || known == "tp" || known == "sp") {
			out = append(out, Axis{known, 1})
		}
	}
	for i, a := range axes {
		if !taken[i] {
			others = append(others, a)
		}
	}
	return append(out, others...)
}

package strategy

import (
	"strconv"
	"strings"

	"weft/fault"
	"weft/mesh"
)

// ParseDegrees reads "tp=8,fsdp=fill": axes in any order and either spelling
// (tensor, shard and replicate are read as tp, fsdp and dp), each a whole number
// of at least 1 or "fill". Axes left out are 1. Errors, all that apply joined:
// ErrDegreesSyntax, ErrDegree, mesh.ErrUnknownAxis, mesh.ErrDuplicateAxisName.
func ParseDegrees(text string) (Degrees, error) {
	var list fault.List
	var all [len(degreeNames)]int
	given := map[string][]int{}
	if strings.TrimSpace(text) == "" {
		return Degrees{}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		n, err := strconv.Atoi(value)
		if value == "fill" {
			n, err = Fill, nil
		}
		if !ok || name == "" || err != nil {
			list.Add(fault.New(ErrDegreesSyntax, DegreesSyntax{text, strings.TrimSpace(part)},
				"%q in degrees %q is not a degree; write axis=number or axis=fill, as in tp=8,fsdp=fill", strings.TrimSpace(part), text))
			continue
		}
		i := degreeIndex(name)
		if i < 0 {
			list.Add(fault.New(mesh.ErrUnknownAxis, mesh.UnknownAxis{Axis: name, Known: degreeNames[:]},
				"axis %s in degrees %q is not known; known axes: %s", name, text, strings.Join(degreeNames[:], " ")))
			continue
		}
		if n < 1 && value != "fill" {
			list.Add(fault.New(ErrDegree, Degree{name, n}, "degree %s=%d does not exist; a degree is at least 1, or fill", name, n))
		}
		all[i] = n
		given[degreeNames[i]] = append(given[degreeNames[i]], n)
	}
	for _, name := range degreeNames {
		if n := given[name]; len(n) > 1 {
			list.Add(fault.New(mesh.ErrDuplicateAxisName, mesh.DuplicateAxisName{Axis: name, Sizes: n},
				"degrees %q name axis %s %d times, with degrees %v; an axis occurs once", text, name, len(n), n))
		}
	}
	if err := list.Err(); err != nil {
		return Degrees{}, err
	}
	return degreesOf(all), nil
}

func degreeIndex(name string) int {
	switch name {
	case "tensor":
		name = mesh.TP
	case "shard":
		name = mesh.FSDP
	case "replicate":
		name = mesh.DP
	}
	for i, known := range degreeNames {
		if known == mesh.Canonical(name) {
			return i
		}
	}
	return -1
}

package lora

import (
	"strings"

	"weft/models"
	"weft/tensor"
)

// place is a range of rows of a parameter, and the rows of a module's tensors that belong there.
type place struct {
	parameter string // official
	shape     []int  // of the parameter
	row       int    // the first of the range
	rows      int
	from      int // the module's row for it
	of        int // rows that the module has in all
}

// columns is the number of elements of a row.
func (p place) columns() int { return tensor.Elements(p.shape[1:]) }

// parameters finds a model's parameters by the names that adapters have for them.
type parameters struct {
	official func(string) string
	places   map[string][]place // by official name, of a parameter or of a piece of one
	flat     map[string]string  // official modules by their names with _ in place of dots
	shapes   map[string]string  // where dots are in a flat name of another publisher, by its shape
	failed   map[string]int     // how many flat names of a shape are none of the model's
}

// parametersOf lists a model's parameters.
func parametersOf(m models.Model) *parameters {
	p := &parameters{official: m.Official, places: map[string][]place{}, flat: map[string]string{}, shapes: map[string]string{}, failed: map[string]int{}}
	for _, param := range m.Params(0) {
		first := 0
		for _, piece := range param.Pieces {
			p.add(piece.Name, place{param.Name, param.Shape, first, piece.Rows, piece.Row, piece.Of})
			first += piece.Rows
		}
		p.places[param.Name] = nil // a piece of this name would be another parameter's
		p.add(param.Name, place{param.Name, param.Shape, 0, param.Shape[0], 0, param.Shape[0]})
	}
	return p
}

func (p *parameters) add(name string, at place) {
	p.places[name] = append(p.places[name], at)
	module := strings.TrimSuffix(strings.TrimSuffix(name, ".weight"), ".bias")
	p.flat[flatten(module)] = module
}

func flatten(module string) string { return strings.ReplaceAll(module, ".", "_") }

// findModule gives the places of a module's weight, or of its bias; none where the model has no such
// module.
func (p *parameters) findModule(module, leaf string) []place {
	if flat, is := flatName(module); is {
		return p.placesOf(p.unflatten(flat), leaf)
	}
	for _, name := range bareNames(module) {
		if at := p.placesOf(name, leaf); at != nil {
			return at
		}
	}
	return nil
}

func (p *parameters) placesOf(module, leaf string) []place {
	if at := p.places[p.official(module+"."+leaf)]; at != nil {
		return at
	}
	if leaf == "weight" { // a table that is no layer's, such as modulation
		return p.places[p.official(module)]
	}
	return nil
}

// maxUnderscores bounds how many underscores of a flat name are tried as dots, and maxFailed the
// names of one shape for which that is done in vain.
const (
	maxUnderscores = 10
	maxFailed      = 2
)

// unflatten finds the module of a flat name. Other publishers' modules are found by trying every
// underscore as a dot, once for all names that differ in numbers alone.
func (p *parameters) unflatten(flat string) string {
	if module, official := p.flat[flat]; official {
		return module
	}
	parts := strings.Split(flat, "_")
	shape := shapeOf(parts)
	if separators := p.shapes[shape]; separators != "" {
		if module := joinParts(parts, separators); p.placesOf(module, "weight") != nil {
			return module
		}
	}
	if p.failed[shape] == maxFailed {
		return flat
	}
	separators := p.findSeparators(parts)
	if separators == "" {
		p.failed[shape]++
		return flat
	}
	p.shapes[shape] = separators
	return joinParts(parts, separators)
}

// findSeparators gives, for each underscore of a name, whether it is one or a dot; "" where no choice
// makes a module of the model.
func (p *parameters) findSeparators(parts []string) string {
	n := len(parts) - 1
	if n < 1 || n > maxUnderscores {
		return ""
	}
	separators := make([]byte, n)
	for choice := range 1 << n {
		for i := range separators {
			if separators[i] = '.'; choice>>i&1 == 1 {
				separators[i] = '_'
			}
		}
		if p.placesOf(joinParts(parts, string(separators)), "weight") != nil {
			return string(separators)
		}
	}
	return ""
}

func joinParts(parts []string, separators string) string {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(separators[i-1])
		}
		b.WriteString(part)
	}
	return b.String()
}

// shapeOf is a name with # in place of its numbers.
func shapeOf(parts []string) string {
	out := make([]string, len(parts))
	for i, part := range parts {
		if out[i] = part; part != "" && strings.Trim(part, "0123456789") == "" {
			out[i] = "#"
		}
	}
	return strings.Join(out, "_")
}

package step

import (
	"cmp"
	"fmt"

	"weft/graph"
	"weft/sharding"
)

// Part is a call of a program, with the definition of the program. P is a family's type of
// a program under construction.
type Part[P any] struct {
	Program string
	// Call is the call's name, if it is not the program's, which EachLayer completes by the layer.
	Call string
	// Prefix is put before the names of the parameters that the program reads. A program
	// that all layers share is defined with the prefix of the first of them in its stage.
	Prefix  string
	Layer   int  // of the PerLayer values that the call reads and makes; of EachLayer's parts 0 is the layer itself
	Request bool // made once per request, not in every step
	Trace   map[int]graph.Traced
	Define  func(p P)
}

// PartIf returns the part if the condition holds, and otherwise one that is left out.
func PartIf[P any](condition bool, part Part[P]) Part[P] {
	if !condition {
		return Part[P]{}
	}
	return part
}

// Parts are calls that follow each other.
type Parts[P any] struct {
	first, last bool
	once        []Part[P]
	layer       func(i int) []Part[P]
}

// First are calls of the first stage alone.
func First[P any](parts ...Part[P]) Parts[P] { return Parts[P]{first: true, once: parts} }

// EachLayer are the calls of every layer, those of one layer after those of the layer before.
func EachLayer[P any](of func(layer int) []Part[P]) Parts[P] { return Parts[P]{layer: of} }

// Last are calls of the last stage alone.
func Last[P any](parts ...Part[P]) Parts[P] { return Parts[P]{last: true, once: parts} }

// Assemble completes a graph: it defines the programs of every pipeline stage, adds their
// calls in the order of parts, and makes values the graph's outputs. program makes a
// family's type of a program of one that Define gets.
func Assemble[P any](s *Step, layers int, program func(p *ProgramBuilder) P, parts []Parts[P], outputs ...string) (*graph.Graph, error) {
	err := s.Stages(layers, func(first, last bool, layers sharding.Range) error {
		for _, group := range parts {
			var of []Part[P]
			switch {
			case group.layer != nil:
				for i := layers.Lo; i < layers.Hi; i++ {
					for _, part := range group.layer(i) {
						part.Layer = cmp.Or(part.Layer, i)
						part.Call = cmp.Or(part.Call, fmt.Sprintf("%s %d", part.Program, i))
						of = append(of, part)
					}
				}
			case group.first && first, group.last && last:
				of = group.once
			}
			for _, part := range of {
				if err := addPart(s, program, part); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.Finish(outputs...)
}

// addPart adds a call, and before it the program, if the stage does not have it yet.
func addPart[P any](s *Step, program func(p *ProgramBuilder) P, part Part[P]) error {
	if part.Program == "" {
		return nil
	}
	if s.Graph.Programs[part.Program+s.suffix] == nil {
		if err := s.Build(part.Program, part.Prefix, func(p *ProgramBuilder) { part.Define(program(p)) }); err != nil {
			return err
		}
	}
	s.Call(graph.Call{Name: cmp.Or(part.Call, part.Program), Program: part.Program, Request: part.Request, Trace: part.Trace}, part.Prefix, part.Layer)
	return nil
}

// PlainProgram is the program of a family that adds nothing to ProgramBuilder.
func PlainProgram(p *ProgramBuilder) *ProgramBuilder { return p }

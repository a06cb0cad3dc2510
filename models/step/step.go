// Package step is what families build their graphs with: a model's parameters
// as inputs of programs, the values that flow between them, and the calls that
// bind both. What a model computes is the family's own.
package step

import (
	"fmt"
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/program"
	"weft/sharding"
	"weft/strategy"
)

// Kind is how a value is named from call to call.
type Kind int

// The kinds of values.
const (
	// Once is made by one call: the text's embedding.
	Once Kind = iota
	// Stream has a new name after every call that makes it, "tokens.0" the first
	// time; a call reads the newest.
	Stream
	// PerLayer is made and read once a layer: "text_k.3".
	PerLayer
)

// Value is what calls hand on.
type Value struct {
	DType dtype.DType
	Shape []int
	Spec  sharding.Spec
	Kind  Kind
}

// Step is one graph under construction.
type Step struct {
	// Mesh has the devices of the pipeline stage under construction.
	Mesh    *mesh.Mesh
	Request models.Request
	Graph   *graph.Graph

	specs       map[string]sharding.Assigned // as the programs use weights
	weightIndex map[string]int               // where in Graph.Weights they are, as kept between uses
	values      map[string]Value
	made        map[string]int // of each stream, how often it was made
	// The stage under construction: its number, and what its programs' names end in.
	at     int
	suffix string
}

// New starts the graph of a request: the parameters of the layers it runs, each
// with its spec and, where fsdp shares it out, its share at rest. The request
// must have passed the model's Check.
func New(m models.Model, on *mesh.Mesh, r models.Request) (*Step, error) {
	params := m.Params(r.Layers)
	assigned, err := models.SpecsOf(m, on, params)
	if err != nil {
		return nil, err
	}
	s := &Step{Mesh: on, Request: r, Graph: &graph.Graph{Mesh: on, Programs: map[string]*program.Program{}},
		specs: make(map[string]sharding.Assigned, len(params)), weightIndex: make(map[string]int, len(params)), values: map[string]Value{}, made: map[string]int{}}
	s.Graph.Weights = make([]graph.Weight, 0, len(params))
	for i, p := range params {
		s.specs[p.Name] = assigned[i]
		if note := assigned[i].Note; note != "" {
			s.Graph.Notes = append(s.Graph.Notes, note)
		}
		w := graph.Weight{Name: p.Name, File: p.Shape, Shape: p.Shape, DType: dtype.F32, Spec: assigned[i].Spec, Rule: assigned[i].Rule, Pieces: p.Pieces}
		if p.View != nil {
			w.Shape = p.View
		}
		if p.Matmul {
			w.DType = r.DType
		}
		if layout := assigned[i].Layout; len(layout.Parts) > 0 {
			w.Layout = layout
		} else {
			s.repeatHeads(&w, layout)
		}
		s.Graph.Weights = append(s.Graph.Weights, w)
	}
	notes, err := models.Share(on, s.Graph.Weights, models.FSDPAxes(on, r))
	if err != nil {
		return nil, err
	}
	s.Graph.Notes = append(s.Graph.Notes, notes...)
	for i := range s.Graph.Weights {
		s.weightIndex[s.Graph.Weights[i].Name] = i
	}
	return s, nil
}

// repeatHeads gives a parameter whose rows are heads, fewer than the devices they are
// split over, a copy of each head for the neighbouring devices that share it: to
// the programs copies are heads like any other (field report A02).
func (s *Step) repeatHeads(w *graph.Weight, layout sharding.Layout) {
	axes := w.Spec.Dim(0)
	parts := s.Mesh.Size(axes...)
	if len(axes) == 0 || len(layout.Heads) != 1 || layout.Heads[0] == 0 || layout.Dim != 0 || parts <= layout.Heads[0] {
		return
	}
	heads := layout.Heads[0]
	w.Repeat, w.Unit = parts/heads, w.Shape[0]/heads
	w.Shape = append([]int{w.Shape[0] * w.Repeat}, w.Shape[1:]...)
	note := fmt.Sprintf("%d key and value heads over %v=%d: each is held by %d neighbouring devices", heads, axes, parts, w.Repeat)
	if !slices.Contains(s.Graph.Notes, note) {
		s.Graph.Notes = append(s.Graph.Notes, note)
	}
}

// Note adds what a reader of the plan must know.
func (s *Step) Note(format string, args ...any) {
	s.Graph.Notes = append(s.Graph.Notes, fmt.Sprintf(format, args...))
}

// Padded notes that tokens were padded for the split, if they were.
func (s *Step) Padded(what string, n, padded int) {
	if padded > n {
		multiple := ""
		if k := s.Request.TokenMultiple(); k > 1 && padded%k == 0 {
			multiple = fmt.Sprintf(", a multiple of %d each", k)
		}
		s.Note("%d %s padded by %d to %d, so that %s devices hold equally many%s; padding is masked and cut off again", n, what, padded-n, padded, s.Graph.Mesh, multiple)
	}
}

// Input declares a value that the host provides.
func (s *Step) Input(in graph.Input) {
	s.Graph.Inputs = append(s.Graph.Inputs, in)
	s.values[in.Name] = Value{DType: in.DType, Shape: in.Shape, Spec: in.Spec}
}

// Value declares a value that calls hand on.
func (s *Step) Value(name string, v Value) { s.values[name] = v }

// Has says whether the model has a parameter of this name.
func (s *Step) Has(name string) bool {
	_, ok := s.weightIndex[name]
	return ok
}

// Spec is how programs hold a parameter.
func (s *Step) Spec(name string) sharding.Spec { return s.specs[name].Spec }

// Stages builds a pipeline's stages over the mesh axis pp, each with its range of
// the layers and on its own devices; first and last tell the ends. Without the
// axis there is one stage of all layers.
func (s *Step) Stages(layers int, build func(first, last bool, layers sharding.Range) error) error {
	stages, err := strategy.Even(layers, s.Graph.Mesh.Size(mesh.PP))
	if err != nil {
		return err
	}
	s.Graph.Layers = layers
	n := stages.Len()
	for i, r := range stages.Ranges() {
		if n > 1 {
			sub, err := s.Graph.Mesh.Sub(mesh.PP, i)
			if err != nil {
				return err
			}
			s.Mesh, s.at, s.suffix = sub, i, fmt.Sprintf("@%d", i)
		}
		if err := build(i == 0, i == n-1, r); err != nil {
			return err
		}
	}
	if n > 1 {
		s.Note("pipeline of %d stages with layers %v", n, stages.Ranges())
	}
	return nil
}

// Call binds a program of the stage and adds the call. An input that names a
// parameter under prefix is bound to that parameter, any other to the value of
// its name; layer is the one whose PerLayer values are meant.
func (s *Step) Call(c graph.Call, prefix string, layer int) {
	c.Program += s.suffix
	c.Stage = s.at
	p := s.Graph.Programs[c.Program]
	for _, in := range p.Inputs {
		if s.Has(prefix + in.Name) {
			c.Args = append(c.Args, graph.Ref{Weight: true, Name: prefix + in.Name})
		} else {
			c.Args = append(c.Args, graph.Ref{Name: s.versionedName(in.Name, layer, s.made[in.Name]-1)})
		}
	}
	for _, o := range p.Outputs {
		c.Outs = append(c.Outs, s.versionedName(o.Name, layer, s.made[o.Name]))
		s.made[o.Name]++
	}
	s.Graph.Calls = append(s.Graph.Calls, c)
}

func (s *Step) versionedName(value string, layer, version int) string {
	switch s.values[value].Kind {
	case Stream:
		return fmt.Sprintf("%s.%d", value, version)
	case PerLayer:
		return fmt.Sprintf("%s.%d", value, layer)
	}
	return value
}

// Finish names the graph's outputs, values of their own names, and checks it.
// Weights that no call reads, an encoder's beside a decoder, are left out.
func (s *Step) Finish(outputs ...string) (*graph.Graph, error) {
	homes := s.Graph.Homes()
	s.Graph.Weights = slices.DeleteFunc(s.Graph.Weights, func(w graph.Weight) bool { return homes[w.Name] == nil })
	for _, o := range outputs {
		s.Graph.Outputs = append(s.Graph.Outputs, graph.Output{Name: o, Value: o})
	}
	return s.Graph, s.Graph.Check()
}

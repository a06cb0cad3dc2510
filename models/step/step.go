// Package step has the pieces that families build their graphs with: a model's parameters as
// inputs of programs, the values that flow between programs, and the calls that bind both.
// What is computed is up to the family.
package step

import (
	"fmt"
	"regexp"
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/program"
	"weft/sharding"
	"weft/strategy"
)

// Kind says how a value is named from call to call.
type Kind int

// The kinds of values.
const (
	// Once values are made by one call, such as the text's embedding.
	Once Kind = iota
	// Stream values get a new name from every call that makes them, "tokens.0" the
	// first time. A call reads the newest.
	Stream
	// PerLayer values are made and read once in each layer: "text_k.3".
	PerLayer
)

// Value is a value that calls pass to each other.
type Value struct {
	DType dtype.DType
	Shape []int
	Spec  sharding.Spec
	Kind  Kind
}

// Step is one graph under construction.
type Step struct {
	// Mesh holds the devices of the pipeline stage under construction.
	Mesh    *mesh.Mesh
	Request models.Request
	Graph   *graph.Graph

	specs       map[string]sharding.Assigned // how programs use the weights
	weightIndex map[string]int               // each weight's index in Graph.Weights, which has it as it is kept at rest
	values      map[string]Value
	made        map[string]int // how often each Stream value was made
	// at is the number of the stage under construction, suffix ends the names of its programs.
	at     int
	suffix string
}

// Parameters are what a graph needs of a model: a list and its rules.
type Parameters interface {
	Params(layers int) []models.Param
	Rules() sharding.Rules
}

// New starts the graph of a request with the parameters of the layers that it runs. Each
// parameter has its spec and, if fsdp shards it, its shard at rest. The request must have
// passed the model's Check.
func New(m Parameters, on *mesh.Mesh, r models.Request) (*Step, error) {
	params := m.Params(r.Layers)
	assigned, err := models.AssignRules(m.Rules(), on, params)
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

// repeatHeads handles a parameter whose rows are heads, sharded over more devices than there
// are heads. Neighbouring devices share a head then, and each holds a copy of it. The
// programs see as many heads as there are copies, so they need no case of their own for
// this.
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

// DropWeight leaves a parameter out of the graph, which no call reads.
func (s *Step) DropWeight(name string) {
	s.Graph.Weights = slices.DeleteFunc(s.Graph.Weights, func(w graph.Weight) bool { return w.Name == name })
	clear(s.weightIndex)
	for i, w := range s.Graph.Weights {
		s.weightIndex[w.Name] = i
	}
}

// Note adds a sentence that a reader of the plan must know.
func (s *Step) Note(format string, args ...any) {
	s.Graph.Notes = append(s.Graph.Notes, fmt.Sprintf(format, args...))
}

// Padded notes that tokens were padded so that they divide over the devices, if they were.
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
	in.Spec = in.Spec.OnMesh(s.Mesh)
	s.Graph.Inputs = append(s.Graph.Inputs, in)
	s.values[in.Name] = Value{DType: in.DType, Shape: in.Shape, Spec: in.Spec}
}

// Value declares a value that calls pass to each other.
func (s *Step) Value(name string, v Value) {
	v.Spec = v.Spec.OnMesh(s.Mesh)
	s.values[name] = v
}

// ValueOf is the value that was declared under a name.
func (s *Step) ValueOf(name string) Value { return s.values[name] }

// Has says whether the model has a parameter of this name.
func (s *Step) Has(name string) bool {
	_, ok := s.weightIndex[name]
	return ok
}

// Spec is the spec with which programs use a parameter.
func (s *Step) Spec(name string) sharding.Spec { return s.specs[name].Spec }

// Stages builds the stages of a pipeline over the mesh axis pp. Each has a range of the
// layers and its own devices; first and last mark the ends. Without the axis there is one
// stage with all layers.
func (s *Step) Stages(layers int, build func(first, last bool, layers sharding.Range) error) error {
	pp := strategy.Axis(strategy.Layers)
	stages, err := strategy.Even(layers, s.Graph.Mesh.Size(pp))
	if err != nil {
		return err
	}
	s.Graph.Layers = layers
	n := stages.Len()
	for i, r := range stages.Ranges() {
		if n > 1 {
			sub, err := s.Graph.Mesh.Sub(pp, i)
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

// layerPrefix finds the layer in a prefix of parameters: "blocks.3." in "blocks.3.cross_attn.".
var layerPrefix = regexp.MustCompile(`^(.*?\.)?[0-9]+\.`)

// Call adds a call of a program of the stage. An input that is named like a parameter under
// prefix is bound to that parameter, every other to the value of its name. layer is the
// layer of PerLayer values.
func (s *Step) Call(c graph.Call, prefix string, layer int) {
	c.Program += s.suffix
	c.Stage = s.at
	c.Layer = layerPrefix.FindString(prefix)
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

// versionedName is the name of a value as its kind has it: with the version of a Stream, or
// with the layer.
func (s *Step) versionedName(value string, layer, version int) string {
	switch s.values[value].Kind {
	case Stream:
		return fmt.Sprintf("%s.%d", value, version)
	case PerLayer:
		return fmt.Sprintf("%s.%d", value, layer)
	}
	return value
}

// Finish makes values the graph's outputs, under their own names, and checks the graph.
// Weights that no call reads are left out, such as an encoder's beside a decoder.
func (s *Step) Finish(outputs ...string) (*graph.Graph, error) {
	homes := s.Graph.Homes()
	s.Graph.Weights = slices.DeleteFunc(s.Graph.Weights, func(w graph.Weight) bool { return homes[w.Name] == nil })
	for _, o := range outputs {
		s.Graph.Outputs = append(s.Graph.Outputs, graph.Output{Name: o, Value: o})
	}
	return s.Graph, s.Graph.Check()
}

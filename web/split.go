package web

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/plan"
	"weft/request"
	"weft/sharding"
)

// Split is one plan's tensors, and the commands that run it.
type Split struct {
	Commands []Command `json:"commands"`
	Tensors  []Tensor  `json:"tensors"`
	Notes    []string  `json:"notes"`
}

// The roles of tensors.
const (
	Parameter = "parameter"
	Input     = "input" // what the host feeds
	Value     = "value" // what a call hands to later ones
)

// Tensor is a parameter or an activation, and how it is held.
type Tensor struct {
	Name  string        `json:"name"`
	Role  string        `json:"role"`
	Call  string        `json:"call,omitempty"` // that makes it
	DType string        `json:"dtype"`
	Shape []int         `json:"shape"` // in the programs, padding included
	File  []int         `json:"file_shape,omitempty"`
	Spec  sharding.Spec `json:"spec"`
	// LocalBytes is what one device holds, Copies how many devices hold each element.
	LocalBytes int64  `json:"local_bytes"`
	Copies     int    `json:"copies"`
	Rule       string `json:"rule,omitempty"` // that decided

	layout sharding.Layout
	home   *mesh.Mesh // its devices: with a pipeline, a stage's
}

// Shards is a tensor with the part of it that each device holds.
type Shards struct {
	Tensor
	Mesh    string  `json:"mesh"`
	Devices []Shard `json:"devices"` // that hold some of it, by mesh position
}

// Shard describes the part of a tensor that the device at a mesh position holds. Each
// dim has one range, or one range for each part of a fused dim. A shard of a partial
// tensor is an addend of the value.
type Shard struct {
	Position int                `json:"position"`
	Coords   []int              `json:"coords"` // along the mesh's axes
	Ranges   [][]sharding.Range `json:"ranges"`
}

// built is a plan's graph with the layouts of its parameters.
type built struct {
	*graph.Graph
	layouts map[string]sharding.Layout
}

// graphs keeps the graphs of the last few plans, because each tensor that is viewed
// asks for the same one.
type graphs struct {
	mu   sync.Mutex
	kept []keptGraph // newest first
}

type keptGraph struct {
	key string
	b   *built
}

const maxGraphs = 4

// getOrBuild returns the graph that is kept under key, or builds it and keeps it.
func (g *graphs) getOrBuild(key string, build func() (*built, error)) (*built, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.IndexFunc(g.kept, func(k keptGraph) bool { return k.key == key }); i >= 0 {
		return g.kept[i].b, nil
	}
	b, err := build()
	if err != nil {
		return nil, err
	}
	g.kept = append([]keptGraph{{key, b}}, g.kept[:min(len(g.kept), maxGraphs-1)]...)
	return b, nil
}

// requestedGraph builds the graph that a request asks for. The error includes all
// errors in the parameters.
func (s *Server) requestedGraph(p *params) (*built, models.Model, request.Request, error) {
	m, o := s.readRequest(p, "fsdp")
	if o.On.All {
		p.l.Add(fault.New(ErrParameter, nil, "on=all: one plan is on one slice"))
	}
	if err := p.err(); err != nil {
		return nil, nil, o.Request, err
	}
	b, err := s.graphs.getOrBuild(fmt.Sprintf("%q %s", p.text("model"), o.Request), func() (*built, error) { return buildGraph(m, o) })
	return b, m, o.Request, err
}

func buildGraph(m models.Model, o plan.Options) (*built, error) {
	g, err := plan.Graph(m, o)
	if err != nil {
		return nil, err
	}
	assigned, err := models.Specs(m, g.Mesh, 0)
	if err != nil {
		return nil, err
	}
	b := &built{Graph: g, layouts: map[string]sharding.Layout{}}
	for _, a := range assigned {
		b.layouts[a.Name] = a.Layout
	}
	return b, nil
}

// answerSplit answers with all the tensors of a plan and the commands that run it.
func (s *Server) answerSplit(r *http.Request) (any, error) {
	b, m, asked, err := s.requestedGraph(paramsOf(r))
	if err != nil {
		return nil, err
	}
	doc := Split{Commands: s.listCommands(m, asked), Notes: append([]string{}, b.Notes...)}
	if doc.Tensors, err = b.listTensors(); err != nil {
		return nil, err
	}
	return doc, nil
}

// answerShards answers with the shards of one tensor.
func (s *Server) answerShards(r *http.Request) (any, error) {
	p := paramsOf(r)
	name := p.requiredText("tensor")
	b, _, _, err := s.requestedGraph(p)
	if err != nil {
		return nil, err
	}
	all, err := b.listTensors()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return nil, fault.New(ErrParameter, nil, "tensor %q: the step has no parameter, input or value of this name", name)
	}
	doc := Shards{Tensor: all[i], Mesh: b.Mesh.String()}
	for i, d := range doc.home.Devices() {
		ranges, err := doc.asAssigned().Ranges(doc.home, i)
		if err != nil {
			return nil, err
		}
		pos := b.Mesh.PositionOf(d.ID)
		doc.Devices = append(doc.Devices, Shard{pos, b.Mesh.Coords(pos), ranges})
	}
	return doc, nil
}

// asAssigned converts a tensor to the form that package sharding computes ranges from.
func (t Tensor) asAssigned() sharding.Assigned {
	return sharding.Assigned{Param: sharding.Param{Name: t.Name, Shape: t.Shape}, Spec: t.Spec, Layout: t.layout}
}

// listTensors lists the parameters, the inputs and the values that calls pass on, in
// the order of the step.
func (b *built) listTensors() ([]Tensor, error) {
	out := []Tensor{}
	homes := b.Homes()
	add := func(t Tensor, size int) error {
		if t.home == nil {
			t.home = homes[t.Name]
		}
		if t.home == nil {
			t.home = b.Mesh // nothing reads it
		}
		t.Spec = t.Spec.Canonical(t.home, len(t.Shape))
		local, err := t.asAssigned().Local(t.home)
		if err != nil {
			return err
		}
		held, whole := int64(1), int64(1)
		for d := range local {
			held, whole = held*int64(local[d]), whole*int64(t.Shape[d])
		}
		t.LocalBytes, t.Copies = held*int64(size), t.home.NumDevices()
		if whole > 0 {
			t.Copies = int(held * int64(t.home.NumDevices()) / whole)
		}
		out = append(out, t)
		return nil
	}
	for _, w := range b.Weights {
		t := Tensor{Name: w.Name, Role: Parameter, DType: w.DType.String(), Shape: w.Shape, Spec: w.Spec, Rule: w.Rule, layout: b.layouts[w.Name]}
		switch {
		case w.Repeat > 1: // the layout says which rows are copies
			t.Shape = w.File
		case !slices.Equal(w.File, w.Shape):
			t.File = w.File
		}
		if err := add(t, w.DType.Size()); err != nil {
			return nil, err
		}
	}
	for _, in := range b.Inputs {
		if err := add(Tensor{Name: in.Name, Role: Input, DType: in.DType.String(), Shape: in.Shape, Spec: in.Spec}, in.DType.Size()); err != nil {
			return nil, err
		}
	}
	for _, c := range b.Calls {
		p := b.Programs[c.Program]
		for i, o := range p.Outputs {
			if err := add(Tensor{home: p.Mesh, Name: c.Outs[i], Role: Value, Call: c.Name, DType: o.DType.String(), Shape: o.Shape, Spec: o.Spec}, o.DType.Size()); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

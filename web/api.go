package web

import (
	"maps"
	"net/http"
	"slices"

	"weft/attention"
	"weft/mesh"
	"weft/models"
	"weft/plan"
	"weft/topology"
)

// Choices lists the values that a question to the explorer can be made of.
type Choices struct {
	Models []ModelChoice `json:"models"`
	Slices []SliceChoice `json:"slices"`
	DTypes []string      `json:"dtypes"`
	CFG    []string      `json:"cfg"` // "" is the release's own
	// Attention are the forms it has; a plan says which each attention takes, and why.
	Attention []string `json:"attention"`
	// Sizes and Frames are examples; a model may want others, and says which.
	Sizes  []string `json:"sizes"`
	Frames []int    `json:"frames"`
}

// ModelChoice is a model that can be planned.
type ModelChoice struct {
	Name     string `json:"name"`
	Elements int64  `json:"elements"` // of all parameters
}

// SliceChoice is hardware that can be planned for, by the name that the parameter on
// takes.
type SliceChoice struct {
	Name     string        `json:"name"`
	Kind     topology.Kind `json:"kind"`
	Devices  int           `json:"devices"`
	HBMBytes *int64        `json:"hbm_bytes_per_device"` // that a program gets; nil where it is not known
}

// answerChoices lists the models and slices that can be planned. Models that make no
// videos cannot be planned and are left out.
func (s *Server) answerChoices(r *http.Request) (any, error) {
	if err := paramsOf(r).err(); err != nil {
		return nil, err
	}
	c := Choices{DTypes: []string{"bf16", "f32"}, CFG: []string{"", models.CFGBatch, models.CFGSequential, models.CFGNone}, Attention: []string{attention.Auto, attention.Blocked, attention.Kernel},
		Sizes: []string{"480x832", "832x480", "1280x720", "720x1280", "1280x704", "1024x576", "480x480"}, Frames: []int{1, 9, 17, 33, 49, 65, 81, 121}}
	for _, name := range append(slices.Sorted(maps.Keys(s.o.Models)), models.Presets()...) {
		m, _, err := s.findModel(name)
		if err != nil {
			return nil, err
		}
		if m.Features().Generator == nil {
			continue
		}
		choice := ModelChoice{Name: name}
		for _, p := range m.Params(0) {
			n := int64(1)
			for _, d := range p.Shape {
				n *= int64(d)
			}
			choice.Elements += n
		}
		c.Models = append(c.Models, choice)
	}
	add := func(on topology.Slice) {
		c.Slices = append(c.Slices, SliceChoice{on.String(), on.Kind, on.Devices, on.Memory().UsableBytes})
	}
	for _, on := range topology.Slices() {
		add(on)
	}
	for _, g := range topology.GPUs() {
		for _, n := range []string{"x1", "x2", "x4", "x8"} {
			if on, err := topology.Lookup(g.Names[0] + n); err == nil {
				add(on)
			}
		}
	}
	for _, name := range []string{"cpu:1", "cpu:2", "cpu:4", "cpu:8"} {
		on, err := topology.Lookup(name)
		if err != nil {
			return nil, err
		}
		add(on)
	}
	return c, nil
}

// answerPlan answers with the plans that weft plan gives.
func (s *Server) answerPlan(r *http.Request) (any, error) {
	p := paramsOf(r)
	m, o := s.readRequest(p)
	if err := p.err(); err != nil {
		return nil, err
	}
	res, err := plan.Search(r.Context(), m, o)
	if err != nil {
		return nil, err
	}
	return plan.Document{Result: res, Assertions: []plan.Assertion{}}, nil
}

// answerExplain answers with what weft plan --explain says of a figure of one plan.
func (s *Server) answerExplain(r *http.Request) (any, error) {
	p := paramsOf(r)
	m, o := s.readRequest(p, "fsdp")
	name := p.requiredText("figure")
	if err := p.err(); err != nil {
		return nil, err
	}
	return plan.Explain(r.Context(), m, o, name)
}

// answerTopo answers with the facts of a slice and, if a mesh is given, how the mesh is
// laid on it.
func (s *Server) answerTopo(r *http.Request) (any, error) {
	p := paramsOf(r)
	name, text, moved := p.requiredText("name"), p.text("mesh"), p.allValues("bytes")
	if err := p.err(); err != nil {
		return nil, err
	}
	on, err := topology.Lookup(name)
	if err != nil {
		return nil, err
	}
	doc := topology.Document{Report: on.Report()}
	if text == "" {
		return doc, nil
	}
	axes, err := mesh.Parse(text)
	if err != nil {
		return nil, err
	}
	bytes, err := topology.ParseBytes(moved)
	if err != nil {
		return nil, err
	}
	if doc.Mesh, err = on.ReportMesh(axes, bytes, false); err != nil {
		return nil, err
	}
	return doc, nil
}

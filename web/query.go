package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"weft/fault"
	"weft/models"
	"weft/plan"
	"weft/request"
)

// params reads the parameters of a request and collects all errors in them.
type params struct {
	values url.Values
	known  []string
	l      fault.List
}

func paramsOf(r *http.Request) *params {
	p := &params{}
	var err error
	if p.values, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		p.l.Add(fault.New(ErrParameter, nil, "the query cannot be read: %v", err))
	}
	return p
}

// text returns a parameter that may be given once, or "".
func (p *params) text(name string) string {
	p.known = append(p.known, name)
	if n := len(p.values[name]); n > 1 {
		p.l.Add(fault.New(ErrParameter, nil, "parameter %s is given %d times: want once", name, n))
	}
	return p.values.Get(name)
}

// requiredText returns a parameter that must be given.
func (p *params) requiredText(name string) string {
	text := p.text(name)
	if text == "" {
		p.l.Add(fault.New(ErrParameter, nil, "parameter %s is missing", name))
	}
	return text
}

// allValues returns the values of a parameter that may be given any number of times.
func (p *params) allValues(name string) []string {
	p.known = append(p.known, name)
	return p.values[name]
}

// err returns all errors in the parameters, including parameters that were given but
// never read.
func (p *params) err() error {
	names := make([]string, 0, len(p.values))
	for name := range p.values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(p.known, name) {
			p.l.Add(fault.New(ErrParameter, nil, "parameter %q is unknown: want %s", name, strings.Join(p.known, ", ")))
		}
	}
	return p.l.Err()
}

// requestFlags are the parameters that are flags of a request, as weft plan has them.
var requestFlags = []string{"frames", "dtype", "batch", "cfg", "mesh", "split-residual", "text-len", "attention", "offload", "offload-depth"}

// readRequest reads the parameters that weft plan has as flags, and those in more. A
// parameter without a value says nothing.
func (s *Server) readRequest(p *params, more ...string) (models.Model, plan.Options) {
	text := request.Text{"dtype": "bf16"}
	add := func(name, value string) {
		if value != "" {
			text[name] = value
		}
	}
	add("size", p.requiredText("size"))
	add("on", p.requiredText("on"))
	for _, name := range slices.Concat(requestFlags, more) {
		add(name, p.text(name))
	}
	r, err := request.Parse(text)
	for _, v := range fault.Violations(err) {
		if refused, ok := fault.Fields[request.Refused](v); ok && errors.Is(v, request.ErrSyntax) {
			v = fault.New(ErrParameter, refused, "parameter %w", v)
		}
		p.l.Add(v)
	}
	name := p.requiredText("model")
	m, settings, err := s.findModel(name)
	r.Settings = settings
	if err != nil && name != "" {
		p.l.Add(err)
	}
	return m, plan.Options{Request: r, Machine: s.o.Machine}
}

// findModel finds a preset or one of Options.Models. A page cannot name any other
// folder, because the answer would reveal which folders exist on this machine.
func (s *Server) findModel(name string) (models.Model, models.Settings, error) {
	if m, ok := s.o.Models[name]; ok {
		return m, s.o.Settings[name], nil
	}
	return models.FindModel(name, "")
}

package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weft/fault"
	"weft/models"
	"weft/plan"
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

// commaList returns the parts of a parameter whose value has commas between them.
func (p *params) commaList(name string) []string {
	text := p.text(name)
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// allValues returns the values of a parameter that may be given any number of times.
func (p *params) allValues(name string) []string {
	p.known = append(p.known, name)
	return p.values[name]
}

// wholeNumber returns a parameter that is a whole number, or otherwise if it is not
// given.
func (p *params) wholeNumber(name string, otherwise int) int {
	text := p.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		p.l.Add(fault.New(ErrParameter, nil, "parameter %s is %q: want a whole number", name, text))
	}
	return n
}

// boolFlag returns a parameter that is true or false. It is false if it is not given.
func (p *params) boolFlag(name string) bool {
	text := p.text(name)
	if text == "" {
		return false
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		p.l.Add(fault.New(ErrParameter, nil, "parameter %s is %q: want true or false", name, text))
	}
	return on
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

// readQuery reads the parameters that weft plan has as flags.
func (s *Server) readQuery(p *params) (models.Model, plan.Query) {
	q := plan.Query{Size: p.requiredText("size"), Frames: p.wholeNumber("frames", 0), On: p.requiredText("on"), DType: p.text("dtype"), Batch: p.wholeNumber("batch", 1), CFG: p.text("cfg"),
		Mesh: p.text("mesh"), SplitResidual: p.boolFlag("split-residual"), TextLen: p.wholeNumber("text-len", 0), Attention: p.text("attention"), Machine: s.o.Machine}
	if q.Batch < 1 {
		p.l.Add(fault.New(plan.ErrOptions, nil, "batch %d: want 1 or more", q.Batch))
	}
	name := p.requiredText("model")
	m, settings, err := s.findModel(name)
	q.Settings = settings
	if err != nil && name != "" {
		p.l.Add(err)
	}
	return m, q
}

// findModel finds a preset or one of Options.Models. A page cannot name any other
// folder, because the answer would reveal which folders exist on this machine.
func (s *Server) findModel(name string) (models.Model, models.Settings, error) {
	if m, ok := s.o.Models[name]; ok {
		return m, s.o.Settings[name], nil
	}
	return models.FindModel(name, "")
}

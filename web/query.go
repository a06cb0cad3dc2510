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

// params reads a request's parameters and collects what is wrong with them.
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

// text is a parameter given once at most.
func (p *params) text(name string) string {
	p.known = append(p.known, name)
	if n := len(p.values[name]); n > 1 {
		p.l.Add(fault.New(ErrParameter, nil, "parameter %s is given %d times: want once", name, n))
	}
	return p.values.Get(name)
}

// requiredText is a text that must be there.
func (p *params) requiredText(name string) string {
	text := p.text(name)
	if text == "" {
		p.l.Add(fault.New(ErrParameter, nil, "parameter %s is missing", name))
	}
	return text
}

// commaList is a text with commas between.
func (p *params) commaList(name string) []string {
	text := p.text(name)
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// allValues is a parameter given any number of times.
func (p *params) allValues(name string) []string {
	p.known = append(p.known, name)
	return p.values[name]
}

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

// err is everything wrong, parameters nobody asked for included.
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

// readQuery reads what weft plan has flags for.
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

// findModel is a preset or one of Options.Models: a page cannot name a folder, which
// would tell whoever asks what lies where.
func (s *Server) findModel(name string) (models.Model, models.Settings, error) {
	if m, ok := s.o.Models[name]; ok {
		return m, s.o.Settings[name], nil
	}
	return models.FindModel(name, "")
}

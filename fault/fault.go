// Package fault is the shape every weft error has: a kind that errors.Is finds,
// typed fields that scripts and tests read, one line for people, and a list
// that carries every violation at once.
//
// A package declares its kinds as sentinels,
//
//	var ErrUneven = fault.NewKind("uneven")
//
// gives each a struct of fields with json tags, and returns
//
//	fault.New(ErrUneven, Uneven{Dim: 0, Size: 17, Parts: 8},
//		"dim 0 of size 17 does not divide into 8 parts; nearest sizes 16 and 24")
//
// A message states what was asked, the numbers, the rule, and the nearest legal
// choice. It is one line and has no "weft: " prefix: the command adds that.
package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Kind is a class of errors. It is itself an error, so that it serves as the
// target of errors.Is.
type Kind struct{ name string }

// NewKind makes the sentinel of a class. Names are lower case with dashes and
// appear as "kind" in JSON: "heads-not-divisible".
func NewKind(name string) *Kind { return &Kind{name} }

// Error gives the name, so that a Kind can be returned where nothing more is known.
func (k *Kind) Error() string { return k.name }

// Name is what JSON calls the kind.
func (k *Kind) Name() string { return k.name }

// Error is one violation.
type Error struct {
	kind    *Kind
	message string
	fields  any
	cause   error
	advice  string   // behind the message
	nearest []string // flags that work in place of those refused
}

// Choices are fields that name the numbers which would do in place of the one refused.
// A check names those that its own rule allows; whoever knows all the rules tries each,
// and keeps those that do.
type Choices interface {
	// Choice is what the numbers are of, such as a mesh axis, and the numbers.
	Choice() (what string, legal []int)
	// WithLegal are the fields with these numbers in place of their own.
	WithLegal(legal []int) Choices
	// Advice says in words which they are; "" where there are none to name.
	Advice() string
}

// NewChoice is New with choices, whose advice stands behind the message.
func NewChoice(k *Kind, fields Choices, format string, args ...any) *Error {
	return New(k, fields, format, args...).WithChoices(fields)
}

// WithChoices is the error with other choices.
func (e *Error) WithChoices(c Choices) *Error {
	out := *e
	out.fields, out.advice = c, c.Advice()
	return &out
}

// WithNearest is the error with flags that work in place of those refused, such as
// "--mesh dp=1,tp=4,sp=1", the nearest first.
func (e *Error) WithNearest(flags []string) *Error {
	out := *e
	out.nearest = flags
	return &out
}

// Nearest are the flags that work in place of those refused.
func (e *Error) Nearest() []string { return e.nearest }

// Fields are the fields of e, nil for none.
func (e *Error) Fields() any { return e.fields }

// New makes an error of kind k. Fields is a struct with json tags, or nil.
func New(k *Kind, fields any, format string, args ...any) *Error {
	e := &Error{kind: k, fields: fields}
	err := fmt.Errorf(format, args...)
	e.message = strings.Join(strings.Fields(err.Error()), " ")
	e.cause = errors.Unwrap(err)
	return e
}

func (e *Error) Error() string {
	text := e.message
	if e.advice != "" {
		text += "; " + e.advice
	}
	if len(e.nearest) > 0 {
		text += "; nearest that works: " + strings.Join(e.nearest, " or ")
	}
	return text
}

// Kind is the class of e.
func (e *Error) Kind() *Kind { return e.kind }

// Unwrap lets errors.Is find the kind and whatever the message wrapped with %w.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// Fields returns the fields of the first error in err's tree whose fields have type F.
func Fields[F any](err error) (F, bool) {
	var found F
	ok := false
	walk(err, func(e *Error) bool {
		if f, is := e.fields.(F); is {
			found, ok = f, true
		}
		return !ok
	})
	return found, ok
}

// walk visits every *Error below err until visit returns false.
func walk(err error, visit func(*Error) bool) bool {
	switch e := err.(type) {
	case nil:
		return true
	case *Error:
		if !visit(e) {
			return false
		}
		return walk(e.cause, visit)
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			if !walk(sub, visit) {
				return false
			}
		}
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), visit)
	}
	return true
}

// List collects violations. The zero value is ready.
type List struct{ errs []error }

// Add appends err unless it is nil; the members of a joined error are added one by one.
func (l *List) Add(err error) {
	switch e := err.(type) {
	case nil:
	case *joined:
		l.errs = append(l.errs, e.errs...)
	default:
		l.errs = append(l.errs, err)
	}
}

// Err is nil for an empty list, the error itself for one, and otherwise an
// error whose text has one line per violation.
func (l *List) Err() error {
	switch len(l.errs) {
	case 0:
		return nil
	case 1:
		return l.errs[0]
	}
	return &joined{append([]error(nil), l.errs...)}
}

// Join is List in one call.
func Join(errs ...error) error {
	var l List
	for _, err := range errs {
		l.Add(err)
	}
	return l.Err()
}

type joined struct{ errs []error }

func (j *joined) Error() string {
	lines := make([]string, len(j.errs))
	for i, e := range j.errs {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

func (j *joined) Unwrap() []error { return j.errs }

// Violations lists the members of err: itself unless it was joined.
func Violations(err error) []error {
	var j *joined
	if errors.As(err, &j) {
		return append([]error(nil), j.errs...)
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// Report is the JSON form of one violation.
type Report struct {
	Kind    string          `json:"kind"`
	Message string          `json:"message"`
	Fields  json.RawMessage `json:"fields"`
	// Nearest are flags that work in place of those refused, the nearest first.
	Nearest []string `json:"nearest,omitempty"`
}

// Describe gives the JSON form of err; an error that is no *Error has kind "failed".
func Describe(err error) Report {
	r := Report{Kind: "failed", Message: err.Error(), Fields: json.RawMessage("{}")}
	var e *Error
	var k *Kind
	switch {
	case errors.As(err, &e):
		r.Kind, r.Nearest = e.kind.name, e.nearest
		if e.fields != nil {
			if b, jerr := json.Marshal(e.fields); jerr == nil {
				r.Fields = b
			}
		}
	case errors.As(err, &k):
		r.Kind = k.name
	}
	return r
}

// Doc is the JSON form of an error with every violation, as commands and the
// explorer's server answer with it.
type Doc struct {
	Error struct {
		Report              // of the first
		Violations []Report `json:"violations"`
	} `json:"error"`
}

// Document gives the JSON form of err, which is not nil.
func Document(err error) Doc {
	var doc Doc
	for _, v := range Violations(err) {
		doc.Error.Violations = append(doc.Error.Violations, Describe(v))
	}
	doc.Error.Report = doc.Error.Violations[0]
	return doc
}

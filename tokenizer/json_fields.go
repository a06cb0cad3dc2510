package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fields reads one object of a document. Each method that reads a field removes it, and
// close then refuses the fields that are left, because nothing has read them and the
// tokenizer would ignore them in silence.
type fields struct {
	f     *faults
	where string
	m     map[string]any
}

// objectAt makes fields of a value, which must be an object.
func (f *faults) objectAt(v any, where string) *fields {
	m, ok := v.(map[string]any)
	if !ok {
		f.addMalformed(where, "an object expected, found %s", describeJSON(v))
	}
	return &fields{f, where, maps.Clone(m)}
}

func (o *fields) pathOf(key string) string { return joinPath(o.where, key) }

func joinPath(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

// take removes a field and gives its value.
func (o *fields) take(key string) (any, bool) {
	v, ok := o.m[key]
	delete(o.m, key)
	return v, ok
}

// takeOr removes a field and gives its value as a T. If the field is absent or null, it
// gives the fallback or, without one, adds an error, in which what describes a T.
func takeOr[T any](o *fields, key, what string, fallback ...T) T {
	var none T
	v, ok := o.take(key)
	if v == nil && len(fallback) > 0 {
		return fallback[0]
	}
	t, is := v.(T)
	switch {
	case o.m == nil:
	case !ok:
		o.f.addMalformed(o.where, "the field %q is missing", key)
	case !is:
		o.f.addMalformed(o.pathOf(key), "%s expected, found %s", what, describeJSON(v))
	default:
		return t
	}
	return none
}

func (o *fields) text(key string, fallback ...string) string {
	return takeOr(o, key, "a string", fallback...)
}

func (o *fields) flag(key string, fallback ...bool) bool {
	return takeOr(o, key, "true or false", fallback...)
}

func (o *fields) list(key string) []any { return takeOr[[]any](o, key, "a list") }

// maxID bounds ids and lengths. No vocabulary and no text encoder comes near it.
const maxID = 1 << 28

// wholeNumber reads a number from 0 to maxID.
func (o *fields) wholeNumber(key string, fallback ...int) int {
	var absent []json.Number
	if len(fallback) > 0 {
		absent = []json.Number{json.Number(strconv.Itoa(fallback[0]))}
	}
	n := takeOr(o, key, "a number", absent...)
	if n == "" {
		return 0
	}
	return o.f.wholeNumberAt(n, o.pathOf(key))
}

func (f *faults) wholeNumberAt(v any, where string) int {
	n, ok := v.(json.Number)
	if !ok {
		f.addMalformed(where, "a number expected, found %s", describeJSON(v))
		return 0
	}
	i, err := strconv.Atoi(string(n))
	if err != nil || i < 0 || i > maxID && len(n) < 10 || len(n) >= 10 {
		f.addMalformed(where, "%.40s is no whole number from 0 to %d", string(n), maxID)
		return 0
	}
	return i
}

// oneOf reads a string that must be one of words.
func (o *fields) oneOf(key string, words []string, fallback ...string) string {
	s := o.text(key, fallback...)
	if o.m != nil && !slices.Contains(words, s) && s != "" {
		o.f.addUnsupported(o.pathOf(key), "%.60q is none of %s", s, strings.Join(words, ", "))
	}
	return s
}

// ignore removes fields that do not change the ids.
func (o *fields) ignore(keys ...string) {
	for _, k := range keys {
		delete(o.m, k)
	}
}

// close adds an error for each field that was not read.
func (o *fields) close() {
	for _, k := range slices.Sorted(maps.Keys(o.m)) {
		o.f.addUnsupported(o.pathOf(k), "the field is not known, so its meaning would be lost")
	}
}

func describeJSON(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the string %.40q", v)
	case bool:
		return strconv.FormatBool(v)
	}
	return fmt.Sprintf("%.40s", fmt.Sprint(v))
}

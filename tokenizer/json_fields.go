package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fields reads the object at one place of a document. What is asked for is taken out;
// close refuses what is left, because nobody would have looked at it.
type fields struct {
	f     *faults
	where string
	m     map[string]any
}

// objectAt takes a value that has to be an object.
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

// take gives a value and forgets it.
func (o *fields) take(key string) (any, bool) {
	v, ok := o.m[key]
	delete(o.m, key)
	return v, ok
}

// takeOr gives the value of a key as a T. Where the key is absent or null it gives
// fallback, or a fault where there is none.
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

// maxID bounds ids and lengths: no vocabulary and no text encoder is near it.
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

// oneOf reads a string that is one of some.
func (o *fields) oneOf(key string, words []string, fallback ...string) string {
	s := o.text(key, fallback...)
	if o.m != nil && !slices.Contains(words, s) && s != "" {
		o.f.addUnsupported(o.pathOf(key), "%.60q is none of %s", s, strings.Join(words, ", "))
	}
	return s
}

// ignore drops fields that change nothing about the ids.
func (o *fields) ignore(keys ...string) {
	for _, k := range keys {
		delete(o.m, k)
	}
}

// close refuses the fields that nobody asked for.
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

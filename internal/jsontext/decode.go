package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Decode reads a document of one object into a struct, as encoding/json does, after
// ParseObject has found it sound. A key that the struct does not have is an error.
// Errors name the key, what it holds and what it should, in words of JSON. With
// Options.Whole, all keys that are missing are joined in one error, each a MissingKey.
func Decode(b []byte, o Options, into any) error {
	v, fault := ParseObject(b, o)
	if fault != nil {
		return fault
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil && o.Whole:
		return errors.Join(missingKeys("", v, reflect.TypeOf(into))...)
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fmt.Errorf("key %q holds %s: want %s", wrong.Field, nameHeld(wrong.Value), nameWanted(wrong.Type))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// nameHeld says in words what encoding/json calls a value that it could not take:
// "string", "number 1.5".
func nameHeld(value string) string {
	kind, rest, _ := strings.Cut(value, " ")
	names := map[string]string{"string": "a text", "number": "the number", "bool": "true or false", "array": "a list", "object": "an object"}
	if rest == "" && kind == "number" {
		return "a number"
	}
	return strings.TrimSpace(names[kind] + " " + rest)
}

// nameWanted says in words what a Go type takes.
func nameWanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Pointer:
		return nameWanted(t.Elem())
	}
	return "an object"
}

package jsontext

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// MissingKey is the error of a key that a document has to have, or that holds null where a
// value has to be. Path leads to it from the outermost object: "hosts[alpha].port". An
// element of a list is named by its key "name", where it has one, and else by its place.
type MissingKey struct {
	Path string
	Null bool
}

func (e *MissingKey) Error() string {
	if e.Null {
		return e.Path + " is null"
	}
	return e.Path + " is missing"
}

var readsItself = reflect.TypeFor[json.Unmarshaler]()

// missingKeys compares a value, as ParseObject gives it, with the type that it was decoded
// into, and gives an error for each key that the type has and the value lacks.
func missingKeys(path string, v any, t reflect.Type) (missing []error) {
	for t.Kind() == reflect.Pointer {
		if v == nil {
			return nil
		}
		t = t.Elem()
	}
	if t.Implements(readsItself) || reflect.PointerTo(t).Implements(readsItself) {
		return nil
	}
	switch t.Kind() {
	case reflect.Interface:
		return nil
	case reflect.Struct:
		if object, ok := v.(map[string]any); ok {
			return missingFields(path, object, t)
		}
	case reflect.Map:
		object, _ := v.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(object)) {
			missing = append(missing, missingKeys(elementPath(path, key), object[key], t.Elem())...)
		}
		return missing
	case reflect.Slice, reflect.Array:
		list, _ := v.([]any)
		for i, value := range list {
			missing = append(missing, missingKeys(elementPath(path, nameOfElement(value, i)), value, t.Elem())...)
		}
		return missing
	}
	if v == nil {
		return []error{&MissingKey{path, true}}
	}
	return nil
}

// missingFields goes over the fields of a struct; those of an embedded struct are keys of
// the same object.
func missingFields(path string, object map[string]any, t reflect.Type) (missing []error) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			missing = append(missing, missingFields(path, object, field.Type)...)
			continue
		case !field.IsExported() || name == "-":
			continue
		case name == "":
			name = field.Name
		}
		key := name
		if path != "" {
			key = path + "." + name
		}
		if value, ok := object[name]; ok {
			missing = append(missing, missingKeys(key, value, field.Type)...)
		} else if !strings.Contains(options, "omitempty") {
			missing = append(missing, &MissingKey{key, false})
		}
	}
	return missing
}

func elementPath(path, element string) string { return fmt.Sprintf("%s[%s]", path, element) }

// nameOfElement gives what a list's element calls itself, and its place where it has no name.
func nameOfElement(v any, place int) string {
	object, _ := v.(map[string]any)
	if name, ok := object["name"].(string); ok {
		return name
	}
	return fmt.Sprint(place)
}

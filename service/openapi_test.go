package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// document is the document of OpenAPI as a client reads it.
func document(t testing.TB) object {
	t.Helper()
	var doc object
	if err := json.Unmarshal(mustJSON(t, describeRoutes("test")), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// at goes down a document.
func at(doc any, keys ...string) any {
	for _, k := range keys {
		m, _ := doc.(object)
		doc = m[k]
	}
	return doc
}

// Every operation of the document is answered by the handler of the route of its id, and nothing
// else is answered under /v1.
func TestDocumentAndHandlersAreOneTable(t *testing.T) {
	s := New(Options{Store: struct{ Store }{}, Release: openRelease(t, "wan21_t2v", "")})
	doc := document(t)
	paths := doc["paths"].(object)
	found := 0
	for path, operations := range paths {
		for method, op := range operations.(object) {
			found++
			address := strings.NewReplacer("{id}", "video_1", "{model}", "m").Replace(path)
			rt := s.routeOf(httptest.NewRequest(strings.ToUpper(method), address, nil))
			if rt == nil || rt.id != at(op, "operationId") {
				t.Errorf("%s %s is answered by %+v, want %v", method, path, rt, at(op, "operationId"))
				continue
			}
			var inPath []string
			list, _ := at(op, "parameters").([]any)
			for _, p := range list {
				if at(p, "in") == "path" {
					inPath = append(inPath, "{"+at(p, "name").(string)+"}")
				}
			}
			if len(inPath) != strings.Count(path, "{") || slices.ContainsFunc(inPath, func(name string) bool { return !strings.Contains(path, name) }) {
				t.Errorf("%s: parameters %q", path, inPath)
			}
		}
	}
	if found != len(routes) {
		t.Errorf("%d operations of %d routes", found, len(routes))
	}
	for _, r := range []*http.Request{httptest.NewRequest("GET", "/v1/nothing", nil), httptest.NewRequest("PUT", "/v1/videos", nil), httptest.NewRequest("GET", "/v2/videos",
		nil)} {
		if rt := s.routeOf(r); rt != nil {
			t.Errorf("%s %s is answered by %s", r.Method, r.URL.Path, rt.id)
		}
	}
	properties := at(doc, "components", "schemas", "CreateRequest", "properties").(object)
	if len(properties) != len(fields) {
		t.Errorf("%d properties of %d fields", len(properties), len(fields))
	}
	for _, ref := range allRefs(doc) {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		if at(doc, "components", "schemas", name) == nil {
			t.Errorf("%s is nowhere", ref)
		}
	}
}

// allRefs are all references of a document.
func allRefs(v any) (refs []string) {
	switch v := v.(type) {
	case object:
		if ref, ok := v["$ref"].(string); ok {
			refs = append(refs, ref)
		}
		for _, inner := range v {
			refs = append(refs, allRefs(inner)...)
		}
	case []any:
		for _, inner := range v {
			refs = append(refs, allRefs(inner)...)
		}
	}
	return refs
}

// checkAnswer holds an answer against what the document says of its route and status.
func checkAnswer(t testing.TB, id string, status int, body []byte) {
	t.Helper()
	doc := document(t)
	for _, operations := range doc["paths"].(object) {
		for _, op := range operations.(object) {
			if at(op, "operationId") != id {
				continue
			}
			schema := at(op, "responses", strconv.Itoa(status), "content", "application/json", "schema")
			if schema == nil {
				t.Errorf("%s: the document has no answer with status %d", id, status)
				return
			}
			var v any
			if err := json.Unmarshal(body, &v); err != nil {
				t.Errorf("%s: %v in %s", id, err, body)
				return
			}
			for _, fault := range violationsOf(doc, schema.(object), v, "answer") {
				t.Errorf("%s, status %d: %s\n%s", id, status, fault, body)
			}
			return
		}
	}
	t.Errorf("the document has no operation %s", id)
}

// violationsOf are the places where a value is not of a schema, of those that the document has.
func violationsOf(doc, schema object, v any, where string) (list []string) {
	if ref, ok := schema["$ref"].(string); ok {
		return violationsOf(doc, at(doc, "components", "schemas", strings.TrimPrefix(ref, "#/components/schemas/")).(object), v, where)
	}
	if any, ok := schema["anyOf"].([]any); ok {
		for _, one := range any {
			found := violationsOf(doc, one.(object), v, where)
			if found == nil {
				return nil
			}
			list = append(list, found...)
		}
		return list
	}
	wrong := func() []string { return []string{fmt.Sprintf("%s is %v, want %v", where, v, schema["type"])} }
	switch schema["type"] {
	case nil: // any
	case "null":
		if v != nil {
			return wrong()
		}
	case "string":
		if _, ok := v.(string); !ok {
			return wrong()
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return wrong()
		}
	case "number", "integer":
		if x, ok := v.(float64); !ok || schema["type"] == "integer" && x != float64(int64(x)) {
			return wrong()
		}
	case "array":
		items, ok := v.([]any)
		if !ok {
			return wrong()
		}
		for i, item := range items {
			list = append(list, violationsOf(doc, schema["items"].(object), item, fmt.Sprintf("%s[%d]", where, i))...)
		}
	case "object":
		return violationsOfObject(doc, schema, v, where)
	default:
		return []string{fmt.Sprintf("%s: the type %v is not known", where, schema["type"])}
	}
	return list
}

func violationsOfObject(doc, schema object, v any, where string) (list []string) {
	m, ok := v.(object)
	if !ok {
		return []string{fmt.Sprintf("%s is %v, want an object", where, v)}
	}
	properties, _ := schema["properties"].(object)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, there := m[name.(string)]; !there {
			list = append(list, fmt.Sprintf("%s lacks %v", where, name))
		}
	}
	for name, value := range m {
		inner, known := properties[name].(object)
		if !known {
			more, isSchema := schema["additionalProperties"].(object)
			if !isSchema {
				list = append(list, fmt.Sprintf("%s has %s, which is not in the document", where, name))
				continue
			}
			inner = more
		}
		list = append(list, violationsOf(doc, inner, value, where+"."+name)...)
	}
	return list
}

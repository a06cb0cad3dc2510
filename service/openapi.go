package service

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// object is a part of the document.
type object = map[string]any

// serveOpenAPI answers with the document of all routes and fields.
func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, s.document)
	return nil
}

// describeRoutes makes the document of OpenAPI from the tables that the handlers are made of.
func describeRoutes(version string) object {
	d := &schemas{named: object{}}
	paths := object{}
	for _, rt := range routes {
		at, _ := paths[rt.path].(object)
		if at == nil {
			at = object{}
			paths[rt.path] = at
		}
		at[strings.ToLower(rt.method)] = d.operation(rt)
	}
	d.named["CreateRequest"] = requestSchema()
	return object{
		"openapi": "3.1.0",
		"info":    object{"title": "weft's video service", "version": version, "description": "Videos from prompts, on a durable queue."},
		"paths":   paths,
		"components": object{"schemas": d.named, "securitySchemes": object{
			"bearer": object{"type": "http", "scheme": "bearer"}, "cookie": object{"type": "apiKey", "in": "cookie", "name": sessionCookie}}},
	}
}

// operation describes one route.
func (d *schemas) operation(rt route) object {
	op := object{"operationId": rt.id, "summary": rt.summary, "responses": d.responses(rt)}
	if !rt.open {
		op["security"] = []object{{"bearer": []string{}}, {"cookie": []string{}}, {}}
	}
	if rt.parameters != nil {
		list := []object{}
		for _, p := range rt.parameters {
			schema := object{"type": "string"}
			if p.words != nil {
				schema["enum"] = p.words
			}
			list = append(list, object{"name": p.name, "in": p.in, "description": p.help, "required": p.in == "path", "schema": schema})
		}
		op["parameters"] = list
	}
	if rt.body != nil {
		schema := object{"schema": object{"$ref": "#/components/schemas/CreateRequest"}}
		op["requestBody"] = object{"required": true, "content": object{"application/json": schema, "multipart/form-data": schema}}
	}
	return op
}

// responses describes what a route may answer.
func (d *schemas) responses(rt route) object {
	ok := object{"description": "The answer."}
	switch t := rt.answerType(); {
	case t != nil:
		ok["content"] = object{"application/json": object{"schema": d.of(t)}}
	default:
		ok["content"] = object{rt.media: object{"schema": object{}}}
	}
	out := object{"200": ok}
	if rt.id == "getContent" {
		out["206"], out["304"], out["416"] = ok, object{"description": "The file is the one that the client has."}, object{"description": "The file has no such part."}
	}
	refusal := object{"description": "Why not.", "content": object{"application/json": object{"schema": d.of(reflect.TypeFor[ErrorDocument]())}}}
	if rt.id == "ready" {
		out["503"] = object{"description": "Why not.", "content": ok["content"]}
	}
	statuses := slices.Concat(everyRefusal, rt.also)
	if !rt.open {
		statuses = append(statuses, http.StatusUnauthorized)
	}
	for _, status := range statuses {
		if key := strconv.Itoa(status); out[key] == nil {
			out[key] = refusal
		}
	}
	return out
}

// requestSchema describes the body of a request by its fields.
func requestSchema() object {
	properties := object{}
	for _, f := range fields {
		p := object{"description": f.help}
		switch f.kind {
		case secondsKind:
			p["type"] = []string{"string", "integer"}
		case imageKind:
			p["anyOf"] = []object{
				{"type": "string", "description": "A data URL; in a form a file."},
				{"type": "object", "properties": object{"image_url": object{"type": "string", "description": "A data URL."}}, "additionalProperties": false},
			}
		default:
			p["type"] = string(f.kind)
		}
		if f.words != nil {
			p["enum"] = f.words
		}
		properties[f.name] = p
	}
	return object{"type": "object", "required": []string{"prompt"}, "properties": properties, "additionalProperties": false}
}

// schemas makes schemas of the types of answers.
type schemas struct{ named object }

// of is the schema of a type. A struct gets a name, to which other places point.
func (d *schemas) of(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return object{"anyOf": []object{d.of(t.Elem()), {"type": "null"}}}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return object{}
		}
		return object{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.Struct:
		if d.named[t.Name()] == nil {
			d.named[t.Name()] = object{} // for types within themselves
			properties, required := object{}, []string{}
			d.addFields(t, properties, &required)
			d.named[t.Name()] = object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}
	}
	return object{} // any
}

// addFields adds the fields of a struct as encoding/json writes them.
func (d *schemas) addFields(t reflect.Type, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			d.addFields(f.Type, properties, required)
			continue
		}
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		schema := d.of(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			schema["description"] = doc
		}
		properties[name] = schema
		if !strings.Contains(rest, "omit") {
			*required = append(*required, name)
		}
	}
}

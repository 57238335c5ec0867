package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// document is the part of the OpenAPI document that is held against the server.
type document struct {
	Paths map[string]map[string]struct {
		OperationID string
		Parameters  []struct{ Name, In string }
		Responses   map[string]struct {
			Content map[string]struct{ Schema schema }
		}
	}
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 string
	Required             []string
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties *bool
}

func readDocument(t *testing.T) *document {
	t.Helper()
	d := new(document)
	if err := json.Unmarshal(openAPIDocument, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// check says what of a value is not as a schema demands.
func (d *document) check(s schema, v any, at string) error {
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		named, ok := d.Components.Schemas[name]
		if !ok {
			return fmt.Errorf("%s: there is no schema %s", at, name)
		}
		return d.check(named, v, at)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, has := v[name]; !has {
				return fmt.Errorf("%s: %s is missing", at, name)
			}
		}
		for name, item := range v {
			p, known := s.Properties[name]
			if !known && s.AdditionalProperties != nil {
				return fmt.Errorf("%s: %s is not in the document", at, name)
			}
			if err := d.check(p, item, at+"."+name); err != nil {
				return err
			}
		}
		if s.Type == "object" {
			return nil
		}
	case []any:
		for _, item := range v {
			if s.Items != nil {
				if err := d.check(*s.Items, item, at+"[]"); err != nil {
					return err
				}
			}
		}
		if s.Type == "array" {
			return nil
		}
	case string:
		if s.Type == "string" {
			return nil
		}
	case bool:
		if s.Type == "boolean" {
			return nil
		}
	case float64:
		if s.Type == "integer" {
			return nil
		}
	}
	if s.Type == "" {
		return nil
	}
	return fmt.Errorf("%s: it is a %T, not %s", at, v, s.Type)
}

// hold says how a response differs from the document.
func (d *document) hold(method, path string, status int, kind, body string) error {
	path, _, _ = strings.Cut(path, "?")
	for _, e := range endpoints {
		if _, _, ok := e.match(path); !ok || e.method != method {
			continue
		}
		op := d.Paths[e.path][strings.ToLower(method)]
		res, ok := op.Responses[fmt.Sprint(status)]
		if !ok {
			return fmt.Errorf("the status %d is not in the document", status)
		}
		if len(res.Content) == 0 {
			if body != "" {
				return fmt.Errorf("a body is not in the document")
			}
			return nil
		}
		content, ok := res.Content[kind]
		if !ok {
			return fmt.Errorf("the type %s is not in the document", kind)
		}
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			return err
		}
		return d.check(content.Schema, v, e.name)
	}
	return nil // no path of the document
}

func TestOpenAPIHasEveryEndpoint(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	n := 0
	for _, methods := range d.Paths {
		n += len(methods)
	}
	if n != len(endpoints) {
		t.Errorf("the document has %d operations, the server %d", n, len(endpoints))
	}
	for _, e := range endpoints {
		op, ok := d.Paths[e.path][strings.ToLower(e.method)]
		if !ok || op.OperationID != e.name {
			t.Errorf("%s %s is %q in the document, want %q", e.method, e.path, op.OperationID, e.name)
		}
		for _, part := range strings.Split(e.path, "/") {
			if name := strings.Trim(part, "{}"); name != part && !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == name && p.In == "path" }) {
				t.Errorf("%s %s: the document lacks the parameter %s", e.method, e.path, name)
			}
		}
	}
	f := start(t, nil)
	status, body, res := f.do(http.MethodGet, "/openapi.json", "")
	if status != 200 || res.Header.Get("Content-Type") != "application/json" || body != strings.TrimSpace(string(openAPIDocument)) {
		t.Errorf("%d %s", status, body)
	}
}

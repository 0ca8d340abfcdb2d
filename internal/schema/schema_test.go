package schema

import (
	"strings"
	"testing"
)

const invoice = `{"type": "object", "required": ["total", "lines"], "additionalProperties": false, "properties": {
	"total": {"type": "number", "minimum": 0}, "lines": {"type": "array", "items": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string", "pattern": "^[A-Z]+$"}}}}}}`

func TestAnswer(t *testing.T) {
	s, err := Compile(invoice)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text  string
		value string
		fault []string
	}{
		"plain":            {` {"total": 1.50, "lines": [{"sku": "A"}]} `, `{"total":1.50,"lines":[{"sku":"A"}]}`, nil},
		"fence":            {"```json\n{\"total\": 1, \"lines\": []}\n```", `{"total":1,"lines":[]}`, nil},
		"fence, no word":   {"```\n{\"total\": 1, \"lines\": []}```\n", `{"total":1,"lines":[]}`, nil},
		"two fences":       {"```json\n{}\n```\n```json\n{}\n```", "", []string{"not one JSON value"}},
		"text in front":    {"Here: {\"total\": 1, \"lines\": []}", "", []string{"not one JSON value"}},
		"text behind":      {"{\"total\": 1, \"lines\": []} Done.", "", []string{"not one JSON value", "text follows it"}},
		"empty":            {" \n", "", []string{"empty"}},
		"no JSON":          {`{"total": 1,}`, "", []string{"not one JSON value"}},
		"duplicate":        {`{"total": 1, "total": 2, "lines": []}`, "", []string{"not one JSON value", "total"}},
		"missing and more": {`{"lines": [{"sku": "a"}, {}], "x": 1}`, "", []string{"the answer: ", "total", "x", "/lines/0/sku", "/lines/1", "sku"}},
		"type":             {`{"total": "1", "lines": []}`, "", []string{"/total: ", "number"}},
		"another value":    {`[]`, "", []string{"the answer: ", "object"}},
	} {
		t.Run(name, func(t *testing.T) {
			value, fault := s.Answer(c.text)
			if value != c.value || (fault == "") != (c.fault == nil) {
				t.Errorf("%q, %q", value, fault)
			}
			for _, want := range c.fault {
				if !strings.Contains(fault, want) {
					t.Errorf("no %q in %q", want, fault)
				}
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":          {"{", "no JSON"},
		"two values":       {"{} {}", "no JSON"},
		"no object":        {"[]", "no object"},
		"no schema":        {`{"type": "thing"}`, "type"},
		"another document": {`{"$ref": "https://example.com/x.json"}`, "another document"},
		"too large":        {`{"description": "` + strings.Repeat("x", MaxBytes) + `"}`, "bytes"},
		"too deep":         {strings.Repeat(`{"not":`, MaxDepth+1) + "{}" + strings.Repeat("}", MaxDepth+1), "deep"},
	} {
		if _, err := Compile(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOf(t *testing.T) {
	type line struct {
		SKU string `json:"sku" jsonschema:"the article"`
		N   int    `json:"n,omitempty"`
	}
	text, err := Of(&line{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	if v, fault := s.Answer(`{"sku":"A"}`); v == "" {
		t.Error(fault)
	}
	if v, fault := s.Answer(`{"n":"1"}`); v != "" || !strings.Contains(fault, "/n") || !strings.Contains(fault, "sku") {
		t.Error(v, fault)
	}
	for _, bad := range []any{nil, make(chan int)} {
		if _, err := Of(bad); err == nil {
			t.Errorf("%T has a schema", bad)
		}
	}
}

package parse

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Signature returns a tool as one line, such as "read(path: string, start?: integer)". ok is
// false if the tool has no schema or a parameter that is not a scalar. Required parameters come
// first; otherwise the order is the schema's.
func Signature(t *messages.ToolSpec) (line string, ok bool) {
	var schema struct {
		Type       string   `json:"type"`
		Properties ordered  `json:"properties"`
		Required   []string `json:"required"`
	}
	if t.Schema == "" || json.Unmarshal([]byte(t.Schema), &schema) != nil || schema.Type != "object" {
		return "", false
	}
	var must, may []string
	for _, p := range schema.Properties {
		typ, scalar := p.scalar()
		switch {
		case !scalar:
			return "", false
		case slices.Contains(schema.Required, p.name):
			must = append(must, OneLine(p.name)+": "+typ)
		default:
			may = append(may, OneLine(p.name)+"?: "+typ)
		}
	}
	return OneLine(t.Name) + "(" + strings.Join(append(must, may...), ", ") + ")", true
}

// parameter is one property of a schema.
type parameter struct {
	name string
	raw  json.RawMessage
}

// scalar returns the type of a parameter, or the list of its values if they are few.
func (p *parameter) scalar() (string, bool) {
	var own struct {
		Type string   `json:"type"`
		Enum []string `json:"enum"`
	}
	if json.Unmarshal(p.raw, &own) != nil {
		return "", false
	}
	switch own.Type {
	case "string":
		if n := len(own.Enum); n > 0 && n <= maxShownValues {
			quoted := make([]string, n)
			for i, v := range own.Enum {
				b, err := json.Marshal(v)
				if err != nil {
					return "", false
				}
				quoted[i] = OneLine(string(b))
			}
			return strings.Join(quoted, "|"), true
		}
		return "string", len(own.Enum) == 0
	case "integer", "number", "boolean":
		return own.Type, len(own.Enum) == 0
	}
	return "", false
}

// maxShownValues is the greatest number of values that a signature lists.
const maxShownValues = 8

// ordered are the members of an object in their order in the text.
type ordered []parameter

// UnmarshalJSON reads an object.
func (o *ordered) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(strings.NewReader(string(data)))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		p := parameter{}
		p.name, _ = key.(string)
		if err := d.Decode(&p.raw); err != nil {
			return err
		}
		*o = append(*o, p)
	}
	return nil
}

package catalog

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/neuroscript"
)

// Parameter declares a named argument of a target that a manifest defines.
type Parameter struct {
	Name        string
	Type        string // string, integer, number, boolean, object, array; "" is any
	Description string
	Required    bool
	Default     string   // JSON; "" for none
	Enum        []string // JSON, canonical
	// Min and Max bound a number, or the characters of a text, both ends included. A Max of
	// 0 is no bound.
	Min, Max int64
}

func oneOf(name string, texts []string) Parameter {
	p := Parameter{Name: name, Type: "string"}
	for _, text := range texts {
		own, _ := jsontext.AppendQuote(nil, text)
		p.Enum = append(p.Enum, string(own))
	}
	return p
}

// Parameters are those of one target.
type Parameters []Parameter

// Bind reads the arguments object of an action, and returns every parameter that was given or
// has a default, as JSON. The error is a *neuroscript.ScriptError that names the parameter.
func (ps Parameters) Bind(args string) (map[string]jsontext.Value, error) {
	given, err := members(args)
	if err != nil {
		return nil, err
	}
	for name := range given {
		if !slices.ContainsFunc(ps, func(p Parameter) bool { return p.Name == name }) {
			return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: there is no such parameter; it takes %s", name, ps.Signature())
		}
	}
	for _, p := range ps {
		v, ok := given[p.Name]
		if !ok || string(v) == "null" {
			delete(given, p.Name)
			if p.Required {
				return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: missing", p.Name)
			}
			if p.Default != "" {
				given[p.Name] = jsontext.Value(p.Default)
			}
			continue
		}
		if why := p.misfit(v); why != "" {
			return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: %s", p.Name, why)
		}
	}
	return given, nil
}

// members reads a JSON object.
func members(args string) (map[string]jsontext.Value, error) {
	given := map[string]jsontext.Value{}
	if err := json.Unmarshal([]byte(args), &given); err != nil || given == nil {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "the arguments must be an object")
	}
	return given, nil
}

// misfit returns why a value cannot be the argument, or "".
func (p *Parameter) misfit(v jsontext.Value) (why string) {
	fits := true
	switch kind := v.Kind(); p.Type {
	case "string":
		fits = kind == '"'
	case "boolean":
		fits = kind == 't' || kind == 'f'
	case "object":
		fits = kind == '{'
	case "array":
		fits = kind == '['
	case "number":
		fits = kind == '0'
	case "integer":
		fits = kind == '0' && integral(v)
	}
	if !fits {
		return "want " + p.Type
	}
	if why := p.outside(func() (int64, bool) { return measure(v) }); why != "" {
		return why
	}
	if len(p.Enum) > 0 {
		own := v.Clone()
		if own.Canonicalize() != nil || !slices.Contains(p.Enum, string(own)) {
			return "want one of " + strings.Join(p.Enum, ", ")
		}
	}
	return ""
}

// outside returns which bound a value breaks, or "". size returns that of a number or text,
// and false for other values.
func (p *Parameter) outside(size func() (n int64, ok bool)) (why string) {
	if p.Min == 0 && p.Max == 0 {
		return ""
	}
	n, ok := size()
	unit := ""
	if p.Type == "string" {
		unit = " characters"
	}
	switch {
	case !ok:
		return "is not within its bounds"
	case n < p.Min:
		return "want at least " + strconv.FormatInt(p.Min, 10) + unit
	case p.Max > 0 && n > p.Max:
		return "want at most " + strconv.FormatInt(p.Max, 10) + unit
	}
	return ""
}

// measure returns the value of a JSON number, or the count of characters of a JSON text.
func measure(v jsontext.Value) (int64, bool) {
	switch v.Kind() {
	case '"':
		s, err := jsontext.AppendUnquote(nil, v)
		return int64(utf8.RuneCount(s)), err == nil
	case '0':
		var n int64
		own := v.Clone()
		err := own.Canonicalize()
		if err == nil {
			n, err = strconv.ParseInt(string(own), 10, 64)
		}
		return n, err == nil
	}
	return 0, false
}

// integral reports whether a JSON number is a whole one.
func integral(v jsontext.Value) bool {
	own := v.Clone()
	return own.Canonicalize() == nil && !bytes.ContainsAny(own, ".") && !bytes.Contains(own, []byte("e-"))
}

// Signature returns the parameters as a prompt shows them.
func (ps Parameters) Signature() string {
	names := make([]string, len(ps))
	for i, p := range ps {
		if names[i] = p.Name; !p.Required {
			names[i] += "?"
		}
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// Schema returns the JSON schema of the arguments object; "" if names are all it has.
func (ps Parameters) Schema() string {
	if !slices.ContainsFunc(ps, func(p Parameter) bool { return p.Type != "" || p.Description != "" || len(p.Enum) > 0 }) {
		return ""
	}
	props := map[string]any{}
	var required []string
	for _, p := range ps {
		s := map[string]any{}
		if p.Type != "" {
			s["type"] = p.Type
		}
		if p.Description != "" {
			s["description"] = p.Description
		}
		if p.Default != "" {
			s["default"] = jsontext.Value(p.Default)
		}
		low, high := "minimum", "maximum"
		if p.Type == "string" {
			low, high = "minLength", "maxLength"
		}
		if p.Min != 0 {
			s[low] = p.Min
		}
		if p.Max != 0 {
			s[high] = p.Max
		}
		if len(p.Enum) > 0 {
			all := make([]jsontext.Value, len(p.Enum))
			for i, e := range p.Enum {
				all[i] = jsontext.Value(e)
			}
			s["enum"] = all
		}
		props[p.Name] = s
		if p.Required {
			required = append(required, p.Name)
		}
	}
	doc := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if required != nil {
		doc["required"] = required
	}
	b, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return ""
	}
	return string(b)
}

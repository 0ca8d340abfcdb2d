package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// jsonSchema is the shape of a manifest as JSON Schema (2020-12), for editors and
// for those who write manifests by program. It is made from the struct and
// committed as schema.json; a test holds both equal. It says what a manifest may
// look like; what spans keys, and ${NAME}, only Parse can judge.
func jsonSchema() []byte {
	s := object(reflect.TypeFor[Manifest](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "stile agent manifest"
	s["required"] = []string{"dialect"}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("manifest: no schema: %v", err)) // maps and strings alone
	}
	return append(b, '\n')
}

type schema = map[string]any

func object(t reflect.Type, path string) schema {
	props := schema{}
	var required []string
	for _, f := range fieldsOf(t) {
		here := join(path, f.key)
		props[f.key] = property(&f, t.Field(f.index).Type, here)
		if f.required {
			required = append(required, f.key)
		}
	}
	for alias, target := range aliases {
		parent, key := "", alias
		if i := strings.LastIndexByte(alias, '.'); i >= 0 {
			parent, key = alias[:i], alias[i+1:]
		}
		if parent == path {
			f, ft := lookup(target)
			p := property(&f, ft, target)
			p["description"] = "Another way to write " + target + "."
			props[key] = p
		}
	}
	s := schema{
		"type":                 "object",
		"properties":           props,
		"patternProperties":    schema{"^x-": true},
		"additionalProperties": false,
	}
	if required != nil {
		s["required"] = required
	}
	return s
}

// lookup finds a field of the manifest by its path.
func lookup(path string) (field, reflect.Type) {
	t := reflect.TypeFor[Manifest]()
	var f field
	for _, key := range strings.Split(path, ".") {
		for _, f = range fieldsOf(t) {
			if f.key == key {
				break
			}
		}
		t = t.Field(f.index).Type
	}
	return f, t
}

func property(f *field, t reflect.Type, path string) schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var s schema
	switch t.Kind() {
	case reflect.Struct:
		s = object(t, path)
		s["type"] = []string{"object", "null"}
		if f.text != "" {
			s["type"] = []string{"string", "object", "null"}
		}
	case reflect.Slice:
		s = schema{"type": []string{"array", "null"}, "items": item(f, t.Elem(), path)}
		if t.Elem().Kind() == reflect.String {
			s["uniqueItems"] = true
		}
	case reflect.Map:
		s = schema{"type": []string{"object", "null"}}
		values := schema{}
		switch {
		case f.enum != nil:
			values = schema{"enum": f.enum}
		case t.Elem().Kind() == reflect.String:
			values = text()
		}
		s["additionalProperties"] = values
		if sh, ok := shapes[f.shape]; ok {
			s["propertyNames"] = schema{"pattern": sh.re.String()}
		}
	case reflect.Bool:
		s = schema{"type": "boolean"}
		if f.mapped != "" {
			s = schema{
				"type": []string{"boolean", "object"}, "additionalProperties": false,
				"properties": schema{f.mapped: schema{"type": "boolean"}},
			}
		}
	case reflect.Int64:
		s = number(f, t)
	case reflect.Float64:
		s = schema{"type": "number", "minimum": *f.min, "maximum": *f.max}
	default:
		s = item(f, t, path)
	}
	s["description"] = describe(f)
	return s
}

// item is the schema of a string, or of what a list holds.
func item(f *field, t reflect.Type, path string) schema {
	switch {
	case t == reflect.TypeFor[Manifest]():
		return schema{"$ref": "#"}
	case t.Kind() == reflect.Struct:
		return object(t, path)
	case t.Kind() != reflect.String:
		return schema{}
	case f.enum != nil:
		return schema{"enum": f.enum}
	case f.shape == anyText:
		return text()
	}
	s := schema{"type": "string"}
	if sh, ok := shapes[f.shape]; ok {
		s["pattern"] = sh.re.String()
	}
	return s
}

func text() schema { return schema{"type": []string{"string", "number", "boolean"}} }

func number(f *field, t reflect.Type) schema {
	switch {
	case t == durationType:
		return schema{"type": "string", "pattern": `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$|^0$`}
	case f.unit == "usd":
		return schema{"type": []string{"string", "number"}, "pattern": `^[0-9]{1,9}(\.[0-9]{1,6})?$`}
	}
	s := schema{"type": "integer"}
	if f.unit == "bytes" {
		s["type"] = []string{"integer", "string"}
		s["pattern"] = `^[0-9]+ *(B|KiB|MiB|GiB)?$`
	}
	if f.none {
		s["type"] = []string{"integer", "string"}
		s["pattern"] = `^(none|[0-9]+ *(B|KiB|MiB|GiB))$`
	}
	if f.min != nil {
		s["minimum"] = *f.min
	}
	if f.max != nil {
		s["maximum"] = *f.max
	}
	return s
}

func describe(f *field) string {
	switch {
	case len(f.later) == 1 && f.later[0] == "*":
		return f.doc + " Not in this release: leave it out or empty."
	case f.later != nil:
		return f.doc + " Not in this release: " + strings.Join(f.later, ", ") + "."
	}
	return f.doc
}

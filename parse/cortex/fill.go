package cortex

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonvalue"
)

// values are what a use gives for the params; an absent one has none.
type values map[string]string

// forbidden are the members that a use may not have, in the order in which they are reported.
var forbidden = [...]string{"name", "parameters", "type", "rollback"}

// Fill makes the parameters of an action of an object with values. The error names the value at
// fault.
func (t *Template) Fill(with string) (parameters string, wrong *TemplateError) {
	normal, ok := jsonvalue.Normal(with)
	if !ok || jsonvalue.Kind(normal) != jsonvalue.Object {
		return "", &TemplateError{"with", "type", "must be an object of values, not nested too deeply"}
	}
	given, wrong := t.with(`{"with":` + normal + `}`)
	if wrong != nil {
		return "", wrong
	}
	if parameters, ok = t.text.filled(given, MaxBodyBytes); !ok {
		return "", &TemplateError{"parameters", "type", "have more than " + strconv.Itoa(MaxBodyBytes) + " bytes"}
	}
	return parameters, nil
}

// with reads the values of a use. Its error is of the first of them, by name.
func (t *Template) with(use string) (values, *TemplateError) {
	member := func(name string) string {
		v, ok := jsonvalue.Member(use, name)
		if !ok || jsonvalue.Kind(v) == jsonvalue.Null {
			return ""
		}
		return v
	}
	for _, name := range forbidden {
		if member(name) != "" {
			return nil, &TemplateError{name, "forbidden", "is the template's, and a use may not change it"}
		}
	}
	given := values{}
	with := member("with")
	if with == "" {
		with = "{}"
	}
	if jsonvalue.Kind(with) != jsonvalue.Object {
		return nil, &TemplateError{"with", "type", "must be an object of values: {\"with\": {…}}"}
	}
	all := t.names()
	for key, value := range jsonvalue.Members(with) {
		name := jsonvalue.Meant(key)
		if jsonvalue.Kind(value) != jsonvalue.Null {
			given[name] = value
		}
		all = append(all, name)
	}
	slices.SortFunc(all, func(a, b string) int { return jsonvalue.Before(jsonvalue.Quote(a), jsonvalue.Quote(b)) })
	for _, name := range slices.Compact(all) {
		i := slices.IndexFunc(t.params, func(p param) bool { return p.name == name })
		switch v, has := given[name]; {
		case i < 0:
			return nil, &TemplateError{"with." + name, "unknown", "the template has no such param: it has " + strings.Join(t.Params(), ", ")}
		case !has && t.params[i].required:
			return nil, &TemplateError{"with." + name, "missing", "the template requires it"}
		case !has && t.params[i].standard != "":
			given[name] = t.params[i].standard
		case has && !t.params[i].fits(v):
			return nil, &TemplateError{"with." + name, "type", "must be of type " + t.params[i].typ}
		}
	}
	return given, nil
}

// filled puts the values in. ok is false when what comes has more than so many bytes.
func (p pattern) filled(given values, most int) (v string, ok bool) {
	f := filler{given: given, most: most}
	f.value(string(p), "")
	return f.out.String(), !f.over
}

// filler writes a pattern with its values.
type filler struct {
	given values
	out   strings.Builder
	most  int
	over  bool
}

func (f *filler) write(texts ...string) {
	for _, s := range texts {
		if f.over = f.over || f.out.Len()+len(s) > f.most; f.over {
			return
		}
		f.out.WriteString(s)
	}
}

// value writes a value behind a lead, and reports whether there is one: what is one
// placeholder alone may have no value.
func (f *filler) value(v, lead string) bool {
	switch jsonvalue.Kind(v) {
	case jsonvalue.String:
		return f.text(pieces(jsonvalue.Meant(v)), lead)
	case jsonvalue.Array:
		f.write(lead, "[")
		between := ""
		for item := range jsonvalue.Items(v) {
			if f.value(item, between) {
				between = ","
			}
		}
		f.write("]")
	case jsonvalue.Object:
		f.write(lead, "{")
		between := ""
		for key, value := range jsonvalue.Members(v) {
			if f.value(value, between+key+":") {
				between = ","
			}
		}
		f.write("}")
	default:
		f.write(lead, v)
	}
	return true
}

func (f *filler) text(all []piece, lead string) bool {
	if len(all) == 1 && all[0].place {
		v, has := f.given[all[0].text]
		if has {
			f.write(lead, v)
		}
		return has
	}
	var text strings.Builder
	for _, p := range all {
		s := p.text
		if p.place {
			if s = f.given[p.text]; s != "" {
				s = jsonvalue.Text(s)
			}
		}
		if f.over = f.over || text.Len()+len(s) > f.most; f.over {
			return true
		}
		text.WriteString(s)
	}
	f.write(lead, jsonvalue.Quote(text.String()))
	return true
}

package cortex

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/expr"
	"github.com/seed14be6753/stile/internal/jsonvalue"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of templates (docs/spec/extensions.md §7).
const (
	MaxTemplateBytes = 16 << 10 // of a definition in a reply
	MaxTemplates     = 32       // that a run may define
)

// Template is an action with places for values. It is immutable and safe for concurrent use.
type Template struct {
	fields   map[string]string // the members of the action but parameters and rollback
	params   []param           // in the order of RFC 8785
	text     pattern           // of parameters
	rollback pattern           // of the parameters of rollback
	undo     string            // rollback itself; "" for none
}

// param is a value that a use gives.
type param struct {
	name     string
	typ      string
	required bool
	standard string // "" for none
	about    string // a JSON string; "" for none
}

// pattern is a JSON object in which placeholders stand.
type pattern string

// TemplateError says what is wrong with a definition, or with a use of one.
type TemplateError struct {
	Field  string // a member, params.NAME or with.NAME
	Why    string // unknown, missing, type, default, placeholder, key, forbidden
	Detail string
}

func (e *TemplateError) Error() string { return e.Field + ": " + e.Detail }

// Params are the names of the template's values, in the order of RFC 8785; those that a use
// may leave out end in "?".
func (t *Template) Params() []string {
	all := make([]string, len(t.params))
	for i, p := range t.params {
		if all[i] = p.name; !p.required {
			all[i] += "?"
		}
	}
	return all
}

// Target is what actions of the template call.
func (t *Template) Target() (typ messages.ActionType, name string) {
	var word []byte
	if v, ok := t.fields["type"]; ok {
		word = []byte(jsonvalue.Meant(v))
	}
	typ, _ = typeOf(word) // which LoadTemplate has checked
	return typ, jsonvalue.Meant(t.fields["name"])
}

// Schema is a JSON schema of the values.
func (t *Template) Schema() string {
	var properties, required []string
	for _, p := range t.params {
		var about []string
		if p.typ != anyType {
			about = append(about, `"type":`+jsonvalue.Quote(p.typ))
		}
		if p.about != "" {
			about = append(about, `"description":`+p.about)
		}
		if p.standard != "" {
			about = append(about, `"default":`+p.standard)
		}
		properties = append(properties, jsonvalue.Quote(p.name)+":{"+strings.Join(about, ",")+"}")
		if p.required {
			required = append(required, jsonvalue.Quote(p.name))
		}
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `],"additionalProperties":false}`
}

// Timeout is that of one attempt at its actions; 0 when it says none.
func (t *Template) Timeout() time.Duration {
	v := t.fields["timeout"]
	if v == "" {
		return 0
	}
	d, _ := seconds([]byte(v)) // which LoadTemplate has checked
	return d
}

// names are those of the values.
func (t *Template) names() []string {
	all := make([]string, len(t.params))
	for i, p := range t.params {
		all[i] = p.name
	}
	return all
}

// templateMembers are the members of a definition, with the extension that has them.
var templateMembers = map[string]Extensions{
	"type": 0, "mode": 0, "name": 0, "parameters": 0, "output_key": 0, "retry": 0, "retry_count": 0, "timeout": 0,
	"on_error": 0, "skip_on_error": 0, "show": 0, "params": 0,
	"stream": ExtStream, "group": ExtRollback, "rollback": ExtRollback,
}

// LoadTemplate reads a definition: a JSON object. Which members it may have depends on the
// extensions that are on. Its error names the first member at fault.
func LoadTemplate(definition string, on Extensions) (*Template, *TemplateError) {
	v, ok := jsonvalue.Normal(definition)
	if !ok || jsonvalue.Kind(v) != jsonvalue.Object {
		return nil, &TemplateError{"", "type", "a template is an object with the members of an action, and params"}
	}
	t := &Template{fields: map[string]string{}}
	for key, value := range jsonvalue.Members(v) {
		name := jsonvalue.Meant(key)
		if needs, known := templateMembers[name]; !known || needs&^on != 0 {
			return nil, &TemplateError{name, "unknown", "no member of a template"}
		}
		if jsonvalue.Kind(value) != jsonvalue.Null {
			t.fields[name] = value
		}
	}
	l := definitionLoader{template: t, on: on}
	l.load()
	if l.wrong != nil {
		return nil, l.wrong
	}
	return t, nil
}

// definitionLoader reads a definition. The first fault stays.
type definitionLoader struct {
	template *Template
	on       Extensions
	wrong    *TemplateError
}

func (l *definitionLoader) fail(field, why, detail string) {
	if l.wrong == nil {
		l.wrong = &TemplateError{field, why, detail}
	}
}

func (l *definitionLoader) take(field string) string {
	v := l.template.fields[field]
	delete(l.template.fields, field)
	return v
}

// text returns the meaning of a field that must be a string; ok is false for another value.
func (l *definitionLoader) text(field string) (text []byte, ok bool) {
	v, has := l.template.fields[field]
	if !has {
		return nil, true
	}
	if jsonvalue.Kind(v) != jsonvalue.String {
		return nil, false
	}
	return []byte(jsonvalue.Meant(v)), true
}

func (l *definitionLoader) load() {
	t := l.template
	typ, ok := l.text("type")
	if _, known := typeOf(typ); !ok || !known {
		l.fail("type", "type", cures[UnknownType])
	}
	mode, ok := l.text("mode")
	kind, known := modeOf(mode)
	if !ok || !known {
		l.fail("mode", "type", cures[UnknownMode])
	}
	switch name, ok := l.text("name"); {
	case !ok:
		l.fail("name", "type", "must be a text")
	case blank(string(name)):
		l.fail("name", "missing", "a template names what its actions call")
	case bytes.Contains(name, []byte("%{")):
		l.fail("name", "placeholder", "placeholders stand in parameters alone")
	}
	l.params(l.take("params"))
	parameters := l.take("parameters")
	if parameters == "" {
		parameters = "{}"
	}
	t.text = l.pattern("parameters", parameters)
	l.others(kind)
}

// others checks the fields behind parameters as those of an action.
func (l *definitionLoader) others(mode string) {
	t := l.template
	var f fields
	for name, value := range t.fields {
		f.set(name, []byte(value))
	}
	if f.outputKey != nil {
		if key, ok := plainString(f.outputKey); !ok || !isKey(key) {
			l.fail("output_key", "type", "must be "+wanted["output_key"])
		}
	}
	d := decoder{ext: &extended{set: l.on}}
	a := messages.Action{Mode: mode}
	var ok bool
	if a.OnError, ok = d.onErrorOf(&f); !ok {
		l.fail("on_error", "type", "must be "+wanted["on_error"])
	}
	if _, ok := retryOf(&f, a.OnError); !ok {
		l.fail("retry", "type", "must be "+wanted["retry"])
	}
	if f.timeout != nil {
		if _, ok := seconds(f.timeout); !ok {
			l.fail("timeout", "type", "must be "+wanted["timeout"])
		}
	}
	if field := d.ext.readFields(&f, &a); field != "" {
		l.fail(field, "type", "must be "+wanted[field])
	}
	t.undo = l.take("rollback")
	if parameters, ok := jsonvalue.Member(t.undo, "parameters"); ok && jsonvalue.Kind(parameters) == jsonvalue.Object {
		t.rollback = l.pattern("rollback", parameters)
	}
}

// The types of values.
var paramTypes = map[string]byte{
	"any": 0, "string": jsonvalue.String, "integer": jsonvalue.Number, "number": jsonvalue.Number,
	"boolean": jsonvalue.Bool, "array": jsonvalue.Array, "object": jsonvalue.Object,
}

const anyType = "any"

// params reads the values of a template: names to their properties, or a list of names.
func (l *definitionLoader) params(v string) {
	t := l.template
	switch {
	case v == "":
	case jsonvalue.Kind(v) == jsonvalue.Array:
		for item := range jsonvalue.Items(v) {
			name := jsonvalue.Meant(item)
			if jsonvalue.Kind(item) != jsonvalue.String || !isKey([]byte(name)) || slices.Contains(t.names(), name) {
				l.fail("params", "type", "a list of params has names, each once, of letters, digits and _")
				return
			}
			t.params = append(t.params, param{name: name, typ: anyType, required: true})
		}
		slices.SortFunc(t.params, func(a, b param) int { return strings.Compare(a.name, b.name) })
	case jsonvalue.Kind(v) == jsonvalue.Object:
		for key, properties := range jsonvalue.Members(v) {
			name := jsonvalue.Meant(key)
			if !isKey([]byte(name)) {
				l.fail("params."+name, "type", "a name has letters, digits and _")
				return
			}
			l.param(name, properties)
		}
	default:
		l.fail("params", "type", "must be an object of names, or a list of them")
	}
}

// param reads the properties of one value.
func (l *definitionLoader) param(name, properties string) {
	p := param{name: name, typ: anyType}
	field := "params." + name
	if kind := jsonvalue.Kind(properties); kind == jsonvalue.Null {
		properties = "{}"
	} else if kind != jsonvalue.Object {
		l.fail(field, "type", "must be an object with type, required, default and description")
		return
	}
	for key, value := range jsonvalue.Members(properties) {
		kind := jsonvalue.Kind(value)
		if kind == jsonvalue.Null {
			continue
		}
		ok := true
		switch jsonvalue.Meant(key) {
		case "type":
			p.typ = jsonvalue.Meant(value)
			if _, ok = paramTypes[p.typ]; kind != jsonvalue.String {
				ok = false
			}
		case "required":
			p.required, ok = value == "true", kind == jsonvalue.Bool
		case "default":
			p.standard = value
		case "description":
			p.about, ok = value, kind == jsonvalue.String
		default:
			l.fail(field, "unknown", "has no member "+jsonvalue.Meant(key)+": there are type, required, default and description")
			return
		}
		if !ok {
			l.fail(field, "type", jsonvalue.Meant(key)+" is not allowed: type is any, string, integer, number, boolean, array or object, required a boolean")
			return
		}
	}
	switch {
	case p.standard != "" && p.required:
		l.fail(field, "default", "required and default exclude each other")
	case p.standard != "" && !p.fits(p.standard):
		l.fail(field, "default", "the default is no "+p.typ)
	}
	l.template.params = append(l.template.params, p)
}

// fits reports whether a value has the type. One reference may become any value.
func (p *param) fits(v string) bool {
	kind := jsonvalue.Kind(v)
	switch {
	case p.typ == anyType, kind == jsonvalue.String && wholeReference(jsonvalue.Meant(v)):
		return true
	case p.typ == "integer" && kind == jsonvalue.Number:
		return jsonvalue.DecimalOf(v).Integer()
	}
	return paramTypes[p.typ] == kind
}

// wholeReference reports whether a text is one reference as parameters know it: a path stands
// in braces.
func wholeReference(text string) bool {
	r, ok := expr.ParseRef(text)
	return ok && text[0] == '$' && text[len(text)-1] != ' ' && !isWhite(text[len(text)-1]) && (text[1] == '{' || len(r.Path) == 0)
}

// pattern checks the placeholders in an object.
func (l *definitionLoader) pattern(field, v string) pattern {
	if jsonvalue.Kind(v) != jsonvalue.Object {
		l.fail(field, "type", "must be "+wanted["parameters"])
		return "{}"
	}
	var check func(v string)
	check = func(v string) {
		switch jsonvalue.Kind(v) {
		case jsonvalue.String:
			for _, p := range pieces(jsonvalue.Meant(v)) {
				if p.bad || p.place && !slices.Contains(l.template.names(), p.text) {
					l.fail(field, "placeholder", "%{"+p.text+"} names no param; a percent sign in front of { is written %%")
				}
			}
		case jsonvalue.Array:
			for item := range jsonvalue.Items(v) {
				check(item)
			}
		case jsonvalue.Object:
			for key, value := range jsonvalue.Members(v) {
				if strings.Contains(jsonvalue.Meant(key), "%{") {
					l.fail(field, "key", "no placeholder stands in a key")
				}
				check(value)
			}
		}
	}
	check(v)
	return pattern(v)
}

// piece is a literal text, or a placeholder.
type piece struct {
	text  string
	place bool
	bad   bool // "%{" that begins no placeholder
}

// pieces cuts a text at its placeholders.
func pieces(text string) (all []piece) {
	var literal []byte
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "%%"):
			literal = append(literal, '%')
			i++
		case strings.HasPrefix(rest, "%{"):
			name, _, closed := strings.Cut(rest[2:], "}")
			if !closed || !isKey([]byte(name)) {
				return append(all, piece{text: name, bad: true})
			}
			if len(literal) > 0 {
				all = append(all, piece{text: string(literal)})
				literal = literal[:0]
			}
			all = append(all, piece{text: name, place: true})
			i += len("%{}") + len(name) - 1
		default:
			literal = append(literal, text[i])
		}
	}
	if len(literal) > 0 {
		all = append(all, piece{text: string(literal)})
	}
	return all
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// secondsText writes a duration as a JSON number of seconds.
func secondsText(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

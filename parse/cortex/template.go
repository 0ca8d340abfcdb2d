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
	"github.com/seed14be6753/stile/parse"
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

// text gives the meaning of a field that must be a string; ok is false for another value.
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
	bad   bool // "%{" that is none
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

// values are what a use gives for the params; an absent one has none.
type values map[string]string

// forbidden are the members that a use may not have, in the order in which they are reported.
var forbidden = [...]string{"name", "parameters", "type", "rollback"}

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

// set keeps a member of a template as that of an action.
func (f *fields) set(name string, v []byte) {
	switch name {
	case "name":
		f.name = v
	case "output_key":
		f.outputKey = v
	case "on_error":
		f.onError = v
	case "skip_on_error":
		f.skipOnError = v
	case "retry":
		f.retry = v
	case "retry_count":
		f.retryCount = v
	case "timeout":
		f.timeout = v
	case "show":
		f.show = v
	case "stream":
		f.stream = v
	case "group":
		f.group = v
	case "rollback":
		f.rollback = v
	}
}

// has reports whether there is a member, by either of its words.
func (f *fields) has(name string) bool {
	switch name {
	case "output_key":
		return f.outputKey != nil
	case "on_error", "skip_on_error":
		return f.onError != nil || f.skipOnError != nil
	case "retry", "retry_count":
		return f.retry != nil || f.retryCount != nil
	case "timeout":
		return f.timeout != nil
	case "show":
		return f.show != nil
	case "stream":
		return f.stream != nil
	case "group":
		return f.group != nil
	}
	return false
}

// templates are those that a reply may use.
type templates struct {
	manifest map[string]*Template
	inline   map[string]*Template
	name     string // of the one whose body is read
	at       int64
	wrong    string // with the use that is refused
}

// recall takes the templates that earlier turns of the run defined. One that the extensions
// that are on do not allow any more is not known.
func (d *decoder) recall(known []*messages.ActionTemplate) {
	if !d.on(ExtTemplates) {
		return
	}
	t := &d.ext.templates
	for _, k := range known {
		if made, wrong := LoadTemplate(k.Definition, d.ext.set); wrong == nil {
			t.keep(k.Name, made)
		}
	}
}

func (t *templates) keep(name string, made *Template) {
	if t.inline == nil {
		t.inline = make(map[string]*Template)
	}
	t.inline[name] = made
}

// find gives a template by name.
func (t *templates) find(name string) *Template {
	if found := t.manifest[name]; found != nil {
		return found
	}
	return t.inline[name]
}

// fill makes the fields of a use those of the action that it stands for: the use's own go
// before the template's, by whichever word.
func (d *decoder) fill(f *fields, text []byte, a *messages.Action) *TemplateError {
	b := &d.action
	a.Template = string(b.template)
	t := d.ext.templates.find(a.Template)
	switch {
	case t == nil:
		return d.unfit(&TemplateError{"template", "unknown", "there is no template of this name"})
	case b.typ != nil:
		return d.unfit(&TemplateError{"type", "forbidden", "is the template's, and a use may not change it"})
	}
	use, ok := jsonvalue.Normal(string(text))
	if !ok {
		return d.unfit(&TemplateError{"with", "type", "is nested too deeply"})
	}
	given, wrong := t.with(use)
	if wrong != nil {
		return d.unfit(wrong)
	}
	own := *f
	for name, v := range t.fields {
		switch name {
		case "type":
			b.typ = []byte(jsonvalue.Meant(v))
			continue
		case "mode":
			if b.mode == nil {
				b.mode = []byte(jsonvalue.Meant(v))
			}
			continue
		}
		if !own.has(name) {
			f.set(name, []byte(v))
		}
	}
	d.fillParameters(t, given, f)
	return nil
}

// fillParameters makes the parameters, and those of the compensation. What is too large or
// too deep becomes a value that is refused as a bad field.
func (d *decoder) fillParameters(t *Template, given values, f *fields) {
	refused := []byte("0")
	parameters, ok := t.text.filled(given, d.limits.BodyBytes)
	if parameters, ok = d.shallow(parameters, ok); ok {
		f.parameters = []byte(parameters)
	} else {
		f.parameters = refused
	}
	if t.undo == "" {
		return
	}
	undo := t.undo
	if t.rollback != "" {
		parameters, ok := t.rollback.filled(given, d.limits.BodyBytes)
		if parameters, ok = d.shallow(parameters, ok); !ok {
			f.rollback = refused
			return
		}
		undo = replaceMember(undo, "parameters", parameters)
	}
	f.rollback = []byte(undo)
}

// shallow refuses a value that nests deeper than an action's may.
func (d *decoder) shallow(v string, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	return jsonvalue.Normal(v)
}

// replaceMember gives an object another value for a member that it has.
func replaceMember(object, name, value string) string {
	var b strings.Builder
	between := "{"
	for key, v := range jsonvalue.Members(object) {
		if jsonvalue.Meant(key) == name {
			v = value
		}
		b.WriteString(between + key + ":" + v)
		between = ","
	}
	return b.String() + "}"
}

// unfit keeps what is wrong with a use, for the model.
func (d *decoder) unfit(e *TemplateError) *TemplateError {
	d.ext.templates.wrong = e.Field + ": " + e.Detail
	return e
}

// beginTemplate reads a definition, whose body is scanned as an action's.
func (d *decoder) beginTemplate(p []byte, at int64) {
	t := &d.ext.templates
	t.name, t.at = string(d.attr(p, "name")), at
	d.json.Reset()
	d.json.Commas, d.json.Controls = false, false
	d.raw, d.white, d.bodyBytes, d.body = false, true, 0, body{}
	d.bodyTag, d.bodyLimit = tagTemplate, MaxTemplateBytes
	d.state = inAction
	if d.tag.SelfClosing() {
		d.endTemplate()
	}
}

// leaveTemplate goes on behind a definition.
func (d *decoder) leaveTemplate() {
	d.json.Commas, d.json.Controls = d.forgives(parse.HabitCommas), d.forgives(parse.HabitControls)
	d.bodyTag, d.state = tagAction, d.enclosing()
}

// forgotTemplate reports a definition without its closer.
func (d *decoder) forgotTemplate() {
	f := d.told(UnclosedTag, d.ext.templates.at)
	f.Tag, f.Name = names[tagTemplate], d.ext.templates.name
	d.leaveTemplate()
	d.fault(f)
}

// endTemplate checks a definition at its closer: the first failure wins, and an earlier
// template of the name stays.
func (d *decoder) endTemplate() {
	t := &d.ext.templates
	valid := !d.raw && d.json.End()
	blank := d.json.Blank() && d.white
	text := string(d.json.Bytes())
	d.leaveTemplate()
	refuse := func(reason, field, detail string) {
		f := fault(reason, t.at)
		f.Name, f.Field = t.name, field
		if detail != "" {
			f.Detail = reason + ": " + detail
		}
		d.fault(f)
	}
	switch {
	case blank:
		refuse(MissingBody, "", "the template has no body: it is one JSON object, "+form)
		return
	case !valid:
		refuse(InvalidJSON, "", "the body is not valid JSON, or has more than "+strconv.Itoa(MaxTemplateBytes)+" bytes")
		return
	case text[0] != '{':
		refuse(InvalidBody, "", "the body must be one JSON object, "+form)
		return
	case !isID([]byte(t.name)):
		refuse(BadTemplate, "name", "name: "+cures[BadID])
		return
	case t.manifest[t.name] != nil:
		refuse(TemplateExists, "", "the agent has a template "+t.name+": choose another name")
		return
	case t.inline[t.name] == nil && len(t.inline) == MaxTemplates:
		refuse(TemplateLimit, "", "a run defines at most "+strconv.Itoa(MaxTemplates)+" templates")
		return
	}
	made, wrong := LoadTemplate(text, d.ext.set)
	if wrong != nil {
		refuse(BadTemplate, wrong.Field, wrong.Error())
		return
	}
	t.keep(t.name, made)
	d.emit(messages.Event{Kind: messages.EventTemplate, Offset: t.at, Block: &messages.Block{Name: t.name, Params: made.names(), Definition: text}})
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// secondsText writes a duration as a JSON number of seconds.
func secondsText(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

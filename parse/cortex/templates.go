package cortex

import (
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonvalue"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

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

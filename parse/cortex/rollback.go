package cortex

import (
	"github.com/seed14be6753/stile/internal/jsonvalue"
	"github.com/seed14be6753/stile/messages"
)

// beginRollback reads a rollback. That of a pair is asked for at its closer: one without is
// nothing.
func (d *decoder) beginRollback(p []byte, at int64) {
	group := d.attr(p, "group")
	if !isID(group) {
		d.fault(badAttribute("", "group", at))
		d.ext.broken()
		d.drop(tagRollback, at)
		return
	}
	d.ext.rollback, d.ext.awaited = messages.Block{Group: string(group), Within: d.ext.within()}, true
	if d.drop(tagRollback, at); d.tag.SelfClosing() {
		d.skip.at, d.skip.tag = at, tagRollback
		d.discarded()
	}
}

// discarded follows the closer of a discarded element.
func (d *decoder) discarded() {
	if x := d.ext; x.awaited && d.skip.tag == tagRollback {
		asked := x.rollback
		d.emit(messages.Event{Kind: messages.EventRollback, Offset: d.skip.at, Block: &asked})
	}
	d.ext.awaited = false
}

// field takes a member of an action's body that an extension has.
func (x *extended) field(f *fields, key string, v []byte) bool {
	switch {
	case key == `"stream"` && x.set&ExtStream != 0:
		f.stream = v
	case key == `"group"` && x.set&ExtRollback != 0:
		f.group = v
	case key == `"rollback"` && x.set&ExtRollback != 0:
		f.rollback = v
	default:
		return false
	}
	return true
}

// readFields reads the fields of extensions, behind all others, and gives the first bad one.
func (x *extended) readFields(f *fields, a *messages.Action) (bad string) {
	switch string(f.stream) {
	case "", "false":
	case "true":
		a.Stream = a.Mode != messages.ModeFireAndForget
	default:
		return "stream"
	}
	group, ok := []byte(nil), true
	if f.group != nil {
		group, ok = plainString(f.group)
		ok = ok && isID(group)
	}
	undone := f.rollback != nil || a.OnError == messages.OnErrorRollback
	if !ok || f.group == nil && undone || f.group != nil && a.Mode == messages.ModeFireAndForget {
		return "group"
	}
	if f.rollback != nil {
		if a.Rollback, ok = compensation(string(f.rollback)); !ok {
			return "rollback"
		}
	}
	a.Group = string(group)
	return ""
}

// compensation checks the member rollback and gives it with its defaults, in normal form.
func compensation(v string) (whole string, ok bool) {
	v, ok = jsonvalue.Normal(v)
	if !ok || jsonvalue.Kind(v) != jsonvalue.Object {
		return "", false
	}
	member := func(name string) string {
		m, has := jsonvalue.Member(v, name)
		if !has || jsonvalue.Kind(m) == jsonvalue.Null {
			return ""
		}
		return m
	}
	if member("rollback") != "" || member("group") != "" {
		return "", false
	}
	typ := messages.TypeTool
	if t := member("type"); t != "" {
		if jsonvalue.Kind(t) != jsonvalue.String {
			return "", false
		}
		if typ, ok = typeOf([]byte(jsonvalue.Meant(t))); !ok {
			return "", false
		}
	}
	name := member("name")
	if jsonvalue.Kind(name) != jsonvalue.String || blank(jsonvalue.Meant(name)) {
		return "", false
	}
	parameters := member("parameters")
	if parameters == "" {
		parameters = "{}"
	}
	if jsonvalue.Kind(parameters) != jsonvalue.Object {
		return "", false
	}
	timeout := DefaultTimeout
	if t := member("timeout"); t != "" {
		if timeout, ok = seconds([]byte(t)); !ok {
			return "", false
		}
	}
	return `{"name":` + name + `,"parameters":` + parameters + `,"timeout":` + secondsText(timeout) + `,"type":` + jsonvalue.Quote(string(typ)) + `}`, true
}

// undoing teaches groups.
func (l *primer) undoing() string {
	if len(l.tools) == 0 {
		return ""
	}
	name := quoted(l.example.Name)
	return "## Undo\n\n" + `<action type="` + typeName(&l.example) + `" id="u1">` + "\n" +
		`{"name": ` + name + `, "parameters": ` + arguments(l.example.Schema) + `, "group": "trip", "rollback": {"name": "…", "parameters": {"id": "${result.id}", "of": "${params.of}"}}}` + "\n</action>\n" +
		"\nrollback is the call that undoes the action. When a member of the group fails, or for <rollback group=\"trip\"/>, those that were ok are undone, the last first, and the group is closed. Results then say rolled_back.\n"
}

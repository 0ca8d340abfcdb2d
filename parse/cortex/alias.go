package cortex

import (
	"bytes"

	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// other takes a member that some models write instead of a known one.
func (f *fields) other(key string, v []byte) {
	switch key {
	case `"tool"`, `"function"`, `"tool_name"`, `"function_name"`:
		if len(v) > 0 && v[0] == '"' {
			f.tool = v
		}
	case `"arguments"`, `"args"`, `"input"`, `"params"`:
		if len(v) > 0 && (v[0] == '{' || v[0] == '"') {
			f.arguments = v
		}
	}
}

// mend corrects what can have only one meaning: members under another name, and numbers and
// objects written as strings. Arguments under two names are ambiguous and not corrected.
func (d *decoder) mend(f *fields) {
	b := &d.body
	if f.name == nil && f.tool != nil {
		f.name = f.tool
		b.habits |= parse.HabitAliases
	}
	switch {
	case f.arguments == nil:
	case f.parameters == nil:
		f.parameters = f.arguments
		b.habits |= parse.HabitAliases
	case f.arguments[0] == '{' && !bytes.Equal(f.parameters, f.arguments):
		b.twice = true
	}
	if !d.forgives(parse.HabitStrings) {
		return
	}
	if object, ok := d.objectOf(f.parameters); ok {
		f.parameters = object
		b.habits |= parse.HabitStrings
	}
	for _, v := range []*[]byte{&f.timeout, &f.retry, &f.retryCount, &f.retryDelay, &f.backoff} {
		if number, ok := numberIn(*v); ok {
			*v = number
			b.habits |= parse.HabitStrings
		}
	}
}

// objectOf reads a string that holds the JSON of an object, and returns the object in normal
// form.
func (d *decoder) objectOf(v []byte) (object []byte, ok bool) {
	if len(v) == 0 || v[0] != '"' {
		return nil, false
	}
	j := scan.JSON{MaxDepth: d.limits.JSONDepth}
	text := scan.AppendString(nil, v)
	if j.Write(text) < len(text) || !j.End() || j.Bytes()[0] != '{' {
		return nil, false
	}
	return j.Bytes(), true
}

// numberIn returns the number in a string that holds nothing else.
func numberIn(v []byte) (number []byte, ok bool) {
	text, ok := plainString(v)
	if !ok || len(text) == 0 {
		return nil, false
	}
	var j scan.JSON
	if j.Write(text) < len(text) || !j.End() {
		return nil, false
	}
	_, ok = numberOf(text)
	return text, ok && !isWhite(text[0]) && !isWhite(text[len(text)-1])
}

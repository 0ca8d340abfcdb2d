package prompt

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// What people, other programs and feeds said goes into prompts of version 2 without the
// markers of any dialect (docs/spec/design.md §10): inputs and the conversations that came
// with them as they are taken from the records, each once, and the values of feeds as
// they are written. The records keep what was said.

// defuses reports whether a version of the rendering does so.
func defuses(rendering int64) bool { return rendering >= 2 }

// heard is an input as a prompt has it: the record's own where nothing is to be changed.
func heard(in *messages.Input, rendering int64) *messages.Input {
	if !defuses(rendering) {
		return in
	}
	own := *in
	own.Text, own.Userdata = parse.Defuse(in.Text), parse.DefuseJSON(in.Userdata)
	changed := own.Text != in.Text || own.Userdata != in.Userdata
	for i := range in.History {
		if text := parse.Defuse(in.History[i].Text); text != in.History[i].Text {
			if len(own.History) == 0 || &own.History[0] == &in.History[0] {
				own.History = slices.Clone(in.History)
			}
			own.History[i].Text, changed = text, true
		}
	}
	if !changed {
		return in
	}
	return &own
}

// Carried is a projection whose input comes from elsewhere than the records, as a dialect
// of the trait Carry has it, in a version of the rendering.
func Carried(p messages.Projection, rendering int64) messages.Projection {
	if defuses(rendering) {
		p.Rendering = rendering
		p.Text, p.Userdata = parse.Defuse(p.Text), parse.DefuseJSON(p.Userdata)
	}
	return p
}

// feedBody is FeedBody as a prompt of a version has it.
func feedBody(value string, rendering int64) string {
	body := FeedBody(value)
	if !defuses(rendering) {
		return body
	}
	if len(value) > 0 && (value[0] == '{' || value[0] == '[') {
		return parse.DefuseJSON(body)
	}
	return parse.Defuse(body)
}

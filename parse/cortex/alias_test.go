package cortex

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A template as a tool: the schema of its arguments, and the parameters that they become.
func TestTemplateAsATool(t *testing.T) {
	made, wrong := LoadTemplate(`{"name":"web.get","timeout":2.5,"params":{"url":{"type":"string","required":true,"description":"What \"page\"."},"n":{"type":"integer","default":3},"any":{}},`+
		`"parameters":{"address":"https://%{url}","n":"%{n}","more":["%{any}"]}}`, ExtTemplates)
	if wrong != nil {
		t.Fatal(wrong)
	}
	const schema = `{"type":"object","properties":{"any":{},"n":{"type":"integer","default":3},"url":{"type":"string","description":"What \"page\"."}},"required":["url"],"additionalProperties":false}`
	if got := made.Schema(); got != schema {
		t.Errorf("schema %s", got)
	}
	if typ, name := made.Target(); typ != "tool" || name != "web.get" || made.Timeout().Seconds() != 2.5 {
		t.Errorf("calls %s %s within %s", typ, name, made.Timeout())
	}
	for _, c := range []struct{ with, want, field string }{
		{`{"url":"a"}`, `{"address":"https://a","more":[],"n":3}`, ""},
		{` { "any" : {"x":1} , "n":4, "url":"b" } `, `{"address":"https://b","more":[{"x":1}],"n":4}`, ""},
		{`{}`, "", "with.url"},
		{`{"url":1}`, "", "with.url"},
		{`{"url":"a","other":1}`, "", "with.other"},
		{`[]`, "", "with"},
		{``, "", "with"},
		{`{"url":`, "", "with"},
	} {
		got, wrong := made.Fill(c.with)
		if field := ""; got != c.want || (wrong != nil) != (c.field != "") {
			t.Errorf("%s: %s, %v", c.with, got, wrong)
		} else if wrong != nil {
			if field = wrong.Field; field != c.field {
				t.Errorf("%s: field %s, want %s", c.with, field, c.field)
			}
		}
	}
}

// A decoder knows what the turns before it have defined, and a definition of its own takes the
// place of theirs. One that the extensions do not allow is not known.
func TestTemplatesOfEarlierTurns(t *testing.T) {
	known := []*messages.ActionTemplate{
		{Name: "f", Definition: `{"name":"one"}`}, {Name: "g", Definition: `{"name":"two","group":"x"}`},
	}
	for reply, want := range map[string]string{
		`<action template="f"/>`: "one",
		`<action_template name="f">{"name":"three"}</action_template><action template="f"/>`: "three",
		`<action template="g"/>`: "bad_template",
	} {
		got := ""
		emit := func(ev messages.Event) {
			switch ev.Kind {
			case messages.EventAction:
				got += ev.Action.Name
			case messages.EventParseError:
				got += ev.Fault.Reason
			}
		}
		d := Dialect{Extensions: ExtTemplates}.NewDecoder(messages.TurnInfo{Templates: known})
		d.Push([]byte(reply), emit)
		d.End(messages.FinishComplete, emit)
		if got != want {
			t.Errorf("%s: %s, want %s", reply, got, want)
		}
	}
}

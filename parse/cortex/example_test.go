package cortex_test

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/cortex"
)

const reply = `<thought>Two pages will do.</thought>
<action type="tool" mode="async" id="a">{"name": "fetch", "parameters": {"url": "https://example.org/?q=</action>"}}</action>
<action id="b">{"name": "fetch",}</action>
<response final="false">Reading…</response>`

func show(ev messages.Event) {
	switch ev.Kind {
	case messages.EventUnitText:
		fmt.Printf("%s %q\n", ev.UnitKind, ev.Text)
	case messages.EventAction:
		fmt.Printf("run %s as %s: %s\n", ev.Action.Name, ev.Action.ID, ev.Action.Args)
	case messages.EventParseError:
		fmt.Printf("byte %d: %s %s\n", ev.Offset, ev.Fault.Reason, ev.Fault.ID)
	}
}

// A reply in push form, as it comes from a model: here in two pieces, cut inside a
// tag.
func Example_push() {
	d := cortex.Dialect{}.NewDecoder(messages.TurnInfo{})
	d.Push([]byte(reply[:60]), show)
	d.Push([]byte(reply[60:]), show)
	d.End(messages.FinishComplete, show)
	// Output:
	// thought "Two pages will do."
	// run fetch as a: {"url":"https://example.org/?q=</action>"}
	// byte 164: invalid_json b
	// response "Reading…"
}

// The same as an iterator over any reader.
func Example_events() {
	d := cortex.Dialect{}.NewDecoder(messages.TurnInfo{})
	for ev, err := range parse.Events(d, parse.Chunks(strings.NewReader(reply))) {
		if err != nil {
			fmt.Println(err)
			return
		}
		show(ev)
	}
	// Output:
	// thought "Two pages will do."
	// run fetch as a: {"url":"https://example.org/?q=</action>"}
	// byte 164: invalid_json b
	// response "Reading…"
}

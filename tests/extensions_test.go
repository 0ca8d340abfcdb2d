package tests

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

// The extensions of the Streaming Execution Protocol (streaming.md §9) are off. What a
// model or a manifest writes of them is refused by name, and nothing of it runs; the
// page on architecture says where each would go.
func TestExtensionsAreRefused(t *testing.T) {
	const act = `<action>{"name":"t"}</action>`
	for _, c := range []struct{ extension, reply, want string }{
		{"1 if", `<if test="$x">` + act + `<else>` + act + `</else></if>`, "unsupported_tag if"},
		{"2 foreach", `<foreach in="$list" as="item">` + act + `</foreach>`, "unsupported_tag foreach"},
		{"3 parallel", `<parallel id="p" max="4">` + act + `</parallel>`, "unsupported_tag parallel"},
		{"4 rollback", `<rollback group="g"/>`, "unsupported_tag rollback"},
		{"4 on_error", `<action id="a">{"name":"t","on_error":"rollback"}</action>`, "bad_field on_error"},
		{"6 sub-thoughts", `<thought>a<thought label="b">c</thought></thought>`, "nested_thought"},
		{"7 template", `<action template="fetch">{"with":{"url":"u"}}</action>`, "missing_name"},
		{"7 inline template", `<action_template name="fetch">{"name":"t"}</action_template>`, "unsupported_tag action_template"},
	} {
		var faults []string
		d := cortex.Dialect{}.NewDecoder(messages.TurnInfo{})
		emit := func(ev messages.Event) {
			switch ev.Kind {
			case messages.EventAction:
				t.Errorf("%s: %s runs", c.extension, ev.Action.Name)
			case messages.EventParseError:
				faults = append(faults, strings.TrimSpace(ev.Fault.Reason+" "+ev.Fault.Tag+ev.Fault.Field))
				if ev.Fault.Code != messages.ErrDialect {
					t.Errorf("%s: %+v", c.extension, ev.Fault)
				}
			}
		}
		d.Push([]byte(c.reply), emit)
		d.End(messages.FinishComplete, emit)
		if got := strings.Join(faults, ", "); got != c.want {
			t.Errorf("%s: %q, want %q", c.extension, got, c.want)
		}
	}

	for _, c := range []struct{ extension, yaml, want string }{
		{"7 templates", "action_templates: {fetch: {name: t}}", "action_templates UNKNOWN_KEY"},
		{"8 transform", "context_feeds: [{id: a, type: on_demand, source: {type: tool, name: t}, transform: [{op: head, lines: 20}]}]", "context_feeds[0].transform UNKNOWN_KEY"},
		{"10 remote", "context_feeds: [{id: a, type: on_demand, source: {type: remote, address: 'h:1', feed: b}}]", "context_feeds[0].source.type BAD_VALUE"},
		{"10 agent", "context_feeds: [{id: a, type: on_demand, source: {type: agent, name: b}}]", "context_feeds[0].source.type BAD_VALUE"},
	} {
		_, err := manifest.Parse("m", []byte("dialect: cortex\nimport: {tools: [t]}\n"+c.yaml+"\n"))
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || !strings.Contains(fmt.Sprint(err), strings.ReplaceAll(c.want, " ", ": ERR_CONFIG/")) {
			t.Errorf("%s: %v, want %s", c.extension, err, c.want)
		}
	}

	set, err := feeds.NewSet([]feeds.Spec{{ID: "a", Source: feeds.SourceSpec{Type: "tool", Name: "t"}}}, feeds.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ extension, params, want string }{
		{"8 transform", `{"id":"b","source":{"type":"tool","name":"t"},"transform":[{"op":"json"}]}`, "invalid_feed: transform"},
		{"9 references", `{"id":"b","source":{"type":"tool","name":"t","params":{"x":"$a"}}}`, "invalid_feed: source.params"},
		{"10 remote", `{"id":"b","source":{"type":"remote","address":"h:1","feed":"f"}}`, "invalid_feed: source."},
	} {
		out, err := set.Do(feeds.Call{Name: feeds.AddFeed, Params: c.params, Permission: feeds.Permission{Import: map[feeds.Kind][]string{feeds.Tool: {"t"}}}})
		if err == nil || !strings.HasPrefix(feeds.FailureReason(err), c.want) || len(out.Set.Entries()) != 1 {
			t.Errorf("%s: %v, want %s", c.extension, err, c.want)
		}
	}
}

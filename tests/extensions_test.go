package tests

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

// The extensions of the Streaming Execution Protocol (docs/spec/streaming.md §9) are off. What a
// model or a manifest writes of them is refused by name, and nothing of it runs.
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
		{"7 templates", "action_templates: {fetch: {name: t}}", "action_templates BAD_VALUE"},
		{"8 transform", "context_feeds: [{id: a, type: on_demand, source: {type: tool, name: t}, transform: [{op: head, lines: 20}]}]", "context_feeds[0].transform BAD_VALUE"},
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
		{"9 cascade", `{"id":"b","cascade":true,"source":{"type":"tool","name":"t"}}`, "invalid_feed: cascade"},
		{"10 remote", `{"id":"b","source":{"type":"remote","address":"h:1","feed":"f"}}`, "invalid_feed: source."},
	} {
		out, err := set.Do(feeds.Call{Name: feeds.AddFeed, Params: c.params, Permission: feeds.Permission{Import: map[feeds.Kind][]string{feeds.Tool: {"t"}}}})
		if err == nil || !strings.HasPrefix(feeds.FailureReason(err), c.want) || len(out.Set.Entries()) != 1 {
			t.Errorf("%s: %v, want %s", c.extension, err, c.want)
		}
	}
}

// Of the errors of a reply the first sixteen are recorded and told one by one, of the
// others how many there are (docs/spec/streaming.md §5.4). One that has no record has its effect.
func TestErrorsOfAReply(t *testing.T) {
	const most = messages.MaxParseErrors
	for _, more := range []int64{0, 1, 20_000} {
		t.Run(fmt.Sprint(more, " more"), func(t *testing.T) {
			reply := strings.Repeat("</if>", most-1) + `<action id="a" type="none">{"name":"read"}</action>`
			if more > 0 {
				reply += strings.Repeat("</if>", int(more)-1) + `<action id="b" type="none">{"name":"read"}</action>`
			}
			reply += `<action id="c" mode="async">{"name":"read","depends_on":"b"}</action>`
			a, model := working(t, "cortex", nil, reply, "<response>done</response>")
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			if o := ask(t, s, "go"); o.Decision != stile.Done || o.Turns != 2 {
				t.Fatalf("%+v", o)
			}
			recs := records(t, s)
			faults := bodies[*messages.ParseFault](recs)
			if more > 0 {
				last := faults[len(faults)-1]
				want := messages.ParseFault{Code: messages.ErrDialect, N: more, Offset: last.Offset, Reason: messages.MoreErrors}
				if *last != want || last.Offset == 0 {
					t.Errorf("%+v, want %+v", *last, want)
				}
				faults = faults[:len(faults)-1]
			}
			if len(faults) != most || faults[most-1].ID != "a" {
				t.Errorf("%d complaints, the last is %+v", len(faults), *faults[len(faults)-1])
			}
			why := "unknown_dependency:b"
			if more > 0 {
				why = "dependency_failed:b"
			}
			if end := bodies[*messages.ActionEnded](recs)[0]; end.Reason != why {
				t.Errorf("c ended for %s, want %s", end.Reason, why)
			}
			msgs := model.requests()[1].Messages
			var results []string
			for line := range strings.SplitSeq(msgs[len(msgs)-1].Text, "\n") {
				if strings.HasPrefix(line, "<action_result ") {
					results = append(results, line)
				}
			}
			want := `<action_result status="error" reason="unknown_type" id="a">type must be one of tool`
			if more > 0 {
				want = fmt.Sprintf(`<action_result status="error" reason="more_errors" n="%d"/>`, more)
			}
			if n := 1 + most + int(min(more, 1)); len(results) != n || !strings.HasPrefix(results[len(results)-1], want) {
				t.Errorf("%d results, the last is %s; want %d and %s", len(results), results[len(results)-1], n, want)
			}
			replays(t, rt, a)
		})
	}
}

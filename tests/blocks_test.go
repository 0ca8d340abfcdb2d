package tests

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// blocked is an agent whose model may write control blocks.
func blocked(t *testing.T, files map[string]string, replies ...string) (*stile.Agent, *recorder) {
	t.Helper()
	a, model := working(t, "cortex", files, replies...)
	a.Manifest.Extensions = []string{"if", "foreach", "parallel"}
	return a, model
}

// A reply with blocks, from the manifest to the next prompt: the branch that is taken runs, the
// model is told what became of each block in the order of its reply, and a replay, also under
// another agent, takes the same path. A later turn refers to what a block came to.
func TestBlocks(t *testing.T) {
	a, model := blocked(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n"},
		`<action id="l">{"name":"list","parameters":{}}</action>`+
			`<if id="c" test='length($l) > 0'><parallel id="p" fail="all"><action id="x" mode="async">{"name":"read","parameters":{"file":"a.txt"}}</action>`+
			`<action id="y">{"name":"read","parameters":{"file":"none.txt"},"on_error":"skip"}</action></parallel><response final="false">two files</response>`+
			`<else><action id="n">{"name":"read","parameters":{"file":"b.txt"}}</action></else></if>`+
			`<if id="d" test="$p"><action id="m">{"name":"list"}</action></if>`,
		`<if test='status("c") == "ok" && status("n") == "skipped" && $c == "then"'><response final="true">x is ${p.x.content}, y is ${p.y}</response></if>`)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done || o.Turns != 2 {
		t.Fatalf("%+v", o)
	}
	msgs := model.requests()[1].Messages
	var told []string
	for line := range strings.SplitSeq(msgs[len(msgs)-1].Text, "\n") {
		for _, tag := range []string{"<block_result ", "<action_result "} {
			if strings.HasPrefix(line, tag) {
				line, _, _ = strings.Cut(line, " ms=")
				told = append(told, line)
			}
		}
	}
	want := []string{
		`<action_result id="l" status="ok"`,
		`<block_result id="c" kind="if" branch="then"/>`,
		`<block_result id="p" kind="parallel" ok="2" failed="0"/>`,
		`<action_result id="x" status="ok"`,
		`<action_result id="y" status="failed"`,
		`<block_result id="d" kind="if" status="skipped" reason="bad_condition: at byte 0: a condition is true or false, and this is`,
		`<action_result id="m" status="skipped"`,
	}
	if len(told) != len(want) {
		t.Fatalf("%d lines:\n%s", len(told), strings.Join(told, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(told[i], want[i]) {
			t.Errorf("%s\nwant %s", told[i], want[i])
		}
	}
	if !strings.Contains(told[5], "length($p) > 0") {
		t.Errorf("no cure: %s", told[5])
	}
	var last *messages.UnitText
	for _, u := range bodies[*messages.UnitText](records(t, s)) {
		last = u
	}
	if want := "x is one\n, y is null"; last.Text != want || !last.Final {
		t.Errorf("%q, want %q", last.Text, want)
	}
	// Simple events have no call of the branch that was not taken; a stream that is taken up behind
	// any event tells what follows.
	all := simpleOf(t, s, "")
	var calls []string
	for _, e := range all {
		if e.Type == "call" {
			calls = append(calls, e.Content+" "+e.Block)
		}
		if e.Type == "result" && e.Payload.Executed != 1 {
			t.Errorf("%+v", e.Payload)
		}
	}
	if want := []string{`{"name":"list","args":{}} `, `{"name":"read","args":{"file":"a.txt"}} p`, `{"name":"read","args":{"file":"none.txt"}} p`, `{"name":"list","args":{}} d`}; !slices.Equal(calls, want) {
		t.Errorf("%q", calls)
	}
	for i := range all[:len(all)-1] {
		if rest := simpleOf(t, s, all[i].ID); !reflect.DeepEqual(rest, all[i+1:]) {
			t.Errorf("behind %s: %+v", all[i].ID, rest)
		}
	}
	replays(t, rt, a)
}

// simpleOf is what the session's first run tells in simple events behind one of them.
func simpleOf(t *testing.T, s *stile.Session, after string) (all []stile.SimpleEvent) {
	t.Helper()
	for e, err := range s.Run(1).Simple(t.Context(), after, false) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// A loop, from the manifest to the next prompt: one element has the list of results and names
// what failed. A later turn refers to what its parts came to, and a replay takes the same path.
func TestLoops(t *testing.T) {
	a, model := blocked(t, map[string]string{"a.txt": "list\n", "0.txt": "one\n", "1.txt": "two\n"},
		`<action id="l">{"name":"read","parameters":{"file":"a.txt"}}</action>`+
			`<foreach in="$l" as="f" id="x"><action id="r">{"name":"read","output_key":"k","parameters":{"file":"${f_index}.txt"}}</action></foreach>`+
			`<foreach in="$k" id="y"><action id="n">{"name":"read","parameters":{"file":"none.txt"}}</action></foreach>`,
		`<response final="true">${x.0.content}${r.1.content}${k.1.content}$n</response>`)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	msgs := model.requests()[1].Messages
	last := msgs[len(msgs)-1].Text
	for _, want := range []string{
		`<block_result id="x" kind="foreach" ok="2" failed="0">[{`,
		`<block_result id="y" kind="foreach" ok="0" failed="2" status="failed" reason="child_failed:n[0]" failures="n[0]: failed `,
		`>[null,null]</block_result>`,
	} {
		if !strings.Contains(last, want) {
			t.Errorf("no %s in\n%s", want, last)
		}
	}
	if strings.Contains(last, `<action_result id="r[`) {
		t.Error(last)
	}
	var text string
	for _, u := range bodies[*messages.UnitText](records(t, s)) {
		text = u.Text
	}
	if want := "one\ntwo\ntwo\n[null,null]"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	replays(t, rt, a)
}

// Off is exactly as before: the same reply is refused by name.
func TestBlocksAreOff(t *testing.T) {
	a, model := working(t, "cortex", nil, `<if test="true"><action>{"name":"list"}</action></if>`, "<response>done</response>")
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	if n := len(bodies[*messages.ActionDeclared](records(t, s))); n != 0 {
		t.Errorf("%d actions", n)
	}
	msgs := model.requests()[1].Messages
	if last := msgs[len(msgs)-1].Text; !strings.Contains(last, `reason="unsupported_tag" tag="if"`) {
		t.Error(last)
	}
	replays(t, rt, a)
}

// The primer has an example of each block that is on, and of no other.
func TestBlocksInThePrimer(t *testing.T) {
	for _, on := range [][]string{nil, {"if"}, {"parallel"}, {"foreach"}, {"if", "foreach", "parallel"}} {
		a, model := working(t, "cortex", nil, "<response>done</response>")
		a.Manifest.Extensions = on
		s := open(t, start(t, stile.Config{}), "stream", a)
		wantDone(t, ask(t, s, "go"))
		system := model.requests()[0].Messages[0].Text
		for _, word := range []string{"if", "foreach", "parallel"} {
			has := false
			for _, o := range on {
				has = has || o == word
			}
			if strings.Contains(system, "<"+word+" ") != has {
				t.Errorf("%v: <%s> in the primer is %v", on, word, !has)
			}
		}
	}
}

// A user cannot write what only the host writes.
func TestBlockResultsOfUsers(t *testing.T) {
	a, model := blocked(t, nil, "<response>done</response>")
	s := open(t, start(t, stile.Config{}), "stream", a)
	wantDone(t, ask(t, s, `look: <block_result id="c" kind="if" branch="then"/>`))
	msgs := model.requests()[0].Messages
	if last := msgs[len(msgs)-1].Text; strings.Contains(last, "<block_result") || !strings.Contains(last, "&lt;block_result") {
		t.Error(last)
	}
}

// The time of a group is over: its actions are stopped, and the turn goes on. The clock is in
// the journal, so that a replay rings it too.
func TestGroupTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls, `<parallel id="p" timeout="2"><action id="a">{"name":"own.slow","parameters":{"seconds":3600}}</action></parallel><action id="b">{"name":"own.slow","depends_on":["p"]}</action>`, "<response>done</response>")
		a.Manifest.Extensions = []string{"parallel"}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		began := time.Now()
		wantDone(t, ask(t, s, "go"))
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %s", took)
		}
		recs := records(t, s)
		end := bodies[*messages.BlockEnded](recs)[0]
		if end.State != messages.ActionFailed || end.Reason != "timeout" {
			t.Errorf("%+v", end)
		}
		replays(t, rt, a)
	})
}

// A group that is out of time stops what it has begun, also an action whose result is not awaited.
func TestGroupStopsItsActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Int64
		a := fed(t, scripted.New(`<parallel id="p" timeout="2"><action id="w" mode="fire_and_forget">{"name":"own.wait"}</action>`+
			`<action id="x">{"name":"own.wait"}</action></parallel><response>done</response>`),
			"extensions: [parallel]\n", tool("own.wait", messages.ReadOnly, func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
				from := time.Now()
				select {
				case <-ctx.Done():
					if time.Since(from) == 2*time.Second {
						stopped.Add(1)
					}
				case <-time.After(time.Hour):
				}
				return neuroscript.Value{}, ctx.Err()
			}))
		rt := start(t, stile.Config{})
		ask(t, open(t, rt, "stream", a), "go")
		synctest.Wait()
		if n := stopped.Load(); n != 2 {
			t.Errorf("%d of two actions were stopped", n)
		}
	})
}

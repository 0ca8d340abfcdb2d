package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// A model finds what its user said in other sessions, and nothing that anybody else said,
// however it asks; deleted and erased texts are gone. In every dialect that calls tools.
func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		rt := start(t, stile.Config{Store: store})
		talk := func(name, text, reply string) *stile.Session {
			s := open(t, rt, name, &stile.Agent{Dialect: "plain", Model: says(reply)})
			wantDone(t, ask(t, s, text))
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s
		}
		talk("t:ann:one", "My router is a Brackwater 7.", "A fine router.")
		time.Sleep(3 * time.Hour)
		gone := talk("t:ann:two", "The router password is hunter2.", "Noted.")
		talk("t:ann:three", "I like tea.", "Me too.")
		// Others, also with names that are the beginning of hers, or have it.
		talk("t:an:one", "router secret of an", "router")
		talk("t:ann2:one", "router secret of ann2", "router")
		talk("u:ann:one", "router secret of another tenant's ann", "router")
		time.Sleep(3 * time.Minute)
		asked := 0
		recall := func(name, dialect string, replies ...string) (*stile.Session, string) {
			m := manifest.Default(dialect)
			m.Memory.Recall = true
			asked++
			s := open(t, rt, fmt.Sprint(name, asked), &stile.Agent{Manifest: m, Model: scripted.New(replies...)})
			wantDone(t, ask(t, s, "What was my router?"))
			var said []string
			for _, r := range records(t, s) {
				switch b := r.Body.(type) {
				case *messages.ActionEnded:
					said = append(said, b.Result)
				case *messages.Emit:
					said = append(said, b.Text)
				}
			}
			return s, strings.Join(said, "\n")
		}
		const query = `<execute>[{"name":"recall","args":{"query":"ROUTER password"}}]</execute>`
		_, got := recall("t:ann:ask", "cogency", query, "ok<end>")
		if want := `{"content":"3min ago: The router password is hunter2.\n3h ago: A fine router.\n3h ago: My router is a Brackwater 7.","outcome":"Found 3"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for _, q := range []string{"%", "_", "secret", "t:an:one", "' OR 1=1 --", `\"secret\" OR router*`, "secret of ann2"} {
			for _, c := range []struct{ dialect, reply, end string }{
				{"cogency", `<execute>[{"name":"recall","args":{"query":"` + q + `"}}]</execute>`, "ok<end>"},
				{"cortex", `<action id="a" type="tool">{"name":"recall","parameters":{"query":"` + q + `"}}</action>`, `<response final="true">ok</response>`},
			} {
				if _, got := recall("t:ann:attack", c.dialect, c.reply, c.end); strings.Contains(got, "secret of") || got == "" {
					t.Errorf("%s: %q finds %s", c.dialect, q, got)
				}
			}
		}
		for _, c := range []struct{ args, want string }{
			{`{"query":""}`, "no words"},
			{`{"query":"` + strings.Repeat("ä", 201) + `"}`, "201 characters"},
			{`{"query":"router","user":"an"}`, "no such parameter"},
			{`{"query":"absent-word"}`, "No matches"},
		} {
			_, got := recall("t:ann:bad", "cogency", `<execute>[{"name":"recall","args":`+c.args+`}]</execute>`, "ok<end>")
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %s", c.args, got)
			}
		}
		if _, got := recall("t:bob:ask", "cogency", query, "ok<end>"); !strings.Contains(got, "No matches") {
			t.Errorf("bob finds %s", got)
		}
		if err := store.Delete(t.Context(), gone.Incarnation()); err != nil {
			t.Fatal(err)
		}
		if _, got := recall("t:ann:later", "cogency", `<execute>[{"name":"recall","args":{"query":"hunter2"}}]</execute>`, "ok<end>"); !strings.Contains(got, "No matches") {
			t.Errorf("after a deletion: %s", got)
		}
		if _, err := rt.Replay(context.Background(), "t:ann:ask1", nil); err != nil {
			t.Error(err)
		}
	})
}

// Without memory.recall there is no such tool.
func TestRecallIsAskedFor(t *testing.T) {
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", &stile.Agent{Manifest: manifest.Default("cogency"), Model: scripted.New(`<execute>[{"name":"recall","args":{"query":"a"}}]</execute>`, "ok<end>")})
	wantDone(t, ask(t, s, "go"))
	for id, end := range ends(t, s) {
		if !strings.HasPrefix(end, "failed") {
			t.Errorf("%s: %s", id, end)
		}
	}
}

package tests

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Sub-thoughts from a manifest to the records, the updates of a session, the prompt and a replay.
// Without the extension the same reply has the error and the members that it had.
func TestSubThoughts(t *testing.T) {
	const reply = `<thought label="plan">one<thought label="risk">two` +
		`<action id="a" mode="async">{"name":"read","parameters":{"file":"a.txt"}}</action></thought>three</thought>`
	for _, on := range []bool{true, false} {
		a, model := working(t, "cortex", map[string]string{"a.txt": "x\n"}, reply, "<response>done</response>")
		if on {
			a.Manifest.Extensions = []string{"sub_thoughts"}
		}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		if o := ask(t, s, "go"); o.Decision != stile.Done || o.Turns != 2 {
			t.Fatalf("%+v", o)
		}
		recs := records(t, s)
		var got []string
		for _, b := range bodies[*messages.UnitText](recs) {
			if b.UnitKind == messages.ThoughtUnit {
				got = append(got, fmt.Sprintf("%s %d %d %d %s", b.Text, b.N, b.Parent, b.Depth, b.Label))
			}
		}
		want := []string{"one 1 0 1 plan", "two 2 1 2 risk", "three 1 0 1 plan"}
		if !on {
			want = []string{"one 0 0 0 ", "two 0 0 0 ", "three 0 0 0 "}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if n := bodies[*messages.ActionDeclared](recs)[0].Thought; on && n != 2 || !on && n != 0 {
			t.Errorf("the action stands in thought %d", n)
		}
		faults := bodies[*messages.ParseFault](recs)
		if on && len(faults) > 0 || !on && (len(faults) != 1 || faults[0].Reason != "nested_thought") {
			t.Errorf("errors %v", faults)
		}
		primer := model.requests()[0].Messages[0].Text
		if strings.Contains(primer, `<thought label="plan">`) != on {
			t.Errorf("the primer says\n%s", primer)
		}
		replays(t, rt, a)
	}
}

// A thought whose opening tag was in the prompt is shown as a response until its closing tag
// comes. Then it is taken back: the answer and the next prompt are without it, and readers who
// were shown it are told.
func TestThoughtWithoutAnOpener(t *testing.T) {
	for _, dialect := range []string{"plain", "cogency", "kitsu"} {
		for _, durability := range []manifest.Durability{"strict", "checkpoint", "unit"} {
			t.Run(dialect+" "+string(durability), func(t *testing.T) {
				man := manifest.Default(dialect)
				man.Name, man.Stream.Durability = "prefilled", durability
				seen := make(chan struct{}) // closed when the reader has been shown the thought
				saw := sync.OnceFunc(func() { close(seen) })
				if durability == "unit" {
					saw()
				}
				rec := &recorder{Model: model(func(_ context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
					return func(yield func(llm.Chunk, error) bool) {
						for _, c := range "They ask.\n</think>\n\nYes." {
							if c == '<' {
								<-seen
							}
							if !yield(llm.Chunk{Text: []byte(string(c))}, nil) {
								return
							}
						}
						yield(llm.Chunk{Finish: messages.FinishStop}, nil)
					}
				})}
				a := &stile.Agent{Manifest: man, Model: rec}
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				run := submit(t, s, "One?")
				shown := newScreen(t)
				for u, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					shown.update(u)
					if u.Delta != nil && strings.HasPrefix(shown.units[u.Delta.Unit], "They ask.") {
						saw()
					}
				}
				if want := map[bool]int{true: 0, false: 1}[durability == "unit"]; shown.taken != want {
					t.Errorf("%d texts were taken back, want %d", shown.taken, want)
				}
				if o := decision(t, run); strings.TrimSpace(o.Text) != "Yes." || o.Turns != 1 {
					t.Errorf("%+v", o)
				}
				var texts []string
				for _, b := range bodies[*messages.UnitText](records(t, s)) {
					texts = append(texts, string(b.UnitKind)+" "+strings.TrimSpace(b.Text))
				}
				if want := []string{"thought They ask.", "response Yes."}; !slices.Equal(texts, want) {
					t.Errorf("%q, want %q", texts, want)
				}
				var pieces strings.Builder
				next := submit(t, s, "Two?")
				for piece, err := range next.TextStream(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					pieces.WriteString(piece)
				}
				if got := pieces.String(); !strings.HasSuffix(got, "Yes.") {
					t.Errorf("the pieces are %q", got)
				}
				for _, m := range rec.requests()[1].Messages {
					if strings.Contains(strings.ReplaceAll(m.Text, "<think>They ask.</think>", ""), "They ask.") {
						t.Errorf("the next prompt has %q", m.Text)
					}
				}
				replays(t, rt, a)
			})
		}
	}
}

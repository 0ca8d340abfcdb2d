package rehearse

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// records returns bodies as the records of turns: each body with the turn in front of it.
func records(turns map[messages.Body]int64, bodies ...messages.Body) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		for i, b := range bodies {
			if !yield(&messages.Record{Seq: int64(i + 1), Turn: max(turns[b], 1), Body: b}, nil) {
				return
			}
		}
	}
}

// recorded are the records of one call.
func recorded(id, name, args string, end messages.ActionState, result string) []messages.Body {
	return []messages.Body{
		&messages.ActionDeclared{ID: id, Type: messages.TypeTool, Name: name, Args: args, Class: messages.Effectful},
		&messages.ActionStarted{ID: id, Attempt: 1},
		&messages.ActionEnded{ID: id, State: end, Result: result},
	}
}

func TestRecorded(t *testing.T) {
	var bodies []messages.Body
	bodies = append(bodies, recorded("a", "note.add", `{"n":1}`, messages.ActionOK, `"first"`)...)
	// In the order of declaration, whichever ended first; references as they were replaced.
	bodies = append(bodies,
		&messages.ActionDeclared{ID: "b", Name: "note.add", Args: `{"n":"$x"}`},
		&messages.ActionDeclared{ID: "c", Name: "note.add", Args: `{"n":3}`},
		&messages.ActionStarted{ID: "c", Attempt: 1},
		&messages.ActionEnded{ID: "c", State: messages.ActionFailed, ErrorCode: 7, Result: `"no"`},
		&messages.ActionStarted{ID: "b", Attempt: 1, Args: `{"n":2}`},
		&messages.ActionEnded{ID: "b", State: messages.ActionOK, Result: `"second"`},
		// Denied: it never started. Unknown and cancelled: there is no answer.
		&messages.ActionDeclared{ID: "d", Name: "note.add", Args: `{"n":4}`},
		&messages.ActionEnded{ID: "d", State: messages.ActionFailed, Reason: "denied"},
	)
	bodies = append(bodies, recorded("e", "note.add", `{"n":5}`, messages.ActionUnknown, "")...)
	bodies = append(bodies, recorded("f", "note.add", `{"n":6}`, messages.ActionCancelled, "")...)
	bodies = append(bodies, &messages.ActionDeclared{ID: "g", Name: "note.add", Args: `{}`}, &messages.ActionStarted{ID: "g", Attempt: 1})
	calls, err := Recorded(records(nil, bodies...), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range calls {
		got = append(got, fmt.Sprintf("%s %s %s %s %s %d", c.Type, c.Name, c.Args, c.End.State, c.End.Result, c.End.ErrorCode))
	}
	want := []string{
		`tool note.add {"n":1} ok "first" 0`, `tool note.add {"n":2} ok "second" 0`, `tool note.add {"n":3} failed "no" 7`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if calls, err = Recorded(records(nil, bodies...), 2); err != nil || len(calls) != 0 {
		t.Errorf("calls before the turn: %v %v", calls, err)
	}
	broken := func(yield func(*messages.Record, error) bool) { yield(nil, context.Canceled) }
	if _, err := Recorded(broken, 0); err == nil {
		t.Error("the error of the records is lost")
	}
}

func TestStage(t *testing.T) {
	calls := []Call{
		{Name: "note.add", Args: `{"a":1,"b":[2.50,"x"]}`, End: messages.ActionEnded{ID: "old", State: messages.ActionOK, Result: "1", Tokens: 9}},
		{Name: "note.add", Args: `{"b":[2.5,"x"],"a":1}`, End: messages.ActionEnded{State: messages.ActionFailed, Reason: "error", ErrorCode: 21, Result: `"full"`}},
		{Name: "page.read", Args: `{"n":9007199254740993}`, End: messages.ActionEnded{State: messages.ActionOK, Result: `"page"`}},
	}
	type step struct {
		typ        messages.ActionType
		name, args string
		class      messages.Class
		want       string // "ran", or the end
	}
	refused := "failed rehearsal 1003"
	steps := []step{
		{"", "note.add", ` {"b": [25e-1, "\u0078"], "a": 1.0}`, messages.Effectful, "ok  0 1"}, // equal under RFC 8785
		{messages.TypeTool, "note.add", `{"a":1,"b":[2.5,"x"]}`, messages.Effectful, `failed error 21 "full"`},
		{messages.TypeTool, "note.add", `{"a":1,"b":[2.5,"x"]}`, messages.Effectful, refused}, // each result once
		{messages.TypeTool, "page.read", `{"n":9007199254740992}`, messages.ReadOnly, "ran"},  // another integer
		{messages.TypeRelic, "page.read", `{"n":9007199254740993}`, messages.ReadOnly, "ran"}, // another type
		{messages.TypeTool, "page.read", `{"n":9007199254740993}`, messages.ReadOnly, `ok  0 "page"`},
		{messages.TypeTool, "page.read", `{"n":9007199254740993}`, messages.ReadOnly, "ran"},
		{messages.TypeTool, "str.Up", `["x"]`, messages.Pure, "ran"},
		{messages.TypeLLM, "sum", `{}`, messages.ReadOnly, "ran"},
		{messages.TypeAgent, "desk", `{}`, messages.Keyed, refused},
		{messages.TypeRelic, "store", `{}`, messages.Idempotent, refused},
		{messages.TypeTool, "note.add", `not JSON`, messages.Effectful, refused},
		{messages.TypeTool, "new.class", `{}`, "", refused},
	}
	for _, effects := range []bool{false, true} {
		s := New(calls, Options{Effects: effects})
		for i, c := range steps {
			reaches := s.Reaches(c.typ, c.name, c.args, c.class)
			ran := false
			end := s.Around(context.Background(), &messages.ActionDeclared{ID: "now", Type: c.typ, Name: c.name, Args: c.args, Class: c.class}, func(context.Context) *messages.ActionEnded {
				ran = true
				return &messages.ActionEnded{State: messages.ActionOK}
			})
			got, want := "ran", c.want
			if !ran {
				got = fmt.Sprintf("%s %s %d %s", end.State, end.Reason, end.ErrorCode, end.Result)
				if end.ID != "now" || end.Tokens != 0 {
					t.Errorf("%d: the end is of another call: %+v", i, end)
				}
			}
			if effects && want == refused {
				want = "ran"
			}
			if want == refused && !strings.Contains(end.Result, "class "+string(c.class)) {
				t.Errorf("%d: the refusal does not say why: %s", i, end.Result)
			}
			if !strings.HasPrefix(got, want) || reaches != ran {
				t.Errorf("effects %v, step %d: %s, reaches %v; want %s", effects, i, got, reaches, want)
			}
		}
		n := s.Counts()
		if want := (Counts{Reused: 3, Ran: 5, Refused: 5}); !effects && (n.Reused != want.Reused || n.Ran != want.Ran || n.Refused != want.Refused || n.Unused != 0) {
			t.Errorf("%+v", n)
		}
		if effects && (n.Refused != 0 || n.Ran != 10 || n.Refusals != nil) {
			t.Errorf("%+v", n)
		}
		if !effects && (len(n.Refusals) != 4 || n.Refusals[0] != Refusal{messages.TypeTool, "note.add", messages.Effectful, 2}) {
			t.Errorf("%+v", n.Refusals)
		}
	}
}

// Equal calls side by side get the recorded results, each once.
func TestStageAtOnce(t *testing.T) {
	const n = 50
	var calls []Call
	for i := range n {
		calls = append(calls, Call{Name: "x", Args: "{}", End: messages.ActionEnded{State: messages.ActionOK, Result: fmt.Sprint(i)}})
	}
	s := New(calls, Options{})
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			end := s.Around(context.Background(), &messages.ActionDeclared{Name: "x", Args: "{}", Class: messages.Effectful}, nil)
			mu.Lock()
			defer mu.Unlock()
			seen[end.Result] = true
		})
	}
	wg.Wait()
	if c := s.Counts(); len(seen) != n || c.Reused != n || c.Unused != 0 {
		t.Errorf("%d results, %+v", len(seen), c)
	}
}

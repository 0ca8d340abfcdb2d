package driver

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

// acting drives a turn whose model has said text, and ends each action that begins when the
// test says so.
func acting(t *testing.T, text string) (*shell, turn.Ident) {
	t.Helper()
	dialect := cortex.Dialect{}
	s := &shell{t: t, now: t0, gate: messages.GateApprove, d: drives(turn.Rules{
		Dialect: dialect.Name(), Judge: dialect, Rendering: messages.Rendering,
		Target: func(messages.ActionType, string) (messages.Class, bool) { return messages.ReadOnly, true },
	})}
	s.open()
	id := s.d.Flight()
	s.run(&turn.ModelOpened{Ident: id})
	s.run(&turn.Decoded{Ident: id, Bytes: []byte(text), Events: Events(dialect.NewDecoder(messages.TurnInfo{Turn: id.Turn}), []byte(text), "")})
	return s, id
}

func (s *shell) end(id turn.Ident, action string, state messages.ActionState) []Met {
	s.t.Helper()
	s.run(&turn.ActionEnded{Ident: id, ID: action, Attempt: 1, State: state})
	return s.d.Met()
}

// An action that was declared is told of each action that it waited for, once, and before it
// begins.
func TestDependencies(t *testing.T) {
	const text = `<thought>so</thought><action id="a" mode="async">{"name":"x"}</action>` +
		`<action id="b" mode="async">{"name":"x"}</action>` +
		`<action id="c" mode="async">{"name":"x","depends_on":["b","a"]}</action>` +
		`<action id="d" mode="async">{"name":"x","depends_on":["c","late"]}</action>`
	s, id := acting(t, text)
	for action, want := range map[string][]string{"a": nil, "c": {"b", "a"}, "d": {"c"}, "none": nil} {
		if got := s.d.Declared(action); !slices.Equal(got, want) {
			t.Errorf("%s waits for %q, want %q", action, got, want)
		}
	}
	if met := s.d.Met(); met != nil {
		t.Errorf("%v are met before anything ended", met)
	}
	began := func(action string) bool {
		return slices.ContainsFunc(s.started, func(e *turn.StartAction) bool { return e.ID == action })
	}
	if met := s.end(id, "a", messages.ActionOK); fmt.Sprint(met) != "[{c a}]" || began("c") {
		t.Errorf("the end of a: %v are met, c began: %v", met, began("c"))
	}
	if met := s.d.Met(); met != nil {
		t.Errorf("%v are met twice", met)
	}
	if met := s.end(id, "b", messages.ActionOK); fmt.Sprint(met) != "[{c b}]" || !began("c") {
		t.Errorf("the end of b: %v are met, c began: %v", met, began("c"))
	}
	// d waits for c, and for an id that nothing has.
	if met := s.end(id, "c", messages.ActionOK); fmt.Sprint(met) != "[{d c}]" || began("d") {
		t.Errorf("the end of c: %v are met, d began: %v", met, began("d"))
	}
}

// An action that is skipped waits for nothing any more, and the end of a turn forgets all.
func TestDependenciesSkipped(t *testing.T) {
	const text = `<thought>so</thought><action id="a" mode="async">{"name":"x"}</action>` +
		`<action id="b" mode="async">{"name":"x","depends_on":["a"]}</action>` +
		`<action id="c" mode="async">{"name":"x","depends_on":["b"]}</action>`
	for _, ended := range []bool{false, true} {
		s, id := acting(t, text)
		s.d.Declared("b")
		s.d.Declared("c")
		if ended {
			s.d.EndTurn()
		}
		want := "[{b a} {c b}]"
		if ended {
			want = "[]"
		}
		if met := s.end(id, "a", messages.ActionFailed); fmt.Sprint(met) != want {
			t.Errorf("turn ended %v: %v are met, want %s", ended, met, want)
		}
	}
}

// The record of a declaration makes room for a turn that was restored; any other does not.
func TestDeclarationBeginsTurn(t *testing.T) {
	s, id := acting(t, `<thought>so</thought>`)
	declared := lazy(9, 0, &messages.ActionDeclared{ID: "a"}, 0)
	for _, c := range []struct {
		name string
		turn int64
		gone bool
		want Duty
		id   string
	}{
		{"of the turn", id.Turn, false, Perform, "a"},
		{"of a restored turn", id.Turn, true, BeginTurn, "a"},
		{"of another turn", id.Turn + 1, true, Perform, ""},
	} {
		if c.gone {
			s.d.EndTurn()
		}
		declared.Record.Turn = c.turn
		if got, _ := s.d.Declares(declared); got != c.id && c.id != "" {
			t.Errorf("%s: declares %q", c.name, got)
		}
		if _, ok := s.d.Declares(declared); ok != (c.id != "") {
			t.Errorf("%s: declares: %v", c.name, ok)
		}
		if got := s.d.Take(declared); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if _, ok := s.d.Declares(&turn.AskGate{}); ok {
		t.Error("a question declares an action")
	}
	if _, ok := s.d.Declares(lazy(9, 0, &messages.Note{}, 0)); ok {
		t.Error("a note declares an action")
	}
}

package driver

import (
	"slices"
	"testing"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

// acts opens a session whose model calls a tool in some mode, and has the gate answer.
func acts(t *testing.T, mode string, answer messages.GateAnswer) (*shell, turn.Ident) {
	t.Helper()
	dialect := cortex.Dialect{Rendering: messages.Rendering}
	rules := turn.Rules{Dialect: dialect.Name(), Judge: dialect, Rendering: messages.Rendering, Target: func(messages.ActionType, string) (messages.Class, bool) {
		return messages.Keyed, true
	}}
	s := &shell{t: t, d: drives(rules), now: t0, gate: answer}
	id := s.open()
	dec := dialect.NewDecoder(messages.TurnInfo{Turn: id.Turn, Pass: 1, MaxReplyBytes: turn.MaxReplyBytes})
	said := &turn.Decoded{Ident: id, Bytes: []byte(`<action id="a" mode="` + mode + `">{"name":"look"}</action>`)}
	dec.Push(said.Bytes, func(ev messages.Event) { said.Events = append(said.Events, ev) })
	s.run(&turn.ModelOpened{Ident: id}, said)
	s.ackAll()
	end := &turn.ReplyEnd{Ident: id, Finish: messages.FinishComplete}
	dec.End(end.Finish, func(ev messages.Event) { end.Events = append(end.Events, ev) })
	s.run(end)
	s.ackAll()
	return s, id
}

// A detached action keeps its session awake when nothing else does.
func TestDetachedKeepsAwake(t *testing.T) {
	s, id := acts(t, "fire_and_forget", messages.GateApprove)
	if !slices.Contains(s.took, "perform *turn.StartAction") {
		t.Fatalf("no action has begun: %v", s.took)
	}
	for n := 0; s.d.machine.Phase() != turn.Idle; n++ {
		next, ok := s.d.Turn()
		if n > 9 || !ok {
			t.Fatalf("the run does not end: %s", s.d.machine.Phase())
		}
		s.run(&turn.ModelOpened{Ident: next}, &turn.ReplyEnd{Ident: next, Finish: messages.FinishComplete})
		s.ackAll()
	}
	s.d.EndTurn()
	if s.d.Pending() || !s.d.Told() || !s.d.Resting() {
		t.Fatal("something else keeps it awake")
	}
	if !s.d.Busy() {
		t.Error("it may be put to sleep")
	}
	s.run(&turn.ActionEnded{Ident: id, ID: "a", Attempt: 1, State: messages.ActionOK})
	s.ackAll()
	if s.d.Busy() {
		t.Error("the action has ended, and the session is busy")
	}
}

// A session whose turn is suspended may be put to sleep.
func TestSuspendedSleeps(t *testing.T) {
	s, _ := acts(t, "sync", messages.GateConfirm)
	if p := s.d.machine.Phase(); p != turn.Suspended {
		t.Fatalf("the phase is %s", p)
	}
	if !s.d.Resting() || !s.d.Busy() {
		t.Errorf("with its turn's children: resting %v, busy %v", s.d.Resting(), s.d.Busy())
	}
	s.d.EndTurn()
	if s.d.Busy() {
		t.Error("it is busy")
	}
}

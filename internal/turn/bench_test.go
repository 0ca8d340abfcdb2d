package turn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// The floor of both benchmarks is the records alone: made, numbered and folded without a
// machine.

var benchNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func benchMachine(b *testing.B, j Judge) (*Machine, *Outbox, func(Input)) {
	rules := &Rules{Dialect: "test", Judge: j, NoProgressN: 3, Durability: Checkpoint, Limits: Limits{
		ProgramWall: 30 * time.Second, GenerationWall: 5 * time.Minute, TurnWall: 15 * time.Minute, RunWall: time.Hour, Actions: 256,
	}}
	m := New(Config{Key: rigKey, Rules: rules}, State{}, nonces(1))
	box := NewOutbox(0)
	ready := make([]Effect, 0, 64)
	step := func(in Input) {
		effects, err := m.Step(benchNow, in)
		if err != nil {
			b.Fatal(err)
		}
		box.Add(effects, ready[:0])
		box.Ack(m.State().Seq, ready[:0])
	}
	step(&Open{})
	return m, &box, step
}

// BenchmarkStep_TextTurn is a run of one turn whose reply of 1 KiB comes in 64
// pushes, with the outbox around it.
func BenchmarkStep_TextTurn(b *testing.B) {
	b.Run("machine", func(b *testing.B) {
		m, _, step := benchMachine(b, textJudge{})
		text := []byte("sixteen bytes   ")
		push := []messages.Event{{Kind: messages.EventUnitText, Text: text}}
		b.ReportAllocs()
		for b.Loop() {
			step(&Submit{Input: messages.Input{Policy: messages.Enqueue, Text: "hi"}})
			id, _ := m.Flight()
			step(&ModelOpened{Ident: id})
			step(&Decoded{Ident: id, Events: []messages.Event{unitBegin(0)}})
			for range 64 {
				step(&Decoded{Ident: id, Bytes: text, Events: push})
			}
			step(&ReplyEnd{Ident: id, Finish: messages.FinishComplete, Events: []messages.Event{unitEnd(0)}})
		}
	})
	b.Run("floor_records", func(b *testing.B) {
		var s State
		b.ReportAllocs()
		for b.Loop() {
			fold(b, &s, int64(1+s.Runs), int64(1+s.Turn), &messages.Input{Text: "hi"}, &messages.RunBegin{}, &messages.TurnBegin{Pass: 1},
				&messages.ModelRequest{}, &messages.UnitText{}, &messages.ModelReply{}, &messages.TurnDecided{}, &messages.RunEnd{})
		}
	})
}

// BenchmarkStep_ProgramTurn is a run of one turn with a program of four read-only
// calls and eight emissions.
func BenchmarkStep_ProgramTurn(b *testing.B) {
	ids := []string{"#1", "#2", "#3", "#4"}
	b.Run("machine", func(b *testing.B) {
		m, _, step := benchMachine(b, programJudge{guardFinal: true})
		out := []byte("line\nline\nline\nline\nline\nline\nline\nline\n")
		say := []Emission{{Text: "line"}, {Text: "line"}}
		program := []messages.Event{{Kind: messages.EventProgram, Text: []byte("command … endcommand")}}
		checks := []messages.TokenCheck{{Action: "done", KID: "k", JTI: "j"}}
		b.ReportAllocs()
		for b.Loop() {
			step(&Submit{Input: messages.Input{Policy: messages.Enqueue, Text: "hi"}})
			id, _ := m.Flight()
			step(&ModelOpened{Ident: id})
			step(&ReplyEnd{Ident: id, Finish: messages.FinishComplete, Events: program})
			for _, call := range ids {
				step(&ProgramCall{Ident: id, Emissions: say, ID: call, Name: "read", Args: "[]", Class: messages.ReadOnly})
				step(&Judged{Ident: id, ID: call, Answer: messages.GateApprove})
				step(&ActionEnded{Ident: id, ID: call, State: messages.ActionOK, Result: "1"})
			}
			step(&ProgramEnd{Ident: id, Out: out})
			step(&Verified{Ident: id, Checks: checks})
		}
	})
	b.Run("floor_records", func(b *testing.B) {
		var s State
		b.ReportAllocs()
		for b.Loop() {
			run, turn := 1+s.Runs, 1+s.Turn
			fold(b, &s, run, turn, &messages.Input{Text: "hi"}, &messages.RunBegin{}, &messages.TurnBegin{Pass: 1},
				&messages.ModelRequest{}, &messages.ModelReply{})
			for _, call := range ids {
				fold(b, &s, run, turn, &messages.Emit{Text: "line"}, &messages.Emit{Text: "line"},
					&messages.ActionDeclared{ID: call, Name: "read", Args: "[]", Class: messages.ReadOnly},
					&messages.ActionStarted{ID: call}, &messages.ActionEnded{ID: call, Result: "1"})
			}
			fold(b, &s, run, turn, &messages.TurnDecided{}, &messages.RunEnd{})
		}
	})
}

func fold(b *testing.B, s *State, run, turn int64, bodies ...messages.Body) {
	for _, body := range bodies {
		r := &messages.Record{Seq: s.Seq + 1, Run: run, Turn: turn, TS: benchNow, Body: body}
		switch body.(type) {
		case *messages.Input, *messages.RunBegin:
			r.Turn = 0
		}
		if err := s.Apply(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStep_Loop is a loop over 1,000 items with an instant tool, beside the same actions
// written out.
func BenchmarkStep_Loop(b *testing.B) {
	const n = 1000
	items := "[" + strings.Repeat("1,", n-1) + "1]"
	var out strings.Builder
	out.WriteString(`<action id="a" mode="async">{"name":"read"}</action>`)
	for i := range n {
		fmt.Fprintf(&out, `<action id="x%d" mode="async">{"name":"read","parameters":{"v":"${a.%d}"}}</action>`, i, i)
	}
	for name, reply := range map[string]string{
		"foreach": `<action id="a" mode="async">{"name":"read"}</action><foreach in="$a" id="l" max="1000"><action id="x" mode="async">{"name":"read","parameters":{"v":"$item"}}</action></foreach>`,
		"written": out.String(),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := newStreamedUnder(b, withBlocks, Rules{Limits: Limits{Calls: 2 * n}})
				s.bare = true
				s.instant(reply, items)
			}
		})
	}
}

// instant plays a reply whose actions are approved and end at once; a is the list.
func (s *streamed) instant(reply, list string) {
	todo := s.push(reply)
	todo = append(todo, s.end()...)
	ends := 0
	for len(todo) > 0 {
		e := todo[0]
		todo = todo[1:]
		id, _ := s.m.Flight()
		switch e := e.(type) {
		case *AskGate:
			todo = append(todo, s.do(&Judged{Ident: id, ID: e.ID, Answer: messages.GateApprove})...)
		case *StartAction:
			result := "1"
			if e.ID == "a" {
				result = list
			}
			ends++
			todo = append(todo, s.do(&ActionEnded{Ident: id, ID: e.ID, State: messages.ActionOK, Result: result})...)
		}
	}
	if ends != 1001 {
		s.t.Fatalf("%d actions ended", ends)
	}
}

package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/plain"
)

// Whole sessions are replayed in the facade's tests, where they can be run; here is
// what needs no session.

// begun is a session of one input, whose turn has begun: records 2, 3 and 4 are of
// one step.
func begun(t *testing.T) (Source, *Agent) {
	t.Helper()
	key, err := messages.ParseSID("s")
	if err != nil {
		t.Fatal(err)
	}
	src := Source{Key: key, Inc: uuid.MustParse("01900000-0000-7000-8000-000000000001")}
	agent := &Agent{Dialect: plain.Dialect{}, Rules: &turn.Rules{Dialect: "plain", Judge: plain.Dialect{}, Provider: "p"}}
	m := turn.New(turn.Config{Key: key, Inc: src.Inc, Rules: agent.Rules}, turn.State{}, bytes.NewReader(make([]byte, 64)))
	sealer := journal.NewSealer(journal.SealerConfig{Head: journal.NewHead(key.SID(), src.Inc), Rand: zeros{}, Receipts: journal.ReceiptsOff})
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for i, in := range []turn.Input{&turn.Open{}, &turn.Submit{Input: messages.Input{Text: "hello", User: "u"}}} {
		effects, err := m.Step(at.Add(time.Duration(i)*time.Second), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range effects {
			if p, ok := e.(*turn.Persist); ok {
				src.Records = append(src.Records, p.Record)
			}
		}
	}
	if err := sealer.Seal(src.Records, at); err != nil {
		t.Fatal(err)
	}
	return src, agent
}

func only(a *Agent) Agents {
	return func(messages.Digest, int64) (*Agent, error) { return a, nil }
}

func TestRunCut(t *testing.T) {
	ctx := context.Background()
	src, agent := begun(t)
	for n := range len(src.Records) + 1 {
		cut := src
		cut.Records = src.Records[:n]
		rep, err := Run(ctx, cut, only(agent))
		var d *Divergence
		switch {
		case n == 2 || n == 3:
			// The step needs a nonce, which is in the record that was cut off.
			if !errors.As(err, &d) || d.Seq != 2 {
				t.Errorf("cut at %d: %v", n, err)
			}
		case err != nil || rep.Records != int64(n):
			t.Errorf("cut at %d: %+v, %v", n, rep, err)
		case n == 0 && rep.Head != journal.Genesis("local:local:s", src.Inc), n > 0 && rep.Head != src.Records[n-1].Hash:
			t.Errorf("cut at %d: head %s", n, rep.Head)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	ctx := context.Background()
	src, agent := begun(t)
	erased := src
	own := *src.Records[1]
	own.Raw, own.Body = nil, &messages.Undecoded{Of: messages.KindInput}
	erased.Records = []*messages.Record{src.Records[0], &own}
	if _, err := Run(ctx, erased, only(agent)); messages.CodeOf(err) != messages.ErrJournal {
		t.Errorf("erased: %v", err)
	}
	unknown := messages.Errorf(messages.ErrConfig, "no agent")
	if _, err := Run(ctx, src, func(messages.Digest, int64) (*Agent, error) { return nil, unknown }); !errors.Is(err, unknown) {
		t.Errorf("no agent: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Run(ended, src, only(agent)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// script is a session driven by hand, record by record.
type script struct {
	t   *testing.T
	m   *turn.Machine
	src Source
	at  time.Time
}

func (s *script) step(in turn.Input) {
	s.t.Helper()
	s.at = s.at.Add(time.Second)
	effects, err := s.m.Step(s.at, in)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range effects {
		if p, ok := e.(*turn.Persist); ok {
			s.src.Records = append(s.src.Records, p.Record)
		}
	}
}

// fixed is a set of one tool.
type fixed struct{ tool *neuroscript.Tool }

// Lookup implements neuroscript.ToolSet.
func (f fixed) Lookup(string) (*neuroscript.Tool, error) { return f.tool, nil }

// An action that never answers becomes unknown when the grace is over, whether its
// program had answered by then or not.
func TestRunLost(t *testing.T) {
	const source = "command\n set x = tool.own.deaf()\nendcommand"
	for _, answered := range []bool{false, true} {
		key, err := messages.ParseSID("s")
		if err != nil {
			t.Fatal(err)
		}
		agent := &Agent{
			Dialect: aeiou.Dialect{}, Rules: &turn.Rules{Dialect: "aeiou", Judge: aeiou.Dialect{}},
			Tools: func(act Act, _ []*neuroscript.Tool) neuroscript.ToolSet {
				return fixed{&neuroscript.Tool{Name: "own.deaf", Func: func(c *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
					return act(c, "own.deaf", messages.Effectful, args, func(r string) (neuroscript.Value, error) { return neuroscript.FromJSON([]byte(r)) })
				}}}
			},
		}
		s := &script{t: t, src: Source{Key: key, Inc: uuid.MustParse("01900000-0000-7000-8000-000000000001")}, at: time.Unix(1e9, 0)}
		blob := sha256.Sum256([]byte(source))
		s.src.Blob = func(_ context.Context, d messages.Digest) ([]byte, error) {
			if d != blob {
				return nil, messages.Errorf(messages.ErrJournal, "no such bytes")
			}
			return []byte(source), nil
		}
		s.m = turn.New(turn.Config{Key: key, Inc: s.src.Inc, Rules: agent.Rules}, turn.State{}, bytes.NewReader(make([]byte, 64)))
		s.step(&turn.Open{})
		userdata := `{"subject":"s","fields":{}}`
		s.step(&turn.Submit{Input: messages.Input{Userdata: userdata}})
		id, _ := s.m.Flight()
		msgs := prompt.Assemble(agent.Dialect, messages.Projection{SID: key.SID(), Turn: 1, Pass: 1, Userdata: userdata})
		s.step(&turn.ModelOpened{Ident: id, Request: messages.ModelRequest{Mode: "replay", Messages: int64(len(msgs)), Prompt: prompt.Digest(msgs, agent.Rules.Rendering)}})
		s.step(&turn.Decoded{Ident: id, Bytes: []byte(source)})
		s.step(&turn.ReplyEnd{Ident: id, Finish: messages.FinishComplete, Events: []messages.Event{{Kind: messages.EventProgram, Text: []byte(source)}}})
		s.step(&turn.ProgramCall{Ident: id, ID: "#1", Name: "own.deaf", Args: "[]", Class: messages.Effectful})
		s.step(&turn.Judged{Ident: id, ID: "#1", Answer: messages.GateApprove})
		s.step(&turn.Cancel{By: "Ada"})
		if answered {
			s.step(&turn.ProgramEnd{Ident: id, Gas: 51})
		}
		s.step(&turn.Timer{Clock: turn.ClockGrace, Gen: 1})
		sealer := journal.NewSealer(journal.SealerConfig{Head: journal.NewHead(key.SID(), s.src.Inc), Rand: zeros{}, Receipts: journal.ReceiptsOff})
		if err := sealer.Seal(s.src.Records, s.at); err != nil {
			t.Fatal(err)
		}
		rep, err := Run(context.Background(), s.src, only(agent))
		if err != nil || rep.Turns != 1 || rep.Taken != 1 || rep.Records != int64(len(s.src.Records)) {
			t.Errorf("answered %v: %+v, %v", answered, rep, err)
		}
		last := s.src.Records[len(s.src.Records)-3].Body.(*messages.ActionEnded)
		if last.State != messages.ActionUnknown || last.Reason != "lost" {
			t.Errorf("%+v", last)
		}
	}
}

// A record that nothing can bring about, in every kind, ends the replay where it is.
func TestRunStuck(t *testing.T) {
	src, agent := begun(t)
	for _, body := range []messages.Body{
		&messages.SessionOpened{}, &messages.SessionClosed{}, &messages.RunBegin{Input: 2}, &messages.RunEnd{Decision: messages.Done},
		&messages.TurnBegin{}, &messages.ModelChunk{Off: 5, Bytes: []byte("x")}, &messages.ModelChunk{Off: -1}, &messages.ModelReply{}, &messages.ModelRequest{},
		&messages.UnitText{UnitKind: messages.ResponseUnit, Unit: "x"}, &messages.UnitText{UnitKind: messages.ResponseUnit, Unit: "1.5"}, &messages.Emit{}, &messages.Whisper{},
		&messages.ActionDeclared{ID: "#1"}, &messages.ActionApproval{ID: "#1"}, &messages.ActionStarted{ID: "#1"}, &messages.ActionEnded{ID: "#1"},
		&messages.ActionEnded{Reason: "lost"}, &messages.ActionEnded{Reason: "panic"}, &messages.Audit{}, &messages.Note{}, &messages.TurnDecided{},
		&messages.Control{What: messages.ControlTimer, Name: "no such clock"}, &messages.Control{What: messages.ControlTimer, Name: "turn_wall"},
		&messages.Control{What: messages.ControlCrash, Name: "unknown"}, &messages.Control{What: "unheard of"}, &messages.Control{What: messages.ControlModelError},
	} {
		bad := src
		bad.Records = append(src.Records[:4:4], &messages.Record{Seq: 5, Run: 1, Turn: 1, Epoch: 1, TS: src.Records[3].TS, Body: body, Raw: []byte("{}")})
		rep, err := Run(context.Background(), bad, only(agent))
		var d *Divergence
		if !errors.As(err, &d) || d.Seq != 5 || rep.Records != 4 {
			t.Errorf("%s: %+v, %v", body.Kind(), rep, err)
		}
	}
}

func TestBy(t *testing.T) {
	for detail, want := range map[string]string{"cancelled": "", "cancelled by Ada": "Ada", "cancelled by cancelled by ": "cancelled by ", "": ""} {
		if got := by(detail); got != want {
			t.Errorf("%q: %q", detail, got)
		}
	}
}

// What is no token says nothing, and nothing is out of bounds.
func FuzzRead(f *testing.F) {
	f.Add("<<<NSMAG:V3:LOOP:eyJwYXlsb2FkIjp7ImFjdGlvbiI6ImRvbmUifX0.AAAA>>>")
	f.Add("<<<NSMAG:V3:LOOP:e30")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		w := read([]byte(line))
		if w.fallback() && w.action() != "abort" {
			t.Error("a fallback token that does not ask for abort")
		}
		if n := tagBytes(line); n < 0 || n > len(line) {
			t.Errorf("a tag of %d bytes", n)
		}
	})
}

package turn

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/cortex"
)

// streamed is a rig under the cortex dialect with its decoder.
type streamed struct {
	*rig
	dec  parse.Decoder
	said int // of deltas: bytes
	text strings.Builder
	held []bool
}

func newStreamed(t testing.TB) *streamed {
	return newStreamedUnder(t, cortex.Dialect{}, Rules{})
}

// newStreamedUnder is newStreamed under a dialect of its own and further rules.
func newStreamedUnder(t testing.TB, x cortex.Dialect, rules Rules) *streamed {
	rules.Dialect, rules.Judge, rules.Target = "test", x, targets
	s := &streamed{rig: newRig(t, rules, 1)}
	s.do(&Open{Name: "s"})
	s.do(&Submit{Handle: 1, Input: messages.Input{Text: "go"}})
	id, _ := s.m.Flight()
	s.dec = x.NewDecoder(messages.TurnInfo{Turn: id.Turn})
	s.do(&ModelOpened{Ident: id})
	return s
}

// do feeds an input and acknowledges everything.
func (s *streamed) do(in Input) []Effect {
	s.t.Helper()
	effects, _, err := s.step(in)
	if err != nil {
		s.t.Fatal(err)
	}
	effects = append([]Effect(nil), effects...)
	s.ack(int64(len(s.log)))
	for _, e := range effects {
		switch e := e.(type) {
		case *Publish:
			if d := e.Update.Delta; d != nil {
				s.text.WriteString(d.Text)
				s.said += len(d.Text)
			}
		case *HoldModel:
			s.held = append(s.held, e.Hold)
		}
	}
	return effects
}

func (s *streamed) push(text string) []Effect {
	id, _ := s.m.Flight()
	in := &Decoded{Ident: id, Bytes: []byte(text)}
	s.dec.Push(in.Bytes, func(ev messages.Event) { in.Events = append(in.Events, ownEvent(ev)) })
	return s.do(in)
}

func (s *streamed) end() []Effect {
	id, _ := s.m.Flight()
	in := &ReplyEnd{Ident: id, Finish: messages.FinishComplete}
	s.dec.End(in.Finish, func(ev messages.Event) { in.Events = append(in.Events, ownEvent(ev)) })
	return s.do(in)
}

// Behind a closed gate at most GateBufferBytes pile up, and nothing of it is lost.
func TestGateHoldsTheStream(t *testing.T) {
	s := newStreamed(t)
	s.push(`<action id="a">{"name":"read"}</action><response>`)
	id, _ := s.m.Flight()
	s.do(&Judged{Ident: id, ID: "a", Answer: messages.GateApprove})
	piece := strings.Repeat("0123456789abcdef", 512)
	n := 0
	for len(s.held) == 0 {
		s.push(piece)
		if n++; n*len(piece) > 2*plan.GateBufferBytes {
			t.Fatal("the stream is read on and on")
		}
	}
	if s.said > 0 {
		t.Errorf("%d bytes passed the gate", s.said)
	}
	s.do(&ActionEnded{Ident: id, ID: "a", State: messages.ActionOK, Result: "1"})
	s.push("</response>")
	s.end()
	if fmt.Sprint(s.held) != "[true false]" {
		t.Errorf("held %v", s.held)
	}
	if want := strings.Repeat(piece, n); s.text.String() != want {
		t.Errorf("%d bytes were shown of %d", s.text.Len(), len(want))
	}
}

// While the gate waits for an approval the reply is read to its end.
func TestAskingReadsOn(t *testing.T) {
	s := newStreamed(t)
	s.push(`<action id="a">{"name":"write"}</action><response>`)
	id, _ := s.m.Flight()
	s.do(&Judged{Ident: id, ID: "a", Answer: messages.GateConfirm})
	for range 40 {
		s.push(strings.Repeat("x", 8<<10))
	}
	s.push("</response>")
	s.end()
	if len(s.held) > 0 || s.m.Phase() != Suspended {
		t.Errorf("held %v, in %s", s.held, s.m.Phase())
	}
}

// Where the model's pieces are cut, and how soon the actions answer, changes neither
// the texts nor what becomes of the actions.
func TestDocumentIsIndependentOfTiming(t *testing.T) {
	const reply = `<thought>plan</thought><action id="a" mode="async">{"name":"read","output_key":"x"}</action>` +
		`<response final="false">first: $x!</response><action id="b">{"name":"keyed","parameters":{"v":"$x","w":"is ${a.k}"}}</action>` +
		`<thought>more</thought><action id="c" mode="async">{"name":"read","depends_on":["b"],"on_error":"skip"}</action>` +
		`<action id="d" mode="async">{"name":"idem","depends_on":["c","missing"]}</action><response>a is ${a.k}, c is $c, d is $d.</response>`
	var want string
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	for n := range 300 {
		s := newStreamed(t)
		rest := reply
		pending := map[string]string{} // ask or run
		take := func(effects []Effect) {
			for _, e := range effects {
				switch e := e.(type) {
				case *AskGate:
					pending[e.ID] = "ask"
				case *StartAction:
					pending[e.ID] = "run"
				}
			}
		}
		for steps := 0; s.m.Phase() != Idle && s.m.State().Turn == 1; steps++ {
			if steps > 10_000 {
				t.Fatalf("seed %d, round %d: it does not end: %v", seed, n, pending)
			}
			id, _ := s.m.Flight()
			var some []string
			for _, k := range []string{"a", "b", "c", "d"} {
				if pending[k] != "" {
					some = append(some, k)
				}
			}
			switch {
			case len(some) > 0 && (rng.IntN(3) == 0 || rest == "" && s.m.Phase() == Running):
				k := some[rng.IntN(len(some))]
				what := pending[k]
				delete(pending, k)
				if what == "ask" {
					take(s.do(&Judged{Ident: id, ID: k, Answer: messages.GateApprove}))
					continue
				}
				end := &ActionEnded{Ident: id, ID: k, State: messages.ActionOK, Result: `{"k":"v of ` + k + `"}`}
				if k == "c" {
					end.State, end.Reason, end.Result = messages.ActionFailed, "broken", ""
				}
				take(s.do(end))
			case rest != "":
				cut := 1 + rng.IntN(min(len(rest), 1+rng.IntN(200)))
				take(s.push(rest[:cut]))
				rest = rest[cut:]
			default:
				take(s.end())
			}
		}
		got := s.told()
		if want == "" {
			want = got
			continue
		}
		if got != want {
			t.Fatalf("seed %d, round %d:\n%s\nbefore:\n%s", seed, n, got, want)
		}
	}
	for _, part := range []string{`first: {\"k\":\"v of a\"}!`, `"w":"is v of a"`, "a is v of a, c is [unavailable: c], d is [unavailable: d].", "d skipped unknown_dependency:missing"} {
		if !strings.Contains(want, part) {
			t.Errorf("no %q in\n%s", part, want)
		}
	}
}

// told is what the journal has of texts and of actions, each in its own order.
func (s *streamed) told() string {
	var texts, actions bytes.Buffer
	args := map[string]string{}
	for _, r := range s.log {
		switch b := r.Body.(type) {
		case *messages.UnitText:
			fmt.Fprintf(&texts, "%s %s %v %v %q\n", b.Unit, b.UnitKind, b.Final, b.Complete, b.Text)
		case *messages.ActionDeclared:
			args[b.ID] = b.Args
		case *messages.ActionStarted:
			if b.Args != "" {
				args[b.ID] = b.Args
			}
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		for _, r := range s.log {
			if b, ok := r.Body.(*messages.ActionEnded); ok && b.ID == id {
				fmt.Fprintf(&actions, "%s %s %s %s %s\n", id, b.State, b.Reason, b.Result, args[id])
			}
		}
	}
	return texts.String() + actions.String()
}

// A reply that is read again by other rules than those it was written under, such as a
// sync_policy that was changed meanwhile, ends its turn: an action that is recorded and
// not read would be waited for for ever.
func TestReadAgainByOtherRules(t *testing.T) {
	s := newStreamed(t)
	s.push(`<action id="a">{"name":"keyed"}</action><action id="b">{"name":"read","depends_on":"a"}</action>`)
	id, _ := s.m.Flight()
	s.do(&Judged{Ident: id, ID: "a", Answer: messages.GateApprove})
	s.end()
	s.do(&ActionEnded{Ident: id, ID: "a", State: messages.ActionOK, Result: "1"})
	s.activate()
	in := s.recorded()
	for i, ev := range in.Events {
		if ev.Kind == messages.EventAction {
			in.Events = append(in.Events[:i+1:i+1], messages.Event{Kind: messages.EventCut})
			break
		}
	}
	s.do(in)
	var end *messages.TurnDecided
	for _, r := range s.log {
		if b, ok := r.Body.(*messages.TurnDecided); ok {
			end = b
		}
	}
	if end == nil || end.Decision != messages.Halt || end.Reason != messages.ErrCrash || !strings.Contains(end.Detail, "fewer actions") {
		t.Errorf("%+v", end)
	}
}

// An action that ended before a restart needs no slot to end again: it once took the next
// free one, in a later turn, and did not give it back.
func TestEndedBeforeRestartTakesNoSlot(t *testing.T) {
	s := &streamed{rig: newRig(t, Rules{Dialect: "test", Judge: cortex.Dialect{}, Target: targets, Limits: Limits{Parallel: 1}}, 1)}
	s.do(&Open{Name: "s"})
	s.do(&Submit{Handle: 1, Input: messages.Input{Text: "go"}})
	id, _ := s.m.Flight()
	s.dec = cortex.Dialect{}.NewDecoder(messages.TurnInfo{Turn: id.Turn})
	s.do(&ModelOpened{Ident: id})
	s.push(`<action id="q" mode="fire_and_forget">{"name":"keyed"}</action><action id="e" mode="fire_and_forget">{"name":"idem"}</action>` +
		`<action id="d" mode="async">{"name":"idem","depends_on":["e"]}</action>so`)
	s.do(&Judged{Ident: id, ID: "q", Answer: messages.GateConfirm})
	for _, a := range []string{"e", "d"} {
		s.do(&Judged{Ident: id, ID: a, Answer: messages.GateApprove})
		s.do(&ActionEnded{Ident: id, ID: a, State: messages.ActionOK, Result: "1"})
	}
	s.end()
	if s.m.Phase() != Suspended {
		t.Fatalf("in %s", s.m.Phase())
	}
	s.activate()
	s.do(s.recorded())
	q := s.m.State().Open.Turn.action("q")
	s.do(&Approve{Handle: 2, Approval: q.Question.ID, Answer: messages.GateApprove, By: "ann", Digest: sha256.Sum256([]byte(q.Asks()))})
	next, flies := s.m.Flight()
	if !flies || next.Turn != id.Turn+1 || s.m.Detached() != 1 {
		t.Fatalf("turn %d, %d actions detached", next.Turn, s.m.Detached())
	}
	s.dec = cortex.Dialect{}.NewDecoder(messages.TurnInfo{Turn: next.Turn})
	s.do(&ModelOpened{Ident: next})
	s.push(`<action id="b" mode="async">{"name":"idem"}</action>`)
	begins := s.do(&ActionEnded{Ident: s.m.detached[0].Ident, ID: "q", State: messages.ActionOK, Result: "1"})
	if !slices.ContainsFunc(begins, func(e Effect) bool { g, ok := e.(*AskGate); return ok && g.ID == "b" }) {
		t.Errorf("the slot is free, and b does not begin: %v", begins)
	}
}

// A reply can refuse a million blocks. The plan is told of those that an action can
// depend on.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		reason, id string
		want       bool
	}{
		{"invalid_json", "a", true},
		{"missing_body", "1a", true},
		{"missing_body", "#7", false},
		{unclosedFeed, "a", false},
		{"stray_close", "", false},
	} {
		if got := refuses(c.reason, c.id); got != c.want {
			t.Errorf("%s %q: %v", c.reason, c.id, got)
		}
	}
}

package conform

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
)

type digestCase struct {
	Output  *string `json:"output"`
	Scratch string  `json:"scratch"`
	// The flavour of docs/spec/aeiou.md §12; the file's other one is for comparison.
	Literal string   `json:"digest_literal"`
	Accept  []string `json:"accept"`
}

type sequenceCase struct {
	N     *int `json:"n"`
	Turns []struct {
		Output  string `json:"output"`
		Scratch string `json:"scratch"`
	} `json:"turns"`
	FiresAt *int  `json:"fires_at"` // 1-based turn, 0 never
	Accept  []int `json:"accept"`
}

func progressCases(d *document) ([]testCase, error) {
	var all []testCase
	for _, part := range []struct {
		member, prefix string
		judge          func(jsontext.Value) (verdict, error)
	}{
		{"digests", "digest ", judgeDigest},
		{"sequences", "sequence ", judgeSequence},
	} {
		raw := d.members[part.member]
		if raw == nil {
			continue
		}
		var listed []jsontext.Value
		if err := json.Unmarshal(raw, &listed); err != nil {
			return nil, faultOf(err).At(part.member)
		}
		all = append(all, each(listed, "name", part.prefix, part.judge)...)
	}
	if len(all) == 0 {
		return nil, messages.Errorf(messages.ErrConfig, "no case in it")
	}
	return all, nil
}

func judgeDigest(raw jsontext.Value) (verdict, error) {
	var c digestCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	if c.Output == nil {
		return verdict{}, malformed("output", "missing")
	}
	if c.Literal == "" {
		return verdict{}, malformed("digest_literal", "missing")
	}
	facts := messages.Facts{Finish: messages.FinishComplete, Out: []byte(*c.Output), Scr: []byte(c.Scratch)}
	got := text(turn.ProgressDigest(aeiou.Dialect{}.Digest(facts)).String())
	wants := []text{text(strings.ToLower(c.Literal))}
	for _, a := range c.Accept {
		wants = append(wants, text(strings.ToLower(a)))
	}
	return compare(got, func(w text) bool { return w == got }, wants), nil
}

func judgeSequence(raw jsontext.Value) (verdict, error) {
	var c sequenceCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	switch {
	case c.N == nil:
		return verdict{}, malformed("n", "missing")
	case c.FiresAt == nil:
		return verdict{}, malformed("fires_at", "missing")
	case len(c.Turns) == 0:
		return verdict{}, malformed("turns", "missing")
	case *c.N < 2:
		// 1 is refused as configuration and 0 is a question of defaults, not of
		// counting (docs/spec/aeiou.md §12).
		return verdict{leftOut: "sequences with n below 2"}, nil
	}
	g := newGuard(*c.N)
	fired := 0
	for i, t := range c.Turns {
		halted, err := g.turn(t.Output, t.Scratch)
		if err != nil {
			return verdict{}, err
		}
		if halted {
			fired = i + 1
			break
		}
	}
	got := firing(fired)
	wants := []firing{firing(*c.FiresAt)}
	for _, a := range c.Accept {
		wants = append(wants, firing(a))
	}
	return compare(got, func(w firing) bool { return w == got }, wants), nil
}

// firing is the turn at which the guard fires.
type firing int

func (f firing) String() string {
	if f == 0 {
		return "the guard never fires"
	}
	return fmt.Sprintf("the guard fires at turn %d", int(f))
}

// guard is a turn machine in which every turn would go on, were it not for the
// progress guard. The vectors fix the guard alone, but the guard lives in the
// machine, and its count in the fold of the machine's records.
type guard struct {
	machine *turn.Machine
	now     time.Time
	begun   bool
}

func newGuard(n int) *guard {
	rules := &turn.Rules{Dialect: "aeiou", Judge: aeiou.Dialect{}, NoProgressN: n}
	key := messages.SessionKey{Tenant: "local", User: "local", ID: "conform"}
	return &guard{
		machine: turn.New(turn.Config{Key: key, Rules: rules}, turn.State{}, new(counter)),
		now:     time.Unix(0, 0),
	}
}

// turn takes the machine through one turn with these streams, and reports whether the guard
// halted it.
func (g *guard) turn(out, scr string) (halted bool, err error) {
	var inputs []turn.Input
	if !g.begun {
		g.begun = true
		inputs = append(inputs, &turn.Open{Name: "conform"}, &turn.Submit{Input: messages.Input{Userdata: `{"subject":"","fields":{}}`}})
	}
	for _, in := range inputs {
		if _, err := g.machine.Step(g.now, in); err != nil {
			return false, err
		}
	}
	id, ok := g.machine.Flight()
	if !ok {
		return false, messages.Errorf(messages.ErrCrash, "the machine began no turn")
	}
	for _, in := range []turn.Input{
		&turn.ReplyEnd{Ident: id, Finish: messages.FinishComplete, Events: []messages.Event{{Kind: messages.EventProgram, Text: []byte("command\nendcommand\n")}}},
		&turn.ProgramEnd{Ident: id, Out: []byte(out), Scr: []byte(scr)},
	} {
		if _, err := g.machine.Step(g.now, in); err != nil {
			return false, err
		}
	}
	effects, err := g.machine.Step(g.now, &turn.Verified{Ident: id, Checks: []messages.TokenCheck{{Action: "continue"}}})
	if err != nil {
		return false, err
	}
	for _, e := range effects {
		p, ok := e.(*turn.Persist)
		if !ok {
			continue
		}
		if d, ok := p.Record.Body.(*messages.TurnDecided); ok {
			switch {
			case d.Decision == messages.Continue:
				return false, nil
			case d.Reason == messages.ErrNoProgress:
				return true, nil
			}
			return false, messages.Errorf(messages.ErrCrash, "the turn was decided %s %s", d.Decision, d.Reason)
		}
	}
	return false, messages.Errorf(messages.ErrCrash, "the turn was not decided")
}

// counter is a source of nonces that differ and need no randomness.
type counter struct{ n uint64 }

func (c *counter) Read(p []byte) (int, error) {
	clear(p)
	c.n++
	if len(p) >= 8 {
		binary.BigEndian.PutUint64(p[len(p)-8:], c.n)
	}
	return len(p), nil
}

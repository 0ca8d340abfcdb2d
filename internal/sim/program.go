package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// tools are what programs may call, one of each class and one that says nothing
// of itself.
var tools = []struct {
	name  string
	class messages.Class
}{
	{"w.calc", messages.Pure},
	{"w.look", messages.ReadOnly},
	{"w.put", messages.Idempotent},
	{"w.pay", messages.Keyed},
	{"w.send", messages.Effectful},
	{"w.post", messages.Effectful},
	{"w.odd", ""},
}

// solo is a target without a dot, so that a reference can name it.
const solo = "solo"

var toolNames = func() (names []string) {
	for _, t := range tools {
		names = append(names, t.name)
	}
	return names
}()

var (
	toolParams  = []neuroscript.Param{{Name: "what", Type: "string"}, {Name: "n", Type: "int", Optional: true}}
	magicParams = []neuroscript.Param{
		{Name: "kind", Type: "string"}, {Name: "payload", Type: "map"}, {Name: "opts", Type: "map", Optional: true},
	}
)

type toolSet map[string]*neuroscript.Tool

// Lookup implements neuroscript.ToolSet.
func (s toolSet) Lookup(name string) (*neuroscript.Tool, error) { return s[name], nil }

// programGas keeps endless programs cheap.
const programGas = 20_000

// program is an ACTIONS program: a coroutine that goes on when the world lets it.
type program struct {
	s      *shell
	start  *turn.RunProgram
	next   func() (turn.Input, bool)
	stop   func()
	cancel context.CancelCauseFunc

	answer  *turn.AnswerCall // of the call it waits for
	waiting string           // id of that call, "" when it can go on
	stopped bool
	over    bool

	calls       int
	pending     []turn.Emission
	out, scr    []byte
	minted      []byte
	magicFailed bool
}

func (s *shell) runProgram(e *turn.RunProgram) *program {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &program{s: s, start: e, cancel: cancel}
	p.next, p.stop = iter.Pull(func(yield func(turn.Input) bool) {
		end := p.execute(ctx, yield)
		end.Ident, end.Emissions, end.Out, end.Scr, end.Minted, end.MagicFailed = e.Ident, p.pending, p.out, p.scr, p.minted, p.magicFailed
		yield(end)
	})
	return p
}

// ready reports whether the program has something to do.
func (p *program) ready() bool { return !p.over && (p.waiting == "" || p.answer != nil || p.stopped) }

// goOn lets the program run to the next thing it says, or panics.
func (p *program) goOn() (in turn.Input) {
	defer func() {
		if crash := recover(); crash != nil {
			if _, ok := crash.(*Failure); ok {
				panic(crash)
			}
			p.over = true
			in = &turn.ChildDown{Ident: p.start.Ident, Child: turn.ChildInterpreter, Detail: fmt.Sprint(crash)}
		}
	}()
	said, ok := p.next()
	if !ok {
		p.over = true
		return nil
	}
	switch in := said.(type) {
	case *turn.ProgramCall:
		p.waiting, p.answer = in.ID, nil
	case *turn.ProgramEnd:
		p.over = true
	}
	return said
}

// halt lets go of the program.
func (p *program) halt() {
	p.over = true
	p.cancel(errHalted)
	p.stop()
}

var errHalted = errors.New("the turn is over")

func (p *program) execute(ctx context.Context, yield func(turn.Input) bool) *turn.ProgramEnd {
	prog, userdata, end := replay.Compile(p.start, p.s.host.w.programs.Compile)
	if end != nil {
		return end
	}
	set := toolSet{
		"aeiou.magic": {Name: "aeiou.magic", Params: magicParams, Func: p.mint},
		"w.boom": {Name: "w.boom", Params: toolParams, Func: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
			panic("boom")
		}},
	}
	for _, t := range tools {
		f := func(c *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
			return p.act(c, yield, t.name, t.class, args)
		}
		if t.class == messages.Pure {
			f = func(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) { return args[0], nil }
		}
		set[t.name] = &neuroscript.Tool{Name: t.name, Params: toolParams, Func: f}
	}
	res := prog.Run(ctx, &neuroscript.Env{
		SID: p.s.client.sid, TurnIndex: p.start.Turn, Userdata: userdata, Tools: set, Limits: neuroscript.Limits{Gas: programGas, Rendering: p.s.client.rules.Rendering},
		Emit: func(text string) {
			p.out = append(append(p.out, text...), '\n')
			p.say(yield, turn.Emission{Text: text, Candidate: replay.HoldsCandidate(text)})
		},
		Whisper: func(target, text string) {
			p.scr = append(append(p.scr, text...), '\n')
			p.say(yield, turn.Emission{Whisper: true, Target: target, Text: text})
		},
	})
	return replay.Ended(&res, p.magicFailed)
}

// say keeps an emission for the next thing said, or says it now.
func (p *program) say(yield func(turn.Input) bool, e turn.Emission) {
	p.pending = append(p.pending, e)
	if p.stopped || p.s.host.w.rnd.IntN(3) > 0 {
		return
	}
	in := &turn.Emitted{Ident: p.start.Ident, Emissions: p.pending}
	p.pending = nil
	yield(in)
}

// act asks for an action and waits for its end.
func (p *program) act(c *neuroscript.Call, yield func(turn.Input) bool, name string, class messages.Class, args []neuroscript.Value) (neuroscript.Value, error) {
	raw, err := neuroscript.AppendJSON(nil, neuroscript.List(args))
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "arguments of %s: %v", name, err)
	}
	p.calls++
	call := &turn.ProgramCall{
		Ident: p.start.Ident, Emissions: p.pending, ID: "#" + strconv.Itoa(p.calls), Name: name, Args: string(raw), Class: class,
	}
	p.pending = nil
	if !yield(call) || p.answer == nil { // stopped: the interpreter sees it at its next poll
		return neuroscript.Value{}, nil
	}
	a := p.answer
	p.answer, p.waiting = nil, ""
	return replay.Answer(c, name, a, func(s string) (neuroscript.Value, error) { return neuroscript.FromJSON([]byte(s)) })
}

// mint is tool.aeiou.magic.
func (p *program) mint(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	w := p.s.host.w
	kind, _ := args[0].AsString()
	payload, err := neuroscript.AppendJSON(nil, args[1])
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(token.ScriptArgumentCode, "magic: payload: %v", err)
	}
	m := token.Minter{Signers: w.signers(), Rand: w.jti}
	scope := token.Scope{SID: p.s.client.sid, TurnIndex: p.start.Turn, Nonce: p.start.Nonce}
	minted, err := m.Mint(kind, payload, nil, scope, p.s.host.now())
	if err != nil {
		var fault *token.ArgumentError
		if errors.As(err, &fault) {
			return neuroscript.Value{}, neuroscript.Errorf(token.ScriptArgumentCode, "%s", fault.Error())
		}
		p.magicFailed = true
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeInternal, "tool.aeiou.magic: no signer is available")
	}
	action, _ := args[1].MapGet("action")
	asked, _ := action.AsString()
	if minted.Fallback {
		asked = token.ActionAbort
	}
	p.s.client.minted[minted.JTI] = &stamp{Ident: p.start.Ident, action: asked}
	p.s.client.forged = minted.Line
	p.minted = append(append(p.minted, minted.Line...), '\n')
	return neuroscript.String(minted.Line), nil
}

// verify judges the candidate lines of a turn.
func (s *shell) verify(e *turn.Verify) *turn.Verified {
	w := s.host.w
	scope := token.Scope{SID: s.client.sid, TurnIndex: e.Turn, Nonce: e.Nonce}
	checks := token.VerifyLines(e.Out, scope, w.keys, s.replay, token.Policy{}, s.host.now())
	if w.forges {
		for i := range checks {
			checks[i] = messages.TokenCheck{Line: checks[i].Line, Action: token.ActionContinue, KID: "tok", JTI: "none"}
		}
	}
	return &turn.Verified{Ident: e.Ident, Checks: checks}
}

// signing is a source of signers; each may be away.
type signing struct{ primary, fallback token.Signer }

// TokenSigner implements token.SignerSource.
func (s signing) TokenSigner(time.Time) token.Signer { return s.primary }

// TokenFallback implements token.SignerSource.
func (s signing) TokenFallback(time.Time) token.Signer { return s.fallback }

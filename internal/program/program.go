// Package program runs the ACTIONS program of one turn in a fresh interpreter.
//
// Invariants:
//   - a program reaches nothing but its tools: those that are not pure are asked of the session,
//     which decides and records, and the program waits for the answer;
//   - what it emits is shown within emitHold, in the order of its emissions and calls;
//   - a token is minted for the session, turn and nonce of the run, and for no other.
//
// It decides nothing about the turn: how the program ended is an input of the machine. What a
// replay does in the same way is package replay's.
package program

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Env is what the programs of a host share.
type Env struct {
	Programs *neuroscript.Cache
	Signers  token.SignerSource
	Rand     io.Reader
	Now      func() time.Time
	Log      *zap.Logger
	// FallbackMint is called when the fallback signer has minted a token.
	FallbackMint func()
}

// Inbox takes what a program says and asks.
type Inbox interface {
	Post(in ...turn.Input)
}

// Program is the run of one program in a fresh interpreter. Run is called once; Deliver and Cancel
// may be called by other goroutines meanwhile.
type Program struct {
	Start *turn.RunProgram

	env     *Env
	agent   *compiled.Agent
	sid     string
	inbox   Inbox
	ctx     context.Context
	cancel  context.CancelCauseFunc
	answers chan *turn.AnswerCall // one call at a time, so one place is enough

	out, scr    []byte
	minted      []byte
	magic       int
	magicFailed bool
	calls       int
	pending     []turn.Emission
	flushed     time.Time
}

// New makes the run of a program of a session. It ends with ctx at the latest.
func New(ctx context.Context, env *Env, agent *compiled.Agent, sid string, inbox Inbox, start *turn.RunProgram) Program {
	p := Program{Start: start, env: env, agent: agent, sid: sid, inbox: inbox, answers: make(chan *turn.AnswerCall, 1)}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// emitHold bounds how long an emission of a program that goes on computing may
// wait to be shown; emitBatch bounds how many wait.
const (
	emitHold  = 10 * time.Millisecond
	emitBatch = 64
)

// Run executes the program to its end.
func (p *Program) Run() *turn.ProgramEnd {
	defer p.cancel(nil)
	end := p.execute()
	end.Ident = p.Start.Ident
	end.Emissions, end.Out, end.Scr, end.Minted, end.MagicFailed = p.pending, p.out, p.scr, p.minted, p.magicFailed
	return end
}

// Deliver hands the result of a call to the program. A program that does not wait for one any
// more does not miss it.
func (p *Program) Deliver(a *turn.AnswerCall) {
	select {
	case p.answers <- a:
	default:
	}
}

// Cancel stops the program.
func (p *Program) Cancel(why error) { p.cancel(why) }

func (p *Program) execute() *turn.ProgramEnd {
	bound := p.agent.Tools.Bind(catalog.Binding{Act: p.act, Turn: []*neuroscript.Tool{p.magicTool()}})
	prog, userdata, end := replay.Compile(p.Start, neuroscript.Explained(p.agent.Limits, bound, p.env.Programs.Compile))
	if end != nil {
		return end
	}
	p.flushed = p.env.Now()
	res := prog.Run(p.ctx, &neuroscript.Env{
		SID: p.sid, TurnIndex: p.Start.Turn, Userdata: userdata, Tools: bound,
		Library: p.agent.Library, Limits: p.agent.Limits, Emit: p.emit, Whisper: p.whisper,
	})
	return replay.Ended(&res, p.magicFailed)
}

func (p *Program) emit(text string) {
	p.out = append(append(p.out, text...), '\n')
	p.say(turn.Emission{Text: text, Candidate: strings.Contains(text, "<<<NSMAG:") && replay.HoldsCandidate(text)})
}

func (p *Program) whisper(target, text string) {
	p.scr = append(append(p.scr, text...), '\n')
	p.say(turn.Emission{Whisper: true, Target: target, Text: text})
}

// say queues an emission and shows what has waited long enough. A program that
// ends soon sends everything with its end, which is one message instead of many.
func (p *Program) say(e turn.Emission) {
	p.pending = append(p.pending, e)
	if len(p.pending) < emitBatch && p.env.Now().Sub(p.flushed) < emitHold {
		return
	}
	p.flushed = p.env.Now()
	p.inbox.Post(&turn.Emitted{Ident: p.Start.Ident, Emissions: p.pending})
	p.pending = nil
}

// act asks the session for an action and waits for its end.
func (p *Program) act(c *neuroscript.Call, t *tools.Tool, args []neuroscript.Value) (neuroscript.Value, error) {
	raw, err := neuroscript.AppendJSON(nil, neuroscript.List(args))
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "arguments of %s: %v", t.Name, err)
	}
	p.calls++
	call := &turn.ProgramCall{
		Ident: p.Start.Ident, Emissions: p.pending, ID: "#" + strconv.Itoa(p.calls), Name: t.Name, Args: string(raw), Class: t.Class,
	}
	p.pending, p.flushed = nil, p.env.Now()
	p.inbox.Post(call)
	for {
		select {
		case a := <-p.answers:
			if a.ID != call.ID {
				continue // of an earlier call, answered twice
			}
			return replay.Answer(c, t.Name, a, catalog.Result(t))
		case <-c.Context().Done():
			// The interpreter polls after every tool call and reports the breach.
			return neuroscript.Value{}, nil
		}
	}
}

// magicTool is tool.aeiou.magic of this turn (docs/spec/aeiou.md §6).
func (p *Program) magicTool() *neuroscript.Tool {
	return &neuroscript.Tool{Name: "aeiou.magic", Params: replay.MagicParams(), Uncounted: true, Func: p.mint}
}

func (p *Program) mint(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	if p.magic++; p.magic > p.agent.MagicBound() {
		return neuroscript.Value{}, &neuroscript.Breach{
			Code: messages.ErrQuota, Meter: neuroscript.MeterMagic, Limit: int64(p.agent.MagicBound()),
		}
	}
	kind, payload, ttl, err := replay.MagicArguments(args)
	if err != nil {
		return neuroscript.Value{}, err
	}
	m := token.Minter{Signers: p.env.Signers, Rand: p.env.Rand, TTL: p.agent.TokenTTL, MaxTTL: p.agent.TokenMaxTTL}
	scope := token.Scope{SID: p.sid, TurnIndex: p.Start.Turn, Nonce: p.Start.Nonce}
	minted, err := m.Mint(kind, payload, ttl, scope, p.env.Now())
	if err != nil {
		var fault *token.ArgumentError
		if errors.As(err, &fault) {
			return neuroscript.Value{}, neuroscript.Errorf(token.ScriptArgumentCode, "%s", fault.Error())
		}
		p.magicFailed = true
		p.env.Log.Error("no signer could mint a token", zap.String("SID", p.sid), zap.Int64("turn_index", p.Start.Turn), zap.Error(err))
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeInternal, "tool.aeiou.magic: no signer is available")
	}
	if minted.Fallback {
		p.env.FallbackMint()
		p.env.Log.Warn("the fallback signer minted a token", zap.String("SID", p.sid), zap.String("kid", minted.KID),
			zap.String("jti", minted.JTI), zap.NamedError("primary", minted.PrimaryErr))
	}
	p.minted = append(append(p.minted, minted.Line...), '\n')
	return neuroscript.String(minted.Line), nil
}

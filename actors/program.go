package actors

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// program is the work of an interpreter actor: a fresh interpreter for one turn.
type program struct {
	*family
	start   *turn.RunProgram
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

// emitHold bounds how long an emission of a program that goes on computing may
// wait to be shown; emitBatch bounds how many wait.
const (
	emitHold  = 10 * time.Millisecond
	emitBatch = 64
)

// run executes the program to its end.
func (p *program) run() *turn.ProgramEnd {
	defer p.cancel(nil)
	end := p.execute()
	end.Ident = p.start.Ident
	end.Emissions, end.Out, end.Scr, end.Minted, end.MagicFailed = p.pending, p.out, p.scr, p.minted, p.magicFailed
	return end
}

// deliver hands the result of a call to the program. A program that does not wait for one any
// more does not miss it.
func (p *program) deliver(a *turn.AnswerCall) {
	select {
	case p.answers <- a:
	default:
	}
}

func (p *program) execute() *turn.ProgramEnd {
	bound := p.agent.Tools.Bind(catalog.Binding{Act: p.act, Turn: []*neuroscript.Tool{p.magicTool()}})
	prog, userdata, end := replay.Compile(p.start, neuroscript.Explained(p.agent.Limits, bound, p.host.cfg.Programs.Compile))
	if end != nil {
		return end
	}
	p.flushed = p.host.cfg.Now()
	res := prog.Run(p.ctx, &neuroscript.Env{
		SID: p.sid, TurnIndex: p.start.Turn, Userdata: userdata, Tools: bound,
		Library: p.agent.Library, Limits: p.agent.Limits, Emit: p.emit, Whisper: p.whisper,
	})
	return replay.Ended(&res, p.magicFailed)
}

func (p *program) emit(text string) {
	p.out = append(append(p.out, text...), '\n')
	p.say(turn.Emission{Text: text, Candidate: strings.Contains(text, "<<<NSMAG:") && replay.HoldsCandidate(text)})
}

func (p *program) whisper(target, text string) {
	p.scr = append(append(p.scr, text...), '\n')
	p.say(turn.Emission{Whisper: true, Target: target, Text: text})
}

// say queues an emission and shows what has waited long enough. A program that
// ends soon sends everything with its end, which is one message instead of many.
func (p *program) say(e turn.Emission) {
	p.pending = append(p.pending, e)
	if len(p.pending) < emitBatch && p.host.cfg.Now().Sub(p.flushed) < emitHold {
		return
	}
	p.flushed = p.host.cfg.Now()
	p.box.post(&turn.Emitted{Ident: p.start.Ident, Emissions: p.pending})
	p.pending = nil
}

// act asks the session for an action and waits for its end.
func (p *program) act(c *neuroscript.Call, t *tools.Tool, args []neuroscript.Value) (neuroscript.Value, error) {
	raw, err := neuroscript.AppendJSON(nil, neuroscript.List(args))
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "arguments of %s: %v", t.Name, err)
	}
	p.calls++
	call := &turn.ProgramCall{
		Ident: p.start.Ident, Emissions: p.pending, ID: "#" + strconv.Itoa(p.calls), Name: t.Name, Args: string(raw), Class: t.Class,
	}
	p.pending, p.flushed = nil, p.host.cfg.Now()
	p.box.post(call)
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
func (p *program) magicTool() *neuroscript.Tool {
	return &neuroscript.Tool{Name: "aeiou.magic", Params: replay.MagicParams(), Uncounted: true, Func: p.mint}
}

func (p *program) mint(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	if p.magic++; p.magic > p.agent.MagicBound() {
		return neuroscript.Value{}, &neuroscript.Breach{
			Code: messages.ErrQuota, Meter: neuroscript.MeterMagic, Limit: int64(p.agent.MagicBound()),
		}
	}
	kind, payload, ttl, err := replay.MagicArguments(args)
	if err != nil {
		return neuroscript.Value{}, err
	}
	m := token.Minter{Signers: p.host.cfg.Keys, Rand: p.host.cfg.Rand, TTL: p.agent.TokenTTL, MaxTTL: p.agent.TokenMaxTTL}
	scope := token.Scope{SID: p.sid, TurnIndex: p.start.Turn, Nonce: p.start.Nonce}
	minted, err := m.Mint(kind, payload, ttl, scope, p.host.cfg.Now())
	if err != nil {
		var fault *token.ArgumentError
		if errors.As(err, &fault) {
			return neuroscript.Value{}, neuroscript.Errorf(token.ScriptArgumentCode, "%s", fault.Error())
		}
		p.magicFailed = true
		p.host.log.Error("no signer could mint a token", zap.String("SID", p.sid), zap.Int64("turn_index", p.start.Turn), zap.Error(err))
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeInternal, "tool.aeiou.magic: no signer is available")
	}
	if minted.Fallback {
		p.host.cfg.Observer.FallbackMint()
		p.host.log.Warn("the fallback signer minted a token", zap.String("SID", p.sid), zap.String("kid", minted.KID),
			zap.String("jti", minted.JTI), zap.NamedError("primary", minted.PrimaryErr))
	}
	p.minted = append(append(p.minted, minted.Line...), '\n')
	return neuroscript.String(minted.Line), nil
}

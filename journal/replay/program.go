package replay

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/neuroscript"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/turn"
)

// program runs an ACTIONS program again, in the middle of the machine's Steps: its
// calls feed the machine and go on with the recorded ends of their actions.
func (p *player) program(e *turn.RunProgram) error {
	decided := p.decided(e.Turn)
	if decided == nil || !repeatable(decided) {
		return p.take(e, decided)
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	p.running = &run{cancel: cancel, answers: map[string]*turn.AnswerCall{}}
	defer func() { p.running = nil }()
	p.report.Programs++
	minted, err := p.blob(decided.Minted)
	if err != nil {
		return err
	}
	x := &execution{p: p, e: e, minted: strings.Split(strings.TrimSuffix(string(minted), "\n"), "\n")}
	if len(minted) == 0 {
		x.minted = nil
	}
	end := x.run(ctx)
	if x.err != nil {
		return x.err
	}
	end.Ident = e.Ident
	end.Minted = minted
	end.MagicFailed = x.magicFailed
	p.inputs = append(p.inputs, end)
	return nil
}

// repeatable tells whether a turn's program came to its end by itself.
func repeatable(d *messages.TurnDecided) bool {
	if d.Resumed {
		return false
	}
	switch d.Reason {
	case messages.ErrTimeout, messages.ErrCancelled, messages.ErrCrash, messages.ErrFenced, messages.ErrJournal:
		return false
	case messages.ErrQuota:
		// Meters of the program trip at the same step again; those of the run do not
		// stop it at a step of its own.
		return d.GasUsed > 0
	}
	return true
}

func (p *player) decided(turnIndex int64) *messages.TurnDecided {
	for _, r := range p.src.Records[p.at:] {
		if b, ok := r.Body.(*messages.TurnDecided); ok && r.Turn == turnIndex {
			return b
		}
	}
	return nil
}

// take plays a program that was stopped from outside: its emissions and calls
// stand in the journal, and so does the stream it left.
func (p *player) take(e *turn.RunProgram, decided *messages.TurnDecided) error {
	p.report.Taken++
	_, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	p.running = &run{cancel: cancel, answers: map[string]*turn.AnswerCall{}, taken: true}
	defer func() { p.running = nil }()
	for {
		if len(p.inputs) > 0 {
			if err := p.advance(); err != nil {
				return err
			}
			continue
		}
		r := p.peek()
		if r == nil || r.Epoch != p.epoch {
			return nil // the process died here
		}
		switch b := r.Body.(type) {
		case *messages.Emit, *messages.Whisper:
			if err := p.step(&turn.Emitted{Ident: e.Ident, Emissions: []turn.Emission{emissionOf(r.Body)}}); err != nil {
				return err
			}
		case *messages.ActionDeclared:
			in := &turn.ProgramCall{Ident: e.Ident, ID: b.ID, Name: b.Name, Args: b.Args, Class: b.Class}
			if err := p.step(in); err != nil {
				return err
			}
		case *messages.TurnDecided:
			if r.Turn != e.Turn {
				return nil
			}
			return p.takeEnd(e, b)
		default:
			if p.machine.Phase() == turn.Idle {
				return nil
			}
			if err := p.advance(); err != nil {
				return err
			}
			if id, ok := p.machine.Flight(); !ok || id != e.Ident {
				return nil // the turn was decided on the way
			}
		}
	}
}

// takeEnd ends a taken program as its record says.
func (p *player) takeEnd(e *turn.RunProgram, b *messages.TurnDecided) error {
	end := &turn.ProgramEnd{Ident: e.Ident, Code: b.Reason, Detail: b.Detail, Gas: b.GasUsed}
	var err error
	if end.Out, err = p.blob(b.Output); err != nil {
		return err
	}
	if end.Scr, err = p.blob(b.Scratch); err != nil {
		return err
	}
	if end.Minted, err = p.blob(b.Minted); err != nil {
		return err
	}
	if b.GasUsed == 0 {
		// It never answered: the grace ran out.
		return p.step(p.timer(turn.ClockGrace.String()))
	}
	return p.step(end)
}

func emissionOf(b messages.Body) turn.Emission {
	switch b := b.(type) {
	case *messages.Emit:
		return turn.Emission{Text: b.Text, Candidate: b.Candidate}
	case *messages.Whisper:
		return turn.Emission{Whisper: true, Target: b.Target, Text: b.Text}
	}
	return turn.Emission{}
}

// execution is one program being run again.
type execution struct {
	p           *player
	e           *turn.RunProgram
	minted      []string
	out, scr    []byte
	calls       int
	magicFailed bool
	err         error // why the replay cannot go on
}

func (x *execution) run(ctx context.Context) *turn.ProgramEnd {
	prog, err := neuroscript.Compile(x.e.Source)
	if err != nil {
		return &turn.ProgramEnd{Code: messages.ErrActionsParse, Detail: err.Error()}
	}
	var userdata neuroscript.Value
	if x.e.Userdata != "" {
		if userdata, err = neuroscript.FromJSON([]byte(x.e.Userdata)); err != nil {
			return &turn.ProgramEnd{Code: messages.ErrUserdataSchema, Detail: err.Error()}
		}
	}
	magic := &neuroscript.Tool{Name: "aeiou.magic", Func: x.magic, Params: []neuroscript.Param{
		{Name: "kind", Type: "string"}, {Name: "payload", Type: "map"}, {Name: "opts", Type: "map", Optional: true},
	}}
	res := prog.Run(ctx, &neuroscript.Env{
		SID: x.p.src.Key.SID(), TurnIndex: x.e.Turn, Userdata: userdata, Library: x.p.agent.Library, Limits: x.p.agent.Limits,
		Tools: x.p.agent.Tools(x.act, []*neuroscript.Tool{magic}),
		Emit: func(text string) {
			x.out = append(append(x.out, text...), '\n')
			x.say(turn.Emission{Text: text, Candidate: candidate(text)})
		},
		Whisper: func(target, text string) {
			x.scr = append(append(x.scr, text...), '\n')
			x.say(turn.Emission{Whisper: true, Target: target, Text: text})
		},
	})
	end := &turn.ProgramEnd{Gas: res.Gas, Out: x.out, Scr: x.scr}
	switch {
	case res.Breach != nil:
		end.Code, end.Reason, end.Detail = res.Breach.Code, res.Breach.Meter, res.Breach.Error()
	case x.magicFailed:
	case res.Err != nil:
		end.Code, end.Detail = messages.ErrActionsRuntime, res.Err.Error()
	}
	return end
}

func candidate(text string) bool {
	for line := range strings.Lines(text) {
		if aeiou.IsCandidate([]byte(strings.TrimSuffix(line, "\n"))) {
			return true
		}
	}
	return false
}

// say feeds one emission at the time of its record. Causes that came between, such
// as a submit that was queued, go first.
func (x *execution) say(em turn.Emission) {
	if x.err != nil {
		return
	}
	if x.err = x.catchUp(messages.KindEmit, messages.KindWhisper); x.err == nil {
		x.err = x.p.step(&turn.Emitted{Ident: x.e.Ident, Emissions: []turn.Emission{em}})
	}
}

// catchUp feeds causes until the next record is one of the kinds.
func (x *execution) catchUp(kinds ...messages.Kind) error {
	for {
		r := x.p.peek()
		if r == nil {
			return nil
		}
		for _, k := range kinds {
			if r.Body.Kind() == k {
				return nil
			}
		}
		if _, ok := r.Body.(*messages.Input); !ok {
			return nil
		}
		if err := x.p.advance(); err != nil {
			return err
		}
	}
}

var errReplay = errors.New("the replay has diverged")

// act feeds the call and plays the journal until it is answered.
func (x *execution) act(c *neuroscript.Call, name string, class messages.Class, args []neuroscript.Value, decode Decode) (neuroscript.Value, error) {
	if x.err != nil {
		return neuroscript.Value{}, errReplay
	}
	raw, err := neuroscript.AppendJSON(nil, neuroscript.List(args))
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "arguments of %s: %v", name, err)
	}
	x.calls++
	id := "#" + strconv.Itoa(x.calls)
	if x.err = x.catchUp(messages.KindActionDeclared); x.err == nil {
		x.err = x.p.step(&turn.ProgramCall{Ident: x.e.Ident, ID: id, Name: name, Args: string(raw), Class: class})
	}
	for x.err == nil && c.Context().Err() == nil {
		if a := x.p.running.answers[id]; a != nil {
			return Answer(c, name, a, decode)
		}
		if x.p.peek() == nil {
			x.err = &Divergence{Seq: int64(x.p.at), Kind: messages.KindActionEnded, Why: "the journal ends before the action " + id}
			break
		}
		x.err = x.p.advance()
	}
	return neuroscript.Value{}, errReplay
}

// Answer turns the end of an action into what its call gives the program: a value,
// or a script error. The live interpreter and the replay share it.
func Answer(c *neuroscript.Call, name string, a *turn.AnswerCall, decode Decode) (neuroscript.Value, error) {
	var v neuroscript.Value
	if a.Result != "" {
		if err := c.ChargeBytes(int64(len(a.Result))); err != nil {
			return neuroscript.Value{}, err
		}
		var err error
		if v, err = decode(a.Result); err != nil {
			return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "result of %s: %v", name, err)
		}
	}
	if a.State == messages.ActionOK {
		return v, nil
	}
	code := int(a.ErrorCode)
	if code == 0 {
		code = neuroscript.CodeToolFailed
	}
	text, ok := v.AsString()
	if !ok || text == "" {
		text = "tool." + name + ": " + string(a.State)
		if a.Reason != "" {
			text += " (" + a.Reason + ")"
		}
	}
	return neuroscript.Value{}, neuroscript.Errorf(code, "%s", text)
}

// magic gives the lines that were minted then. A call that was refused then is
// refused again for its arguments, which are the program's own.
func (x *execution) magic(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	if len(x.minted) == 0 {
		x.magicFailed = true
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeInternal, "tool.aeiou.magic: no signer is available")
	}
	line := x.minted[0]
	x.minted = x.minted[1:]
	return neuroscript.String(line), nil
}

// verify restores the outcome of the checks: which candidates failed and how
// stands in the decision; the rest were valid and are read for what they say.
func (p *player) verify(e *turn.Verify) {
	in := &turn.Verified{Ident: e.Ident}
	decided := p.decided(e.Turn)
	failed := map[int64]string{}
	if decided != nil {
		for i, text := range decided.Failures {
			if i < len(decided.FailureLines) {
				failed[decided.FailureLines[i]] = text
			}
		}
	}
	for n, line := range aeiou.Candidates(e.Out) {
		ck := messages.TokenCheck{Line: n}
		if text, ok := failed[int64(n)]; ok {
			code, reason, _ := strings.Cut(text, "/")
			ck.Failure, ck.Reason = messages.Code(code), reason
		} else {
			ck.Action, ck.KID, ck.JTI = read(line)
		}
		in.Checks = append(in.Checks, ck)
	}
	p.inputs = append(p.inputs, in)
}

// read takes a token's words without judging it: it was judged then.
func read(line []byte) (action, kid, jti string) {
	_, rest, _ := bytes.Cut(line, []byte("<<<NSMAG:V3:"))
	_, rest, _ = bytes.Cut(rest, []byte(":"))
	payload, _, _ := bytes.Cut(rest, []byte("."))
	raw, err := base64.RawURLEncoding.DecodeString(string(payload))
	if err != nil {
		return "", "", ""
	}
	var t struct {
		KID     string `json:"kid"`
		JTI     string `json:"jti"`
		Payload struct {
			Action string `json:"action"`
		} `json:"payload"`
	}
	if json.Unmarshal(raw, &t) != nil {
		return "", "", ""
	}
	return t.Payload.Action, t.KID, t.JTI
}

package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// program is an ACTIONS program being run again. It runs as a coroutine: it goes on
// only when the next record is one that a program makes, and so never further than
// it came then, but for its end.
type program struct {
	p      *player
	start  *turn.RunProgram
	next   func() (programStep, bool)
	stop   func()
	cancel context.CancelCauseFunc
	halted bool // it is being stopped: its calls are not answered any more

	answers map[string]*turn.AnswerCall
	calls   int
	tokens  int // calls of magic
	minted  []string
	used    []byte // lines of minted that were given out, LF after each
	whole   bool   // minted holds every line: the program had answered
	failed  bool   // magic failed

	past  []programStep // steps from before the turn was restored
	again int           // how many of past it has repeated

	emitted  []turn.Emission     // what was fed
	out, scr []byte              // the same
	blind    bool                // what it says is taken from the journal
	ended    bool                // its end was fed
	fault    string              // why it cannot go on
	over     *neuroscript.Breach // of the replay's own limit
}

// programStep is what a program does next; one of the fields is set.
type programStep struct {
	emission *turn.Emission
	call     *turn.ProgramCall
	end      *turn.ProgramEnd
	blind    bool // it cannot go on without lines that are not recorded
}

// String describes it in a divergence.
func (s programStep) String() string {
	switch {
	case s.emission != nil && s.emission.Whisper:
		return "whispers " + strconv.Quote(s.emission.Text)
	case s.emission != nil:
		return "emits " + strconv.Quote(s.emission.Text)
	case s.call != nil:
		return "calls " + s.call.Name
	case s.end != nil && s.end.Code != "":
		return "ends with " + string(s.end.Code) + ": " + s.end.Detail
	}
	return "ends"
}

// run prepares a program; nothing of it runs until a record asks for it.
func (p *player) run(e *turn.RunProgram) error {
	x := &program{p: p, start: e, answers: map[string]*turn.AnswerCall{}}
	if e.After > 0 {
		x.past = p.past(e.Turn)
	}
	if d := p.ahead.decided; d != nil {
		x.whole = !d.Resumed && d.GasUsed > 0
		lines, err := p.blob(d.Minted)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(lines)) {
			x.minted = append(x.minted, strings.TrimSuffix(line, "\n"))
		}
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	x.cancel = cancel
	x.next, x.stop = iter.Pull(func(yield func(programStep) bool) {
		tell := func(s programStep) bool {
			x.halted = x.halted || !yield(s)
			return !x.halted
		}
		if end := x.execute(ctx, tell); end != nil && !x.halted {
			tell(programStep{end: end})
		}
	})
	p.prog = x
	return nil
}

// leaveProgram lets go of the program, if there is one.
func (p *player) leaveProgram() {
	x := p.prog
	if x == nil {
		return
	}
	p.prog = nil
	if x.ended {
		p.report.Programs++
	} else {
		p.report.Taken++
	}
	x.halt()
}

func (x *program) halt() {
	x.halted = true
	x.cancel(errHalted)
	x.stop()
}

var errHalted = errors.New("the replay goes on without the program")

// proceed feeds what leads to record r, if the program makes it.
func (p *player) proceed(r *messages.Record) (done bool, err error) {
	x := p.prog
	switch b := r.Body.(type) {
	case *messages.Emit, *messages.Whisper, *messages.ActionDeclared:
		s, err := x.goOn(r)
		if err != nil {
			return false, err
		}
		return true, x.tell(r, s)
	case *messages.Control:
		if b.What == messages.ControlBreach && b.Name != "actions" || b.What == messages.ControlTimer && b.Detail != "" {
			return true, x.finish(r)
		}
	case *messages.UnitText:
		if p.agent.Rules.Output != nil && p.machine.Phase() == turn.Running { // it was held, and its turn is decided
			return true, x.finish(r)
		}
	case *messages.TurnDecided:
		if p.machine.Phase() == turn.Running {
			return true, x.finish(r)
		}
		return true, x.give(r, b)
	}
	return false, nil
}

// goOn lets the program run to the next thing it says. One that is blind says what
// the record says.
func (x *program) goOn(r *messages.Record) (programStep, error) {
	if err := x.catchUp(r); err != nil {
		return programStep{}, err
	}
	if x.ended {
		return programStep{}, x.p.stuck(r, "the program has ended")
	}
	if s, ok, err := x.hear(r); ok || err != nil {
		return s, err
	}
	if s, ok := told(r); ok {
		return s, nil
	}
	return programStep{end: &turn.ProgramEnd{}}, nil
}

// hear runs the program to the next thing it says; ok is false for one that is or
// becomes blind.
func (x *program) hear(r *messages.Record) (s programStep, ok bool, err error) {
	if !x.blind {
		s, ok := x.next()
		switch {
		case x.over != nil:
			return programStep{}, false, &messages.Error{Code: messages.ErrQuota, Detail: "record " + strconv.FormatInt(r.Seq, 10) + ": a replay gives a program no more: " + x.over.Error()}
		case x.fault != "":
			return programStep{}, false, x.p.stuck(r, x.fault)
		case !ok:
			return programStep{}, false, x.p.stuck(r, "the program has ended")
		case !s.blind:
			return s, true, nil
		}
		x.blind = true
		x.halt()
	}
	return programStep{}, false, nil
}

// catchUp lets the program of a restored turn say again what it had said. The
// machine compares, and makes no record of it.
func (x *program) catchUp(r *messages.Record) error {
	for x.again < len(x.past) && !x.ended {
		s, ok, err := x.hear(r)
		if err != nil {
			return err
		}
		if !ok {
			s = x.past[x.again]
		}
		x.again++
		if err := x.tell(r, s); err != nil {
			return err
		}
	}
	return nil
}

// past returns the steps that the program of a restored turn had taken by then.
func (p *player) past(turnIndex int64) (all []programStep) {
	for i := p.at - 1; i >= 0 && p.src.Records[i].Seq >= p.machine.State().Open.Turn.Seq; i-- {
		if r := p.src.Records[i]; r.Turn == turnIndex {
			if s, ok := told(r); ok {
				all = append(all, s)
			}
		}
	}
	slices.Reverse(all)
	return all
}

// told is what a record shows that its program said.
func told(r *messages.Record) (s programStep, ok bool) {
	switch b := r.Body.(type) {
	case *messages.Emit:
		return programStep{emission: &turn.Emission{Text: b.Text, Candidate: b.Candidate}}, true
	case *messages.Whisper:
		return programStep{emission: &turn.Emission{Whisper: true, Target: b.Target, Text: b.Text}}, true
	case *messages.ActionDeclared:
		return programStep{call: &turn.ProgramCall{ID: b.ID, Name: b.Name, Args: b.Args, Class: b.Class}}, true
	}
	return programStep{}, false
}

// tell feeds an emission or a call.
func (x *program) tell(r *messages.Record, s programStep) error {
	switch {
	case s.emission != nil:
		to := &x.out
		if s.emission.Whisper {
			to = &x.scr
		} else {
			x.emitted = append(x.emitted, *s.emission)
		}
		*to = append(append(*to, s.emission.Text...), '\n')
		return x.p.step(r.TS, &turn.Emitted{Ident: x.start.Ident, Emissions: []turn.Emission{*s.emission}})
	case s.call != nil:
		s.call.Ident = x.start.Ident
		return x.p.step(r.TS, s.call)
	case s.end != nil && s.end.Code != "" && x.p.trial != nil: // what the turn makes of it is worth knowing
		return errors.Join(x.conclude(r, s), x.p.stuck(r, "the program "+s.String()+" instead"))
	}
	return x.p.stuck(r, "the program "+s.String()+" instead")
}

// finish runs the program to its end, which leads to r.
func (x *program) finish(r *messages.Record) error {
	if x.ended {
		return x.p.stuck(r, "the program has ended and the turn is not decided")
	}
	s, err := x.goOn(r)
	if err != nil {
		return err
	}
	if s.end == nil {
		return x.p.stuck(r, "the program goes on: it "+s.String())
	}
	return x.conclude(r, s)
}

// conclude feeds the end of the program.
func (x *program) conclude(r *messages.Record, s programStep) error {
	end := *s.end
	end.Ident, end.Out, end.Scr, end.Minted, end.MagicFailed = x.start.Ident, x.out, x.scr, x.used, x.failed
	x.ended = true
	return x.p.step(r.TS, &end)
}

// give ends a program that was stopped with what the decision says of it.
func (x *program) give(r *messages.Record, d *messages.TurnDecided) error {
	if x.ended {
		return x.p.stuck(r, "nothing in the journal brings it about")
	}
	p := x.p
	end := &turn.ProgramEnd{Ident: x.start.Ident, Out: x.out, Scr: x.scr, Gas: d.GasUsed}
	var err error
	if end.Minted, err = p.blob(d.Minted); err != nil {
		return err
	}
	if len(x.past) > 0 { // how far it had come again is unknown
		x.halt()
		x.blind = true
		if err := x.catchUp(r); err != nil {
			return err
		}
		if end.Out, err = x.output(r, d.Output); err != nil {
			return err
		}
		end.Scr = x.scr
	}
	p.leaveProgram()
	return p.step(r.TS, end)
}

// output is what a program that ran again and was stopped had said: what the records
// show. Lines that may be tokens were others the second time, if it came to them again;
// these alone are taken from the journal's blob.
func (x *program) output(r *messages.Record, kept messages.Digest) ([]byte, error) {
	if !slices.ContainsFunc(x.emitted, func(e turn.Emission) bool { return e.Candidate }) {
		return x.out, nil
	}
	out, err := x.p.blob(kept)
	if err != nil {
		return nil, err
	}
	comparer, _ := x.p.agent.Rules.Judge.(turn.Comparer)
	rest := string(out)
	for i := range x.emitted {
		text := x.emitted[i].Text + "\n"
		end := 0
		for range strings.Count(text, "\n") {
			n := strings.IndexByte(rest[end:], '\n')
			if n < 0 {
				return nil, x.p.stuck(r, "its output ends before what the program had said")
			}
			end += n + 1
		}
		have := rest[:end]
		rest = rest[end:]
		if x.emitted[i].Candidate && comparer != nil {
			have, text = comparer.Comparable(have), comparer.Comparable(text)
		}
		if valid(have) != valid(text) {
			return nil, x.p.stuck(r, "its output is not what the program had said")
		}
	}
	if rest != "" {
		return nil, x.p.stuck(r, "its output goes on after what the program had said")
	}
	return out, nil
}

// valid is text as a record keeps it.
func valid(s string) string { return string([]rune(s)) }

// execute runs the program on its coroutine, as the interpreter's actor does.
func (x *program) execute(ctx context.Context, tell func(programStep) bool) (end *turn.ProgramEnd) {
	defer func() {
		if crash := recover(); crash != nil {
			end, x.fault = nil, fmt.Sprintf("the program panics: %v", crash)
		}
	}()
	say := func(e turn.Emission) {
		if !x.halted {
			tell(programStep{emission: &e})
		}
	}
	magic := &neuroscript.Tool{
		Name: "aeiou.magic", Params: magicParams, Uncounted: true,
		Func: func(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
			return x.mint(tell, args)
		},
	}
	act := func(c *neuroscript.Call, name string, class messages.Class, args []neuroscript.Value, decode Decode) (neuroscript.Value, error) {
		return x.act(tell, c, name, class, args, decode)
	}
	agent := x.p.agent
	limits, capped := x.limits()
	bound := agent.Tools(act, []*neuroscript.Tool{magic})
	prog, userdata, failed := Compile(x.start, neuroscript.Explained(limits, bound, neuroscript.Compile))
	if failed != nil {
		return failed
	}
	res := prog.Run(ctx, &neuroscript.Env{
		SID: x.p.src.Key.SID(), TurnIndex: x.start.Turn, Userdata: userdata, Library: agent.Library, Limits: limits,
		Tools:   bound,
		Emit:    func(text string) { say(turn.Emission{Text: text, Candidate: HoldsCandidate(text)}) },
		Whisper: func(target, text string) { say(turn.Emission{Whisper: true, Target: target, Text: text}) },
	})
	switch {
	case x.fault != "":
		return nil
	case res.Breach != nil && capped(res.Breach):
		x.over = res.Breach
		return nil
	}
	return Ended(&res, x.failed)
}

// limits are the agent's, within what a replay gives; capped tells a breach of the
// replay's own.
func (x *program) limits() (l neuroscript.Limits, capped func(*neuroscript.Breach) bool) {
	l = x.p.agent.Limits
	gas, alloc := cmp.Or(x.p.src.MaxGas, MaxProgramGas), int64(MaxProgramAlloc)
	ownGas, ownAlloc := l.Gas > gas, l.Alloc > alloc
	if ownGas {
		l.Gas = gas
	}
	if ownAlloc {
		l.Alloc = alloc
	}
	return l, func(b *neuroscript.Breach) bool {
		return ownGas && b.Meter == neuroscript.MeterGas || ownAlloc && b.Meter == neuroscript.MeterAlloc
	}
}

// act tells of a call. When the program is to go on, the journal has had its end.
func (x *program) act(tell func(programStep) bool, c *neuroscript.Call, name string, class messages.Class, args []neuroscript.Value, decode Decode) (neuroscript.Value, error) {
	raw, err := neuroscript.AppendJSON(nil, neuroscript.List(args))
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "arguments of %s: %v", name, err)
	}
	x.calls++
	id := "#" + strconv.Itoa(x.calls)
	if x.halted || !tell(programStep{call: &turn.ProgramCall{ID: id, Name: name, Args: string(raw), Class: class}}) {
		return neuroscript.Value{}, errHalted
	}
	if a := x.answers[id]; a != nil {
		return Answer(c, name, a, decode)
	}
	return neuroscript.Value{}, x.broken("the program waits for the end of the action " + id)
}

// broken ends the program because the replay cannot go on.
func (x *program) broken(why string) error {
	x.halted, x.fault = true, why
	x.cancel(errHalted)
	return errHalted
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

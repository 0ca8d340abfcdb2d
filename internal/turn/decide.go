package turn

import (
	"strconv"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// facts gathers what the dialect decides by.
func (m *Machine) facts() messages.Facts {
	f := m.flight
	fs := messages.Facts{
		Turn: f.Turn, Pass: f.pass, Finish: f.reply.finish, Breach: f.breach,
		Units: f.parsed.units, Final: f.parsed.final, Awaits: f.parsed.awaits, Errors: f.parsed.errors, Tokens: f.checks, State: m.state.Open.State, Keep: m.state.Keep, Blocks: f.blocks,
		Out: f.program.out, Scr: f.program.scr,
	}
	if f.program.end != nil {
		fs.MagicFailed = f.program.end.MagicFailed
		if !f.program.behind() { // else it was stopped before it had repeated its recorded emissions
			fs.Out, fs.Scr = f.program.end.Out, f.program.end.Scr
		}
	}
	if len(f.calls) > 0 {
		fs.Calls = make([]messages.Call, 0, len(f.calls))
	}
	for i := range f.calls {
		if f.calls[i].undo.of == nil { // a compensation is the host's, not the reply's
			fs.Calls = append(fs.Calls, f.calls[i].Call)
		}
	}
	return fs
}

// decide ends the turn: verdict, guards, the commit point, and what follows.
func (m *Machine) decide() {
	f := m.flight
	fs := m.facts()
	v := m.verdict(fs)
	value := m.checkAnswer(&v, &fs)
	var digest messages.Digest
	if f.breach == "" && !fs.MagicFailed {
		digest = ProgressDigest(m.cfg.Judge.Digest(fs))
	}
	m.guard(&v, digest)
	repair := m.mends(&v)
	if m.unwindFor(&v, repair) {
		return
	}
	if repair { // the number of repairs is its guard
		digest = messages.Digest{}
		if v.State == nil { // a final answer drops the state, but the run goes on
			v.State = m.state.Open.State
		}
	}
	m.release(&v, &fs, repair)
	m.commit(fs, v, digest, repair)
	switch {
	case repair:
		m.to(EmitNext)
		m.repair()
		return
	case v.Decision == messages.Continue:
		m.to(EmitNext)
		m.nextTurn(fs)
		return
	}
	m.endRun(v, value)
	m.nextRun()
}

// verdict asks the dialect for its verdict and enforces its contract: a breach decides
// whatever the dialect says, a HALT needs a reason, and the dialect's memory has a limit.
func (m *Machine) verdict(fs messages.Facts) messages.Verdict {
	f := m.flight
	v := m.cfg.Judge.Decide(fs)
	if f.breach != "" {
		v.Token = -1 // tokens of a turn that did not complete do not count
		v.Decision, v.Code, v.Detail = messages.Halt, f.breach, f.breachWhy
	}
	if len(v.State) > MaxStateBytes || len(v.Keep) > MaxStateBytes {
		v.State, v.Keep = nil, nil
		m.override(&v, messages.ErrDialect, "the dialect's memory is over 4 KiB")
	}
	switch v.Decision {
	case messages.Continue, messages.Done, messages.Abort:
	case messages.Halt:
		if v.Code == "" {
			m.override(&v, messages.ErrCrash, "the dialect halted without a reason")
		}
		if v.Code == messages.ErrModel && v.Detail == "" {
			v.Detail = f.reply.modelErr
			if f.reply.modelCode != "" { // the dialect cannot know other failures than the model's
				v.Code = f.reply.modelCode
			}
		}
	default:
		m.override(&v, messages.ErrCrash, "the dialect gave no decision")
	}
	v.Detail = clean(v.Detail)
	return v
}

// guard lets the host's guards override the verdict; first match wins
// (docs/spec/design.md §5). Outside GuardFinal dialects they judge CONTINUE only.
func (m *Machine) guard(v *messages.Verdict, digest messages.Digest) {
	if v.Decision == messages.Halt || v.Decision != messages.Continue && !m.cfg.Judge.Traits().GuardFinal {
		return
	}
	run := m.state.Open
	final := v.Decision != messages.Continue
	n := m.cfg.noProgressN()
	switch {
	case !(final && m.cfg.ExemptFinal) && !digest.IsZero() && run.Progress.next(digest) >= n:
		m.override(v, messages.ErrNoProgress, "the same output for "+strconv.Itoa(n)+" turns in a row")
	case run.Loop.fires(run.Turn.Calls):
		m.override(v, messages.ErrLoop, "the same call keeps giving the same result")
	case !final && m.lastTurn():
		m.override(v, messages.ErrMaxTurns, "the run used all "+strconv.FormatInt(m.cfg.MaxTurns, 10)+" turns")
	}
}

// lastTurn reports whether no turn of the run may follow the current one. Turns that a
// restart ended do not count against the limit, because the run did not cause them; nor does
// the one turn that asks for an answer again.
func (m *Machine) lastTurn() bool {
	run := m.state.Open
	return m.cfg.MaxTurns > 0 && run.Turns-run.Lost-run.Asked >= m.cfg.MaxTurns
}

// override replaces the dialect's verdict by a HALT.
func (m *Machine) override(v *messages.Verdict, code messages.Code, why string) {
	v.Decision, v.Code, v.Detail = messages.Halt, code, why
}

// commit writes turn.decided with its blobs.
func (m *Machine) commit(fs messages.Facts, v messages.Verdict, digest messages.Digest, repair bool) {
	f := m.flight
	body := &messages.TurnDecided{
		Decision: v.Decision, Detail: v.Detail, Digest: digest, TurnIndex: f.Turn,
		LatencyMS: m.latency(), OutputBytes: int64(len(fs.Out)), ScratchBytes: int64(len(fs.Scr)),
		Lints: append(f.parsed.lints, v.Lints...), State: v.State, Keep: v.Keep, Repair: repair,
	}
	if v.Decision == messages.Continue {
		for _, u := range v.Retract {
			body.Retract = append(body.Retract, u.String())
		}
	}
	if v.Decision == messages.Halt {
		body.Reason = v.Code
	}
	if v.Token >= 0 && v.Token < len(fs.Tokens) {
		body.KID, body.JTI = fs.Tokens[v.Token].KID, fs.Tokens[v.Token].JTI
	}
	body.Failures, body.FailureLines, body.Verification = failures(fs.Tokens)
	var blobs []messages.Blob
	keep := func(b []byte, d *messages.Digest) {
		if len(b) > 0 {
			blob := blobOf(b)
			*d = blob.Digest
			blobs = append(blobs, blob)
		}
	}
	keep(fs.Out, &body.Output)
	keep(fs.Scr, &body.Scratch)
	if f.program.end != nil {
		body.GasUsed = f.program.end.Gas
		keep(f.program.end.Minted, &body.Minted)
	}
	if f.parsed.moreErrors.N > 0 {
		m.persist(&f.parsed.moreErrors, LazyHold)
	}
	m.detach()
	m.leaveBlocks(reasonCancelled)
	m.to(Decided)
	m.persist(body, 0, blobs...)
}

// latency returns how long the turn took in milliseconds, without the time in which no
// process ran it.
func (m *Machine) latency() int64 {
	t, now := m.state.Open.Turn, m.now.UnixNano()
	if t.Suspended {
		now = t.Last
	}
	took := now - m.flight.began.UnixNano() - t.Away
	return max(0, took/int64(time.Millisecond))
}

// failures lists every failed token candidate as CODE/REASON in emission order, with the
// line of OUTPUT that holds it. furthest is the candidate that passed most checks
// (docs/spec/aeiou.md §§11, 17).
func failures(checks []messages.TokenCheck) (all []string, lines []int64, furthest string) {
	best := -1
	for _, c := range checks {
		if c.Failure == "" {
			continue
		}
		text := string(c.Failure)
		if c.Reason != "" {
			text += "/" + c.Reason
		}
		all, lines = append(all, text), append(lines, int64(c.Line))
		if r := messages.TokenStage(c.Failure); r >= best {
			best, furthest = r, text
		}
	}
	return all, lines, furthest
}

// nextTurn begins the turn after a CONTINUE; its turn.begin shares the batch of the decision.
func (m *Machine) nextTurn(fs messages.Facts) {
	m.flight = nil
	m.to(Idle)
	m.beginTurn(&fs)
}

// endRun records the end of the run, and drops its last turn and all its clocks.
func (m *Machine) endRun(v messages.Verdict, value string) {
	m.to(Final)
	run := m.state.Open
	last := int64(0)
	if run.Turns > 0 {
		last = m.state.Turn
	}
	m.closeRun(v, last, value)
	for c := range ClockDebounce {
		m.stopTimer(c)
	}
	m.flight = nil
	m.to(Idle)
}

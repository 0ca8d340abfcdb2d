package turn

import (
	"github.com/seed14be6753/stile/messages"
)

// facts gathers what the dialect may judge by.
func (m *Machine) facts() messages.Facts {
	f := m.flight
	fs := messages.Facts{
		Turn: f.Turn, Pass: f.pass, Finish: f.finish, Breach: f.breach,
		Units: f.units, Final: f.final, Errors: f.errors, Tokens: f.checks, State: m.state.Open.State,
		Out: f.outSoFar, Scr: f.scrSoFar,
	}
	if f.end != nil {
		fs.Out, fs.Scr, fs.MagicFailed = f.end.Out, f.end.Scr, f.end.MagicFailed
	}
	for i := range f.calls {
		fs.Calls = append(fs.Calls, f.calls[i].Call)
	}
	return fs
}

// decide ends the turn: verdict, guards, the commit point, and what follows.
func (m *Machine) decide() {
	f, run := m.flight, m.state.Open
	fs := m.facts()
	v := m.cfg.Judge.Decide(fs)
	if f.breach != "" {
		v.Decision, v.Code = messages.Halt, f.breach
	}
	if v.Decision == messages.Halt && v.Detail == "" {
		v.Detail = f.breachWhy
		if v.Code == messages.ErrModel && v.Detail == "" {
			v.Detail = f.modelErr
		}
	}
	var digest messages.Digest
	if f.breach == "" && !fs.MagicFailed {
		digest = ProgressDigest(m.cfg.Judge.Digest(fs))
	}
	m.guard(&v, digest)
	m.commit(fs, v, digest)
	run = m.state.Open
	f.reply, f.units = nil, nil
	if v.Decision == messages.Continue {
		m.to(EmitNext)
		m.nextTurn(f, fs)
		return
	}
	m.to(Final)
	m.persistRunEnd(v, run)
	m.rest()
	m.nextRun()
}

// guard lets the host's guards override the verdict; first match wins (design.md
// §5). Outside GuardFinal dialects they judge CONTINUE only.
func (m *Machine) guard(v *messages.Verdict, digest messages.Digest) {
	if v.Decision == messages.Halt || v.Decision != messages.Continue && !m.cfg.Judge.Traits().GuardFinal {
		return
	}
	run := m.state.Open
	final := v.Decision != messages.Continue
	switch {
	case !(final && m.cfg.ExemptFinal) && !digest.IsZero() && run.Progress.next(digest) >= m.cfg.NoProgressN:
		m.override(v, messages.ErrNoProgress, "the same output for "+string(appendInt(nil, int64(m.cfg.NoProgressN)))+" turns in a row")
	case run.Loop.fires(run.Turn.Calls):
		m.override(v, messages.ErrLoop, "the same call keeps giving the same result")
	case !final && m.cfg.MaxTurns > 0 && run.Turns >= m.cfg.MaxTurns:
		m.override(v, messages.ErrMaxTurns, "the run used all "+string(appendInt(nil, m.cfg.MaxTurns))+" turns")
	}
}

func (m *Machine) override(v *messages.Verdict, code messages.Code, why string) {
	v.Decision, v.Code, v.Detail = messages.Halt, code, why
}

// commit writes turn.decided with its blobs.
func (m *Machine) commit(fs messages.Facts, v messages.Verdict, digest messages.Digest) {
	f := m.flight
	body := &messages.TurnDecided{
		Decision: v.Decision, Detail: v.Detail, Digest: digest, TurnIndex: f.Turn,
		LatencyMS: max(0, m.now.Sub(f.began).Milliseconds()), OutputBytes: int64(len(fs.Out)), ScratchBytes: int64(len(fs.Scr)),
		Lints: append(f.lints, v.Lints...), State: v.State,
	}
	if v.Decision == messages.Halt {
		body.Reason = v.Code
	}
	if v.Token >= 0 && v.Token < len(fs.Tokens) {
		body.KID, body.JTI = fs.Tokens[v.Token].KID, fs.Tokens[v.Token].JTI
	}
	body.Failures, body.Verification = failures(fs.Tokens)
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
	if f.end != nil {
		body.GasUsed = f.end.Gas
		keep(f.end.Minted, &body.Minted)
	}
	m.to(Decided)
	m.persist(body, 0, blobs...)
}

// failures lists every failed candidate as CODE/REASON in emission order, and
// the one that got furthest (aeiou.md §§11, 17).
func failures(checks []messages.TokenCheck) (all []string, furthest string) {
	best := -1
	for _, c := range checks {
		if c.Failure == "" {
			continue
		}
		text := string(c.Failure)
		if c.Reason != "" {
			text += "/" + c.Reason
		}
		all = append(all, text)
		if r := messages.TokenStage(c.Failure); r >= best {
			best, furthest = r, text
		}
	}
	return all, furthest
}

// nextTurn carries on after CONTINUE; turn.begin shares the decision's batch.
func (m *Machine) nextTurn(old *flight, fs messages.Facts) {
	m.stopTimer(ClockTurn)
	m.flight = nil
	m.to(Idle)
	m.beginTurn()
	if m.err != nil {
		return
	}
	for i := len(m.out) - 1; i >= 0; i-- {
		if o, ok := m.out[i].(*OpenModel); ok {
			o.HaveCarry, o.Out, o.Scr = true, fs.Out, fs.Scr
			break
		}
	}
}

func (m *Machine) persistRunEnd(v messages.Verdict, run *OpenRun) {
	end := &messages.RunEnd{Decision: v.Decision, Detail: v.Detail, Turns: run.Turns}
	if v.Decision == messages.Halt {
		end.Reason = v.Code
	}
	m.persist(end, 0)
}

// rest releases the turn and every clock.
func (m *Machine) rest() {
	for c := range NumClocks {
		m.stopTimer(c)
	}
	m.flight = nil
	m.to(Idle)
}

package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/kitsu"
)

// Second chances (docs/spec/design.md §5), read from the records alone: which turns that
// failed are followed by another, and what the next one is told of them.

// chances is what an audit knows of them.
type chances struct {
	heeds   bool   // the model does not do again what it is told was done
	second  bool   // the open turn is of rendering 2 or above
	repairs int64  // turns of the run that another mends
	asked   int64  // of these, for an answer that did not pass
	failed  []told // the turns behind the last that completed, oldest first
	before  []told // of these, when the run began
	did     told   // the open turn
	spoke   bool   // it has a response
	silent  bool   // the turn before it had nothing
	out     streams
	outWas  streams // when the run began
}

// streams name what the latest turn that completed emitted and whispered.
type streams struct{ out, scr messages.Digest }

// told is what a later turn is to know of one that failed.
type told struct {
	run, turn int64
	why       string
	reply     messages.Digest
	shown     string
	calls     []turn.FailedCall
}

// mendable are the failures that a model can do something about.
var mendable = map[messages.Code]bool{
	messages.ErrActionsParse: true, messages.ErrActionsRuntime: true,
	messages.ErrEnvMarkersInvalid: true, messages.ErrEnvSectionMissing: true, messages.ErrEnvOrder: true, messages.ErrEnvSectionDup: true, messages.ErrEnvSize: true,
	messages.ErrTokenMissing: true, messages.ErrTokenParse: true, messages.ErrTokenVerify: true, messages.ErrTokenScope: true, messages.ErrTokenTTL: true, messages.ErrTokenReplay: true,
}

// last reports whether the run may take no turn after the open one.
func (a *audit) last() bool {
	most := a.rules.MaxTurns
	return most > 0 && a.turns-a.lost-a.asked >= most
}

// mended checks whether a decision is followed by another turn although it is HALT: where
// it should be, and nowhere else.
func (a *audit) mended(b *messages.TurnDecided) error {
	should := false
	switch {
	case !a.second || b.Decision != messages.Halt || a.gaveUp():
	case b.Reason == messages.ErrOutput:
		should = a.asked < min(1, a.rules.Repairs)
	case b.Reason == messages.ErrModel:
		should = a.fell && !a.gaveIn && !a.last()
	default:
		should = mendable[b.Reason] && a.repairs-a.asked < a.rules.Repairs && !a.last()
	}
	switch {
	case b.Repair != should:
		return fmt.Errorf("%s %s, and another turn mends it: %v; %d of %d repairs are used, %d for answers", b.Decision, b.Reason, b.Repair, a.repairs, a.rules.Repairs, a.asked)
	case b.Repair && !b.Digest.IsZero():
		return errors.New("a turn that is mended counts as progress")
	case b.Repair:
		if a.fell && b.Reason == messages.ErrModel { // no repair: the model made no mistake
			a.gaveIn = true
			return nil
		}
		a.repairs++
		if b.Reason == messages.ErrOutput {
			a.asked++
		}
	}
	return nil
}

// remembers takes what a record adds to what is told of the open turn should it fail.
func (a *audit) remembers(r *messages.Record) {
	if !a.second || a.turn == 0 || r.Turn != a.turn {
		return
	}
	switch b := r.Body.(type) {
	case *messages.ModelReply:
		a.did.reply = b.Blob
	case *messages.UnitText:
		a.spoke = a.spoke || b.UnitKind == messages.ResponseUnit || a.withheld > 0
	case *messages.Emit:
		if !b.Candidate && !b.Held {
			a.did.shown += b.Text + "\n"
		}
	case *messages.ActionEnded:
		if c := a.calls[b.ID]; c != nil {
			a.did.calls = append(a.did.calls, turn.FailedCall{Name: c.name, Args: c.args, Class: c.class, State: b.State, Reason: b.Reason, Result: b.Result})
		}
	}
}

// completed reports whether a turn did what its model meant, whatever the host made of it.
func completed(b *messages.TurnDecided) bool {
	return b.Decision != messages.Halt || b.Reason == messages.ErrNoProgress || b.Reason == messages.ErrLoop || b.Reason == messages.ErrMaxTurns
}

// asksAgain checks that a model that says nothing and does nothing is asked again once: two
// such turns in a row end the run. One that is told of an error says something.
func (a *audit) asksAgain(b *messages.TurnDecided) error {
	if a.rules.Dialect == kitsu.Name || !a.second || b.Resumed || b.Repair {
		return nil
	}
	was := a.silent
	a.silent = !a.spoke && len(a.calls) == 0 && len(a.controls) == 0 && len(a.faults) == 0 && b.Output.IsZero()
	if a.silent && was && b.Decision == messages.Continue {
		return errors.New("two turns in a row say nothing, and the run goes on")
	}
	return nil
}

// carries takes what a decision leaves for the next turn: its streams, if it completed, and
// what is told of it, if it failed.
func (a *audit) carries(r *messages.Record, b *messages.TurnDecided) {
	if a.second && completed(b) || !a.second && !b.Resumed {
		a.out, a.failed = streams{b.Output, b.Scratch}, nil
	}
	if !a.second || b.Decision != messages.Halt {
		return
	}
	a.did.run, a.did.turn, a.did.why = r.Run, r.Turn, string(b.Reason)
	a.failed = append(a.failed[:len(a.failed):len(a.failed)], a.did)
	if n := len(a.failed); n > turn.MaxFailed {
		a.failed = a.failed[n-turn.MaxFailed:]
	}
}

// unanswered reports whether the turn before the one that begins, of the same run, failed:
// what it was given is still to be answered.
func (a *audit) unanswered(b *messages.TurnBegin) bool {
	n := len(a.failed)
	return b.Rendering >= 2 && n > 0 && a.failed[n-1].run == a.run
}

// isTold compares what a prompt has of turns that failed with what the records have: an
// effect that may have happened is among it, or the model would do it again.
func (a *audit) isTold(e *turn.OpenModel) error {
	if (streams{e.OutDigest, e.ScrDigest}) != a.out {
		return fmt.Errorf("turn %d is given the streams %s and %s, the latest that completed left %s and %s", e.Turn, e.OutDigest, e.ScrDigest, a.out.out, a.out.scr)
	}
	if e.Last != a.last() {
		return fmt.Errorf("turn %d, the %dth of its run with %d lost and %d asked, is told that it is the last: %v", e.Turn, a.turns, a.lost, a.asked, e.Last)
	}
	if len(e.Failed) != len(a.failed) {
		return fmt.Errorf("turn %d is told of %d turns that failed, there are %d", e.Turn, len(e.Failed), len(a.failed))
	}
	for i := range e.Failed {
		if f := &e.Failed[i]; !a.failed[i].is(f) {
			return fmt.Errorf("turn %d is told %+v, by the records it was %+v", e.Turn, *f, a.failed[i])
		}
	}
	return nil
}

// owed is the tool of a model that pays a debt in every program, but for those that are
// told of the payment: so a run that fails and goes on pays once.
const owed = "w.pay"

// wont is what the model of a session does first, having read what its prompt tells.
func (c *client) wont(e *turn.OpenModel) string {
	for i := range e.Failed {
		if c.heeds && slices.ContainsFunc(e.Failed[i].Calls, paid) {
			return ""
		}
	}
	return c.habit
}

// paid reports whether a call paid the debt, or may have.
func paid(c turn.FailedCall) bool {
	return c.Name == owed && strings.Contains(c.Args, "bill") && (c.State == messages.ActionOK || c.State == messages.ActionUnknown)
}

// paysAgain finds a payment that a turn which failed made, or may have made.
func (a *audit) paysAgain(c *act) error {
	now := turn.FailedCall{Name: c.name, Args: c.args, State: messages.ActionOK}
	for i := range a.failed {
		if a.heeds && paid(now) && slices.ContainsFunc(a.failed[i].calls, paid) {
			return fmt.Errorf("action %s pays what turn %d has paid", c.id, a.failed[i].turn)
		}
	}
	return nil
}

func (t *told) is(f *turn.Failed) bool {
	if f.Run != t.run || f.Turn != t.turn || !strings.HasPrefix(f.Why, t.why) || f.Reply != t.reply || !begins(f.Shown, t.shown, turn.FailedShown) ||
		len(f.Calls) != min(len(t.calls), turn.FailedCalls) || f.More != int64(len(t.calls)-len(f.Calls)) {
		return false
	}
	for i := range f.Calls {
		have, want := &f.Calls[i], &t.calls[i]
		if have.Name != want.Name || have.Class != want.Class || have.State != want.State || have.Reason != want.Reason ||
			!begins(have.Args, want.Args, turn.FailedArgs) || !begins(have.Result, want.Result, turn.FailedResult) {
			return false
		}
	}
	return true
}

// begins compares texts of which one may be cut.
func begins(have, want string, most int) bool {
	if len(want) <= most {
		return have == want
	}
	return len(have) >= most/2 && have[:most/2] == want[:most/2]
}

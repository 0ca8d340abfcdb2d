// Package answer has the one rule for the text of a run, for all interfaces: Go, HTTP, chat
// completions, tools of the Model Context Protocol, and the parent of a child session.
//
// The rule: the text of a run is the responses and emissions of all its turns that a user was
// shown and that were not taken back, in the order of their records. A blank line separates
// two responses, a line end any other two texts. The text of a turn that failed and was
// repaired is part of it, and so is the text before a HALT. Thoughts, candidates of control
// tokens and text that waits for a decision are not.
//
// Invariants:
//   - an Account is a fold of the run's records: the same records give the same text, whether
//     they come from a subscription or from the journal;
//   - the pieces of a Stream, joined, are the beginning of that text at any time, and all of
//     it at the end.
//
// It reads no journal and never blocks.
package answer

import (
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Account is the outcome of a run: texts, decision and usage. The zero Account keeps all
// texts. It is not safe for concurrent use.
type Account struct {
	// Most bounds the memory for texts, in bytes: beyond it texts are dropped, and Whole
	// returns false. 0 is no bound; less than 0 keeps no text.
	Most int

	Began   time.Time        // of run.begin; zero before it
	Decided *messages.Record // the last turn.decided; nil without a turn
	Ended   *messages.Record // run.end; nil before it
	Usage   messages.Usage   // of the run's model replies
	// Used is Usage and the usage of actions and feeds: agents in child sessions, and llms.
	Used messages.Budget
	// Unpriced reports whether the cost of a reply is unknown.
	Unpriced bool
	Finish   messages.Finish // of the last reply
	Unknown  int             // actions whose outcome is unknown

	units []messages.UnitText
	bytes int
	over  bool // texts were dropped
}

// unitBytes is what a unit takes beside its text.
const unitBytes = 96

// Wants reports whether an Account uses records of kind k. Other records need not be decoded.
func Wants(k messages.Kind) bool {
	switch k {
	case messages.KindRunBegin, messages.KindResponse, messages.KindEmit, messages.KindRetract, messages.KindModelReply,
		messages.KindActionDeclared, messages.KindActionEnded, messages.KindFeedInjected, messages.KindTurnDecided, messages.KindRunEnd:
		return true
	}
	return false
}

// Take adds the run's next record.
func (a *Account) Take(r *messages.Record) {
	switch b := r.Body.(type) {
	case *messages.RunBegin:
		a.Began = r.TS
	case *messages.UnitText:
		if b.UnitKind == messages.ResponseUnit {
			a.add(*b)
		}
	case *messages.Emit:
		if !b.Candidate && !b.Held {
			a.add(messages.UnitText{UnitKind: messages.KindEmit, Text: b.Text, Complete: true})
		}
	case *messages.Retract:
		a.retract(b)
	case *messages.ModelReply:
		a.reply(b)
	case *messages.ActionDeclared:
		a.Used.Actions++
	case *messages.ActionEnded:
		a.Used = a.Used.Plus(messages.Budget{Actions: b.Actions, CostUSD: b.CostUSD, Tokens: b.Tokens})
		if b.State == messages.ActionUnknown {
			a.Unknown++
		}
	case *messages.FeedInjected:
		a.Used = a.Used.Plus(messages.Budget{CostUSD: b.CostUSD, Tokens: b.Tokens})
	case *messages.TurnDecided:
		a.Decided = r
	case *messages.RunEnd:
		a.Ended = r
	}
}

func (a *Account) add(u messages.UnitText) {
	if u.Text == "" && u.UnitKind == messages.ResponseUnit || a.over {
		return
	}
	a.bytes += len(u.Text) + unitBytes
	if a.Most < 0 || a.Most > 0 && a.bytes > a.Most {
		a.over, a.units = true, nil
		return
	}
	a.units = append(a.units, u)
}

func (a *Account) retract(b *messages.Retract) {
	for i := range a.units {
		u := &a.units[i]
		if u.Unit != b.Unit || u.UnitKind != messages.ResponseUnit || int(b.Off) >= len(u.Text) {
			continue
		}
		if u.Text = u.Text[:b.Off]; u.Text == "" {
			a.units = slices.Delete(a.units, i, i+1)
		}
		return
	}
}

func (a *Account) reply(b *messages.ModelReply) {
	a.Usage.Input += b.Usage.Input
	a.Usage.Output += b.Usage.Output
	a.Usage.CacheRead += b.Usage.CacheRead
	a.Usage.CacheWrite += b.Usage.CacheWrite
	a.Usage.Estimated = a.Usage.Estimated || b.Usage.Estimated
	a.Used = a.Used.Plus(messages.Budget{Tokens: b.Usage.Input + b.Usage.Output, CostUSD: b.CostUSD})
	a.Unpriced = a.Unpriced || b.Unpriced
	a.Finish = b.Finish
}

// Whole reports whether the Account has the records of its run from the first on, and all its
// texts.
func (a *Account) Whole() bool {
	return !a.over && (!a.Began.IsZero() || a.Ended != nil && a.Ended.Body.(*messages.RunEnd).Turns == 0)
}

// Units returns the parts of Text: responses, and emissions with kind emit. The slice is
// shared: do not change it.
func (a *Account) Units() []messages.UnitText { return a.units }

// Text returns the text of the run.
func (a *Account) Text() string {
	if len(a.units) == 1 {
		return a.units[0].Text // most have one, and need no copy
	}
	var b strings.Builder
	var before messages.Kind
	for i := range a.units {
		u := &a.units[i]
		b.WriteString(between(before, u.UnitKind))
		b.WriteString(u.Text)
		before = u.UnitKind
	}
	return b.String()
}

// between returns the separator of two texts by their kinds; "" before is the first text.
func between(before, kind messages.Kind) string {
	switch {
	case before == "":
		return ""
	case before == messages.ResponseUnit && kind == messages.ResponseUnit:
		return "\n\n"
	}
	return "\n"
}

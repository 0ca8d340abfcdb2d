package kitsu

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// reply is a turn as version 2 judges it: Decide from the facts when it ends, Render from
// the records for the passes that follow.
type reply struct {
	text   string // what the user reads of it
	finish messages.Finish
	calls  []messages.Call
	errors []messages.ParseError
}

// outcome is what follows from a reply.
type outcome struct {
	again bool // one more pass follows
	keep  bool // its text stays, and the pass continues after it
	mute  bool // the run ends, and the user has read nothing
	// What the model is told: of a result, of a complaint, or that it is to answer.
	result    *messages.Call
	complaint *complaint
	answer    bool
}

// judge says what comes of a reply of version 2, and what is remembered
// (docs/spec/kitsu.md §6). Each pass it gives is a search or get_time, of which there is
// one, or counts as a continue, or is the one in which the model is asked for its answer
// alone: a run has 3 turns more than there are continues, whatever the model writes.
func (x Dialect) judge(m memory, r *reply) (memory, outcome) {
	c := foreign(r.text)
	hollow := c != nil && c.whole || blank(r.text)
	trouble := x.trouble(r, c, hollow)
	was := m.said
	m.said = m.said || !hollow
	o := outcome{keep: !hollow}
	switch {
	case trouble == nil && len(r.calls) == 1 && r.calls[0].State == messages.ActionOK:
		call := &r.calls[0]
		if call.Name == string(Continue) {
			m.continues++
		} else {
			m.looked, o.keep = true, false
		}
		o.again, o.result = true, call
		return m, o
	case trouble == nil:
		return m, o
	case trouble.ends && m.said, trouble.soft && was:
		return m, o
	case m.continues < (Continuation{Max: x.Continues}).Limit():
		if len(r.calls) == 1 && r.calls[0].Name != string(Continue) {
			m.looked = true // the host has said no, and need not be asked again
		}
		m.continues++
		o.again, o.complaint = true, trouble
	case m.said || trouble.stands:
	case !m.asked:
		m.asked = true
		o.again, o.answer = true, true
	default:
		o.mute = true
	}
	return m, o
}

// trouble is why a reply is not what the user is to get; nil where it is, or where its
// action was done.
func (x Dialect) trouble(r *reply, c *complaint, hollow bool) *complaint {
	for i := range r.errors {
		e := &r.errors[i]
		if soft := e.Reason == NotAlone || e.Reason == OneOnly; !soft || hollow {
			return &complaint{action: e.Name, reason: e.Reason, cause: e.Detail, soft: soft}
		}
	}
	if len(r.calls) == 1 && r.calls[0].State != messages.ActionOK {
		call := &r.calls[0]
		return &complaint{
			action: call.Name, reason: string(call.State), cause: call.Reason, refused: true,
			ends: call.Name == string(Continue),
		}
	}
	switch {
	case len(r.calls) > 0:
		return nil
	case c != nil:
		return c
	case hollow && (r.text != "" || x.Forgive.Has(parse.HabitSilence)):
		return &complaint{reason: NothingSaid, soft: true, cut: r.finish == messages.FinishLength}
	}
	return nil
}

// blank reports whether a text says nothing: white space, and the marks of code fences that
// stood around a token.
func blank(text string) bool {
	if strings.TrimSpace(text) == "" {
		return true
	}
	if len(text) > 256 {
		return false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !fence(line) {
			return false
		}
	}
	return true
}

// fence reports whether a line opens or ends a code fence.
func fence(line string) bool {
	rest := strings.TrimLeft(line, "`~")
	return len(line)-len(rest) >= 3 && !strings.ContainsAny(rest, " \t`~")
}

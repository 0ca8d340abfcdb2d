package kitsu

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// render is Render of version 2: the transcript and the input, and what came of each turn
// of the run so far. A result line is behind the text that asked, which is not shown again.
// A text that stays is the assistant's, and the line behind it a message of its own. What
// users and others wrote was defused before (docs/spec/design.md §10).
func (x Dialect) render(p *messages.Projection) []messages.Message {
	out := make([]messages.Message, 0, len(p.History)+1+2*len(p.Replies))
	for i := range p.History {
		out = append(out, x.Past(&p.History[i])...)
	}
	text := p.Text
	if text == "" {
		text = p.Userdata
	}
	out = append(out, messages.Message{Role: messages.RoleUser, Text: text, Parts: p.Parts})
	tools := map[string]bool{}
	for i := range p.Tools {
		tools[p.Tools[i].Name] = true
	}
	line := func(b []byte) {
		last := &out[len(out)-1]
		if last.Role == messages.RoleAssistant {
			out = append(out, messages.Message{Role: messages.RoleUser, Text: string(b)})
			return
		}
		last.Text += "\n" + string(b)
	}
	var m memory
	for i := range p.Replies {
		r := &p.Replies[i]
		reply := x.read(r)
		if r.Finish == messages.FinishError { // it broke off, and the run went on
			if strings.TrimSpace(reply.text) != "" {
				out = append(out, messages.Message{Role: messages.RoleAssistant, Text: reply.text})
			}
			continue
		}
		var o outcome
		m, o = x.judge(m, &reply)
		if o.keep && strings.TrimSpace(reply.text) != "" {
			out = append(out, messages.Message{Role: messages.RoleAssistant, Text: reply.text})
		}
		switch {
		case o.result != nil:
			line(appendResult(nil, o.result))
		case o.complaint != nil:
			line(appendComplaint(nil, o.complaint, func(k Kind) bool { return tools[string(k)] && (k == Continue || !m.looked) }))
		case o.answer:
			line([]byte(answerNow))
		case o.keep:
			line([]byte(internalPrefix + "] Go on."))
		}
		if r.Joined != "" {
			line([]byte(r.Joined))
		}
	}
	if p.Last && len(p.Replies) > 0 && !m.asked {
		line([]byte(answerNow))
	}
	return out
}

// read returns a turn of the run as judge wants it, from the reply as the model wrote it.
func (x Dialect) read(r *messages.Reply) reply {
	return reply{text: x.shown(r.Text), finish: r.Finish, calls: r.Calls, errors: r.Errors}
}

// shown is what the user reads of a reply of version 2.
func (x Dialect) shown(text string) string {
	var out []byte
	d := x.NewDecoder(messages.TurnInfo{})
	take := func(ev messages.Event) {
		if ev.Kind == messages.EventUnitText && ev.UnitKind == messages.ResponseUnit {
			out = append(out, ev.Text...)
		}
		if ev.Kind == messages.EventUnitEnd && ev.UnitKind == messages.ThoughtUnit {
			out = nil // what it began with was a thought
		}
	}
	d.Push([]byte(text), take)
	d.End(messages.FinishStop, take)
	return string(out)
}

// decide is Decide of version 2 (docs/spec/kitsu.md §6): CONTINUE where one more pass
// follows, else DONE, and HALT where the user would have read nothing at the end.
func (x Dialect) decide(f *messages.Facts) messages.Verdict {
	if why := parse.Failure(*f); why != "" {
		return parse.Halt(why, "")
	}
	r := reply{finish: f.Finish, calls: f.Calls, errors: f.Errors}
	for i := range f.Units {
		if f.Units[i].Kind == messages.ResponseUnit {
			r.text += f.Units[i].Text
		}
	}
	m, o := x.judge(recall(f.State), &r)
	v := messages.Verdict{Decision: messages.Done, Token: -1}
	if c := o.complaint; c != nil && c.reason == NothingSaid || o.answer {
		v.Lints = []messages.Code{parse.HabitSilence.Lint()}
	}
	switch {
	case o.mute:
		return parse.Halt(messages.ErrNoProgress, "the model gave no answer")
	case !o.again:
		return v
	}
	v.Decision, v.State = messages.Continue, m.bytes()
	if o.result != nil && o.result.Name == string(Search) {
		if about := Topic(queryOf(o.result.Args)); about != "" {
			v.Keep = []byte(about)
		}
	}
	for i := range f.Units {
		if !o.keep && f.Units[i].Kind == messages.ResponseUnit && f.Units[i].Text != "" {
			v.Retract = append(v.Retract, f.Units[i].ID)
		}
	}
	return v
}

package cogency

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Render assembles the messages of a projection: the user's text of each run, the current run's
// last, and after it the turns of the run with their thoughts, in order. So the messages of a
// turn are the beginning of those of the next one, unless a turn between them failed; only the
// note about the last turn of a run is at the end of its own prompt.
func (x Dialect) Render(p messages.Projection) []messages.Message {
	a := x.assembly()
	for i := range p.History {
		x.item(&a, &p.History[i])
	}
	text := p.Text
	if text == "" {
		text = p.Userdata
	}
	a.add(&Event{Type: User, Content: text})
	a.messages[len(a.messages)-1].Parts = p.Parts
	for i := range p.Replies {
		x.reply(&a, &p.Replies[i])
	}
	a.end()
	out := a.messages
	if p.LastError != "" {
		out[len(out)-1].Text += "\n\nThe previous turn did not go through: " + parse.OneLine(p.LastError)
	}
	if p.Last {
		out = append(out, messages.Message{Role: messages.RoleSystem, Text: lastTurn})
	}
	return out
}

// lastTurn asks the model to conclude, because the run has no turn left to show it the results
// of calls (docs/spec/cogency.md §8).
const lastTurn = "This is the last turn for this message. Conclude: answer the user with what you have. Calls still run, but you will not see their results."

// Past returns the messages that Render makes of a finished run, or of one entry of an imported
// conversation. No message belongs to two of them.
func (x Dialect) Past(it *messages.Item) []messages.Message {
	a := x.assembly()
	x.item(&a, it)
	return a.messages
}

// end finishes the message and the calls that the events leave open.
func (a *assembly) end() {
	a.dangle(noResult)
	a.flush()
}

func (x Dialect) item(a *assembly, it *messages.Item) {
	t := User
	if it.Role == messages.RoleAssistant {
		t = Respond
	}
	a.add(&Event{Type: t, Content: strings.TrimSpace(it.Text)})
	if t == User {
		a.messages[len(a.messages)-1].Parts = it.Parts
	}
	for j := range it.Replies {
		x.reply(a, &it.Replies[j])
	}
	a.end()
}

// batch adds calls and their results. Recorded calls are in normal form: the obvious cases need
// not be parsed again.
func (x Dialect) batch(a *assembly, calls []messages.Call) {
	results := make([]Result, len(calls))
	size := len(openResults) + len(shutResults)
	for i := range calls {
		c := &calls[i]
		if c.Name != "" && strings.HasPrefix(c.Args, "{") && !strings.ContainsAny(c.Args, " \t\r\n") {
			a.pending = append(a.pending, called{c.Name, CallText(c.Name, c.Args)})
		} else {
			a.add(&Event{Type: Call, Content: CallText(c.Name, c.Args)})
		}
		results[i] = ResultOf(c)
		size += resultFrame + len(results[i].Tool) + len(results[i].Outcome) + len(results[i].Content)
	}
	text, cut := appendResults(make([]byte, 0, size), results, x.Limits.ResultBytes)
	a.answer(string(text))
	a.messages[len(a.messages)-1].Limits = slices.Repeat([]string{messages.LimitResult}, cut)
}

// reply adds an earlier turn of the run: its texts as the model wrote them, its batch as the
// host recorded it, and then the inputs that joined the run.
func (x Dialect) reply(a *assembly, r *messages.Reply) {
	if r.Told != nil && a.settled() {
		a.messages = append(a.messages, r.Told...)
	} else {
		x.turn(a, r)
	}
	if r.Joined != "" {
		a.add(&Event{Type: User, Content: r.Joined})
	}
}

// Tell returns the messages that Render makes of one turn.
func (x Dialect) Tell(r *messages.Reply) []messages.Message {
	a := x.assembly()
	if x.turn(&a, r); !a.settled() {
		return nil
	}
	return a.messages
}

func (x Dialect) turn(a *assembly, r *messages.Reply) {
	said, thought := false, false
	acc := Accumulator{Yield: func(e Event) {
		if e.Type == Think || e.Type == Respond {
			said, thought = said || e.Type == Respond, e.Type == Think && e.Partial
			a.add(&e)
		}
	}}
	d := a.reader
	if d == nil {
		d = x.NewDecoder(messages.TurnInfo{}).(*decoder)
		a.reader = d
	} else {
		d.reset()
	}
	d.textOnly = len(r.Calls) > 0 // the batch is recorded
	told := int64(0)              // end of the last unit
	take := func(ev messages.Event) {
		if ev.Kind == messages.EventUnitEnd {
			told = ev.Offset
		}
		acc.Take(ev)
	}
	d.Push([]byte(r.Text), take)
	finish := r.Finish
	if finish == "" {
		finish = messages.FinishStop
	}
	d.End(finish, take)
	for i := range r.Errors {
		e := &r.Errors[i]
		if !strings.HasPrefix(e.Reason, "execute_") {
			continue
		}
		detail := e.Detail
		if x.second() {
			a.quote(r.Text, told)
			detail = placed(r.Text, e)
		}
		a.tell(detail)
		return
	}
	switch {
	case len(r.Calls) > 0 || acc.State() == WaitsForResults:
		x.batch(a, r.Calls)
	case x.second() && x.Forgive.Has(parse.HabitSilence) && !said && finish != messages.FinishError && finish != messages.FinishCancelled:
		a.tell(silence(finish, thought))
	}
}

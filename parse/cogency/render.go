package cogency

import (
	_ "embed"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Render is Assemble on what the projection tells: the user's text of each run, this
// one's last, and behind it the turns of the run with their thoughts, as they went. So
// the messages of a turn are the beginning of those of the next one, as long as no turn
// failed between them.
func (x Dialect) Render(p messages.Projection) []messages.Message {
	var log []Event
	for i := range p.History {
		it := &p.History[i]
		t := User
		if it.Role == messages.RoleAssistant {
			t = Respond
		}
		log = append(log, Event{Type: t, Content: strings.TrimSpace(it.Text)})
		for j := range it.Replies {
			log = x.reply(log, &it.Replies[j])
		}
	}
	text := p.Text
	if text == "" {
		text = p.Userdata
	}
	log = append(log, Event{Type: User, Content: text})
	for i := range p.Replies {
		log = x.reply(log, &p.Replies[i])
	}
	var a assembly
	for i := range log {
		a.add(&log[i])
	}
	a.dangle(noResult)
	a.flush()
	out := a.messages
	if p.LastError != "" {
		out[len(out)-1].Text += "\n\nThe previous turn did not go through: " + oneLine(p.LastError)
	}
	return out
}

// batch tells of calls and their results.
func (x Dialect) batch(log []Event, calls []messages.Call) []Event {
	results := make([]Result, len(calls))
	for i := range calls {
		log = append(log, Event{Type: Call, Content: callText(calls[i].Name, calls[i].Args)})
		results[i] = ResultOf(&calls[i])
	}
	return append(log, Event{Type: Results, Content: string(AppendResults(nil, results, x.Limits.ResultBytes))})
}

// reply tells of an earlier turn of the run: its texts as the model wrote them, and
// what the host recorded of its batch; then what joined the run.
func (x Dialect) reply(log []Event, r *messages.Reply) []Event {
	log = x.turn(log, r)
	if r.Joined != "" {
		log = append(log, Event{Type: User, Content: r.Joined})
	}
	return log
}

func (x Dialect) turn(log []Event, r *messages.Reply) []Event {
	a := Accumulator{Yield: func(e Event) {
		if e.Type == Think || e.Type == Respond {
			log = append(log, e)
		}
	}}
	d := x.NewDecoder(messages.TurnInfo{})
	d.Push([]byte(r.Text), a.Take)
	finish := r.Finish
	if finish == "" {
		finish = messages.FinishStop
	}
	d.End(finish, a.Take)
	for i := range r.Errors {
		if strings.HasPrefix(r.Errors[i].Reason, "execute_") {
			return append(log, Event{Type: Results, Content: string(AppendResults(nil, []Result{Failure("", r.Errors[i].Detail)}, 0))})
		}
	}
	if len(r.Calls) > 0 || a.State() == WaitsForResults {
		log = x.batch(log, r.Calls)
	}
	return log
}

//go:embed primer.txt
var primerText string

// Primer teaches the markers and lists the tools, one a line, in the order given
// (cogency.md §15), each with the schema of its arguments where there is one.
func (Dialect) Primer(tools []messages.ToolSpec) string {
	var b strings.Builder
	b.WriteString(primerText)
	b.WriteString("\n## Tools\n\n")
	if len(tools) == 0 {
		b.WriteString("None.\n")
	}
	for _, t := range tools {
		b.WriteString(oneLine(t.Name) + oneLine(t.Signature))
		if d := oneLine(t.Description); d != "" {
			b.WriteString(" - " + d)
		}
		b.WriteByte('\n')
		if s := oneLine(t.Schema); s != "" {
			b.WriteString("  args: " + s + "\n")
		}
	}
	return b.String()
}

// oneLine makes text from elsewhere harmless in a list: white space runs, line ends
// among them, become one space.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
}

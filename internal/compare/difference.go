package compare

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Difference is a place where two sessions differ. A and B are their texts; "" if a session has
// nothing there.
type Difference struct {
	Sort Sort   `json:"sort"`
	Run  int64  `json:"run"`            // place of the run, from 1
	Turn int64  `json:"turn,omitempty"` // place of the turn in its run, from 1
	Call int64  `json:"call,omitempty"` // place of the call in its turn, from 1
	A    string `json:"a"`
	B    string `json:"b"`
}

// Sort is the kind of a difference.
type Sort string

// The sorts of differences, in their order within a turn.
const (
	SortRun      Sort = "run" // one session has no such run, or no such turn
	SortTurn     Sort = "turn"
	SortInput    Sort = "input"
	SortReply    Sort = "reply"
	SortCall     Sort = "call"   // name or arguments
	SortResult   Sort = "result" // how it ended
	SortDecision Sort = "decision"
)

// Where describes the place for people.
func (d *Difference) Where() string {
	s := fmt.Sprintf("run %d", d.Run)
	if d.Turn > 0 {
		s += fmt.Sprintf(", turn %d", d.Turn)
	}
	if d.Call > 0 {
		s += fmt.Sprintf(", call %d", d.Call)
	}
	return s
}

// Differences returns all places where two sessions differ, in their order.
func Differences(a, b *Session) (all []Difference) {
	for i := range max(len(a.Runs), len(b.Runs)) {
		at := Difference{Sort: SortRun, Run: int64(i + 1)}
		switch {
		case i >= len(a.Runs):
			at.B = b.Runs[i].Input
			all = append(all, at)
		case i >= len(b.Runs):
			at.A = a.Runs[i].Input
			all = append(all, at)
		default:
			all = append(all, runs(a.Runs[i], b.Runs[i], at)...)
		}
	}
	return all
}

func runs(a, b *Run, at Difference) (all []Difference) {
	note := func(d Difference, s Sort, was, now string) {
		if was != now {
			d.Sort, d.A, d.B = s, was, now
			all = append(all, d)
		}
	}
	note(at, SortInput, a.Input, b.Input)
	for i := range max(len(a.Turns), len(b.Turns)) {
		in := at
		in.Turn = int64(i + 1)
		switch {
		case i >= len(a.Turns):
			note(in, SortTurn, "", b.Turns[i].text())
			continue
		case i >= len(b.Turns):
			note(in, SortTurn, a.Turns[i].text(), "")
			continue
		}
		ta, tb := a.Turns[i], b.Turns[i]
		note(in, SortReply, ta.Reply, tb.Reply)
		for j := range max(len(ta.Calls), len(tb.Calls)) {
			on := in
			on.Call = int64(j + 1)
			var ca, cb Call
			if j < len(ta.Calls) {
				ca = ta.Calls[j]
			}
			if j < len(tb.Calls) {
				cb = tb.Calls[j]
			}
			if ca.asked() != cb.asked() {
				note(on, SortCall, ca.asked(), cb.asked())
				continue
			}
			note(on, SortResult, ca.ended(), cb.ended())
		}
		note(in, SortDecision, decided(ta), decided(tb))
	}
	if len(a.Turns) == 0 && len(b.Turns) == 0 || len(a.Turns) == len(b.Turns) && a.Decision != b.Decision {
		note(at, SortDecision, verdict(a.Decision, a.Reason), verdict(b.Decision, b.Reason))
	}
	return all
}

// text describes a turn that the other session does not have.
func (t *Turn) text() string {
	var b strings.Builder
	if t.Reply != "" {
		b.WriteString(strings.TrimSuffix(t.Reply, "\n") + "\n")
	}
	for i := range t.Calls {
		b.WriteString(t.Calls[i].asked() + "\n")
	}
	b.WriteString(decided(t))
	return b.String()
}

func (c *Call) asked() string {
	if c.Name == "" {
		return ""
	}
	return string(c.Type) + " " + c.Name + " " + c.Args
}

func (c *Call) ended() string {
	s := string(c.State)
	if c.Reason != "" {
		s += " (" + c.Reason + ")"
	}
	return strings.TrimSpace(s + "\n" + c.Result)
}

func decided(t *Turn) string {
	s := verdict(t.Decision, t.Reason)
	if t.Decision != "" && t.Detail != "" && t.Decision != messages.Continue && t.Decision != messages.Done {
		s += "\n" + t.Detail
	}
	return s
}

func verdict(d messages.Decision, reason messages.Code) string {
	if reason == "" {
		return string(d)
	}
	return string(d) + "(" + string(reason) + ")"
}

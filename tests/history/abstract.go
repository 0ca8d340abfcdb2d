package history

import (
	"encoding/json"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// abstraction makes the abstract log out of a session's records, one after the other.
type abstraction struct {
	log    []event
	inputs map[int64]string // by their records
	said   map[int64]string // what the last turn of a run emitted, control lines aside
	failed map[int64]string // how the last turn of a run ended, of runs that go on behind a HALT
	seq    int64
}

// add takes the next record and reports whether the log grew. A record that was seen
// before, or a gap, is a mistake of the reader that showed it: the log then holds an event
// that no session has.
func (a *abstraction) add(r *stile.Record) bool {
	if a.said == nil {
		a.said, a.inputs, a.failed = map[int64]string{}, map[int64]string{}, map[int64]string{}
	}
	if r.Seq != a.seq+1 {
		a.log = append(a.log, event{kind: "gap", run: r.Seq})
		return true
	}
	a.seq = r.Seq
	before := len(a.log)
	switch b := r.Body.(type) {
	case *messages.Input:
		a.inputs[r.Seq] = textOf(b)
		a.log = append(a.log, event{kind: accepted, run: r.Run, text: a.inputs[r.Seq], key: b.Key})
	case *messages.RunBegin:
		a.log = append(a.log, event{kind: begun, run: r.Run, text: a.together(append([]int64{b.Input}, b.Merged...))})
	case *messages.TurnBegin:
		delete(a.said, r.Run)
		if b.Pass > 1 {
			a.log = append(a.log, event{kind: turned, run: r.Run, text: a.together(b.Merged), how: a.failed[r.Run]})
		}
		delete(a.failed, r.Run)
	case *messages.TurnDecided:
		if b.Decision == stile.Halt { // what it was asked still waits for its answer
			a.failed[r.Run] = outcome(b.Decision, b.Reason)
		}
	case *messages.Emit:
		if !b.Candidate {
			a.said[r.Run] += b.Text
		}
	case *messages.Control:
		switch {
		case b.What == messages.ControlCancel:
			a.log = append(a.log, event{kind: cancelled, run: r.Run})
		case b.What == messages.ControlTimer && b.Name == turn.ClockDebounce.String():
			a.log = append(a.log, event{kind: closed, run: r.Run})
		}
	case *messages.RunEnd:
		e := event{kind: ended, run: r.Run, how: outcome(b.Decision, b.Reason), text: a.together(b.Merged), next: b.Next}
		if b.Decision == stile.Done {
			e.text = a.said[r.Run]
		}
		delete(a.said, r.Run)
		a.log = append(a.log, e)
	}
	return len(a.log) > before
}

// together is what the inputs of these records are as one.
func (a *abstraction) together(seqs []int64) string {
	texts := make([]string, len(seqs))
	for i, seq := range seqs {
		texts[i] = a.inputs[seq]
	}
	return strings.Join(texts, "\n")
}

func outcome(d stile.Decision, reason messages.Code) string {
	if reason == "" {
		return string(d)
	}
	return string(d) + "(" + string(reason) + ")"
}

// textOf is what was submitted: aeiou keeps it as USERDATA.
func textOf(in *messages.Input) string {
	var userdata struct{ Fields struct{ Text string } }
	if err := json.Unmarshal([]byte(in.Userdata), &userdata); err != nil {
		return "not what was submitted: " + in.Userdata
	}
	return userdata.Fields.Text
}

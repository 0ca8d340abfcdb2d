package turn

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// asking is the state of a session whose turn has asked: questions by their times, the
// first at Asked 1.
func asking(expires ...int64) State {
	t := &OpenTurn{Index: 1, Seq: 3, Nonce: "n", Replied: true}
	for i, at := range expires {
		id := string(rune('a' + i))
		t.Actions = append(t.Actions, OpenAction{ID: id, Name: "x", Args: "{}", Question: &Question{ID: "q" + id, Asked: 1, Expires: at}})
	}
	return State{Seq: 9, Turn: 1, Runs: 1, Open: &OpenRun{Waiting: Waiting{Run: 1, Seq: 1}, Turns: 1, Turn: t}}
}

// A suspended turn is woken at the first of its questions' times, whichever was asked
// first; those that are answered do not count.
func TestSuspendedUntilTheFirstQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		expires []int64
		answer  int // index of one that is answered, -1 none
		want    int64
	}{
		"one":               {[]int64{70}, -1, 70},
		"the first":         {[]int64{50, 90}, -1, 50},
		"the last":          {[]int64{90, 50}, -1, 50},
		"in the middle":     {[]int64{90, 40, 60}, -1, 40},
		"another":           {[]int64{40, 90, 60}, 0, 60},
		"at the same time":  {[]int64{50, 50}, -1, 50},
		"the last answered": {[]int64{80, 50}, 1, 80},
	} {
		s := asking(c.expires...)
		if c.answer >= 0 {
			s.Open.Turn.Actions[c.answer].Question.Answer = messages.GateApprove
		}
		m := New(Config{Key: rigKey, Rules: &Rules{}}, s, nonces(1))
		m.flight, m.phase, m.step, m.now = &flight{Ident: Ident{Turn: 1, Nonce: "n"}, parsed: parsed{open: -1}}, Running, new(step), time.Unix(0, 10)
		m.suspend()
		var got *messages.TurnSuspended
		for _, e := range m.out {
			if p, ok := e.(*Persist); ok {
				got, _ = p.Record.Body.(*messages.TurnSuspended)
			}
		}
		if want := time.Unix(0, c.want).UTC().Format(time.RFC3339Nano); got == nil || got.Until != want {
			t.Errorf("%s: %+v, want until %s", name, got, want)
		}
	}
}

// A question may be answered up to its time, and not at it: then it has expired.
func TestAQuestionExpiresAtItsTime(t *testing.T) {
	s := asking(70)
	in := &Approve{Approval: "qa", Answer: messages.GateApprove, By: "ada", Digest: sha256.Sum256([]byte("{}"))}
	for at, want := range map[int64]string{69: "", 70: ReasonLate, 71: ReasonLate} {
		err := s.Refuses(in, time.Unix(0, at))
		reason := ""
		var e *messages.Error
		if errors.As(err, &e) {
			reason = e.Reason
		}
		if (err == nil) != (want == "") || reason != want {
			t.Errorf("at %d: %v, want %q", at, err, want)
		}
	}
}

// Turns that a restart ended, and the one that asks for an answer again, are none of those
// that a run may have.
func TestLostTurnsDoNotCount(t *testing.T) {
	for _, c := range []struct {
		most, turns, lost, asked int64
		want                     bool
	}{
		{0, 9, 0, 0, false},
		{3, 2, 0, 0, false},
		{3, 3, 0, 0, true},
		{3, 3, 1, 0, false},
		{3, 4, 1, 0, true},
		{3, 5, 2, 1, false},
		{3, 6, 2, 1, true},
		{3, 3, 0, 1, false},
	} {
		s := asking(70)
		s.Open.Turns, s.Open.Lost, s.Open.Asked = c.turns, c.lost, c.asked
		m := New(Config{Key: rigKey, Rules: &Rules{MaxTurns: c.most}}, s, nonces(1))
		if got := m.lastTurn(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

package turn

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A refusal names the record it rests on: whoever is told that a session is busy, or
// that a run has ended, must find that in the journal, also after a restart.
func TestRefusalsWaitForTheirReason(t *testing.T) {
	r := newRig(t, Rules{Judge: textJudge{}}, 1)
	answer := func(in Input) *Answer {
		t.Helper()
		effects, _, err := r.step(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range effects {
			if a, ok := e.(*Answer); ok {
				own := *a
				return &own
			}
		}
		t.Fatalf("%T has no answer", in)
		return nil
	}
	submit := func(p messages.Policy) *Answer {
		t.Helper()
		return answer(&Submit{Input: messages.Input{Policy: p, Text: "x"}})
	}
	refused := func(what string, a *Answer, code messages.Code, after int64) {
		t.Helper()
		if messages.CodeOf(a.Err) != code || a.After != after {
			t.Errorf("%s: %v after record %d, want %s after %d", what, a.Err, a.After, code, after)
		}
	}
	answer(&Open{})
	first := submit(messages.Reject)
	refused("reject beside a run", submit(messages.Reject), messages.ErrBusy, first.Seq)
	refused("a run that never was", answer(&Cancel{Run: 99}), messages.ErrDenied, 0)
	var last *Answer
	for range messages.QueueLimit {
		last = submit(messages.Enqueue)
	}
	refused("a full queue", submit(messages.Enqueue), messages.ErrBusy, last.Seq)
	refused("no policy", submit("odd"), messages.ErrConfig, 0)

	answer(&Cancel{Run: 2})
	end := r.find(messages.KindRunEnd, 0, "")
	refused("a run withdrawn a moment ago", answer(&Cancel{Run: 2}), messages.ErrDenied, end)
	id, _ := r.m.Flight()
	if _, _, err := r.step(&ReplyEnd{Ident: id, Finish: messages.FinishComplete}); err != nil {
		t.Fatal(err)
	}
	ended := int64(0)
	for _, rec := range r.log {
		if _, ok := rec.Body.(*messages.RunEnd); ok {
			ended = rec.Seq
		}
	}
	if ended <= end {
		t.Fatal("the first run did not end")
	}
	refused("a run that ended a moment ago", answer(&Cancel{Run: 1}), messages.ErrDenied, ended)
}

package turn

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A refusal names the record it rests on: the caller to whom a session is busy, or a run
// has ended, must find the cause in the journal, also after a restart.
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
	refused("no policy", submit("odd"), messages.ErrInvalid, 0)

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

// What a run left goes in line with the record of its end: a queue that is full by it, and
// the run that a key names since, rest on that record and not on older inputs.
func TestLeftoversWaitForTheirRun(t *testing.T) {
	r := newRig(t, Rules{Judge: textJudge{}}, 1)
	submit := func(p messages.Policy, key string) (last *Answer) {
		t.Helper()
		effects, _, err := r.step(&Submit{Input: messages.Input{Policy: p, Text: "x", Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range effects {
			if a, ok := e.(*Answer); ok {
				own := *a
				last = &own
			}
		}
		return last
	}
	if _, _, err := r.step(&Open{}); err != nil {
		t.Fatal(err)
	}
	submit(messages.Enqueue, "")
	submit(messages.Merge, "k")
	for range messages.QueueLimit - 1 {
		submit(messages.Enqueue, "")
	}
	by := submit(messages.Interrupt, "")
	end := r.find(messages.KindRunEnd, 1, "")
	if full := submit(messages.Enqueue, ""); messages.CodeOf(full.Err) != messages.ErrBusy || full.After != end {
		t.Errorf("%v after record %d, the queue is full since %d", full.Err, full.After, end)
	}
	if again := submit(messages.Enqueue, "k"); !again.Joined || again.Run != by.Run+1 || again.After != end {
		t.Errorf("the key names run %d after record %d, it does since %d", again.Run, again.After, end)
	}
}

// A window that another input closed takes no more: a debounced input is refused then, and
// the refusal rests on the input that closed it, also when that one joined a run.
func TestRefusalWaitsForTheWindow(t *testing.T) {
	r := newRig(t, Rules{Judge: textJudge{}}, 1)
	submit := func(p messages.Policy) (last *Answer) {
		t.Helper()
		effects, _, err := r.step(&Submit{Input: messages.Input{Policy: p, Text: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range effects {
			if a, ok := e.(*Answer); ok {
				own := *a
				last = &own
			}
		}
		return last
	}
	if _, _, err := r.step(&Open{}); err != nil {
		t.Fatal(err)
	}
	for range messages.QueueLimit {
		submit(messages.Enqueue)
	}
	submit(messages.Debounce)
	if more := submit(messages.Debounce); more.Err != nil {
		t.Fatal(more.Err)
	}
	by := submit(messages.Merge)
	if full := submit(messages.Debounce); messages.CodeOf(full.Err) != messages.ErrBusy || full.After != by.Seq {
		t.Errorf("%v after record %d, the window closed with %d", full.Err, full.After, by.Seq)
	}
}

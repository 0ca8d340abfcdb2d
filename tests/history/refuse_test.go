package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed14be6753/stile/messages"
)

// note makes operations one after the other; together makes them overlap.
type note struct {
	now int64
	ops []porcupine.Operation
}

func (n *note) then(in, out any) *note {
	n.ops = append(n.ops, porcupine.Operation{Input: in, Output: out, Call: n.now + 1, Return: n.now + 2})
	n.now += 2
	return n
}

func (n *note) together(ins ...[2]any) *note {
	for i, io := range ins {
		n.ops = append(n.ops, porcupine.Operation{ClientId: i, Input: io[0], Output: io[1], Call: n.now + 1, Return: n.now + 2})
	}
	n.now += 2
	return n
}

// logged reads the abstract log that a line describes: "a1 b1 e1 a2:key b2 c2 x2".
// a accepts, b begins, t takes another turn, w closes the window, c cancels, e ends with
// DONE, x with ERR_CANCELLED, ! with ERR_CRASH. The text of run n is its digit, of "a1=2"
// it is 2, of "b1=2+3" both; "e1>2" leaves something to run 2.
func logged(line string) (log []event) {
	for word := range strings.FieldsSeq(line) {
		e, known := map[byte]event{
			'a': {kind: accepted}, 'b': {kind: begun}, 't': {kind: turned}, 'w': {kind: closed}, 'c': {kind: cancelled},
			'e': {kind: ended, how: endDone}, 'x': {kind: ended, how: endCancelled}, '!': {kind: ended, how: endCrashed},
		}[word[0]]
		if !known {
			panic("no event is written " + word)
		}
		rest, next, _ := strings.Cut(word[1:], ">")
		rest, key, _ := strings.Cut(rest, ":")
		name, text, other := strings.Cut(rest, "=")
		if !other && (e.kind == accepted || e.kind == begun || e.how == endDone) {
			text = name
		}
		e.run, e.next, e.key, e.text = number(name), number(next), key, strings.ReplaceAll(text, "+", "\n")
		log = append(log, e)
	}
	return log
}

func number(s string) (n int64) {
	for _, c := range s {
		n = 10*n + int64(c-'0')
	}
	return n
}

func ask(text string, p messages.Policy, key ...string) submit {
	return submit{text: text, policy: p, key: strings.Join(key, "")}
}

func ok(run int64) submitted     { return submitted{answer: answered, run: run} }
func joined(run int64) submitted { return submitted{answer: answered, run: run, joined: true} }
func no(a answer) submitted      { return submitted{answer: a} }

// Every rule of the model is broken by one history and kept by another that differs
// in that alone.
func TestModelRefuses(t *testing.T) {
	const reject, enqueue, merge, debounce = messages.Reject, messages.Enqueue, messages.Merge, messages.Debounce
	times := func(policy messages.Policy, from, to int64, run func(int64) int64) func() *note {
		return func() *note {
			n := new(note).then(ask("1", enqueue), ok(1))
			if policy == debounce {
				n = new(note).then(ask("1", debounce), ok(1))
			}
			for i := from; i <= to; i++ {
				n.then(ask(numeral(i), policy), ok(run(i)))
			}
			return n
		}
	}
	own, first := func(i int64) int64 { return i }, func(int64) int64 { return 1 }
	// One in flight, and as many wait as may, or one fewer.
	full, fewer := times(enqueue, 2, 1+messages.QueueLimit, own), times(enqueue, 2, messages.QueueLimit, own)
	fullLog, drained := inLine(1 + messages.QueueLimit)
	fewerLog, fewerDrained := inLine(messages.QueueLimit)
	// As many as may join one run, and as many as may be gathered.
	merges, gathers := times(merge, 2, 1+messages.MergeLimit, first), times(debounce, 2, messages.WindowLimit, first)
	mergesLog, mergesText := "a1 b1", ""
	for i := int64(2); i <= 1+messages.MergeLimit; i++ {
		mergesLog, mergesText = mergesLog+" a1="+numeral(i), mergesText+"+"+numeral(i)
	}
	mergesText = mergesText[1:]
	gathersLog, gathersText := "a1", "1"
	for i := int64(2); i <= messages.WindowLimit; i++ {
		gathersLog, gathersText = gathersLog+" a1="+numeral(i), gathersText+"+"+numeral(i)
	}
	for name, c := range map[string]struct {
		good, bad       *note
		goodLog, badLog string // badLog "" is goodLog
	}{
		"reject accepts beside a run": {
			good: new(note).then(ask("1", reject), ok(1)).then(ask("2", reject), no(busy)), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", reject), ok(1)).then(ask("2", reject), ok(2)).then(head{}, summary{run: 1, open: true, queued: 1}), badLog: "a1 b1 a2 e1 b2 e2",
		},
		"reject refuses when idle": {
			good: new(note).then(ask("1", reject), ok(1)), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", reject), no(busy)), badLog: " ",
		},
		"reject refuses after the end was told": {
			good:    new(note).then(ask("1", reject), ok(1)).then(wait{run: 1}, waited{endDone}).then(ask("2", reject), ok(2)),
			goodLog: "a1 b1 e1 a2 b2 e2",
			bad:     new(note).then(ask("1", reject), ok(1)).then(wait{run: 1}, waited{endDone}).then(ask("2", reject), no(busy)),
			badLog:  "a1 b1 e1",
		},
		"enqueue refuses with room": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)), goodLog: "a1 b1 a2 e1 b2 e2",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), no(busy)), badLog: "a1 b1 e1",
		},
		"enqueue accepts over the limit": {
			good: full().then(ask("18", enqueue), no(busy)), goodLog: fullLog + drained,
			bad: full().then(ask("18", enqueue), ok(18)), badLog: fullLog + " a18" + drained + " b18 e18",
		},
		"runs out of order": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)).then(ask("3", enqueue), ok(3)),
			goodLog: "a1 b1 a2 a3 e1 b2 e2 b3 e3",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)).then(ask("3", enqueue), ok(3)),
			badLog:  "a1 b1 a2 a3 e1 b3 e3 b2 e2",
		},
		"two runs at once": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)), goodLog: "a1 b1 a2 e1 b2 e2",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)), badLog: "a1 b1 a2 b2 e1 e2",
		},
		"a run begins twice": {
			good: new(note).then(ask("1", enqueue), ok(1)), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)), badLog: "a1 b1 e1 b1 e1",
		},
		"a run never begins": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)), goodLog: "a1 b1 a2 e1 b2 e2",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)), badLog: "a1 b1 a2 e1",
		},
		"an answered submit is forgotten": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(restart{}, nil), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(restart{}, nil), badLog: " ",
		},
		"an input without a submit": {
			good: new(note).then(ask("1", enqueue), ok(1)), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)), badLog: "a1 b1 e1 a2 b2 e2",
		},
		"a run of another text": {
			good: new(note).then(ask("1", enqueue), ok(1)), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("7", enqueue), ok(1)), badLog: "a1 b1 e1",
		},
		"two submits, one run": {
			good:    new(note).together([2]any{ask("1", enqueue), ok(1)}, [2]any{ask("2", enqueue), ok(2)}),
			goodLog: "a1 b1 a2 e1 b2 e2",
			bad:     new(note).together([2]any{ask("1", enqueue), ok(1)}, [2]any{ask("1", enqueue), ok(1)}),
			badLog:  "a1 b1 e1",
		},
		"a known key runs again": {
			good: new(note).then(ask("1", enqueue, "k"), ok(1)).then(ask("1", enqueue, "k"), joined(1)), goodLog: "a1:k b1 e1",
			bad: new(note).then(ask("1", enqueue, "k"), ok(1)).then(ask("1", enqueue, "k"), ok(2)), badLog: "a1:k b1 a2=1:k e1 b2=1 e2=1",
		},
		"a key takes another input": {
			good: new(note).then(ask("1", enqueue, "k"), ok(1)).then(restart{}, nil).then(ask("2", merge, "k"), no(reused)), goodLog: "a1:k b1 e1",
			bad: new(note).then(ask("1", enqueue, "k"), ok(1)).then(restart{}, nil).then(ask("2", merge, "k"), joined(1)),
		},
		"a repeated submit is taken for another input": {
			good: new(note).then(ask("1", enqueue, "k"), ok(1)).then(ask("1", reject, "k"), joined(1)), goodLog: "a1:k b1 e1",
			bad: new(note).then(ask("1", enqueue, "k"), ok(1)).then(ask("1", reject, "k"), no(reused)),
		},
		"a key joins another's run": {
			good:    new(note).then(ask("1", enqueue, "k"), ok(1)).then(ask("2", enqueue, "l"), ok(2)).then(ask("2", reject, "l"), joined(2)),
			goodLog: "a1:k b1 a2:l e1 b2 e2",
			bad:     new(note).then(ask("1", enqueue, "k"), ok(1)).then(ask("2", enqueue, "l"), ok(2)).then(ask("2", reject, "l"), joined(1)),
		},
		"a new key joins": {
			good: new(note).then(ask("1", enqueue, "k"), ok(1)), goodLog: "a1:k b1 e1",
			bad: new(note).then(ask("1", enqueue, "k"), joined(1)),
		},
		"a key is forgotten over a restart": {
			good: new(note).then(ask("1", enqueue, "k"), ok(1)).then(restart{}, nil).then(ask("1", reject, "k"), joined(1)), goodLog: "a1:k b1 e1",
			bad: new(note).then(ask("1", enqueue, "k"), ok(1)).then(restart{}, nil).then(ask("1", reject, "k"), no(busy)),
		},
		"a cancelled run is done": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(cancel{1}, answered), goodLog: "a1 b1 c1 x1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(cancel{1}, answered), badLog: "a1 b1 c1 e1",
		},
		"a cancelled run comes back after a restart": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(cancel{0}, answered).then(restart{}, nil).then(wait{run: 1}, waited{endCancelled}),
			goodLog: "a1 b1 c1 x1",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(cancel{0}, answered).then(restart{}, nil).then(wait{run: 1}, waited{endDone}),
			badLog:  "a1 b1 e1",
		},
		"a cancel ends another run": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)).then(cancel{2}, answered),
			goodLog: "a1 b1 a2 x2 e1",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)).then(cancel{2}, answered),
			badLog:  "a1 b1 a2 c1 x1 b2 e2",
		},
		"a run is cancelled without a cancel": {
			good: new(note).then(ask("1", enqueue), ok(1)), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)), badLog: "a1 b1 x1",
		},
		"a cancel of an ended run is taken": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(wait{run: 1}, waited{endDone}).then(cancel{1}, denied), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(wait{run: 1}, waited{endDone}).then(cancel{1}, answered),
		},
		"a cancel of the run in flight is refused": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(cancel{1}, answered).then(look{}, seen{logged("a1 b1 c1")}), goodLog: "a1 b1 c1 x1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(cancel{1}, denied).then(head{}, summary{run: 1, open: true}), badLog: "a1 b1 e1",
		},
		"a refused cancel cancels": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(cancel{2}, denied), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(cancel{1}, denied), badLog: "a1 b1 c1 x1",
		},
		"an end before the end": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(wait{run: 1}, waited{endDone}).then(head{}, summary{run: 1}), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(wait{run: 1}, waited{endDone}).then(head{}, summary{run: 1, open: true}),
		},
		"another end": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(wait{run: 1}, waited{endDone}), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(wait{run: 1}, waited{endCancelled}),
		},
		"a read goes back": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(read{}, seen{logged("a1 b1")}).then(read{}, seen{logged("a1 b1 e1")}),
			goodLog: "a1 b1 e1",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(read{}, seen{logged("a1 b1 e1")}).then(read{}, seen{logged("a1 b1")}),
		},
		"a read misses what was answered": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(read{}, seen{logged("a1 b1")}), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(read{}, seen{}),
		},
		"a read of an unwritten value": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(read{}, seen{logged("a1 b1")}), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(read{}, seen{logged("a1:k b1")}),
		},
		"shown and taken back": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(look{}, seen{logged("a1 b1 e1")}).then(ask("2", enqueue), ok(2)),
			goodLog: "a1 b1 e1 a2 b2 e2",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(look{}, seen{logged("a1 b1 e1")}).then(ask("2", enqueue), ok(2)),
			badLog:  "a1 b1 a2 e1 b2 e2",
		},
		"a head goes back": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(head{}, summary{run: 1, open: true}).then(head{}, summary{run: 1}), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(head{}, summary{run: 1}).then(head{}, summary{run: 1, open: true}),
		},
		"a crash without restarts enough": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(restart{}, nil).then(restart{}, nil).then(restart{}, nil),
			goodLog: "a1 b1 !1",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(restart{}, nil).then(restart{}, nil),
			badLog:  "a1 b1 !1",
		},
		"a merge is a run of its own": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)), goodLog: "a1 b1 a1=2 t1=2 e1=2",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(2)), badLog: "a1 b1 a2 e1 b2 e2",
		},
		"a merge into nothing is lost": {
			good: new(note).then(ask("1", merge), ok(1)), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", merge), ok(1)), badLog: "a1",
		},
		"a merge meets a turn and is not taken up": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)),
			goodLog: "a1 b1 a1=2 t1=2 e1=2",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)),
			badLog:  "a1 b1 a1=2 t1 e1>2 b2=2 e2=2",
		},
		"a merge is taken up by half": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(ask("3", merge), ok(1)),
			goodLog: "a1 b1 a1=2 a1=3 t1=2+3 e1=2+3",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(ask("3", merge), ok(1)),
			badLog:  "a1 b1 a1=2 a1=3 t1=2 e1=2>2 b2=3 e2=3",
		},
		"merges change places": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(ask("3", merge), ok(1)),
			goodLog: "a1 b1 a1=2 a1=3 t1=2+3 e1=2+3",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(ask("3", merge), ok(1)),
			badLog:  "a1 b1 a1=2 a1=3 t1=3+2 e1=3+2",
		},
		"a merge joins twice": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)),
			goodLog: "a1 b1 a1=2 t1=2 t1 e1=2",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)),
			badLog:  "a1 b1 a1=2 t1=2 t1=2 e1=2",
		},
		"a merge is lost with the end of its run": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)),
			goodLog: "a1 b1 a1=2 e1>2 b2 e2",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)),
			badLog:  "a1 b1 a1=2 e1",
		},
		"a merge is lost with the cancel of its run": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(cancel{1}, answered),
			goodLog: "a1 b1 a1=2 c1 x1>2 b2 e2",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(cancel{1}, answered),
			badLog:  "a1 b1 a1=2 c1 x1",
		},
		"a merge that came too late goes last": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)).then(ask("3", merge), ok(1)),
			goodLog: "a1 b1 a2 a1=3 e1>3 b3 e3 b2 e2",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", enqueue), ok(2)).then(ask("3", merge), ok(1)),
			badLog:  "a1 b1 a2 a1=3 e1>3 b2 e2 b3 e3",
		},
		"a cancelled run goes on for a merge": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(cancel{1}, answered),
			goodLog: "a1 b1 a1=2 c1 x1>2 b2 e2",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(cancel{1}, answered),
			badLog:  "a1 b1 a1=2 c1 t1=2 x1",
		},
		"a merge over the limit is taken": {
			good: merges().then(ask("18", merge), no(busy)), goodLog: mergesLog + " t1=" + mergesText + " e1=" + mergesText,
			bad: merges().then(ask("18", merge), ok(1)), badLog: mergesLog + " a1=18 t1=" + mergesText + "+18 e1=" + mergesText + "+18",
		},
		"the client of a merge is told of another run": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(cancel{1}, answered).
				then(wait{run: 1, text: "2"}, waited{endDone}).then(wait{run: 1}, waited{endCancelled}),
			goodLog: "a1 b1 a1=2 c1 x1>2 b2 e2",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(cancel{1}, answered).
				then(wait{run: 1, text: "2"}, waited{endCancelled}),
		},
		"a merge that was taken up is told of the next run": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(look{}, seen{logged("a1 b1 a1=2 t1=2")}).
				then(ask("3", merge), ok(1)).then(cancel{1}, answered).then(wait{run: 1, text: "2"}, waited{endCancelled}),
			goodLog: "a1 b1 a1=2 t1=2 a1=3 c1 x1>2 b2=3 e2=3",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(look{}, seen{logged("a1 b1 a1=2 t1=2")}).
				then(ask("3", merge), ok(1)).then(cancel{1}, answered).then(wait{run: 1, text: "2"}, waited{endDone}),
		},
		"a key names the run that its merge left": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge, "k"), ok(1)).then(wait{run: 1}, waited{endDone}).
				then(ask("2", enqueue, "k"), joined(2)).then(wait{run: 2, key: "k"}, waited{endDone}),
			goodLog: "a1 b1 a1=2:k e1>2 b2 e2",
			bad: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge, "k"), ok(1)).then(wait{run: 1}, waited{endDone}).
				then(ask("2", enqueue, "k"), joined(1)),
		},
		"a merge is not counted as waiting": {
			good: new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(head{}, summary{run: 1, open: true, queued: 1}),
			bad:  new(note).then(ask("1", enqueue), ok(1)).then(ask("2", merge), ok(1)).then(head{}, summary{run: 1, open: true}), goodLog: "a1 b1 a1=2 t1=2 e1=2",
			badLog: "a1 b1 a1=2 e1>2 b2 e2",
		},
		"a debounce begins at once": {
			good: new(note).then(ask("1", debounce), ok(1)), goodLog: "a1 w1 b1 e1",
			bad: new(note).then(ask("1", debounce), ok(1)), badLog: "a1 b1 e1",
		},
		"a window does not close": {
			good: new(note).then(ask("1", debounce), ok(1)).then(restart{}, nil), goodLog: "a1 w1 b1 e1",
			bad: new(note).then(ask("1", debounce), ok(1)).then(restart{}, nil), badLog: "a1",
		},
		"inputs of one window are two runs": {
			good:    new(note).then(ask("1", debounce), ok(1)).then(ask("2", debounce), ok(1)),
			goodLog: "a1 a1=2 w1 b1=1+2 e1=1+2",
			bad:     new(note).then(ask("1", debounce), ok(1)).then(ask("2", debounce), ok(2)),
			badLog:  "a1 a2 w1 b1 e1 w2 b2 e2",
		},
		"an input is lost in a window": {
			good:    new(note).then(ask("1", debounce), ok(1)).then(ask("2", debounce), ok(1)),
			goodLog: "a1 a1=2 w1 b1=1+2 e1=1+2",
			bad:     new(note).then(ask("1", debounce), ok(1)).then(ask("2", debounce), ok(1)),
			badLog:  "a1 a1=2 w1 b1 e1",
		},
		"a closed window takes another input": {
			good:    new(note).then(ask("1", debounce), ok(1)).then(look{}, seen{logged("a1 w1 b1")}).then(ask("2", debounce), ok(2)),
			goodLog: "a1 w1 b1 a2 e1 w2 b2 e2",
			bad:     new(note).then(ask("1", debounce), ok(1)).then(look{}, seen{logged("a1 w1 b1")}).then(ask("2", debounce), ok(1)),
			badLog:  "a1 w1 b1 a1=2 t1=2 e1=2",
		},
		"a window closes beside a run and its run begins": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(ask("2", debounce), ok(2)),
			goodLog: "a1 b1 a2 w2 e1 b2 e2",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(ask("2", debounce), ok(2)),
			badLog:  "a1 b1 a2 w2 b2 e1 e2",
		},
		"another policy leaves the window open": {
			good:    new(note).then(ask("1", debounce), ok(1)).then(ask("2", enqueue), ok(2)),
			goodLog: "a1 a2 b1 e1 b2 e2",
			bad:     new(note).then(ask("1", debounce), ok(1)).then(ask("2", enqueue), ok(2)),
			badLog:  "a1 a2 b2 e2 w1 b1 e1",
		},
		"a run is begun before an open window": {
			good: new(note).then(ask("1", debounce), ok(1)).then(ask("2", reject), no(busy)), goodLog: "a1 w1 b1 e1",
			bad: new(note).then(ask("1", debounce), ok(1)).then(ask("2", reject), ok(2)), badLog: "a1 a2 b1 e1 b2 e2",
		},
		"who supersedes spares the window": {
			good:    new(note).then(ask("1", debounce), ok(1)).then(ask("2", messages.Interrupt), ok(2)),
			goodLog: "a1 a2 b1 x1 b2 e2",
			bad:     new(note).then(ask("1", debounce), ok(1)).then(ask("2", messages.Interrupt), ok(2)),
			badLog:  "a1 a2 b1 e1 b2 e2",
		},
		"a merge begins what the window gathered without it": {
			good:    new(note).then(ask("1", debounce), ok(1)).then(ask("2", merge), ok(1)),
			goodLog: "a1 a1=2 b1 t1=2 e1=2",
			bad:     new(note).then(ask("1", debounce), ok(1)).then(ask("2", merge), ok(1)),
			badLog:  "a1 a1=2 b1=1+2 e1=1+2",
		},
		"a window that was cancelled begins": {
			good:    new(note).then(ask("1", debounce), ok(1)).then(ask("2", debounce), ok(1)).then(cancel{1}, answered),
			goodLog: "a1 a1=2 x1=2",
			bad:     new(note).then(ask("1", debounce), ok(1)).then(ask("2", debounce), ok(1)).then(cancel{1}, answered),
			badLog:  "a1 a1=2 x1=2 w1 b1 e1",
		},
		"a window over the limit is taken": {
			good: gathers().then(ask("65", debounce), no(busy)), goodLog: gathersLog + " w1 b1=" + gathersText + " e1=" + gathersText,
			bad: gathers().then(ask("65", debounce), ok(1)), badLog: gathersLog + " a1=65 w1 b1=" + gathersText + "+65 e1=" + gathersText + "+65",
		},
		"an open window is not one of those that wait": {
			good: fewer().then(ask("17", debounce), ok(17)).then(ask("18", enqueue), no(busy)), goodLog: fewerLog + " a17" + fewerDrained + " w17 b17 e17",
			bad: fewer().then(ask("17", debounce), ok(17)).then(ask("18", enqueue), ok(18)), badLog: fewerLog + " a17 a18" + fewerDrained + " b17 e17 b18 e18",
		},
		"an unanswered submit runs twice": {
			good: new(note).then(ask("1", enqueue), no(unknown)).then(restart{}, nil), goodLog: "a1 b1 e1",
			bad: new(note).then(ask("1", enqueue), no(unknown)).then(restart{}, nil), badLog: "a1 b1 e1 a2 b2 e2",
		},
		"an unanswered submit happens after the process has gone": {
			good: new(note).then(ask("1", enqueue), no(unknown)).then(restart{}, nil).then(read{}, seen{}), goodLog: " ",
			bad: new(note).then(ask("1", enqueue), no(unknown)).then(read{}, seen{}).then(restart{}, nil), badLog: "a1 b1 e1",
		},
		"an unanswered cancel is half done": {
			good:    new(note).then(ask("1", enqueue), ok(1)).then(cancel{1}, unknown).then(restart{}, nil),
			goodLog: "a1 b1 e1",
			bad:     new(note).then(ask("1", enqueue), ok(1)).then(cancel{1}, unknown).then(restart{}, nil),
			badLog:  "a1 b1 x1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			goodLog := logged(c.goodLog)
			badLog := goodLog
			if c.badLog != "" {
				badLog = logged(c.badLog)
			}
			c.good.then(read{rest: true}, seen{goodLog})
			c.bad.then(read{rest: true}, seen{badLog})
			if why := refused(goodLog, c.good.ops); why != "" {
				t.Errorf("the good history is refused: %s", why)
			}
			if refused(badLog, c.bad.ops) == "" {
				t.Error("the bad history is not refused")
			}
		})
	}
}

// inLine is the log of n runs of which the first begins at once, and how they end.
func inLine(n int64) (before, drained string) {
	for i := int64(1); i <= n; i++ {
		before += " a" + numeral(i)
		if i == 1 {
			before += " b1"
		} else {
			drained += " b" + numeral(i)
		}
		drained += " e" + numeral(i)
	}
	return before, drained
}

// Sixty-four keys are remembered, and no more.
func TestModelForgetsKeys(t *testing.T) {
	n, line := new(note), ""
	for i := int64(1); i <= keyMemory+1; i++ {
		n.then(ask(numeral(i), messages.Enqueue, "k"+numeral(i)), ok(i)).then(wait{run: i}, waited{endDone})
		line += " a" + numeral(i) + ":k" + numeral(i) + " b" + numeral(i) + " e" + numeral(i)
	}
	first := slices.Clone(n.ops)
	n.then(ask("2", messages.Reject, "k2"), joined(2)).then(read{}, seen{logged(line)})
	if why := refused(logged(line), n.ops); why != "" {
		t.Error(why)
	}
	n.ops = first
	n.then(ask("1", messages.Reject, "k1"), joined(1)).then(read{}, seen{logged(line)})
	if refused(logged(line), n.ops) == "" {
		t.Error("a key that was forgotten joins")
	}
}

func numeral(n int64) string {
	s := ""
	for ; n > 0; n /= 10 {
		s = string(rune('0'+n%10)) + s
	}
	return s
}

// A store that acknowledges first and commits later loses what was answered, and shows
// what is not there yet. The checker must see it in real runtimes, or it sees nothing.
func TestCheckerFindsALyingStore(t *testing.T) {
	for _, v := range []variant{{name: "memory", lies: true}, {name: "memory+writer", writer: true, lies: true}} {
		found := 0
		seed := uint64(time.Now().UnixNano())
		for i := uint64(0); i < 5 && found == 0; i++ {
			w := history(t, v, seed+i)
			for _, sid := range w.sids {
				if strings.HasPrefix(refused(w.final[sid], resolved(w.final[sid], w.ops[sid])), "no order") {
					found++
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: five histories on a lying store (from seed %d) pass for right", v.name, seed)
		}
	}
}

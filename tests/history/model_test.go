package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/seed14be6753/stile/messages"
)

// The sequential model of a session: what a session does when one thing happens
// after the other. Its state is what an abstract log folds to; the log has four
// kinds of events, and everything a client may see is a function of it.

// eventKind names an event of the abstract log.
type eventKind string

const (
	accepted  eventKind = "accepted"  // an input became a run
	begun     eventKind = "begun"     // the run left the queue
	cancelled eventKind = "cancelled" // somebody cancelled the run in flight
	ended     eventKind = "ended"
)

// event is one entry of the abstract log.
type event struct {
	kind eventKind
	run  int64
	text string // accepted: the input; ended with DONE: what the run said, which is its input
	key  string // accepted
	how  string // ended: the decision, for HALT with its reason
}

func (e event) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %d %s %s %s", e.kind, e.run, e.how, e.text, e.key))
}

// How runs end here.
const (
	endDone      = "DONE"
	endCancelled = "HALT(ERR_CANCELLED)"
	endCrashed   = "HALT(ERR_CRASH)"
)

// maxSettlements is how many restarts a run survives (design.md §7).
const maxSettlements = 3

// keyMemory is how many idempotency keys a session remembers.
const keyMemory = 64

// run is an accepted input that has not ended.
type run struct {
	n    int64
	text string
	// first tells that it goes before others, and that the run in front of it is over.
	first bool
}

// used is a remembered idempotency key.
type used struct {
	key string
	run int64
}

// state is the fold of an abstract log. Slices are never written to.
type state struct {
	log     int // how many events
	runs    int64
	open    run // n is 0 when none is in flight
	cancel  bool
	crashes int // restarts that open has met
	queue   []run
	keys    []used
}

// row is what the model knows of one policy (design.md §9): when a submit under it
// is refused, and where its run goes. A policy of a later release is one more row.
type row struct {
	refuses func(s state) bool
	accept  func(m *model, s state, in submit) []state
}

var policies = map[messages.Policy]row{
	messages.Reject: {
		refuses: func(s state) bool { return s.open.n != 0 || len(s.queue) > 0 },
		accept:  (*model).enqueue,
	},
	messages.Enqueue:   {refuses: full, accept: (*model).enqueue},
	messages.Interrupt: {refuses: full, accept: (*model).supersede},
	messages.Rollback:  {refuses: full, accept: (*model).supersede},
}

func full(s state) bool { return len(s.queue) >= messages.QueueLimit }

// The operations.
type (
	submit struct {
		text, key string
		policy    messages.Policy
	}
	submitted struct {
		answer
		run    int64
		joined bool
	}
	cancel struct{ run int64 } // 0: the one in flight
	wait   struct{ run int64 } // for a run's end
	waited struct{ how string }
	// read is the whole log, look a part of it from the first event on, as a
	// subscriber has seen it, head the store's summary.
	read struct{}
	look struct{}
	head struct{}
	seen struct{ log []event }
	// summary is what a head tells.
	summary struct {
		run    int64 // the last one begun
		open   bool
		queued int64
	}
	// restart is the opening of the session by a new process.
	restart struct{}
)

// answer is how a request was answered.
type answer string

const (
	answered answer = "ok"
	busy     answer = "ERR_BUSY"
	denied   answer = "ERR_DENIED"
	// unknown is no answer: the runtime went away. It may have happened or not.
	unknown answer = "unknown"
)

// model is the nondeterministic sequential model of one session. A run ends when it
// likes, so every operation may find that the run in flight, and those behind it,
// have ended. The log is append-only, so only logs are worth following that begin
// the one the journal finally holds; final prunes the others away.
type model struct{ final []event }

// check judges the history of one session.
func (m *model) porcupine() porcupine.Model {
	nm := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, in, out any) []any {
			var next []any
			for _, s := range m.settled(s.(state)) {
				for _, n := range m.step(s, in, out) {
					next = append(next, n)
				}
			}
			return next
		},
		// final fixes the events, so their number is the log.
		Equal: func(a, b any) bool {
			x, y := a.(state), b.(state)
			return x.log == y.log && x.crashes == y.crashes
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%T%+v → %+v", in, in, out) },
	}
	return nm.ToModel()
}

// step gives the states after one operation with this outcome; none when the
// session cannot have answered so.
func (m *model) step(s state, in, out any) []state {
	switch in := in.(type) {
	case submit:
		return m.submit(s, in, out.(submitted))
	case cancel:
		return m.cancelled(s, in.run, out.(answer))
	case wait:
		if i := m.end(s, in.run); i >= 0 && m.final[i].how == out.(waited).how {
			return []state{s}
		}
	case read:
		if log := out.(seen).log; len(log) == s.log && slices.Equal(log, m.final[:s.log]) {
			return []state{s}
		}
	case look:
		if log := out.(seen).log; len(log) <= s.log && slices.Equal(log, m.final[:len(log)]) {
			return []state{s}
		}
	case head:
		if out.(summary) == (summary{run: m.lastBegun(s), open: s.open.n != 0, queued: int64(len(s.queue))}) {
			return []state{s}
		}
	case restart:
		if s.open.n != 0 {
			s.crashes++
		}
		return []state{s}
	}
	return nil
}

func (m *model) submit(s state, in submit, out submitted) []state {
	if i := slices.IndexFunc(s.keys, func(u used) bool { return u.key == in.key }); in.key != "" && i >= 0 {
		if out.answer == unknown || out == (submitted{answer: answered, run: s.keys[i].run, joined: true}) {
			return []state{s}
		}
		return nil
	}
	p := policies[in.policy]
	if p.refuses(s) {
		if out.answer == busy || out.answer == unknown {
			return []state{s}
		}
		return nil
	}
	next := p.accept(m, s, in)
	switch out {
	case submitted{answer: answered, run: s.runs + 1}:
		return next
	case submitted{answer: unknown}:
		return append(next, s)
	}
	return nil
}

// enqueue puts a run behind all others; in an idle session it begins.
func (m *model) enqueue(s state, in submit) []state {
	if !m.accepted(&s, in) {
		return nil
	}
	s.queue = append(slices.Clone(s.queue), run{n: s.runs, text: in.text})
	return m.begin(s)
}

// supersede cancels the run in flight and puts another one in front of those that wait,
// behind others that came to supersede.
func (m *model) supersede(s state, in submit) []state {
	if !m.accepted(&s, in) {
		return nil
	}
	s.cancel = s.open.n != 0
	at := 0
	for at < len(s.queue) && s.queue[at].first {
		at++
	}
	s.queue = slices.Insert(slices.Clone(s.queue), at, run{s.runs, in.text, true})
	return m.begin(s)
}

// accepted notes an input and its key.
func (m *model) accepted(s *state, in submit) bool {
	s.runs++
	if !m.append(s, event{kind: accepted, run: s.runs, text: in.text, key: in.key}) {
		return false
	}
	if in.key != "" {
		s.keys = append(slices.Clone(s.keys), used{in.key, s.runs})
		if len(s.keys) > keyMemory {
			s.keys = s.keys[1:]
		}
	}
	return true
}

// begin takes up the first waiting run when none is in flight. One that is superseded
// already begins and ends at once.
func (m *model) begin(s state) []state {
	for s.open.n == 0 && len(s.queue) > 1 && s.queue[1].first {
		n := s.queue[0].n
		s.queue = s.queue[1:]
		if !m.append(&s, event{kind: begun, run: n}) || !m.append(&s, event{kind: ended, run: n, how: endCancelled}) {
			return nil
		}
	}
	if s.open.n != 0 || len(s.queue) == 0 {
		return []state{s}
	}
	s.open, s.cancel, s.crashes, s.queue = s.queue[0], false, 0, s.queue[1:]
	if !m.append(&s, event{kind: begun, run: s.open.n}) {
		return nil
	}
	return []state{s}
}

func (m *model) cancelled(s state, of int64, out answer) []state {
	if of == 0 {
		of = s.open.n
	}
	next := s
	happens := true
	switch i := slices.IndexFunc(s.queue, func(r run) bool { return r.n == of }); {
	case of != 0 && of == s.open.n && s.cancel: // once more
	case of != 0 && of == s.open.n:
		next.cancel = true
		happens = m.append(&next, event{kind: cancelled, run: of})
	case i >= 0:
		next.queue = slices.Delete(slices.Clone(s.queue), i, i+1)
		happens = m.append(&next, event{kind: ended, run: of, how: endCancelled})
	default:
		if out == denied || out == unknown {
			return []state{s}
		}
		return nil
	}
	var states []state
	if happens && (out == answered || out == unknown) {
		states = append(states, next)
	}
	if out == unknown {
		states = append(states, s)
	}
	return states
}

// settled gives s and what it may become when runs end by themselves.
func (m *model) settled(s state) []state {
	all := []state{s}
	for i := 0; i < len(all); i++ {
		s := all[i]
		if s.open.n == 0 {
			continue
		}
		ends := []event{{kind: ended, run: s.open.n, how: endDone, text: s.open.text}}
		switch {
		case s.cancel:
			ends = []event{{kind: ended, run: s.open.n, how: endCancelled}}
		case s.crashes >= maxSettlements:
			ends = append(ends, event{kind: ended, run: s.open.n, how: endCrashed})
		}
		for _, e := range ends {
			next := s
			next.open, next.cancel, next.crashes = run{}, false, 0
			if m.append(&next, e) {
				all = append(all, m.begin(next)...)
			}
		}
	}
	return all
}

// append reports whether e is what the log says at this place.
func (m *model) append(s *state, e event) bool {
	if s.log >= len(m.final) || m.final[s.log] != e {
		return false
	}
	s.log++
	return true
}

// end finds the event that ended a run, among those of s.
func (m *model) end(s state, n int64) int {
	return slices.IndexFunc(m.final[:s.log], func(e event) bool { return e.kind == ended && e.run == n })
}

func (m *model) lastBegun(s state) (n int64) {
	for _, e := range m.final[:s.log] {
		if e.kind == begun {
			n = e.run
		}
	}
	return n
}

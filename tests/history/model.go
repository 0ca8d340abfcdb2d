package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/seed14be6753/stile/messages"
)

// The sequential model of a session: what a session does when one thing happens
// after the other. Its state is what an abstract log folds to; the log has six
// kinds of events, and everything a client may see is a function of it.

// eventKind names an event of the abstract log.
type eventKind string

const (
	accepted  eventKind = "accepted"  // an input became a run, or joined one
	begun     eventKind = "begun"     // the run left the queue
	turned    eventKind = "turned"    // the run went on with another turn
	closed    eventKind = "closed"    // nothing more came into the window of debounce
	cancelled eventKind = "cancelled" // a client cancelled the run in flight
	ended     eventKind = "ended"
)

// event is one entry of the abstract log.
type event struct {
	kind eventKind
	run  int64
	// text is the input that was accepted, the inputs that a run begins with, those that
	// join it with a turn, what it said when it ended with DONE, and the further inputs
	// that one loses which never began.
	text string
	key  string // accepted
	how  string // ended: the decision, for HALT with its reason; turned: that of a turn before which failed
	next int64  // ended: the run that takes up what was to join this one
}

func (e event) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %d %s %q %s %d", e.kind, e.run, e.how, e.text, e.key, e.next))
}

// How runs end here.
const (
	endDone      = "DONE"
	endCancelled = "HALT(ERR_CANCELLED)"
	endCrashed   = "HALT(ERR_CRASH)"
)

// maxSettlements is how many restarts a run survives (docs/spec/design.md §7).
const maxSettlements = 3

// keyMemory is how many idempotency keys a session remembers.
const keyMemory = 64

// part is an accepted input: its text, and where in the log it stands.
type part struct {
	text string
	at   int
}

// run is what accepted inputs became and has not ended.
type run struct {
	n     int64
	parts []part // it begins with them, or began its latest turn with them
	joins []part // they wait for its next turn
	// first reports whether it goes before others, and that the run in front of it is over.
	first bool
}

// together is inputs as one, which aeiou joins by LF.
func together(parts []part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.text
	}
	return strings.Join(texts, "\n")
}

// used is a remembered idempotency key.
type used struct {
	key string
	run int64
	at  int // the input that brought it
}

// state is the fold of an abstract log. Slices are never written to.
type state struct {
	log     int // how many events
	runs    int64
	open    run // n is 0 when none is in flight
	cancel  bool
	crashes int // restarts that open has met
	queue   []run
	window  run // gathers inputs; n is 0 when it is closed
	keys    []used
}

// row is what the model knows of one policy (docs/spec/design.md §9): which run an input under it
// joins, when it is refused, and where a run of its own goes. A policy of a later release
// is one more row.
type row struct {
	joins   func(s state) int64 // 0 for a run of its own
	refuses func(s state) bool
	accept  func(m *model, s state, in submit) []state
}

var policies = map[messages.Policy]row{
	messages.Reject:    {joins: alone, refuses: func(s state) bool { return s.open.n != 0 || s.waiting() > 0 }, accept: (*model).enqueue},
	messages.Enqueue:   {joins: alone, refuses: full, accept: (*model).enqueue},
	messages.Interrupt: {joins: alone, refuses: full, accept: (*model).supersede},
	messages.Rollback:  {joins: alone, refuses: full, accept: (*model).supersede},
	messages.Merge: {
		joins: func(s state) int64 { return cmp.Or(s.open.n, s.window.n) },
		refuses: func(s state) bool {
			if s.open.n == 0 && s.window.n == 0 {
				return full(s)
			}
			return s.open.n != 0 && len(s.open.joins) >= messages.MergeLimit
		},
		accept: (*model).merge,
	},
	messages.Debounce: {
		joins: func(s state) int64 { return s.window.n },
		refuses: func(s state) bool {
			if s.window.n == 0 {
				return full(s)
			}
			return len(s.window.parts) >= messages.WindowLimit
		},
		accept: (*model).gather,
	},
}

func alone(state) int64 { return 0 }

func full(s state) bool { return s.waiting() >= messages.QueueLimit }

// waiting counts the runs that have not begun.
func (s state) waiting() int {
	if s.window.n != 0 {
		return len(s.queue) + 1
	}
	return len(s.queue)
}

// inputs counts those that no turn has taken up.
func (s state) inputs() (n int64) {
	for _, r := range append(slices.Clone(s.queue), s.window) {
		n += int64(len(r.parts) + len(r.joins))
	}
	return n + int64(len(s.open.joins))
}

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
	// wait is for a run's end, with an input for that of the run which took it up.
	wait struct {
		run       int64
		text, key string // the input, by one of them
	}
	waited struct{ how string }
	// read is the whole log, at the end of a history that of a session at rest, look a
	// part of it from the first event on, as a subscriber has seen it, head the store's
	// summary.
	read struct{ rest bool }
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
	reused   answer = "KEY_REUSED"
	// unknown is no answer: the runtime went away. It may have happened or not.
	unknown answer = "unknown"
)

// model is the nondeterministic sequential model of one session. A run ends when it
// likes, so every operation may find that the run in flight, and those behind it,
// have ended. The log is append-only, so only logs are worth following that begin
// the one the journal finally holds; final prunes the others away.
type model struct {
	final []event
	// restarts reports whether restarts are no operations: any run may have met them.
	restarts bool
}

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

// step returns the states after one operation with this outcome; none when the
// session cannot have answered so.
func (m *model) step(s state, in, out any) []state {
	switch in := in.(type) {
	case submit:
		return m.submit(s, in, out.(submitted))
	case cancel:
		return m.cancelled(s, in.run, out.(answer))
	case wait:
		if i := m.end(s, m.takenUp(s, in)); i >= 0 && m.final[i].how == out.(waited).how {
			return []state{s}
		}
	case read:
		if log := out.(seen).log; len(log) == s.log && slices.Equal(log, m.final[:s.log]) && (!in.rest || s.open.n == 0 && s.waiting() == 0) {
			return []state{s}
		}
	case look:
		if log := out.(seen).log; len(log) <= s.log && slices.Equal(log, m.final[:len(log)]) {
			return []state{s}
		}
	case head:
		if out.(summary) == (summary{run: m.lastBegun(s), open: s.open.n != 0, queued: s.inputs()}) {
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
		if m.final[s.keys[i].at].text != in.text {
			if out.answer == unknown || out == (submitted{answer: reused}) {
				return []state{s}
			}
			return nil
		}
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
	case submitted{answer: answered, run: cmp.Or(p.joins(s), s.runs+1)}:
		return next
	case submitted{answer: unknown}:
		return append(next, s)
	}
	return nil
}

// enqueue puts a run behind all others; in an idle session it begins.
func (m *model) enqueue(s state, in submit) []state {
	p, ok := m.accepted(&s, s.runs+1, in)
	if !ok {
		return nil
	}
	s.shut()
	s.queue = append(slices.Clone(s.queue), run{n: s.runs, parts: []part{p}})
	return m.begin(s)
}

// supersede cancels the run in flight and puts another one in front of those that wait,
// behind others that came to supersede.
func (m *model) supersede(s state, in submit) []state {
	p, ok := m.accepted(&s, s.runs+1, in)
	if !ok {
		return nil
	}
	s.shut()
	s.cancel = s.open.n != 0
	at := 0
	if !s.cancel { // the first in line is as good as in flight
		at = min(1, len(s.queue))
	}
	s.ahead(at, run{n: s.runs, parts: []part{p}, first: true})
	return m.begin(s)
}

// merge lets an input join the run in flight at its next turn. Where the window is open it
// joins that run, which begins, and where nothing is, it is a run.
func (m *model) merge(s state, in submit) []state {
	of := cmp.Or(s.open.n, s.window.n)
	if of == 0 {
		return m.enqueue(s, in)
	}
	p, ok := m.accepted(&s, of, in)
	if !ok {
		return nil
	}
	joins := &s.window
	if s.open.n != 0 {
		joins = &s.open
	}
	joins.joins = append(slices.Clone(joins.joins), p)
	s.shut()
	return m.begin(s)
}

// gather takes an input into the window, which it opens.
func (m *model) gather(s state, in submit) []state {
	p, ok := m.accepted(&s, cmp.Or(s.window.n, s.runs+1), in)
	if !ok {
		return nil
	}
	s.window.n, s.window.parts = cmp.Or(s.window.n, s.runs), append(slices.Clone(s.window.parts), p)
	return []state{s}
}

// shut makes what the window gathered the last run of the queue.
func (s *state) shut() {
	if s.window.n != 0 {
		s.queue, s.window = append(slices.Clone(s.queue), s.window), run{}
	}
}

// ahead puts a run behind those that supersede, and before all others.
func (s *state) ahead(at int, r run) {
	for at < len(s.queue) && s.queue[at].first {
		at++
	}
	s.queue = slices.Insert(slices.Clone(s.queue), at, r)
}

// accepted notes an input of a run and its key.
func (m *model) accepted(s *state, of int64, in submit) (p part, ok bool) {
	p = part{text: in.text, at: s.log}
	s.runs = max(s.runs, of)
	if !m.append(s, event{kind: accepted, run: of, text: in.text, key: in.key}) {
		return p, false
	}
	if in.key != "" {
		s.keys = append(slices.Clone(s.keys), used{in.key, of, p.at})
		if len(s.keys) > keyMemory {
			s.keys = s.keys[1:]
		}
	}
	return p, true
}

// begin takes up the first waiting run when none is in flight. One that is superseded
// already begins and ends at once.
func (m *model) begin(s state) []state {
	for s.open.n == 0 && len(s.queue) > 0 {
		over := len(s.queue) > 1 && s.queue[1].first
		s.open, s.cancel, s.crashes, s.queue = s.queue[0], false, 0, s.queue[1:]
		if !m.append(&s, event{kind: begun, run: s.open.n, text: together(s.open.parts)}) {
			return nil
		}
		if over && !m.over(&s, event{how: endCancelled}) {
			return nil
		}
	}
	return []state{s}
}

// over ends the run in flight. What was to join it and met no turn is the next run.
func (m *model) over(s *state, e event) bool {
	ends := s.open
	s.open, s.cancel, s.crashes = run{}, false, 0
	e.kind, e.run = ended, ends.n
	if len(ends.joins) > 0 {
		s.runs++
		e.next = s.runs
		s.ahead(0, run{n: s.runs, parts: ends.joins})
		s.keys = slices.Clone(s.keys)
		for i := range s.keys {
			if slices.ContainsFunc(ends.joins, func(p part) bool { return p.at == s.keys[i].at }) {
				s.keys[i].run = s.runs
			}
		}
	}
	return m.append(s, e)
}

func (m *model) cancelled(s state, of int64, out answer) []state {
	if of == 0 {
		of = s.open.n
	}
	next := s
	happens := true
	lost := func(r run) bool {
		return m.append(&next, event{kind: ended, run: of, how: endCancelled, text: together(append(slices.Clone(r.parts[1:]), r.joins...))})
	}
	switch i := slices.IndexFunc(s.queue, func(r run) bool { return r.n == of }); {
	case of != 0 && of == s.open.n && s.cancel: // once more
	case of != 0 && of == s.open.n:
		next.cancel = true
		happens = m.append(&next, event{kind: cancelled, run: of})
	case i >= 0:
		next.queue = slices.Delete(slices.Clone(s.queue), i, i+1)
		happens = lost(s.queue[i])
	case of != 0 && of == s.window.n:
		next.window = run{}
		happens = lost(s.window)
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

// settled returns s and what it may become by itself: runs go on and end, and the window
// closes.
func (m *model) settled(s state) []state {
	all := []state{s}
	for i := 0; i < len(all); i++ {
		s := all[i]
		if s.window.n != 0 {
			next := s
			next.shut()
			if m.append(&next, event{kind: closed, run: s.window.n}) {
				all = append(all, m.begin(next)...)
			}
		}
		if s.open.n == 0 {
			continue
		}
		if next, ok := m.turned(s); ok {
			all = append(all, next)
		}
		ends := []event{{how: endDone, text: together(s.open.parts)}}
		switch {
		case s.cancel:
			ends = []event{{how: endCancelled}}
		case m.restarts || s.crashes >= maxSettlements:
			ends = append(ends, event{how: endCrashed})
		}
		for _, e := range ends {
			if next := s; m.over(&next, e) {
				all = append(all, m.begin(next)...)
			}
		}
	}
	return all
}

// turned lets the run in flight go on with another turn, which takes up what joins it.
func (m *model) turned(s state) (next state, ok bool) {
	e := event{kind: turned, run: s.open.n, text: together(s.open.joins)}
	if s.log < len(m.final) {
		e.how = m.final[s.log].how
	}
	if s.cancel || !m.append(&s, e) {
		return s, false
	}
	switch {
	case len(s.open.joins) == 0:
	case e.how != "": // the turn before failed, and what it was asked is asked again
		s.open.parts, s.open.joins = slices.Concat(s.open.parts, s.open.joins), nil
	default:
		s.open.parts, s.open.joins = s.open.joins, nil
	}
	return s, true
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

// takenUp returns the run that took up the input of a wait: the one it was to join, or, when
// that one ended before a turn of it did, the next.
func (m *model) takenUp(s state, in wait) int64 {
	i, j := m.input(in), m.end(s, in.run)
	if i < 0 || j < 0 || m.final[j].next == 0 {
		return in.run
	}
	for _, e := range m.final[i:j] {
		if e.run == in.run && (e.kind == begun || e.kind == turned) && slices.Contains(strings.Split(e.text, "\n"), m.final[i].text) {
			return in.run
		}
	}
	return m.final[j].next
}

// input finds the one that a wait names; -1 for none.
func (m *model) input(in wait) int {
	return slices.IndexFunc(m.final, func(e event) bool {
		return e.kind == accepted && (in.text != "" && e.text == in.text || in.key != "" && e.key == in.key)
	})
}

func (m *model) lastBegun(s state) (n int64) {
	for _, e := range m.final[:s.log] {
		if e.kind == begun {
			n = e.run
		}
	}
	return n
}

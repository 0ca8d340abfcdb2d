// Package history has what a model is asked with: the messages of a turn, from what the session
// keeps of its records, else from its journal.
//
// Invariants:
//   - what is kept is what the journal has: a record that does not follow, another agent, an
//     erasure and age each drop it, and the journal is read again;
//   - what is read of a journal is held against a record that the session has written;
//   - a prompt of the kept history and one of the journal are the same.
//
// How records become messages is package prompt's, which is pure; when a turn is asked is the
// session's.
package history

import (
	"container/list"
	"sync"
	"time"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of the histories of sessions that rest.
const (
	historiesBytes = 16 << 20
	historyAge     = 10 * time.Minute // then the journal is read again: another host may have erased something
)

// history is what the prompts of a session are made of, kept as its records are made.
type history struct {
	inc   messages.Incarnation
	agent *compiled.Agent
	log   *prompt.Log
	bytes int       // while it rests
	since time.Time // it was begun
	seen  int64     // erasures of the store by then
}

// Session is what an awake session keeps. It is the session's alone.
type Session struct {
	kept  *Kept
	agent *compiled.Agent
	inc   messages.Incarnation

	history  *history // nil for none
	catching *CatchUp // nil where the turn's reply reads no journal
	unkept   bool     // no history can be kept: each turn reads the journal
}

// Of begins to keep the history of a session that is awake.
func (k *Kept) Of(inc messages.Incarnation, agent *compiled.Agent) Session {
	return Session{kept: k, agent: agent, inc: inc}
}

// Remember takes a record into the history. The record may not be durable yet: whatever
// is refused takes the activation along.
func (s *Session) Remember(p *turn.Persist) {
	d, ok := s.agent.Dialect.(prompt.Historian)
	if !ok {
		return
	}
	s.catching.add(p)
	h := s.history
	if h == nil {
		h = s.kept.take(s.inc)
	}
	if h != nil {
		switch p.Record.Body.(type) {
		case *messages.RunBegin:
			if s.kept.now().Sub(h.since) > historyAge {
				h = nil
			}
		case *messages.TurnBegin:
			if h.seen != s.kept.erasures() {
				h = nil
			}
		}
	}
	if h == nil || h.agent != s.agent || h.log.Next() != p.Record.Seq {
		if s.history = nil; p.Record.Seq > 1 && !s.agent.Window.Bounded() {
			return // a part is of no use
		}
		h = &history{
			inc: s.inc, agent: s.agent, log: prompt.NewLog(d, p.Record.Seq, s.agent.Window, s.agent.Rules.Rendering), since: s.kept.now(), seen: s.kept.erasures(),
		}
	}
	if s.history = h; !h.log.Add(p.Record, p.Blobs) {
		s.history = nil
	}
}

// View is what the prompt of a turn is made of; nil when the journal has to be read.
func (s *Session) View(turn int64) *prompt.View {
	if s.history == nil {
		return nil
	}
	return s.history.log.View(turn)
}

// CatchUp is what a session records while the reply of a turn reads its journal, from
// where the journal may not have it yet. Its methods are the session's.
type CatchUp struct {
	since  time.Time // it was begun
	seen   int64     // erasures of the store by then
	missed []*turn.Persist
}

// mostMissed bounds the records of a CatchUp: after more the next turn reads again.
const mostMissed = 4096

func (c *CatchUp) add(p *turn.Persist) {
	if c != nil && len(c.missed) <= mostMissed {
		c.missed = append(c.missed, p)
	}
}

// CatchUp begins one for a turn that has no view, where a history is of use.
func (s *Session) CatchUp(view *prompt.View) *CatchUp {
	s.catching = nil
	if _, ok := s.agent.Dialect.(prompt.Historian); ok && view == nil && !s.agent.Window.Bounded() && !s.unkept {
		s.catching = &CatchUp{since: s.kept.now(), seen: s.kept.erasures()}
	}
	return s.catching
}

// CaughtUp is what a reply has read of its session's journal: the log, nil where the history
// cannot be kept.
type CaughtUp struct {
	of  *CatchUp
	log *prompt.Log
}

// EndTurn drops what the turn's reply still reads.
func (s *Session) EndTurn() { s.catching = nil }

// Caught goes on with the history that a reply has read, behind what was recorded meanwhile.
func (s *Session) Caught(msg *CaughtUp) {
	c := msg.of
	if c == nil || s.catching != c {
		return
	}
	s.catching = nil
	if msg.log == nil {
		s.unkept = true // until the activation ends: it would be read twice a turn
		return
	}
	if len(c.missed) > mostMissed {
		return
	}
	for _, p := range c.missed {
		if p.Record.Seq >= msg.log.Next() && !msg.log.Add(p.Record, p.Blobs) {
			return
		}
	}
	s.history = &history{inc: s.inc, agent: s.agent, log: msg.log, since: c.since, seen: c.seen}
}

// Rest gives the history back when the session comes to rest.
func (s *Session) Rest() {
	if s.history != nil {
		s.kept.put(s.history)
		s.history = nil
	}
}

// erasures counts what was removed from the store, as far as it says.
func (k *Kept) erasures() int64 {
	if s, ok := k.store.(interface{ Erasures() int64 }); ok {
		return s.Erasures()
	}
	return 0
}

// Kept are the histories of sessions that rest, the latest first, within one bound for all
// of them: a hundred thousand idle sessions have no more than one busy thousand. It is safe for
// concurrent use.
type Kept struct {
	store journal.Store
	now   func() time.Time
	// Systems are the system messages that journals have.
	Systems Systems

	mu    sync.Mutex
	order list.List // of *history
	by    map[messages.Incarnation]*list.Element
	bytes int
}

// New makes what a host keeps of the sessions of a store.
func New(store journal.Store, now func() time.Time) *Kept {
	k := &Kept{store: store, now: now}
	k.Systems.of = k
	return k
}

func (k *Kept) take(inc messages.Incarnation) *history {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.by[inc]; e != nil {
		return k.remove(e)
	}
	return nil
}

func (k *Kept) put(kept *history) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.by[kept.inc]; e != nil {
		k.remove(e)
	}
	if k.by == nil {
		k.by = map[messages.Incarnation]*list.Element{}
	}
	kept.bytes = kept.log.Bytes()
	k.by[kept.inc] = k.order.PushFront(kept)
	k.bytes += kept.bytes
	for k.bytes > historiesBytes {
		k.remove(k.order.Back())
	}
}

// remove takes one out. h.mu is held.
func (k *Kept) remove(e *list.Element) *history {
	kept := k.order.Remove(e).(*history)
	delete(k.by, kept.inc)
	k.bytes -= kept.bytes
	return kept
}

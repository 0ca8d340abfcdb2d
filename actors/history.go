package actors

import (
	"container/list"
	"sync"
	"time"

	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
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
	agent *Agent
	log   *prompt.Log
	bytes int       // while it rests
	since time.Time // it was begun
	seen  int64     // erasures of the store by then
}

// remember takes a record into the history. The record may not be durable yet: whatever
// is refused takes the activation along.
func (s *session) remember(p *turn.Persist) {
	d, ok := s.ref.agent.Dialect.(prompt.Historian)
	if !ok {
		return
	}
	if s.air != nil {
		s.air.catching.add(p)
	}
	h := s.history
	if h == nil {
		h = s.host.histories.take(s.inc)
	}
	if h != nil {
		switch p.Record.Body.(type) {
		case *messages.RunBegin:
			if s.host.cfg.Now().Sub(h.since) > historyAge {
				h = nil
			}
		case *messages.TurnBegin:
			if h.seen != s.host.erasures() {
				h = nil
			}
		}
	}
	if h == nil || h.agent != s.ref.agent || h.log.Next() != p.Record.Seq {
		if s.history = nil; p.Record.Seq > 1 && !s.ref.agent.Window.Bounded() {
			return // a part is of no use
		}
		h = &history{
			inc: s.inc, agent: s.ref.agent, log: prompt.NewLog(d, p.Record.Seq, s.ref.agent.Window, s.ref.agent.Rules.Rendering), since: s.host.cfg.Now(), seen: s.host.erasures(),
		}
	}
	if s.history = h; !h.log.Add(p.Record, p.Blobs) {
		s.history = nil
	}
}

// view is what the prompt of a turn is made of; nil when the journal has to be read.
func (s *session) view(turn int64) *prompt.View {
	if s.history == nil {
		return nil
	}
	return s.history.log.View(turn)
}

// catchUp is what a session records while the reply of a turn reads its journal, from
// where the journal may not have it yet. Its methods are the session's.
type catchUp struct {
	since  time.Time // it was begun
	seen   int64     // erasures of the store by then
	missed []*turn.Persist
}

// mostMissed bounds the records of a catchUp: after more the next turn reads again.
const mostMissed = 4096

func (c *catchUp) add(p *turn.Persist) {
	if c != nil && len(c.missed) <= mostMissed {
		c.missed = append(c.missed, p)
	}
}

// catchUp begins one for a turn that has no view, where a history is of use.
func (s *session) catchUp(view *prompt.View) *catchUp {
	s.air.catching = nil
	if _, ok := s.ref.agent.Dialect.(prompt.Historian); ok && view == nil && !s.ref.agent.Window.Bounded() && !s.unkept {
		s.air.catching = &catchUp{since: s.host.cfg.Now(), seen: s.host.erasures()}
	}
	return s.air.catching
}

// caughtUp is what a reply has read of its session's journal: the log, nil where the history
// cannot be kept.
type caughtUp struct {
	of  *catchUp
	log *prompt.Log
}

// catch goes on with the history that a reply has read, behind what was recorded meanwhile.
func (s *session) catch(msg *caughtUp) {
	c := msg.of
	if s.air == nil || s.air.catching != c {
		return
	}
	s.air.catching = nil
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
	s.history = &history{inc: s.inc, agent: s.ref.agent, log: msg.log, since: c.since, seen: c.seen}
}

// putHistory gives the history back when the session comes to rest.
func (s *session) putHistory() {
	if s.history != nil {
		s.host.histories.put(s.history)
		s.history = nil
	}
}

// erasures counts what was removed from the store, as far as it says.
func (h *Host) erasures() int64 {
	if s, ok := h.cfg.Store.(interface{ Erasures() int64 }); ok {
		return s.Erasures()
	}
	return 0
}

// histories are those of sessions that rest, the latest first, within one bound for all
// of them: a hundred thousand idle sessions have no more than one busy thousand.
type histories struct {
	mu    sync.Mutex
	order list.List // of *history
	by    map[messages.Incarnation]*list.Element
	bytes int
}

func (h *histories) take(inc messages.Incarnation) *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.by[inc]; e != nil {
		return h.remove(e)
	}
	return nil
}

func (h *histories) put(kept *history) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.by[kept.inc]; e != nil {
		h.remove(e)
	}
	if h.by == nil {
		h.by = map[messages.Incarnation]*list.Element{}
	}
	kept.bytes = kept.log.Bytes()
	h.by[kept.inc] = h.order.PushFront(kept)
	h.bytes += kept.bytes
	for h.bytes > historiesBytes {
		h.remove(h.order.Back())
	}
}

// remove takes one out. h.mu is held.
func (h *histories) remove(e *list.Element) *history {
	kept := h.order.Remove(e).(*history)
	delete(h.by, kept.inc)
	h.bytes -= kept.bytes
	return kept
}

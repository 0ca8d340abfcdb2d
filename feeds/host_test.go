package feeds

import (
	"context"
	"sync"
)

// host is a keeper with the sessions of a test. Each that is awake has an actor: its mailbox is
// handled by the goroutine that posts to it, or by the one that is in it. A session that is not
// awake has one for as long as a prompt takes, as a host wakes it for that.
type host struct {
	*Keeper
	mu     sync.Mutex
	actors map[string]*mailbox
}

func newHost(cfg Config) (*host, error) {
	k, err := NewKeeper(cfg)
	return &host{Keeper: k, actors: map[string]*mailbox{}}, err
}

// mailbox is the actor of a session: States, and the queue of its messages.
type mailbox struct {
	*States
	users int  // prompts under way
	awake bool // between Sync and Stop

	mu    sync.Mutex
	queue []any
	busy  bool
}

func (m *mailbox) post(msg any) {
	m.mu.Lock()
	m.queue = append(m.queue, msg)
	if m.busy {
		m.mu.Unlock()
		return
	}
	m.busy = true
	for i := 0; i < len(m.queue); i++ {
		msg, m.queue[i] = m.queue[i], nil
		m.mu.Unlock()
		m.receive(msg)
		m.mu.Lock()
	}
	m.queue, m.busy = m.queue[:0], false
	m.mu.Unlock()
}

func (m *mailbox) receive(msg any) {
	switch msg := msg.(type) {
	case *Starts:
		m.Start(msg)
	case *Want:
		m.Want(msg)
	case *Fetch:
		if m.Crashed(msg) != nil {
			m.Restart(msg) // a supervisor has nothing else to say
		} else {
			m.Ended(msg)
		}
	case func():
		msg()
	}
}

// do runs f as a message, and returns when it is done.
func (m *mailbox) do(f func()) {
	done := make(chan struct{})
	m.post(func() { f(); close(done) })
	<-done
}

// of finds the actor of a session, or makes one. h.mu is held.
func (h *host) of(s Session) *mailbox {
	m := h.actors[s.Key]
	if m == nil {
		m = &mailbox{}
		m.States = h.Open(s, m.post)
		h.actors[s.Key] = m
	}
	return m
}

// leave ends the actor of a session that neither is awake nor builds a prompt. h.mu is held.
func (h *host) leave(s string, m *mailbox) {
	if !m.awake && m.users == 0 {
		m.do(m.States.Stop)
		delete(h.actors, s)
	}
}

func (h *host) Sync(s Session, set Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.of(s)
	m.awake = true
	m.do(func() { m.States.Sync(set) })
}

func (h *host) Stop(session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.actors[session]; m != nil {
		m.awake = false
		h.leave(session, m)
	}
}

// with calls f with the client of a session.
func (h *host) with(s Session, f func(*Client)) {
	h.mu.Lock()
	m := h.of(s)
	m.users++
	h.mu.Unlock()
	f(m.Client())
	h.mu.Lock()
	defer h.mu.Unlock()
	m.users--
	h.leave(s.Key, m)
}

func (h *host) Prompt(ctx context.Context, s Session, set Set) (els []Element) {
	h.with(s, func(c *Client) { els = c.Prompt(ctx, set) })
	return els
}

func (h *host) Get(ctx context.Context, s Session, set Set, id string, refresh bool) (el Element, v Value, known, ok bool) {
	h.with(s, func(c *Client) { el, v, known, ok = c.Get(ctx, set, id, refresh) })
	return el, v, known, ok
}

// state returns that of a feed of a session that is awake.
func (h *host) state(session, id string) (s state) {
	m := h.actors[session]
	m.do(func() { s = *m.feeds[m.set.at(id)] })
	return s
}

// Reason returns why the last fetch of a feed failed, as its session has it.
func (h *host) Reason(session string, e Entry) (why string) {
	if m := h.actors[session]; m != nil {
		m.do(func() { why = m.States.Reason(e.ID) })
	}
	return why
}

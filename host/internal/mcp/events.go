package mcp

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of the events that are kept for clients whose streams break. What an agent said is in
// the journal: an answer whose events are gone is found by its session and run.
const (
	maxEvents    = 64 << 20 // bytes of all; a tenant has at most one for every four that are free
	maxOfSession = 4 << 20  // bytes of a session of the protocol
	maxStreams   = 256      // of a session of the protocol
)

// events are the messages of the streams of requests, by the session of the protocol. The stream
// that belongs to no request has none: nothing is sent on it that a client has to know. Its
// methods are safe for concurrent use.
type events struct {
	mu       sync.Mutex
	sessions map[string]*kept
	tenants  map[string]*share
	bytes    int
}

// kept is what is kept of one session of the protocol.
type kept struct {
	tenant  string
	streams map[string]*told
	order   list.List // of *told, oldest first
	bytes   int
}

// share is what a tenant has of all events.
type share struct {
	order list.List // of *told, oldest first
	bytes int
}

// told is what one stream said.
type told struct {
	of     *kept
	share  *share
	id     string
	places [2]*list.Element // in the orders of session and tenant
	first  int              // index of data[0]
	data   [][]byte
	bytes  int
}

func newEvents() *events {
	return &events{sessions: map[string]*kept{}, tenants: map[string]*share{}}
}

var errNoStream = errors.New("the events of the stream are not kept")

// tenantKey has the tenant of the request that opens a stream.
type tenantKey struct{}

// Open implements sdk.EventStore.
func (e *events) Open(ctx context.Context, session, id string) error {
	if a := answeringOf(ctx); a != nil {
		a.claim(session, id)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[session]
	switch {
	case id == "": // that of the session itself, which begins
		tenant, _ := ctx.Value(tenantKey{}).(string)
		e.sessions[session] = &kept{tenant: tenant, streams: map[string]*told{}}
		return nil
	case s == nil:
		return errNoStream // it has ended meanwhile
	}
	of := e.tenants[s.tenant]
	if of == nil {
		of = &share{}
		e.tenants[s.tenant] = of
	}
	t := &told{of: s, share: of, id: id}
	s.streams[id] = t
	t.places = [2]*list.Element{s.order.PushBack(t), of.order.PushBack(t)}
	if s.order.Len() > maxStreams {
		e.drop(s.order.Front().Value.(*told))
	}
	return nil
}

// Append implements sdk.EventStore. Where there is no room the oldest streams of the session, or
// of its tenant, lose what they have.
func (e *events) Append(_ context.Context, session, id string, data []byte) error {
	if id == "" {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[session]
	if s == nil || s.streams[id] == nil {
		return errNoStream
	}
	t := s.streams[id]
	for at := s.order.Front(); s.bytes > 0 && s.bytes+len(data) > maxOfSession; at = at.Next() {
		e.empty(at.Value.(*told))
	}
	for at := t.share.order.Front(); t.share.bytes > 0 && fairness*(t.share.bytes+len(data)) > maxEvents-e.bytes; at = at.Next() {
		e.empty(at.Value.(*told))
	}
	t.data = append(t.data, data)
	e.grow(t, len(data))
	return nil
}

// After implements sdk.EventStore. The SDK asks when it resumes a stream, and has not answered yet.
func (e *events) After(ctx context.Context, session, id string, index int) iter.Seq2[[]byte, error] {
	data, err := e.after(session, id, index)
	return func(yield func([]byte, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		if a := answeringOf(ctx); a != nil && id != "" {
			a.begin()
		}
		for _, d := range data {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (e *events) after(session, id string, index int) ([][]byte, error) {
	if id == "" {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[session]
	if s == nil || s.streams[id] == nil {
		return nil, errNoStream
	}
	t := s.streams[id]
	switch from := index + 1 - t.first; {
	case from < 0:
		return nil, sdk.ErrEventsPurged
	case from > len(t.data):
		return nil, errNoStream // the client names an event that was never sent
	default:
		return slices.Clone(t.data[from:]), nil
	}
}

// SessionClosed implements sdk.EventStore.
func (e *events) SessionClosed(_ context.Context, session string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.sessions[session]; s != nil {
		for s.order.Len() > 0 {
			e.drop(s.order.Front().Value.(*told))
		}
		delete(e.sessions, session)
	}
	return nil
}

func (e *events) grow(t *told, n int) {
	t.bytes += n
	t.of.bytes += n
	t.share.bytes += n
	e.bytes += n
}

// empty takes from a stream what it has. What it says from then on keeps its place.
func (e *events) empty(t *told) {
	e.grow(t, -t.bytes)
	t.first += len(t.data)
	t.data = nil
}

// drop forgets a stream.
func (e *events) drop(t *told) {
	e.empty(t)
	delete(t.of.streams, t.id)
	t.of.order.Remove(t.places[0])
	if t.share.order.Remove(t.places[1]); t.share.order.Len() == 0 {
		delete(e.tenants, t.of.tenant)
	}
}

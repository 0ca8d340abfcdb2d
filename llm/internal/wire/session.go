package wire

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/llm"
)

// Bounds of sessions (docs/spec/model-sessions.md).
const (
	sessionAge   = 55 * time.Minute // providers end a connection after 60
	sessionDrain = 2 * time.Second  // for the rest of a reply that was left
	sessionQuiet = time.Minute      // between two events of a reply
	sessionWrite = 10 * time.Second
	sessionPace  = 128 << 10 // bytes of a request that may take a second more
	sessionClose = 5 * time.Second
)

// session is a conversation on one connection. One goroutine reads the connection while it is
// open, so that the provider's pings are answered and its end is seen.
type session struct {
	talking *Talking
	m       *Model
	fixed   FixedTalk // talk, if it is one
	setup   []byte    // of the connection, without a handle
	conn    *websocket.Conn
	keys    *llm.Keys
	key     llm.Key
	ctx     context.Context // of the connection
	stop    context.CancelFunc
	closing sync.Once
	over    chan struct{} // closed when the connection is not read any more
	writes  sync.WaitGroup

	mu       sync.Mutex
	talk     Talk
	flow     flow
	expires  time.Time
	refused  *llm.Failure  // why the provider has closed the connection
	used     bool          // there was a request
	renewed  bool          // another connection was asked to go on
	reader   *reader       // of the reply; nil when it was left, or there is none
	settled  chan struct{} // closed when the end of a reply that was left is known; nil for none
	dropped  bool          // something of that reply was not taken
	open     bool          // the end of the last reply is not known
	kept     bool          // the conversation has the last reply
	apart    bool          // it does not get it, because that stands behind what passes
	oversize bool          // an event was over its bound
	parent   point         // of the last request
	latest   point         // after its reply
}

// point is a place in a conversation: behind its first n messages.
type point struct {
	n  int
	id string
}

// reader takes the events of a reply.
type reader struct {
	events chan arrival
	left   chan struct{} // closed when it takes no more
}

// arrival is an event of a reply.
type arrival struct {
	data []byte
	head head
	is   verdict
	told bool // says is known
	says bool // it has content
}

// listen reads the connection to its end.
func (s *session) listen() {
	var err error
	defer func() {
		s.stop()
		_ = s.conn.CloseNow() // it may be closed
		s.mu.Lock()
		defer s.mu.Unlock()
		s.oversize, s.refused = errors.Is(err, websocket.ErrMessageTooBig), s.refusal(err)
		if s.open || s.settled != nil {
			s.settle(false)
		}
		close(s.over)
	}()
	for {
		var kind websocket.MessageType
		var data []byte
		if kind, data, err = s.conn.Read(s.ctx); err != nil {
			return
		}
		if s.fixed != nil {
			for _, a := range s.pieces(data) {
				if !s.arrived(a) {
					return
				}
			}
			continue
		}
		a := arrival{data: data, is: breaks}
		if kind == websocket.MessageText {
			if Decode(data, &a.head) != nil {
				a.head = head{}
			}
		}
		if !s.arrived(a) {
			return
		}
	}
}

// arrived passes an event on, and reports whether the connection goes on.
func (s *session) arrived(a arrival) bool {
	s.mu.Lock()
	if ours := s.talk.Heard(a.head.Type, a.data); ours {
		a.is = s.flow.take(&a.head)
	} else {
		a.is = stray
	}
	to := s.reader
	if to == nil {
		defer s.mu.Unlock()
		return s.drain(a)
	}
	s.mu.Unlock()
	if a.is == stray {
		return true
	}
	select {
	case to.events <- a:
		return a.is != breaks
	case <-s.ctx.Done():
		return false
	case <-to.left:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.drain(a)
	}
}

// drain takes an event that no reader takes. s.mu is held.
func (s *session) drain(a arrival) bool {
	switch a.is {
	case stray:
	case passes:
		if s.dropped = s.dropped || says(&a); a.head.Type == "response.created" {
			s.cancel()
		}
		return !s.dropped || s.fixed == nil // nothing is gone on from then
	case closes:
		s.dropped = s.dropped || !a.head.completed()
		s.settle(!s.dropped)
	case breaks:
		return false
	}
	return true
}

// says reports whether an event has a part of the reply that is more than white space.
func says(a *arrival) bool {
	if a.told {
		return a.says
	}
	var e struct {
		Delta Raw `json:"delta"`
		Item  struct {
			Type string `json:"type"`
		} `json:"item"`
	}
	if Decode(a.data, &e) != nil {
		return true
	}
	if !a.head.says() {
		return e.Item.Type == "function_call"
	}
	var t text
	if !t.add(e.Delta) {
		return true
	}
	t.flush()
	return len(bytes.TrimSpace(t.out)) > 0
}

// settle notes whether the conversation has the last reply. s.mu is held.
func (s *session) settle(kept bool) {
	s.open = false
	if kept {
		s.latest.id = s.talk.Mark(s.flow.last)
	}
	if s.kept = kept && s.latest.id != "" && !s.apart; !s.kept {
		s.latest = point{}
	}
	if s.settled != nil {
		close(s.settled)
		s.settled = nil
	}
}

// Settle implements llm.Session.
func (s *session) Settle(ctx context.Context) (bool, error) {
	s.mu.Lock()
	wait, dropped := s.settled, s.fixed != nil && s.dropped
	s.mu.Unlock()
	if dropped {
		return false, nil // the rest of the reply does not matter
	}
	if wait != nil {
		late := time.NewTimer(sessionDrain)
		defer late.Stop()
		select {
		case <-wait:
		case <-late.C:
			s.stop()
			<-s.over
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	s.mu.Lock()
	dropped = s.fixed != nil && s.dropped
	s.mu.Unlock()
	if dropped {
		return false, nil
	}
	if s.Ended() {
		return false, s.m.fail(ctx, &exchange{keys: s.keys, sent: true}, &Reply{}, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.talk.Sure() {
		s.stop()
		return false, lost()
	}
	return s.kept, nil
}

// Ended implements llm.Session.
func (s *session) Ended() bool { return s.ctx.Err() != nil }

// Expires implements llm.Session.
func (s *session) Expires() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expires
}

// Close implements llm.Session.
func (s *session) Close() error {
	s.closing.Do(func() {
		late := time.AfterFunc(sessionClose, s.stop)
		defer late.Stop()
		_ = s.conn.Close(websocket.StatusNormalClosure, "") // a server that is gone does not answer
		s.stop()
		<-s.over
		s.writes.Wait()
	})
	return nil
}

// from returns the point behind the first sent messages, and whether the conversation has it.
func (s *session) from(sent int) (point, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fixed != nil && s.used && (sent != s.latest.n || !s.kept):
		return point{}, false
	case sent == 0:
		return point{}, true
	case s.kept && sent == s.latest.n:
		return s.latest, true
	case sent == s.parent.n:
		return s.parent, true
	}
	return point{}, false
}

// begin makes ready for the reply to a prompt of n messages that do not pass, on a lane. apart
// reports whether it stands behind others, which do.
func (s *session) begin(from point, n int, lane string, apart bool) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &reader{events: make(chan arrival), left: make(chan struct{})}
	s.flow.ask(lane)
	s.used = true
	s.reader, s.parent, s.latest, s.kept, s.dropped, s.open, s.apart = in, from, point{n: n + 1}, false, false, true, apart
	return in
}

// leave ends the reading of a reply. If its end has not come, the rest is dropped; it may have
// arrived and not been taken.
func (s *session) leave(in *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(in.left)
	s.reader = nil
	if (s.open || s.flow.phase != quiet) && !s.Ended() {
		s.settled = make(chan struct{})
		s.cancel()
	}
}

// cancel stops the response under way, if the provider can. s.mu is held.
func (s *session) cancel() {
	if s.flow.phase != speaking {
		return // when it has begun
	}
	event := s.talk.Cancel(s.flow.id)
	if event == nil {
		return
	}
	frame, err := frameOf(event)
	if err != nil {
		return
	}
	s.writes.Add(1) // while the connection is read, which Close waits for first
	go func() {
		defer s.writes.Done()
		writing, done := context.WithTimeout(s.ctx, sessionWrite)
		defer done()
		_ = s.conn.Write(writing, websocket.MessageText, frame) // Settle bounds the wait for what follows
	}()
}

// drops notes that something of the reply was not taken.
func (s *session) drops() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = true
}

// forget notes that the provider may have dropped what the request was built upon.
func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parent, s.latest, s.kept = point{}, point{}, false
}

package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Talker is a Vendor that keeps conversations on a WebSocket, over which both sides send JSON
// events, one a message.
type Talker interface {
	Vendor
	// Address is that of the WebSocket for a model, with the scheme of HTTP.
	Address(model string) string
	// Talk returns what is kept of one connection.
	Talk() Talk
}

// TalksParts reports that conversations take the parts that TakesPart allows.
func (*Talking) TalksParts() bool { return true }

// Taker is an optional interface of a Talker: its Talks are a Leader, or a Placer.
type Taker interface{ TakesBack() bool }

// TakesBack reports whether conversations take back what passes (llm.Request.Passing).
func (m *Talking) TakesBack() bool {
	t, ok := m.cfg.Vendor.(Taker)
	return ok && t.TakesBack()
}

// Leader is a Talk of a provider that keeps the place in front of what passes only if something
// ended there: so that a request leads, whose reply is nothing.
type Leader interface {
	// Lead is Next of a request for no reply to the messages in front of those that pass, and the
	// lane that it goes on.
	Lead(ask *Ask, sent int, from string) (event any, lane string, err error)
}

// Placer is a Talk of a provider that takes back what it is told to. The reply to what passes
// stays.
type Placer interface {
	// Place returns the mark of the place in front of what passes, of the latest Next.
	Place() string
}

// Talk is what a Talker keeps of one connection. One goroutine at a time calls it.
type Talk interface {
	// Next returns the request for a reply to the messages behind the first sent: events for
	// encoding/json, the last of which asks for the reply. from is the mark of the place at
	// which the conversation goes on, "" for a new one. The error describes what is wrong with
	// the request.
	Next(ask *Ask, sent int, from string) ([]any, error)
	// Heard is called with each event, before it is judged. It returns false for an error
	// that is not of the request under way.
	Heard(name string, event []byte) bool
	// Mark returns the mark of the place behind a response; "" if the conversation may not
	// have it as it came.
	Mark(response string) string
	// Sure reports whether it is known what the conversation has. If not, the connection is
	// given up.
	Sure() bool
	// Cancel returns the event that stops a response, nil if there is none.
	Cancel(response string) any
}

// Bounds of sessions (docs/spec/model-sessions.md).
const (
	sessionAge   = 55 * time.Minute // providers end a connection after 60
	sessionDrain = 2 * time.Second  // for the rest of a reply that was left
	sessionQuiet = time.Minute      // between two events of a reply
	sessionWrite = 10 * time.Second
	sessionPace  = 128 << 10 // bytes of a request that may take a second more
	sessionClose = 5 * time.Second
)

// Talking is a Model whose provider keeps conversations. It implements llm.SessionModel.
type Talking struct{ *Model }

// NewTalking makes a Talking; the Vendor of cfg is a Talker.
func NewTalking(cfg Config) *Talking { return &Talking{New(cfg)} }

// Calling is a Talking whose provider can be asked over connections alone: a request without a
// conversation has a connection of its own.
type Calling struct{ *Talking }

// NewCalling makes a Calling; the Vendor of cfg is a Talker.
func NewCalling(cfg Config) *Calling { return &Calling{NewTalking(cfg)} }

// Stream implements llm.Model.
func (m *Calling) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		s, err := m.connect(ctx, &req, "")
		switch {
		case ctx.Err() != nil:
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
		case err != nil:
			yield(llm.Chunk{}, err)
		default:
			for c, err := range s.Continue(ctx, req, 0) {
				if !yield(c, err) {
					break
				}
			}
		}
		if s != nil {
			s.stop() // a reply that was left ends with its connection
			<-s.over
		}
	}
}

// Connect implements llm.SessionModel: one connection, with one key.
func (m *Talking) Connect(ctx context.Context, req llm.Request) (llm.Session, error) {
	s, err := m.connect(ctx, &req, "")
	switch {
	case err != nil:
		return nil, err
	case s.fixed != nil:
		return fixed{s}, nil
	}
	return s, nil
}

// connect opens a connection; handle names the conversation that goes on over it.
func (m *Talking) connect(ctx context.Context, req *llm.Request, handle string) (*session, error) {
	talker := m.cfg.Vendor.(Talker)
	keys := m.cfg.Keys.For(req.Model)
	key, err := keys.Take()
	if err != nil {
		return nil, err
	}
	x := &exchange{keys: keys, key: key, header: m.cfg.Header, scheme: m.cfg.Scheme, sent: true}
	asked, cancel := context.WithTimeoutCause(ctx, m.cfg.FirstByte, errFirstByte)
	defer cancel()
	header := http.Header{"User-Agent": {"stile"}}
	if v := key.Value(); v != "" {
		header.Set(m.cfg.Header, m.cfg.Scheme+v)
	}
	conn, res, err := websocket.Dial(asked, talker.Address(req.Model), &websocket.DialOptions{
		HTTPClient: &http.Client{
			Transport:     m.cfg.Base,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // it would get the key
		},
		HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols {
			x.status, x.wait = res.StatusCode, retryAfter(res.Header, time.Now())
			body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes)) // a part is enough
			x.refused, x.explained = parseRefusal(body)
			x.foreign = res.StatusCode/100 == 2 && !x.explained
		}
		return nil, m.fail(asked, x, &Reply{}, err)
	}
	conn.SetReadLimit(int64(m.maxEvent()))
	s := &session{talking: m, m: m.Model, talk: talker.Talk(), conn: conn, keys: keys, key: key, expires: time.Now().Add(sessionAge), over: make(chan struct{})}
	if s.fixed, _ = s.talk.(FixedTalk); s.fixed != nil {
		if err := s.introduce(asked, x, req, handle); err != nil {
			_ = conn.CloseNow()
			return nil, err
		}
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.listen()
	return s, nil
}

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

// Continue implements llm.Session.
func (s *session) Continue(ctx context.Context, req llm.Request, sent int) iter.Seq2[llm.Chunk, error] {
	return llm.Bound(func(yield func(llm.Chunk, error) bool) { s.converse(ctx, &req, sent, yield) }, req.MaxReplyBytes)
}

// lost is the failure of a request that goes on from where the conversation is not.
func lost() error {
	return llm.Fail(llm.Failure{Kind: llm.KindRequest, Code: llm.CodeLost}, "the conversation does not have what the request goes on from")
}

func (s *session) converse(ctx context.Context, req *llm.Request, sent int, yield func(llm.Chunk, error) bool) {
	if ctx.Err() != nil {
		yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
		return
	}
	x := &exchange{keys: s.keys, key: s.key, header: s.m.cfg.Header, scheme: s.m.cfg.Scheme}
	r := &Reply{}
	r.writes(req)
	for i := range req.Messages {
		r.prompt += int64(len(req.Messages[i].Text)) // all of it is read, and billed
	}
	from, ok := s.from(sent)
	if !ok {
		yield(llm.Chunk{}, lost())
		return
	}
	lasting := len(req.Messages) - req.Passing
	leader, leads := s.talk.(Leader)
	if leads = leads && req.Passing > 0; leads && sent < lasting {
		led, failure := s.lead(ctx, leader, x, req, sent, from)
		if r.ahead = led; ctx.Err() != nil {
			c := llm.Chunk{Finish: messages.FinishCancelled}
			s.m.price(&c, led, req.Model)
			yield(c, nil)
			return
		}
		if failure != nil {
			yield(llm.Chunk{}, failure)
			return
		}
		from, _ = s.from(lasting)
		sent = lasting
	}
	frames, err := s.frames(x, req, sent, from.id)
	if err != nil {
		yield(llm.Chunk{}, s.m.fail(ctx, x, r, err))
		return
	}
	if p, ok := s.talk.(Placer); ok && req.Passing > 0 {
		from = point{lasting, p.Place()}
	}
	in := s.begin(from, lasting, "", leads)
	defer s.leave(in)
	x.sent = true
	written, err := s.write(ctx, frames)
	defer written()
	if err != nil {
		s.stop()
	} else if !s.take(ctx, in, r, req, s.m.cfg.FirstByte+patience(frames), yield) {
		return
	}
	switch {
	case ctx.Err() != nil:
		c := llm.Chunk{Finish: messages.FinishCancelled}
		s.m.price(&c, r.estimate(), req.Model)
		if rest := r.take(); len(bytes.TrimSpace(rest)) > 0 || r.calls != nil && r.calls.Called() {
			s.drops()
		}
		yield(c, nil)
	case err == nil && r.failed == nil && r.finish != "":
		c := llm.Chunk{Finish: r.finish}
		c.Text, c.Side = r.rest(s.m.source(req))
		s.m.price(&c, r.estimate(), req.Model)
		yield(c, nil)
	default:
		s.forget()
		failure := s.m.fail(ctx, x, r, err)
		s.mu.Lock()
		sure := s.talk.Sure()
		s.mu.Unlock()
		f := llm.FailureOf(failure)
		if leads && f.Code == llm.CodeLost {
			failure = stays()
		}
		if f.NextKey || f.Kind == llm.KindAuth || !sure || s.fixed != nil {
			s.stop() // the next connection takes the next key
		}
		yield(llm.Chunk{}, failure)
	}
}

// lead has the conversation take the messages in front of those that pass, behind the first sent,
// and returns what that has used. The error is that of a stream.
func (s *session) lead(ctx context.Context, leader Leader, x *exchange, req *llm.Request, sent int, from point) (messages.Usage, error) {
	r := &Reply{}
	r.writes(req)
	options, err := s.m.cfg.Tuning.of(req)
	var frame []byte
	var event any
	lane := ""
	if err == nil {
		s.mu.Lock()
		event, lane, err = leader.Lead(&Ask{Request: req, Options: options, Source: s.m.source(req)}, sent, from.id)
		s.mu.Unlock()
	}
	if err == nil {
		frame, err = frameOf(event)
	}
	if err == nil && len(options.Extra) > 0 {
		frame, err = merged(frame, options.Extra)
	}
	if err != nil {
		return messages.Usage{}, s.m.fail(ctx, x, r, err)
	}
	in := s.begin(from, len(req.Messages)-req.Passing-1, lane, false) // the place behind its reply is the one behind them
	defer s.leave(in)
	x.sent = true
	frames := [][]byte{frame}
	if written, err := s.write(ctx, frames); err != nil {
		written()
		s.stop()
		return messages.Usage{}, s.m.fail(ctx, x, r, err)
	}
	spoke := false
	s.take(ctx, in, r, req, s.m.cfg.FirstByte+patience(frames), func(c llm.Chunk, _ error) bool {
		spoke = spoke || len(c.Text) > 0
		return !spoke
	})
	rest, _ := r.rest("")
	switch spoke = spoke || len(bytes.TrimSpace(rest)) > 0; {
	case ctx.Err() != nil:
		return r.usage, nil
	case spoke: // it knows no such request, and answers
		s.stop()
		return r.usage, stays()
	case r.failed == nil && r.finish == messages.FinishComplete:
		return r.usage, nil
	}
	s.forget()
	failure := s.m.fail(ctx, x, r, nil)
	switch f := llm.FailureOf(failure); {
	case f.NextKey || f.Kind == llm.KindAuth:
		s.stop()
	case f.Kind == llm.KindRequest && f.Code != llm.CodeLost && f.Code != llm.CodeLimit:
		return r.usage, stays()
	}
	return r.usage, failure
}

// stays is the failure of a request whose passing part the provider does not take back.
func stays() error {
	return llm.Fail(llm.Failure{Kind: llm.KindRequest, Code: llm.CodePassing}, "the provider does not take back what passes with a request")
}

// write sends a request. Of several events the last ones may be on their way when it returns, so
// that an answer to the first is read: the caller calls written when it waits for nothing more.
func (s *session) write(ctx context.Context, frames [][]byte) (written func(), err error) {
	if len(frames) == 1 {
		writing, cancel := context.WithTimeout(ctx, sessionWrite+patience(frames))
		defer cancel()
		return func() {}, s.conn.Write(writing, websocket.MessageText, frames[0])
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Not with ctx, which may end when the answer has come and a write has not returned:
		// that would end the connection.
		writing, cancel := context.WithTimeout(s.ctx, sessionWrite+patience(frames))
		defer cancel()
		for _, frame := range frames {
			if s.conn.Write(writing, websocket.MessageText, frame) != nil {
				s.stop()
				return
			}
		}
	}()
	return func() {
		s.mu.Lock()
		stuck := s.flow.phase == waiting && ctx.Err() != nil
		s.mu.Unlock()
		select {
		case <-done:
		default:
			if stuck {
				s.stop()
			}
			<-done
		}
	}, nil
}

// patience is how much longer than others a request may take to be written: pictures are long, and
// lines may be slow.
func patience(frames [][]byte) time.Duration {
	size := 0
	for _, frame := range frames {
		size += len(frame)
	}
	return time.Duration(size/sessionPace) * time.Second
}

// frames returns the request as it is sent.
func (s *session) frames(x *exchange, req *llm.Request, sent int, from string) (frames [][]byte, err error) {
	if x.options, err = s.m.cfg.Tuning.of(req); err != nil {
		return nil, err
	}
	s.mu.Lock()
	events, err := s.talk.Next(&Ask{Request: req, Options: x.options, Source: s.m.source(req)}, sent, from)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, event := range events {
		frame, err := frameOf(event)
		if err != nil {
			return nil, err
		}
		frames = append(frames, frame)
	}
	if last := len(frames) - 1; len(x.options.Extra) > 0 && s.fixed == nil {
		frames[last], err = merged(frames[last], x.options.Extra)
	}
	return frames, err
}

// frameOf returns an event as it is sent.
func frameOf(event any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as in Post
	if err := enc.Encode(event); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
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

// take reads the reply to its end; first is how long it waits for the first event. It returns false
// when the receiver stopped.
func (s *session) take(ctx context.Context, in *reader, r *Reply, req *llm.Request, first time.Duration, yield func(llm.Chunk, error) bool) bool {
	events := s.m.cfg.Vendor.Events()
	silence := time.NewTimer(first)
	defer silence.Stop()
	for begun := false; ; begun = true {
		var a arrival
		select {
		case a = <-in.events:
			silence.Reset(sessionQuiet)
		case <-ctx.Done():
			return true
		case <-silence.C:
			if s.stop(); begun {
				r.ended(io.EOF)
			}
			return true
		case <-s.over:
			s.mu.Lock()
			oversize, refused := s.oversize, s.refused
			s.mu.Unlock()
			switch {
			case refused != nil:
				r.failed = refused
			case oversize:
				r.ended(errOversized)
			case begun:
				r.ended(io.EOF)
			}
			return true
		}
		if a.is == breaks {
			s.stop()
			r.failed = &llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}
			return true
		}
		s.event(events, a, r)
		if r.calls != nil && req.MaxReplyBytes > 0 && int64(r.calls.Held()) > req.MaxReplyBytes {
			r.calls.Finish(messages.FinishComplete) // and the reply is over its bound
		}
		if !s.m.hand(r, req, yield) {
			if a.is == closes { // and no other event of the reply follows
				s.mu.Lock()
				s.settle(false)
				s.mu.Unlock()
			}
			return false
		}
		if a.is == closes || r.failed != nil {
			if r.failed == nil && r.finish == "" {
				r.ended(io.EOF)
			}
			s.mu.Lock()
			s.settle(a.head.completed() && r.failed == nil)
			s.mu.Unlock()
			return true
		}
	}
}

// event adds an event to the reply.
func (s *session) event(events Events, a arrival, r *Reply) {
	if a.head.Type == "error" {
		refused, _ := parseRefusal(a.data)
		if refused.code == "session_expired" {
			refused.code = llm.CodeLimit
		}
		var e struct {
			Status Count `json:"status"`
		}
		_ = Decode(a.data, &e) // a status that is none is none
		f := refused.failure(int(e.Status.N), 0)
		r.failed = &f
		return
	}
	if events.Event(Event{Name: a.head.Type, Data: a.data}, r) != nil {
		s.stop()
		r.failed = &llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}
	}
	if r.withheld != "" {
		r.failed = &llm.Failure{Kind: llm.KindFiltered, Code: harmless(strings.TrimSpace(r.withheld))}
	}
}

package wire

import (
	"context"
	"io"
	"iter"
	"net/http"
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

// Talking is a Model whose provider keeps conversations. It implements llm.SessionModel.
type Talking struct{ *Model }

// NewTalking makes a Talking; the Vendor of cfg is a Talker.
func NewTalking(cfg Config) *Talking { return &Talking{New(cfg)} }

// TalksParts reports that conversations take the parts that TakesPart allows.
func (*Talking) TalksParts() bool { return true }

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

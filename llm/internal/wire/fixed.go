package wire

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/llm"
)

// FixedTalk is a Talk of a provider whose connections are set up once, whose frames are no
// events with types and ids, and whose conversations only grow.
type FixedTalk interface {
	Talk
	// Setup returns the first message of a connection, which holds for each of its requests.
	// handle names the conversation that goes on over it, "" for a new one. Unlike the other
	// methods it is called from any goroutine.
	Setup(ask *Ask, handle string) (any, error)
	// Ready reports whether a frame says that the connection is set up.
	Ready(frame []byte) bool
	// Read returns the events that a frame has. asked reports whether a reply is due.
	Read(frame []byte, asked bool) []Piece
	// Handle names the conversation as it stands behind the last reply, for a later Setup; ""
	// if there is no name.
	Handle() string
	// Leaving reports whether the provider has said that it ends the connection.
	Leaving() bool
	// Refused returns why the provider has closed the connection with a code, nil if that is
	// no refusal.
	Refused(code int, reason string) *llm.Failure
}

// Piece is an event of a reply that a frame has.
type Piece struct {
	Type     string // of those below; any other breaks the connection
	Response string // id
	Says     bool   // it has content of the reply that is more than white space
	Data     []byte
}

// Types of pieces.
const (
	PieceBegins = "response.created"
	PieceSays   = "response.says"
	PieceEnds   = "response.done"
	PieceCut    = "response.incomplete" // the reply is longer than may be
	PieceFails  = "error"
)

// FailureOf is the failure that a provider's code names.
func FailureOf(code string) llm.Failure { return (&refusal{code: code}).failure(0, 0) }

// fixed is a session over a FixedTalk. It implements what internal/talk asks of conversations
// that only grow.
type fixed struct{ *session }

// introduce sets a connection up.
func (s *session) introduce(ctx context.Context, x *exchange, req *llm.Request, handle string) error {
	setup, err := s.setupFor(req, "")
	if err == nil {
		s.setup = setup
		if handle != "" {
			setup, err = s.setupFor(req, handle)
		}
	}
	if err != nil {
		x.sent = false
		return s.m.fail(ctx, x, &Reply{}, err)
	}
	r := &Reply{}
	if err = s.conn.Write(ctx, websocket.MessageText, setup); err == nil {
		var data []byte
		if _, data, err = s.conn.Read(ctx); err == nil && s.fixed.Ready(data) {
			return nil
		}
		switch refused, is := parseRefusal(data); {
		case is:
			f := refused.failure(0, 0)
			r.failed = &f
		case err == nil:
			r.failed = &llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}
		case errors.Is(err, websocket.ErrMessageTooBig):
			r.ended(errOversized)
		default:
			r.failed = s.refusal(err)
		}
	}
	return s.m.fail(ctx, x, r, err)
}

// refusal returns why the provider has ended the connection, nil if it has not said so.
func (s *session) refusal(err error) *llm.Failure {
	var closed websocket.CloseError
	if s.fixed == nil || !errors.As(err, &closed) {
		return nil
	}
	return s.fixed.Refused(int(closed.Code), closed.Reason)
}

// setupFor returns the first message of a connection for a request.
func (s *session) setupFor(req *llm.Request, handle string) ([]byte, error) {
	options, err := s.m.cfg.Tuning.of(req)
	if err != nil {
		return nil, err
	}
	setup, err := s.fixed.Setup(&Ask{Request: req, Options: options, Source: s.m.source(req)}, handle)
	if err != nil {
		return nil, err
	}
	frame, err := frameOf(setup)
	if err != nil || len(options.Extra) == 0 {
		return frame, err
	}
	return merged(frame, options.Extra)
}

// pieces returns what a frame has.
func (s *session) pieces(data []byte) (all []arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.fixed.Read(data, s.flow.phase != quiet) {
		a := arrival{data: p.Data, told: true, says: p.Says}
		if a.head.Type, a.head.Response.ID = p.Type, p.Response; p.Type == PieceEnds {
			a.head.Response.Status = "completed"
		}
		all = append(all, a)
	}
	if now := time.Now(); s.fixed.Leaving() && now.Before(s.expires) {
		s.expires = now
	}
	return all
}

// Fits reports whether the connection was set up as a request wants it.
func (s fixed) Fits(req llm.Request) bool {
	setup, err := s.setupFor(&req, "")
	return err == nil && bytes.Equal(setup, s.setup)
}

// Again opens another connection to the conversation as it stands behind its last reply, once.
func (s fixed) Again(ctx context.Context, req llm.Request) (llm.Session, error) {
	s.mu.Lock()
	handle, has := "", s.latest
	if s.kept && !s.renewed {
		handle = s.fixed.Handle()
	}
	s.renewed = true
	s.mu.Unlock()
	if handle == "" {
		return nil, lost()
	}
	next, err := s.talking.connect(ctx, &req, handle)
	if err != nil {
		return nil, err
	}
	next.mu.Lock()
	defer next.mu.Unlock()
	next.used, next.kept, next.latest = true, true, has
	return fixed{next}, nil
}

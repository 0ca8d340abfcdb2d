package wire

import (
	"bytes"
	"context"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Taker is an optional interface of a Talker: its Talks are a Leader, or a Placer.
type Taker interface{ TakesBack() bool }

// TakesBack reports whether conversations take back what passes (llm.Request.Passing).
func (m *Talking) TakesBack() bool {
	t, ok := m.cfg.Vendor.(Taker)
	return ok && t.TakesBack()
}

// Leader is a Talk of a provider that marks a place only behind a response. So the messages in
// front of those that pass go in a request of their own, which asks for no reply.
type Leader interface {
	// Lead is Next for the messages in front of those that pass, and asks for no reply. lane names
	// the stream of events on which the request goes.
	Lead(ask *Ask, sent int, from string) (event any, lane string, err error)
}

// Placer is a Talk of a provider that deletes messages when it is told to. The reply to those that
// pass stays in the conversation.
type Placer interface {
	// Place returns the mark of the place in front of what passes, of the latest Next.
	Place() string
}

// lead has a Leader's conversation take the messages in front of those that pass, behind the first sent,
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

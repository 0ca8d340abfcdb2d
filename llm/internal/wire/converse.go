package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Continue implements llm.Session.
func (s *session) Continue(ctx context.Context, req llm.Request, sent int) iter.Seq2[llm.Chunk, error] {
	return llm.Bound(func(yield func(llm.Chunk, error) bool) { s.converse(ctx, &req, sent, yield) }, req.MaxReplyBytes)
}

// lost is the failure of a request that goes on from where the conversation is not.
func lost() error {
	return llm.Fail(llm.Failure{Kind: llm.KindRequest, Code: llm.CodeLost}, "the conversation does not have what the request goes on from")
}

// converse sends one request over the conversation, and yields its reply.
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
	yield(s.end(ctx, x, r, req, err, leads))
}

// end returns the last chunk of a reply, or why there is none. err is that of sending the request;
// leads reports whether the reply stands behind messages that pass.
func (s *session) end(ctx context.Context, x *exchange, r *Reply, req *llm.Request, err error, leads bool) (llm.Chunk, error) {
	switch {
	case ctx.Err() != nil:
		c := llm.Chunk{Finish: messages.FinishCancelled}
		s.m.price(&c, r.estimate(), req.Model)
		if rest := r.take(); len(bytes.TrimSpace(rest)) > 0 || r.calls != nil && r.calls.Called() {
			s.drops()
		}
		return c, nil
	case err == nil && r.failed == nil && r.finish != "":
		c := llm.Chunk{Finish: r.finish}
		c.Text, c.Side = r.rest(s.m.source(req))
		s.m.price(&c, r.estimate(), req.Model)
		return c, nil
	}
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
	return llm.Chunk{}, failure
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

func (s *session) event(events Events, a arrival, r *Reply) {
	if a.head.Type == "error" {
		refused, _ := parseRefusal(a.data)
		if refused.code == "session_expired" {
			refused.code = llm.CodeLimit
		}
		var e struct {
			Status Count `json:"status"`
		}
		_ = Decode(a.data, &e) // an invalid status is no status
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

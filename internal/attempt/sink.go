package attempt

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/tools"
)

// Bounds of a Sink.
const (
	sinkChunks = 64                    // that the session has not taken; docs/spec/extensions.md §5
	sinkPause  = 40 * time.Millisecond // between two posts, unless much has gathered
)

// Sink takes the pieces of a result from the tool and posts them to the session, those that
// come within sinkPause as one. A tool that is faster than the session waits in emit.
type Sink struct {
	session Session
	start   *turn.StartAction
	now     func() time.Time
	slots   chan struct{} // one for each piece that the session has not taken
	done    chan struct{} // closed with the action

	mu      sync.Mutex
	pending []byte
	pieces  int   // in pending
	sent    []int // pieces of each post that the session has not taken
	sum     int
	last    time.Time // of the latest post
	timer   *time.Timer
	closed  bool
}

func newSink(a *Attempt) *Sink {
	return &Sink{session: a.session, start: a.Start, now: a.env.Now, slots: make(chan struct{}, sinkChunks), done: make(chan struct{})}
}

// emit is tools.Call.Sink.
func (s *Sink) emit(ctx context.Context, text string) error {
	for text != "" {
		piece := text[:min(len(text), turn.MaxChunkBytes)]
		text = text[len(piece):]
		if err := s.full(); err != nil { // at once, however many pieces the session has not taken
			return err
		}
		select {
		case s.slots <- struct{}{}:
		case <-s.done:
			return tools.ErrEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.add(piece); err != nil {
			return err
		}
	}
	return nil
}

// full returns the error of a piece after one that was over the limit.
func (s *Sink) full() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum > turn.MaxStreamed {
		return errOver()
	}
	return nil
}

func errOver() error {
	return neuroscript.Errorf(neuroscript.CodeToolFailed, "the streamed result is over its limit of %d bytes", turn.MaxStreamed)
}

func (s *Sink) add(piece string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return tools.ErrEnded
	}
	if s.sum += len(piece); s.sum > turn.MaxStreamed {
		<-s.slots // the piece goes nowhere
		return errOver()
	}
	s.pending, s.pieces = append(s.pending, piece...), s.pieces+1
	wait := sinkPause - s.now().Sub(s.last)
	switch {
	case wait <= 0 || len(s.pending) >= turn.LazyBytes || s.pieces >= sinkChunks/2:
		s.post(false)
	case s.timer == nil:
		s.timer = time.AfterFunc(wait, s.ring)
	}
	return nil
}

func (s *Sink) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer = nil; !s.closed {
		s.post(false)
	}
}

// post posts what is pending, except for the beginning of a character unless it is the end.
// s.mu is held.
func (s *Sink) post(end bool) {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	whole := len(s.pending)
	for i := 1; !end && i < utf8.UTFMax && i <= len(s.pending); i++ {
		if tail := s.pending[len(s.pending)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				whole -= i
			}
			break
		}
	}
	if whole == 0 {
		return
	}
	text := string(s.pending[:whole])
	s.pending = append(s.pending[:0], s.pending[whole:]...)
	s.sent = append(s.sent, s.pieces)
	s.pieces, s.last = 0, s.now()
	s.session.Piece(s, &turn.ActionChunk{Ident: s.start.Ident, ID: s.start.ID, Attempt: s.start.Attempt, Text: text})
}

// Taken gives back the slots of the oldest post.
func (s *Sink) Taken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) == 0 {
		return
	}
	n := s.sent[0]
	s.sent = s.sent[1:]
	for range n {
		<-s.slots
	}
}

// close posts the rest, before the end of the attempt. Later pieces are errors.
func (s *Sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.post(true)
	close(s.done)
}

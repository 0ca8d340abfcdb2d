package host

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed14be6753/stile"
	said "github.com/seed14be6753/stile/internal/answer"
	"github.com/seed14be6753/stile/messages"
)

// chatReply makes a chat completion of a run's updates. Its content is what the run said
// (internal/answer).
//
// OpenAI's protocol cannot take text back. So text of a dialect that may replace its
// first answer (kitsu) is held until it stands; and when a crash of the host cut a text that
// was sent already, the answer ends with an error, while the run goes on. A thought that was
// known as one only at its end has been sent, and the answer follows it.
type chatReply struct {
	said.Stream
	id, model, session string
	created, run       int64
}

// newReply makes the reply of a run. One that is not streamed is made of records alone.
func newReply(run *stile.Run) *chatReply {
	c := &chatReply{run: run.Ordinal()}
	c.Most, c.Lenient = -1, true
	if run.Merged() {
		c.Merged = run.Seq()
	}
	return c
}

// take returns the text that an update brings, or the problem that ends the answer.
func (c *chatReply) take(u stile.Update) (string, error) {
	piece, err := c.Take(u)
	switch {
	case err != nil:
		p := problemOf(err)
		p.halt = true
		return "", p
	case u.Record == nil:
	case u.Record.Body.Kind() == messages.KindTurnSuspended:
		return piece, waitsForApproval("a call waits for approval; the run goes on when a person has answered")
	case c.Ended != nil:
		if end := c.end(); end.Decision == messages.Halt {
			p := problemOf(&messages.Error{Code: end.Reason, Detail: end.Detail})
			p.halt = true
			return piece, p
		}
	}
	return piece, nil
}

// end is how the run ended; nil before that.
func (c *chatReply) end() *messages.RunEnd {
	if c.Ended == nil {
		return nil
	}
	return c.Ended.Body.(*messages.RunEnd)
}

func (c *chatReply) reason() string {
	if c.Finish == messages.FinishLength {
		return "length"
	}
	return "stop"
}

type chatUsage struct {
	Prompt     int64             `json:"prompt_tokens"`
	Completion int64             `json:"completion_tokens"`
	Total      int64             `json:"total_tokens"`
	Details    chatPromptDetails `json:"prompt_tokens_details"`
}

type chatPromptDetails struct {
	Cached int64 `json:"cached_tokens"`
}

func (c *chatReply) used() *chatUsage {
	return &chatUsage{c.Usage.Input, c.Usage.Output, c.Usage.Input + c.Usage.Output, chatPromptDetails{c.Usage.CacheRead}}
}

// chatRun names, beside OpenAI's members, the run behind an answer.
type chatRun struct {
	Session  string `json:"session"`
	Run      int64  `json:"run"`
	Decision string `json:"decision,omitempty"`
}

func (c *chatReply) of() chatRun {
	r := chatRun{Session: c.session, Run: c.run}
	if end := c.end(); end != nil {
		r.Run, r.Decision = c.Ended.Run, string(end.Decision)
	}
	return r
}

type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
	Stile   chatRun      `json:"stile"`
}

type chatChoice struct {
	Index    int       `json:"index"`
	Message  *chatText `json:"message,omitempty"`
	Delta    *chatText `json:"delta,omitempty"`
	Logprobs *struct{} `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`
}

type chatText struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	Refusal *string `json:"refusal,omitempty"`
}

func (c *chatReply) completion(text string) chatCompletion {
	reason := c.reason()
	return chatCompletion{
		ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model, Usage: c.used(), Stile: c.of(),
		Choices: []chatChoice{{Message: &chatText{Role: "assistant", Content: &text}, Finish: &reason}},
	}
}

func (c *chatReply) chunk(choices ...chatChoice) *chatCompletion {
	if choices == nil {
		choices = []chatChoice{}
	}
	return &chatCompletion{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model, Choices: choices, Stile: c.of()}
}

// lateStart is the answer to a stream, which begins with the first text, or after a while without
// one: what ends before it is answered with a status. A client that has read an error in a stream
// without any text asks again (the AI SDK).
type lateStart struct {
	mu             sync.Mutex
	begun, refused bool
	begin          func()
	timer          *time.Timer
}

func newLateStart(begin func()) *lateStart {
	l := &lateStart{begin: begin}
	l.timer = time.AfterFunc(heartbeat, l.now)
	return l
}

// now begins the answer, unless it has begun or is refused.
func (l *lateStart) now() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun && !l.refused {
		l.begun = true
		l.begin()
	}
}

// never says that the answer does not begin any more. It reports whether it has begun before.
func (l *lateStart) never() (begun bool) {
	l.timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = true
	return l.begun
}

// pieces returns what a run says until it has ended, c.Ended is set then, or why the answer ends
// before: the caller's right is lost, the host leaves, the run has failed or waits. Without growing
// each piece is a whole text.
func (s *Server) pieces(ctx context.Context, run *stile.Run, c *chatReply, growing bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for u, err := range run.Events(ctx) {
			var piece string
			no := lost(ctx)
			switch {
			case no != nil:
				err = no
			case err == nil && (growing || u.Record != nil):
				piece, err = c.take(u)
			}
			if err != nil && no == nil && s.leaving.Err() != nil && !problemOf(err).halt {
				p := leavingChat()
				if forwarded(ctx) { // the host that asks finds who goes on with the run
					p.Reason = reasonStopping
				}
				err = p
			}
			if !yield(piece, err) || err != nil || c.Ended != nil {
				return
			}
		}
	}
}

// wholeReply follows a run to its end, and writes what answer makes of its text.
func (s *Server) wholeReply(ctx context.Context, w http.ResponseWriter, r *http.Request, run *stile.Run, c *chatReply, answer func(text string) any) error {
	var text strings.Builder
	for piece, err := range s.pieces(ctx, run, c, false) {
		text.WriteString(piece)
		switch {
		case err != nil && hungUp(r, err):
			return err
		case err != nil:
			return begun(err)
		case c.Ended != nil:
			writeJSON(w, http.StatusOK, answer(text.String()))
		}
	}
	return nil // where nothing is written the client has gone
}

// movesOn reports whether another host goes on with a stream that ends early, and sees to that.
func movesOn(ctx context.Context, r *http.Request, err error) bool {
	moves := misdirectedOf(ctx)
	if moves == nil || lost(ctx) != nil || r.Context().Err() != nil || !problemOf(err).goesElsewhere() {
		return false
	}
	moves.cut = true
	return true
}

// listens reports whether a client that is told an error may still be there.
func listens(r *http.Request) bool { return r.Context().Err() == nil || lost(r.Context()) != nil }

// openEvents makes the answer a stream of events.
func openEvents(w http.ResponseWriter, out *eventWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out.start(": open\n\n")
}

// sendEvent sends a value as the data of an event.
func (e *eventWriter) sendEvent(name string, v any) {
	if b, err := json.Marshal(v); err == nil { // numbers and strings: it does not fail
		e.event(name, "", b)
	}
}

// streamChat sends chunks as the text grows. A HALT ends the stream with an error
// object, never with a normal stop; an error is one from before the answer began.
func (s *Server) streamChat(ctx context.Context, cancel func(), w http.ResponseWriter, r *http.Request, run *stile.Run, c *chatReply, usage bool) (begun bool, err error) {
	out := newEventWriter(w, cancel)
	defer out.stop()
	empty := ""
	first := c.chunk(chatChoice{Delta: &chatText{Role: "assistant", Content: &empty}})
	start := newLateStart(func() {
		openEvents(w, out)
		out.sendEvent("", first)
	})
	defer start.never()
	for piece, err := range s.pieces(ctx, run, c, true) {
		if piece != "" {
			start.now()
			out.sendEvent("", c.chunk(chatChoice{Delta: &chatText{Content: &piece}}))
		}
		switch {
		case err != nil:
			if !start.never() {
				return false, err
			}
			if !movesOn(ctx, r, err) && listens(r) {
				out.sendEvent("", chatErrorOf(problemOf(err)))
			}
			return true, nil
		case c.Ended != nil:
			start.now()
			reason := c.reason()
			out.sendEvent("", c.chunk(chatChoice{Delta: &chatText{}, Finish: &reason}))
			if usage {
				last := c.chunk()
				last.Usage = c.used()
				out.sendEvent("", last)
			}
			out.event("", "", []byte("[DONE]"))
			return true, nil
		case out.failed():
			return true, nil
		}
	}
	return start.never(), nil
}

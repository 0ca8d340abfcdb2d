// Package talk keeps the conversations of sessions with their providers: it does what
// internal/resume decides, with llm.SessionModel.
//
// Invariants:
//   - a conversation is soft state of one activation. Nothing of it is restored;
//   - one request at a time uses a conversation, and all that happens to it;
//   - connections are bounded over all sessions of a host: an idle one gives way, the one
//     that was not used for longest first;
//   - nothing here blocks a session: connections are closed on goroutines of the pool, which
//     Pool.Close waits for.
//
// It assembles no prompt and knows no provider.
package talk

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed14be6753/stile/internal/resume"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Defaults.
const (
	DefaultIdle = time.Minute
	DefaultAge  = 55 * time.Minute
	DefaultMost = 256 // connections of a host
)

// Config says how the conversations of an agent are used.
type Config struct {
	Auto bool          // a run goes on without one that fails
	Idle time.Duration // how long a connection stays without a request; 0 is DefaultIdle
	Age  time.Duration // how old one gets; 0 is DefaultAge
	Seed int           // messages that a new conversation is sent, beside the system's; 0 is all
}

// Pool bounds the connections of a host.
type Pool struct {
	now  func() time.Time
	most int
	saw  func(what, reason string)

	mu   sync.Mutex
	open int       // connections, and those that are being made
	idle list.List // of *Talk, the longest unused first
	work sync.WaitGroup
}

// NewPool returns a pool of at most most connections; 0 is DefaultMost. saw is called with all
// that becomes of them, in the words of messages.ModelSession: also with ends that no record
// tells, because no request follows. It must not block.
func NewPool(most int, now func() time.Time, saw func(what, reason string)) *Pool {
	if most <= 0 {
		most = DefaultMost
	}
	return &Pool{most: most, now: now, saw: saw}
}

// Open returns the number of connections.
func (p *Pool) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// Wait waits for connections that are being closed. It is called when no Talk is used any more.
func (p *Pool) Wait() { p.work.Wait() }

// New returns the conversation of an activation, without a connection.
func (p *Pool) New(c Config) *Talk {
	if c.Idle <= 0 {
		c.Idle = DefaultIdle
	}
	if c.Age <= 0 {
		c.Age = DefaultAge
	}
	return &Talk{pool: p, cfg: c, use: make(chan struct{}, 1)}
}

// run runs f on a goroutine that Wait waits for.
func (p *Pool) run(f func()) {
	p.work.Add(1)
	go func() {
		defer p.work.Done()
		f()
	}()
}

// place takes a place for a connection, from an idle one if there is no other.
func (p *Pool) place() bool {
	for {
		p.mu.Lock()
		if p.open < p.most {
			p.open++
			p.mu.Unlock()
			return true
		}
		first := p.idle.Front()
		if first == nil {
			p.mu.Unlock()
			return false
		}
		t := p.idle.Remove(first).(*Talk)
		t.place = nil
		p.mu.Unlock()
		t.gone(resume.ReasonEvicted)
	}
}

// Talk is the conversation of an activation. The methods are safe for concurrent use.
type Talk struct {
	pool  *Pool
	cfg   Config
	use   chan struct{} // held by what uses the fields below
	up    atomic.Bool   // there is a connection
	ended atomic.Bool
	place *list.Element // in pool.idle; pool.mu is held

	life    resume.Life
	session llm.Session
	before  fixed // the one that was closed last, if another can go on with it
	said    resume.Said
	left    left  // of the prompts, by the conversation
	turn    int64 // of the last reply
	timer   *time.Timer
	failure error
}

// fixed is a session whose conversation only grows: nothing is gone on from but its last reply,
// and what does not go on from there needs another session.
type fixed interface {
	llm.Session
	// Fits reports whether the session was opened with the options, the tools and the system
	// text of a request.
	Fits(req llm.Request) bool
	// Again opens another session, which has the conversation as it stood behind the last
	// reply of this one, when this one is given up. It is called once, for the request that
	// goes on. An error means that the provider does not have the conversation.
	Again(ctx context.Context, req llm.Request) (llm.Session, error)
}

// Request is a request to a model that can keep a conversation.
type Request struct {
	llm.Request
	Model llm.SessionModel
	Run   int64
	// Marks is the rolling digest of Messages without those that pass (llm.Request.Passing).
	Marks []messages.Digest
	// Whole reports whether a reply of the turn before is told as it went.
	Whole bool
	// Counts returns how many bytes of the reply count, negative for all so far. It is called
	// after each chunk.
	Counts func() int64
	// Note records what became of the conversation, and Asked that a request goes out, with the
	// messages that are sent; mode is messages.ModelResume or ModelReplay.
	Note  func(messages.ModelSession)
	Asked func(mode string, session int64, sent []messages.Message)
}

// Stream is llm.Model.Stream of a request, over the conversation.
func (t *Talk) Stream(ctx context.Context, q *Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		select {
		case t.use <- struct{}{}:
		case <-ctx.Done():
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			return
		}
		t.wake()
		defer t.rest()
		if t.ended.Load() {
			yield(llm.Chunk{}, errClosed())
			return
		}
		t.stream(ctx, q, yield)
	}
}

// wake takes the conversation out of those that may be closed. t.use is held.
func (t *Talk) wake() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if t.place != nil {
		t.pool.idle.Remove(t.place)
		t.place = nil
	}
}

// rest gives the conversation back.
func (t *Talk) rest() {
	t.life.Step(resume.Left{}) // of a reply that ended with a panic
	if t.session != nil && t.life.State() == resume.Paused && !t.ended.Load() {
		t.timer = time.AfterFunc(t.cfg.Idle, func() { t.gone(resume.ReasonIdle) })
		t.pool.mu.Lock()
		defer t.pool.mu.Unlock() // who finds it idle can have it
		t.place = t.pool.idle.PushBack(t)
	}
	<-t.use
}

// gone gives up a connection that is not in use.
func (t *Talk) gone(reason string) {
	select {
	case t.use <- struct{}{}:
	default:
		return // it is used again
	}
	t.wake()
	defer t.rest()
	t.do(t.life.Step(resume.Gone{Reason: reason}))
}

// Rest closes the connection, if there is one: the session waits for something that may take
// long.
func (t *Talk) Rest(reason string) {
	if t != nil && t.up.Load() {
		t.pool.run(func() { t.gone(reason) })
	}
}

// Close ends the conversation. The request that uses it is being cancelled by the caller.
func (t *Talk) Close() {
	if t == nil || t.ended.Swap(true) {
		return
	}
	t.pool.run(func() {
		t.use <- struct{}{}
		t.wake()
		defer t.rest()
		t.do(t.life.Step(resume.Close{}))
	})
}

// do does the effects that no request waits for.
func (t *Talk) do(effects []resume.Effect) {
	for _, e := range effects {
		if e, ok := e.(resume.Shut); ok {
			t.closeConn(e)
		}
	}
}

// closeConn closes the connection on another goroutine: a provider that is gone does not answer.
func (t *Talk) closeConn(why resume.Shut) {
	s := t.session
	if s == nil {
		return
	}
	t.pool.saw(why.What, why.Reason)
	t.before, _ = s.(fixed)
	t.session = nil
	t.up.Store(false)
	t.pool.mu.Lock()
	t.pool.open--
	t.pool.mu.Unlock()
	t.pool.run(func() { _ = s.Close() }) // it is over in any case
}

// stream does what the conversation's life says until the request is answered.
func (t *Talk) stream(ctx context.Context, q *Request, yield func(llm.Chunk, error) bool) {
	n := t.life.Asked()
	in := resume.Ask{
		Run: q.Run, Model: q.Provider + "/" + q.Request.Model, Marks: q.Marks, Passing: q.Passing > 0, Auto: t.cfg.Auto, Now: t.pool.now(),
		Tells: n > 0 && t.said.In(q.Messages[:len(q.Messages)-q.Passing], n, q.Whole && q.Turn == t.turn+1),
	}
	if t.session != nil {
		in.Ends = t.session.Expires()
		s, ok := t.session.(fixed)
		in.Unfit = ok && !s.Fits(q.Request)
	}
	effects := t.life.Step(in)
	for len(effects) > 0 {
		e := effects[0]
		effects = effects[1:]
		var more []resume.Effect
		switch e := e.(type) {
		case resume.Note:
			switch e.Session.What {
			case messages.SessionExpired, messages.SessionGone: // seen when it was given up
			default:
				t.pool.saw(e.Session.What, e.Session.Reason)
			}
			q.Note(e.Session)
		case resume.Shut:
			t.closeConn(e)
		case resume.Settle:
			more = t.settle(ctx)
		case resume.Connect:
			more = t.connect(ctx, q, e.Same)
		case resume.Send:
			more = t.send(ctx, q, e, yield)
		case resume.Alone:
			q.Asked(messages.ModelReplay, 0, q.Messages)
			for c, err := range q.Model.Stream(ctx, q.Request) {
				if !yield(c, err) {
					return
				}
			}
			return
		case resume.Fail:
			if ctx.Err() != nil {
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			} else {
				yield(llm.Chunk{}, t.failure)
			}
			return
		}
		effects = append(effects, more...)
	}
}

// cancelled ends a request that was cancelled before it was sent.
func (t *Talk) cancelled() []resume.Effect {
	t.life.Step(resume.Left{})
	return []resume.Effect{resume.Fail{}}
}

func (t *Talk) settle(ctx context.Context) []resume.Effect {
	kept, err := t.session.Settle(ctx)
	switch {
	case ctx.Err() != nil:
		return t.cancelled()
	case err != nil:
		return t.life.Step(resume.Gone{Reason: resume.ReasonNetwork})
	}
	return t.life.Step(resume.Settled{Kept: kept})
}

// errFull means that every connection is in use.
func errFull() error {
	return llm.Fail(llm.Failure{Kind: llm.KindOverloaded, Code: "model_sessions", Retryable: true}, "all connections that the host may keep with providers are in use")
}

// errClosed means that the session asks when it is over.
func errClosed() error {
	return llm.Fail(llm.Failure{Kind: llm.KindNetwork, Code: "closed"}, "the session's conversation with the provider is closed")
}

// connect opens a connection: same allows to go on with the conversation of the one before.
func (t *Talk) connect(ctx context.Context, q *Request, same bool) []resume.Effect {
	before := t.before
	t.before = nil
	if !t.pool.place() {
		t.failure = errFull()
		return t.life.Step(resume.Failed{Reason: reasonOf(t.failure), Elsewhere: true})
	}
	var s llm.Session
	var err error
	if same = same && before != nil; same {
		s, err = before.Again(ctx, q.Request)
		same = err == nil
	}
	if !same && ctx.Err() == nil {
		s, err = q.Model.Connect(ctx, q.Request)
	}
	if err != nil || ctx.Err() != nil {
		t.pool.mu.Lock()
		t.pool.open--
		t.pool.mu.Unlock()
		if err == nil && s != nil {
			t.pool.run(func() { _ = s.Close() }) // it was not used
		}
		if ctx.Err() != nil {
			return t.cancelled()
		}
		t.failure = err
		return t.life.Step(failed(err, true))
	}
	t.session = s
	t.up.Store(true)
	expires := t.pool.now().Add(t.cfg.Age)
	if at := s.Expires(); !at.IsZero() && at.Before(expires) {
		expires = at
	}
	_, grows := s.(fixed)
	return t.life.Step(resume.Connected{Expires: expires, Fixed: grows, Same: same})
}

// send sends what is new and passes the reply on.
func (t *Talk) send(ctx context.Context, q *Request, e resume.Send, yield func(llm.Chunk, error) bool) []resume.Effect {
	t.said, t.turn = resume.Said{}, q.Turn
	req, sent := q.Request, e.Sent
	if !e.Passing {
		req.Passing = 0
	}
	if sent == 0 {
		t.left = omit(q.Messages[:len(q.Messages)-q.Passing], t.cfg.Seed)
	}
	if n := t.left.to - t.left.from; n > 0 {
		req.Messages = slices.Concat(req.Messages[:t.left.from], req.Messages[t.left.to:])
		sent = max(0, sent-n)
	}
	q.Asked(messages.ModelResume, e.Session, req.Messages[sent:])
	for c, err := range t.session.Continue(ctx, req, sent) {
		if err != nil {
			t.failure = err
			return t.life.Step(failed(err, t.session.Ended()))
		}
		if len(c.Text) > 0 {
			t.life.Step(resume.Began{})
		}
		on := yield(c, nil)
		t.said.Add(c.Text, q.Counts())
		if len(c.Side) > 0 {
			t.said.Called()
		}
		switch {
		case c.Finish == messages.FinishCancelled, !on && c.Finish == "":
			return t.life.Step(resume.Left{})
		case c.Finish != "":
			return t.life.Step(resume.Ended{})
		}
	}
	t.failure = llm.Fail(llm.Failure{Code: "protocol"}, "the stream ended without a finish")
	return t.life.Step(resume.Failed{Gone: t.session.Ended(), Reason: reasonOf(t.failure)})
}

// left are the messages of a prompt that a conversation was not sent when it began.
type left struct{ from, to int }

// omit returns what a new conversation is not sent of a prompt: all but the latest n messages, and
// what the system says in front. What is sent begins with a question of the user, so that results
// have their calls. n <= 0 leaves nothing out.
func omit(ms []messages.Message, n int) left {
	from := slices.IndexFunc(ms, func(m messages.Message) bool { return m.Role != messages.RoleSystem && m.Holds != messages.HoldsFeeds })
	at := len(ms) - n
	if n <= 0 || from < 0 || at <= from {
		return left{}
	}
	asks := func(m messages.Message) bool { return m.Role == messages.RoleUser && m.Holds == "" }
	if i := slices.IndexFunc(ms[at:], asks); i >= 0 {
		return left{from, at + i}
	}
	for at--; at > from; at-- {
		if asks(ms[at]) {
			return left{from, at}
		}
	}
	return left{}
}

// failed describes a failure. Where the prompt itself, the key or a limit is why, the same
// prompt fails without a conversation as well.
func failed(err error, gone bool) resume.Failed {
	f := llm.FailureOf(err)
	in := resume.Failed{Gone: gone, Reason: reasonOf(err)}
	switch f.Code {
	case llm.CodeLost:
		in.Why = resume.Lost
	case llm.CodeLimit:
		in.Why = resume.Limit
	case llm.CodePassing:
		in.Why = resume.Stays
	}
	switch f.Kind {
	case llm.KindAuth, llm.KindRateLimit, llm.KindContext, llm.KindFiltered, llm.KindOverloaded:
	default:
		in.Elsewhere = messages.CodeOf(err) == messages.ErrModel
	}
	return in
}

func reasonOf(err error) string {
	var e *messages.Error
	if errors.As(err, &e) && e.Reason != "" {
		return e.Reason
	}
	return string(messages.CodeOf(err))
}

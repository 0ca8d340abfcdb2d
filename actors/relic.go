package actors

import (
	"context"
	"sync"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// waiters are calls of key-value relics that wait for the session's actor. They are
// used by it and by the goroutines of actions.
type waiters struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]chan *turn.AnswerRelic
}

// waiting is the inbox's list of waiters.
func (b *inbox) waiting() *waiters {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiters == nil {
		b.waiters = &waiters{}
	}
	return b.waiters
}

func (w *waiters) add() (handle uint64, answer chan *turn.AnswerRelic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[uint64]chan *turn.AnswerRelic{}
	}
	w.last++
	answer = make(chan *turn.AnswerRelic, 1)
	w.all[w.last] = answer
	return w.last, answer
}

// take gives up a place; nil when it is gone.
func (w *waiters) take(handle uint64) chan *turn.AnswerRelic {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := w.all[handle]
	delete(w.all, handle)
	if len(w.all) == 0 {
		w.all = nil // an idle session keeps no buffer
	}
	return answer
}

func (w *waiters) answer(e *turn.AnswerRelic) {
	if to := w.take(e.Handle); to != nil {
		to <- e
	}
}

// relicRead is a feed's look at a key-value relic. It changes nothing, is nothing to the
// machine, and keeps no session awake.
type relicRead struct {
	relic, args string
	answer      chan *turn.AnswerRelic // room for one
}

func (s *session) readRelic(msg *relicRead) {
	e := &turn.AnswerRelic{Err: errSessionStopped}
	if s.machine != nil && s.dead == nil && !s.retired {
		e.Result, e.Err = s.machine.State().ReadRelic(msg.relic, msg.args, s.host.cfg.Now())
	}
	msg.answer <- e
}

// keep lets a source of a feed look at a key-value relic of the session. The session
// answers in a moment, or it has gone.
func (f *fetcher) keep(ctx context.Context, k catalog.KeepCall) (string, error) {
	if k.Scope != "" {
		result, err := f.host.keepScoped(ctx, caller{sid: f.sid, inc: f.inc, epoch: f.epoch, reads: true}, k)
		return result, tools.RefusalOf(err)
	}
	msg := &relicRead{relic: k.Relic, args: k.Args, answer: make(chan *turn.AnswerRelic, 1)}
	ctx, cancel := context.WithTimeoutCause(ctx, feeds.DefaultDeadline, messages.Errorf(messages.ErrTimeout, "the session's time to answer is up"))
	defer cancel()
	f.host.system.Root.Send(f.self, msg)
	select {
	case e := <-msg.answer:
		return e.Result, tools.RefusalOf(e.Err)
	case <-ctx.Done():
		return "", messages.Errorf(messages.CodeOf(context.Cause(ctx)), "the relic was not asked in time")
	}
}

// Keep implements attempt.Session: it asks the session's machine.
func (f *family) Keep(ctx context.Context, start *turn.StartAction, k catalog.KeepCall) (string, error) {
	if k.Scope != "" {
		result, err := f.host.keepScoped(ctx, caller{sid: f.sid, inc: f.inc, epoch: f.epoch, repeat: start.Attempt > 1}, k)
		return result, tools.RefusalOf(err)
	}
	handle, answer := f.box.waiting().add()
	f.box.Post(&turn.RelicCall{
		Ident: start.Ident, ID: start.ID, Key: k.Key, Relic: k.Relic, Args: k.Args, Limits: k.Limits, Handle: handle,
	})
	select {
	case e := <-answer:
		return e.Result, tools.RefusalOf(e.Err)
	case <-ctx.Done():
		f.box.waiting().take(handle)
		return "", messages.Errorf(messages.CodeOf(context.Cause(ctx)), "the relic was not asked in time")
	}
}

package actors

import (
	"context"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/relics"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// waiting is the inbox's list of waiters.
func (b *inbox) waiting() *relics.Waiters {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiters == nil {
		b.waiters = &relics.Waiters{}
	}
	return b.waiters
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
		result, err := f.host.scopes.Keep(ctx, relics.Caller{SID: f.sid, Inc: f.inc, Epoch: f.epoch, Reads: true}, k)
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
		result, err := f.host.scopes.Keep(ctx, relics.Caller{SID: f.sid, Inc: f.inc, Epoch: f.epoch, Repeat: start.Attempt > 1}, k)
		return result, tools.RefusalOf(err)
	}
	return f.box.waiting().Wait(ctx, func(handle uint64) {
		f.box.Post(&turn.RelicCall{
			Ident: start.Ident, ID: start.ID, Key: k.Key, Relic: k.Relic, Args: k.Args, Limits: k.Limits, Handle: handle,
		})
	})
}

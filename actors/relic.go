package actors

import (
	"context"

	"github.com/seed14be6753/stile/internal/relics"
	"github.com/seed14be6753/stile/internal/turn"
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
	if s.machine != nil && s.dead == nil && !s.over {
		e.Result, e.Err = s.machine.State().ReadRelic(msg.relic, msg.args, s.host.cfg.Now())
	}
	msg.answer <- e
}

// look returns the way to the session's machine for a read of a relic.
func (f *family) look() func(relic, args string) <-chan *turn.AnswerRelic {
	return func(relic, args string) <-chan *turn.AnswerRelic {
		msg := &relicRead{relic: relic, args: args, answer: make(chan *turn.AnswerRelic, 1)}
		f.host.system.Root.Send(f.box.pid, msg)
		return msg.answer
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

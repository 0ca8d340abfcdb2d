package actors

import (
	"context"
	"sync"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/turn"
)

// waiters are calls of key-value relics that wait for the session's actor. They are
// used by it and by the goroutines of actions.
type waiters struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]chan *turn.AnswerRelic
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

// keep asks the session's machine for one operation on a key-value relic.
func (a *action) keep(ctx context.Context, k tools.KeepCall) (string, error) {
	handle, answer := a.box.waiters.add()
	a.box.post(&turn.RelicCall{
		Ident: a.start.Ident, ID: a.start.ID, Key: k.Key, Relic: k.Relic, Args: k.Args, Limits: k.Limits, Handle: handle,
	})
	select {
	case e := <-answer:
		return e.Result, tools.RefusalOf(e.Err)
	case <-ctx.Done():
		a.box.waiters.take(handle)
		return "", messages.Errorf(messages.CodeOf(context.Cause(ctx)), "the relic was not asked in time")
	}
}

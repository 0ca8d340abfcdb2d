package relics

import (
	"context"
	"sync"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Waiters are calls of a session's own relics that wait for its answers. The session and the
// goroutines of actions use it at once.
type Waiters struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]chan *turn.AnswerRelic
}

func (w *Waiters) add() (handle uint64, answer chan *turn.AnswerRelic) {
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
func (w *Waiters) take(handle uint64) chan *turn.AnswerRelic {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := w.all[handle]
	delete(w.all, handle)
	if len(w.all) == 0 {
		w.all = nil // an idle session keeps no buffer
	}
	return answer
}

// Answer gives a call its answer.
func (w *Waiters) Answer(e *turn.AnswerRelic) {
	if to := w.take(e.Handle); to != nil {
		to <- e
	}
}

// Wait posts a call under a handle, and waits for its answer.
func (w *Waiters) Wait(ctx context.Context, post func(handle uint64)) (string, error) {
	handle, answer := w.add()
	post(handle)
	select {
	case e := <-answer:
		return e.Result, tools.RefusalOf(e.Err)
	case <-ctx.Done():
		w.take(handle)
		return "", messages.Errorf(messages.CodeOf(context.Cause(ctx)), "the relic was not asked in time")
	}
}

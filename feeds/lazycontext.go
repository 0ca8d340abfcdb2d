package feeds

import (
	"context"
	"sync"
	"time"
)

// lazyContext is the context of one fetch: it ends with its parent, or at its deadline. The
// timer, and the place in the parent, are made when a caller asks for more than the time:
// most fetches of most hosts are over before anybody has waited for their end, and there
// may be 100,000 a second of them.
//
// It is safe for concurrent use. Its maker must call end.
type lazyContext struct {
	parent   context.Context
	deadline time.Time

	mu     sync.Mutex
	real   context.Context // nil until it is needed
	cancel context.CancelFunc
	ended  bool
}

func newLazyContext(parent context.Context, timeout time.Duration) *lazyContext {
	return &lazyContext{parent: parent, deadline: time.Now().Add(timeout)}
}

// whole returns the real context, and makes it on the first call.
func (p *lazyContext) whole() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.real == nil {
		p.real, p.cancel = context.WithDeadline(p.parent, p.deadline)
		if p.ended {
			p.cancel()
		}
	}
	return p.real
}

// end gives up what is held. Who still has the context finds it cancelled.
func (p *lazyContext) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.cancel != nil {
		p.cancel()
	}
}

// Deadline implements context.Context.
func (p *lazyContext) Deadline() (time.Time, bool) { return p.deadline, true }

// Done implements context.Context.
func (p *lazyContext) Done() <-chan struct{} { return p.whole().Done() }

// Err implements context.Context.
func (p *lazyContext) Err() error { return p.whole().Err() }

// Value implements context.Context. It goes by the whole one, in which package context
// finds what ends it and why.
func (p *lazyContext) Value(key any) any { return p.whole().Value(key) }

// over reports whether the fetch was given up, without making anything.
func (p *lazyContext) over() bool {
	p.mu.Lock()
	real := p.real
	p.mu.Unlock()
	if real != nil {
		return real.Err() != nil
	}
	return p.parent.Err() != nil || !time.Now().Before(p.deadline)
}

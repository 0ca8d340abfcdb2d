// Package pool runs functions on goroutines that it keeps warm.
//
// Invariants:
//   - nothing blocks the caller, and nothing waits for a goroutine: without an idle one a new
//     one starts;
//   - when Wait returns, no goroutine of the pool is left.
//
// It does not know what it runs, bounds nothing, and carries no panic: a function that panics
// ends the process.
package pool

import (
	"sync"
	"time"
)

// Pool runs functions on goroutines that it keeps. A turn passes through several
// goroutines, and each does work with deep frames (a signature, a verification, a
// program): on a fresh goroutine the stack would grow and be copied every time.
// And waking an idle processor costs more than the bookkeeping of a whole turn, so
// what follows from a function runs, where it can, on the goroutine that is just
// done with it: see Defer and Worker.Returning.
//
// It implements actor.Dispatcher. Nothing here blocks or queues without bound:
// without an idle worker a new one starts.
type Pool struct {
	mu       sync.Mutex
	idle     []*Worker // latest last: its stack and caches are warm
	deferred []func(*Worker)
	closed   bool
	run      func(func(*Worker)) // Run, made once
	handed   int64               // functions taken so far, by Run and Defer
	workers  int                 // that have not ended
	ended    *sync.Cond          // of mu: workers has become 0. Made by Wait
}

// Worker is one goroutine of a pool. Its fields but next are guarded by the pool's
// lock.
type Worker struct {
	pool    *Pool
	next    chan func(*Worker) // room for one: the sender never waits for the worker
	early   bool               // in the idle list although at work, see Returning
	claimed bool               // taken from the idle list: next gets a function
}

// Throughput is how many messages an actor handles before others get a turn.
const Throughput = 300

// maxIdleWorkers bounds the goroutines that wait for work.
const maxIdleWorkers = 64

// Run runs f soon, on some goroutine.
func (p *Pool) Run(f func(*Worker)) {
	p.mu.Lock()
	p.handed++
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		w.claimed = true
		p.mu.Unlock()
		w.next <- f
		return
	}
	p.workers++
	p.mu.Unlock()
	go p.work(f)
}

// Defer runs f when a worker, usually the one that calls, is done with what it is
// doing. It is for actors on a worker: they never block, so theirs is done in a
// moment. One that goes on with further messages calls RunDeferred first.
func (p *Pool) Defer(f func(*Worker)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handed++
	p.deferred = append(p.deferred, f)
}

// RunDeferred has another worker take what is still deferred.
func (p *Pool) RunDeferred() {
	p.mu.Lock()
	n := len(p.deferred)
	p.mu.Unlock()
	if n > 0 {
		p.Run(func(*Worker) {})
	}
}

// Returning says that the function the worker is running is about to return: what
// is run next may wait for it. Call it last but for the message that hands over.
func (w *Worker) Returning() {
	p := w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.early && !p.closed {
		w.early = true
		p.idle = append(p.idle, w)
	}
}

func (p *Pool) work(f func(*Worker)) {
	defer p.end()
	w := &Worker{pool: p, next: make(chan func(*Worker), 1)}
	for f != nil {
		f(w)
		f = p.after(w)
	}
}

// end counts a worker out.
func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers--; p.workers == 0 && p.ended != nil {
		p.ended.Broadcast()
	}
}

// after returns the worker's next function, and nil when it is to end. What was
// handed to a worker that was leaving comes before what is deferred: the first is
// an actor's messages, the second may be a whole reply.
func (p *Pool) after(w *Worker) func(*Worker) {
	p.mu.Lock()
	if w.early {
		w.early = false
		if w.claimed {
			w.claimed = false
			p.mu.Unlock()
			return <-w.next
		}
		p.unlist(w)
	}
	if len(p.deferred) > 0 {
		f := p.deferred[0]
		p.deferred[0] = nil
		p.deferred = p.deferred[1:]
		more := len(p.deferred) > 0
		p.mu.Unlock()
		if more {
			p.RunDeferred()
		}
		return f
	}
	p.deferred = nil
	if p.closed || len(p.idle) >= maxIdleWorkers {
		p.mu.Unlock()
		return nil
	}
	p.idle = append(p.idle, w)
	p.mu.Unlock()
	f := <-w.next
	p.mu.Lock()
	w.claimed = false
	p.mu.Unlock()
	return f
}

// unlist takes a worker out of the idle list; it is near the end.
func (p *Pool) unlist(w *Worker) {
	for i := len(p.idle) - 1; i >= 0; i-- {
		if p.idle[i] == w {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			return
		}
	}
}

// Close lets the idle workers go. Those at work end with their function, and so does
// what Run starts from now on: it may still be called.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	for _, w := range idle {
		w.claimed = true
	}
	p.mu.Unlock()
	for _, w := range idle {
		w.next <- nil
	}
}

// Handed counts the functions taken so far: the hops between actors.
func (p *Pool) Handed() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handed
}

// Wait returns when every worker has ended, after Close. A late message of the
// journal may start another one at any time, which is why no WaitGroup counts them.
func (p *Pool) Wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = sync.NewCond(&p.mu)
	}
	for p.workers > 0 {
		p.ended.Wait()
	}
}

// Starter returns Run as a value that is made once: a mailbox keeps one, and there are very many.
func (p *Pool) Starter() func(func(*Worker)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		p.run = p.Run
	}
	return p.run
}

// Schedule implements actor.Dispatcher.
func (p *Pool) Schedule(f func()) { p.Run(func(*Worker) { f() }) }

// Throughput implements actor.Dispatcher.
func (p *Pool) Throughput() int { return Throughput }

// Within waits for wait to return, until the timer rings.
func Within(wait func(), grace <-chan time.Time) bool {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-grace:
		return false
	}
}

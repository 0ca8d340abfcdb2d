package actors

import "sync"

// pool runs functions on goroutines that it keeps. A turn passes through several
// goroutines, and each does work with deep frames (a signature, a verification, a
// program): on a fresh goroutine the stack would grow and be copied every time,
// which costs about as much as the rest of the turn.
//
// It implements actor.Dispatcher. Run never blocks and never queues: without an
// idle worker it starts one.
type pool struct {
	mu     sync.Mutex
	idle   []chan func() // latest last: its stack and caches are warm
	closed bool
	all    sync.WaitGroup
}

// maxIdleWorkers bounds the goroutines that wait for work.
const maxIdleWorkers = 64

// Run runs f soon, on some goroutine.
func (p *pool) Run(f func()) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		w <- f
		return
	}
	p.mu.Unlock()
	p.all.Go(func() { p.work(f) })
}

func (p *pool) work(f func()) {
	own := make(chan func(), 1) // the sender never waits for the worker to wake
	for f != nil {
		f()
		p.mu.Lock()
		if p.closed || len(p.idle) >= maxIdleWorkers {
			p.mu.Unlock()
			return
		}
		p.idle = append(p.idle, own)
		p.mu.Unlock()
		f = <-own
	}
}

// Close lets the idle workers go and waits for those at work. Run may still be
// called; what it starts ends with its function.
func (p *pool) Close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, w := range idle {
		w <- nil
	}
	p.all.Wait()
}

// Schedule implements actor.Dispatcher.
func (p *pool) Schedule(f func()) { p.Run(f) }

// Throughput implements actor.Dispatcher: messages an actor may handle before the
// others get a turn.
func (p *pool) Throughput() int { return 300 }

package feeds

import (
	"sync"
	"time"
)

// A crew is the workers that fetch what is due, first come, first served. A worker goes on
// until nothing is due. It sees that another one is on its way before it begins a fetch that
// others wait behind, and no more than one: fetches that wait bring as many workers as there
// may be, those that take no time are done by two or three.
type crew struct {
	k    *Keeper
	most int

	mu      sync.Mutex
	due     []start
	done    int // starts at the front of due that are over or under way
	workers int
	coming  bool // a worker has been called that has not taken anything yet
	closed  bool
}

// start is one of a feed that is due.
type start struct {
	runway *runway
	ticket Ticket
}

// take queues what the wheel hands over. A feed is in the queue once at most: it is not
// due again before its ticket is done.
func (c *crew) take(batch []Due) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if len(c.due)+len(batch) > cap(c.due) { // room for those that are still to be done
		n := copy(c.due, c.due[c.done:])
		clear(c.due[n:])
		c.due, c.done = c.due[:n], 0
	}
	for i := range batch {
		c.due = append(c.due, start{batch[i].runway, batch[i].Ticket})
	}
	c.call()
}

// call has one more worker come, if there is work for it. c.mu is held.
func (c *crew) call() {
	if c.coming || c.workers == c.most || c.done == len(c.due) {
		return
	}
	c.coming = true
	c.workers++
	c.k.running.Add(1)
	go c.work(true)
}

// next returns the next job of a worker; ok is false when the worker may end. first reports
// whether it is the worker's first call.
func (c *crew) next(first bool) (s start, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first {
		c.coming = false
	}
	if c.closed || c.done == len(c.due) {
		c.due, c.done = nil, 0
		c.workers--
		return start{}, false
	}
	s = c.due[c.done]
	c.due[c.done] = start{}
	c.done++
	c.call()
	return s, true
}

// dismiss lets the workers go when what they are at is over, and calls no others.
func (c *crew) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// work is a worker. first reports whether it was called.
func (c *crew) work(first bool) {
	defer c.k.running.Done()
	gone := true
	defer func() {
		if gone { // a source has ended this goroutine: another one goes on
			c.k.running.Add(1)
			go c.work(false)
		}
	}()
	now := c.k.now()
	for {
		s, ok := c.next(first)
		if !ok {
			gone = false
			return
		}
		first = false
		now = c.do(s, now)
	}
}

// do makes one start, which may not come back, and says so to the wheel.
func (c *crew) do(s start, now time.Time) time.Time {
	if s.runway.slow() { // it would keep a worker from the feeds of others for minutes
		c.k.running.Add(1)
		go func() {
			defer c.k.running.Done()
			defer c.k.finish(s)
			c.k.start(s.runway, now)
		}()
		return now
	}
	defer c.k.finish(s)
	return c.k.start(s.runway, now)
}

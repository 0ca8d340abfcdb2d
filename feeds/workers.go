package feeds

import "sync"

// workers run the fetches that the wheel started, first come, first served. A worker goes on
// until none waits. It sees that another one is on its way before it begins a fetch that
// others wait behind, and no more than one: fetches that wait bring as many workers as there
// may be, those that take no time are done by two or three.
type workers struct {
	keeper *Keeper
	most   int

	mu      sync.Mutex
	waiting []*Fetch
	taken   int // fetches at the front of waiting that are over or under way
	running int
	coming  bool // a worker has been called that has not taken anything yet
	closed  bool
}

// take queues a fetch.
func (w *workers) take(x *Fetch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if len(w.waiting) == cap(w.waiting) { // room for those that still wait
		n := copy(w.waiting, w.waiting[w.taken:])
		clear(w.waiting[n:])
		w.waiting, w.taken = w.waiting[:n], 0
	}
	w.waiting = append(w.waiting, x)
	w.call()
}

// call has one more worker come, if there is work for it. w.mu is held.
func (w *workers) call() {
	if w.coming || w.running == w.most || w.taken == len(w.waiting) {
		return
	}
	w.coming = true
	w.running++
	w.keeper.running.Add(1)
	go w.work(true)
}

// next returns the next fetch of a worker; ok is false when the worker may end. first reports
// whether it is the worker's first call.
func (w *workers) next(first bool) (x *Fetch, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first {
		w.coming = false
	}
	if w.closed || w.taken == len(w.waiting) {
		w.waiting, w.taken = nil, 0
		w.running--
		return nil, false
	}
	x = w.waiting[w.taken]
	w.waiting[w.taken] = nil
	w.taken++
	w.call()
	return x, true
}

// close lets the workers go when what they are at is over, and calls no others.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// work is a worker. first reports whether it was called.
func (w *workers) work(first bool) {
	defer w.keeper.running.Done()
	gone := true
	defer func() {
		if gone { // a source has ended this goroutine: another one goes on
			w.keeper.running.Add(1)
			go w.work(false)
		}
	}()
	for {
		x, ok := w.next(first)
		if !ok {
			gone = false
			return
		}
		first = false
		if x.claim() { // no caller was quicker, and its feed is still fetched
			w.keeper.run(x)
		}
	}
}

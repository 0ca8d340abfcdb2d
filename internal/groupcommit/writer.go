package groupcommit

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Default limits of one commit, and of the queue.
const (
	DefaultGroupBatches = 512
	DefaultGroupBytes   = 8 << 20
	DefaultQueueBytes   = 256 << 20
)

// Options tune a Writer; the zero value is useful.
type Options struct {
	// GroupBatches and GroupBytes bound one commit. A batch that alone is over
	// GroupBytes gets a commit of its own.
	GroupBatches int
	GroupBytes   int64
	// QueueBytes is the hard limit of the queue. It is a last resort: admission should
	// refuse work long before, by Queued.
	QueueBytes int64
}

// keptQueue is how many entries an empty queue keeps room for.
const keptQueue = 64

// Writer is the only writer of a store. It groups batches: while one commit runs the next
// batches queue, and then they become one commit, without a timer.
//
// Every batch is acknowledged exactly once, in the order of Append per session.
// With an ordinary store the acknowledgement runs on the writer's goroutine, after
// the commit is durable, and must not block; it may call Append. With an Immediate
// store there is no goroutine: Append commits under a lock and acknowledges on the
// caller's goroutine before it returns, which spares two hops.
//
// After a refused batch every later batch of that activation (incarnation, epoch)
// is refused with the same error, untried. After an I/O failure every batch is refused
// with it until Reopen.
//
// All methods are safe for concurrent use.
type Writer struct {
	store   journal.Store
	opts    Options
	inline  bool
	metrics journal.Metrics
	queued  atomic.Int64 // bytes
	waiting atomic.Int64 // batches

	mu     sync.Mutex // guards queue and closed
	queue  []entry
	closed bool
	wake   chan struct{} // capacity 1: the queue is not empty, or closed
	done   chan struct{} // closed when the goroutine has ended

	failed atomic.Pointer[error] // sticky

	// commit is held by inline callers alone. What follows belongs to its holder
	// or, with an ordinary store, to the goroutine.
	commit  sync.Mutex
	refused map[activation]error
}

type activation struct {
	inc   messages.Incarnation
	epoch int64
}

// entry is a batch, or an act to run when all entries before it are decided.
type entry struct {
	batch journal.Batch
	ack   func(error)
	size  int64
	over  bool // refused for size when it was appended; the batch is dropped
	act   func()
}

// New starts a writer. The caller must close it, and then the store.
func New(store journal.Store, opts Options) *Writer {
	if opts.GroupBatches <= 0 {
		opts.GroupBatches = DefaultGroupBatches
	}
	if opts.GroupBytes <= 0 {
		opts.GroupBytes = DefaultGroupBytes
	}
	if opts.QueueBytes <= 0 {
		opts.QueueBytes = DefaultQueueBytes
	}
	w := &Writer{
		store: store, opts: opts, inline: store.Immediate(),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		refused: make(map[activation]error),
	}
	if w.inline {
		close(w.done)
	} else {
		go w.run()
	}
	return w
}

// Append queues a batch and never blocks on the disk. ack gets the error of the batch, or nil; it
// may be nil. A batch over the hard limit of the queue is refused (OVERLOAD), and every batch
// after Close (CLOSED, at once).
func (w *Writer) Append(b journal.Batch, ack func(error)) {
	if w.inline {
		err := w.appendInline(b)
		if ack != nil {
			ack(err)
		}
		return
	}
	e := entry{batch: b, ack: ack, size: b.Size()}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		if ack != nil {
			ack(errClosed())
		}
		return
	}
	if w.queued.Load()+e.size > w.opts.QueueBytes {
		// It still queues, without its bytes, so that it is refused in its turn and the later
		// batches of its activation with it.
		e.over, e.size = true, 0
		e.batch = journal.Batch{SID: b.SID, Inc: b.Inc, Epoch: b.Epoch}
	}
	w.queued.Add(e.size)
	w.waiting.Add(1)
	w.push(e)
	w.mu.Unlock()
}

// AppendWait appends a batch and waits for its acknowledgement. When ctx ends first the batch
// may still be written.
func (w *Writer) AppendWait(ctx context.Context, b journal.Batch) error {
	done := make(chan error, 1)
	w.Append(b, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// push queues under w.mu.
func (w *Writer) push(e entry) {
	w.queue = append(w.queue, e)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func errClosed() error {
	return journal.Fail(journal.ReasonClosed, nil, "the journal writer is closed")
}

func (w *Writer) appendInline(b journal.Batch) error {
	w.commit.Lock()
	defer w.commit.Unlock()
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return errClosed()
	}
	group := [1]entry{{batch: b, size: b.Size()}}
	var errs [1]error
	w.decide(group[:], errs[:])
	return errs[0]
}

// Queued returns the length of the queue in batches and in estimated bytes, for admission.
func (w *Writer) Queued() (batches, bytes int64) { return w.waiting.Load(), w.queued.Load() }

// Metrics returns the counters, which go on counting.
func (w *Writer) Metrics() *journal.Metrics { return &w.metrics }

// Err returns the sticky failure, or nil.
func (w *Writer) Err() error {
	if p := w.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Barrier returns when all batches appended before are decided and acknowledged (with an
// Immediate store: decided). An activation reads the head after it. It also forgets which
// activations were refused: an activation that reads the head now is a new one, and the fence
// still refuses the old ones.
//
// The error is the cause of ctx, or CLOSED.
func (w *Writer) Barrier(ctx context.Context) error {
	return w.after(ctx, func() { clear(w.refused) })
}

// Activate begins an activation: it is a Barrier, and returns the head of the live incarnation
// (NOT_FOUND: begin with NewHead). The activation uses Head.Epoch + 1.
func (w *Writer) Activate(ctx context.Context, sid string) (journal.Head, error) {
	if err := w.Barrier(ctx); err != nil {
		return journal.Head{}, err
	}
	return w.store.Head(ctx, sid)
}

// Reopen reopens the store, after an I/O failure or without one. All batches appended before
// are decided first, which after a failure means refused. Activations must read their heads
// again.
func (w *Writer) Reopen(ctx context.Context) error {
	var failed error
	err := w.after(ctx, func() {
		failed = w.store.Reopen()
		if failed == nil {
			w.failed.Store(nil)
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// after runs act when all batches appended before it are decided. When ctx ends first, act still
// runs in its turn.
func (w *Writer) after(ctx context.Context, act func()) error {
	if w.inline {
		w.commit.Lock()
		defer w.commit.Unlock()
		w.mu.Lock()
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return errClosed()
		}
		act()
		return nil
	}
	reached := make(chan struct{})
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed()
	}
	w.push(entry{act: func() {
		act()
		close(reached)
	}})
	w.mu.Unlock()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close refuses new batches, decides the queued ones, and returns when the last acknowledgement
// has run. It may be called twice. An acknowledgement must not call it.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
	w.mu.Unlock()
	<-w.done
	w.commit.Lock() // an inline Append that came first has ended
	defer w.commit.Unlock()
}

func (w *Writer) run() {
	defer close(w.done)
	var group []entry
	var errs []error
	for {
		// Goroutines that are ready to run may append batches for the next commit, above all
		// sessions that the last one woke. A larger commit costs the same, and without waiting
		// goroutines this costs nothing.
		runtime.Gosched()
		group = w.take(group[:0])
		if len(group) == 0 {
			return
		}
		if act := group[0].act; act != nil {
			act()
			clear(group)
			continue
		}
		errs = append(errs[:0], make([]error, len(group))...)
		w.decide(group, errs)
		for i := range group {
			e := &group[i]
			w.queued.Add(-e.size)
			w.waiting.Add(-1)
			if e.ack != nil {
				e.ack(errs[i])
			}
		}
		clear(group)
	}
}

// take waits for work and removes the next group from the queue: batches within the limits, or
// one act alone. An empty group means that the writer is closed and the queue empty.
func (w *Writer) take(group []entry) []entry {
	for {
		w.mu.Lock()
		if len(w.queue) > 0 {
			break
		}
		closed := w.closed
		if cap(w.queue) > keptQueue { // release the memory of a burst
			w.queue = nil
		}
		w.mu.Unlock()
		if closed {
			return group
		}
		<-w.wake
	}
	defer w.mu.Unlock()
	var size int64
	n := 0
	for n < len(w.queue) {
		e := &w.queue[n]
		if e.act != nil {
			if n == 0 {
				n = 1
				group = append(group, *e)
			}
			break
		}
		if n > 0 && (n == w.opts.GroupBatches || size+e.size > w.opts.GroupBytes) {
			break
		}
		size += e.size
		group = append(group, *e)
		n++
	}
	clear(w.queue[:n])
	if n < len(w.queue) {
		w.queue = w.queue[n:]
	} else {
		w.queue = w.queue[:0]
	}
	return group
}

// decide commits a group and fills errs.
func (w *Writer) decide(group []entry, errs []error) {
	failed := w.Err()
	batches := make([]journal.Batch, 0, len(group))
	at := make([]int, 0, len(group)) // batches[i] is group[at[i]]
	for i := range group {
		e := &group[i]
		a := activation{e.batch.Inc, e.batch.Epoch}
		switch refusal := w.refused[a]; {
		case refusal != nil:
			errs[i] = refusal
		case failed != nil:
			errs[i] = failed
			w.refused[a] = failed
		case e.over:
			errs[i] = journal.Fail(journal.ReasonOverload, nil, "session %s: over %d bytes wait for the journal", e.batch.SID, w.opts.QueueBytes)
			w.refused[a] = errs[i]
		default:
			batches = append(batches, e.batch)
			at = append(at, i)
			continue
		}
		w.metrics.Cascaded.Add(1)
	}
	if len(batches) == 0 {
		return
	}
	w.metrics.Commits.Add(1)
	results := w.store.Commit(batches)
	if s, ok := w.store.(interface{ Syncs() int64 }); ok {
		w.metrics.Syncs.Store(s.Syncs())
	}
	for i := range batches {
		e := &group[at[i]]
		var err error
		if i < len(results) {
			err = results[i]
		} else {
			err = journal.Fail(journal.ReasonInvalid, nil, "the store decided %d of %d batches", len(results), len(batches))
		}
		errs[at[i]] = err
		if err == nil {
			w.metrics.Batches.Add(1)
			w.metrics.Records.Add(int64(len(e.batch.Records)))
			w.metrics.Bytes.Add(e.size)
			continue
		}
		w.refuse(activation{e.batch.Inc, e.batch.Epoch}, err)
	}
}

// refuse records a refusal for later batches, and counts it.
func (w *Writer) refuse(a activation, err error) {
	if w.refused[a] == nil {
		w.refused[a] = err
	}
	switch {
	case journal.IsFenced(err):
		w.metrics.Fenced.Add(1)
	case journal.IsStale(err):
		w.metrics.Stale.Add(1)
	default:
		w.metrics.Failed.Add(1)
		if journal.ReasonOf(err) == journal.ReasonIO {
			w.failed.CompareAndSwap(nil, &err)
		}
	}
}

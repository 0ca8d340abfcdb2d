package feeds

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/transform"
	"github.com/seed14be6753/stile/messages"
)

// A Fetch is one fetch of a feed, and the message that says that it has ended. One that the wheel
// started waits for a worker, unless a caller waits for it; then it runs at once. One that runs
// when its session goes to sleep is the keeper's, until it ends or the session wakes.
type Fetch struct {
	client *Client // of the session that began it
	entry  *Entry
	env    []string
	needs  []dependency
	phase  atomic.Int32

	puts uint64 // Puts of its keeper when it began; of the goroutine that runs it

	// Written before phase says that it ended, and read after.
	at    *place // where its feed's value is, which the cache may have lost
	value Value
	err   error

	// Of the actor that owns the fetch, or of the keeper and under its lock.
	owner  *Client
	state  *state
	result *result // nil while no caller waits
}

// Phases of a fetch.
const (
	fetchWaits int32 = iota // for a worker
	fetchRuns
	fetchLeft  // runs, and its session sleeps
	fetchEnded // or was dropped before it ran
)

// Feed is the id of its feed.
func (x *Fetch) Feed() string { return x.entry.ID }

// claim reports whether the caller is the one that runs the fetch. It is false for nil.
func (x *Fetch) claim() bool { return x != nil && x.phase.CompareAndSwap(fetchWaits, fetchRuns) }

// drop gives up a fetch that waits for a worker, and reports whether it did.
func (x *Fetch) drop() bool { return x != nil && x.phase.CompareAndSwap(fetchWaits, fetchEnded) }

// awaited returns what callers wait for.
func (x *Fetch) awaited() *result {
	if x.result == nil {
		x.result = &result{done: make(chan struct{})}
	}
	return x.result
}

// A result is what a fetch brings, for those who wait for it. err and value are set before done is closed.
type result struct {
	done  chan struct{}
	value Value
	err   error
}

// resultOf is a result that is there.
func resultOf(v Value, err error) *result {
	r := &result{done: make(chan struct{}), value: v, err: err}
	close(r.done)
	return r
}

// end tells those who wait what a fetch brought. r is nil without any.
func (r *result) end(v Value, err error) {
	if r == nil {
		return
	}
	r.value, r.err = v, err
	close(r.done)
}

type dependency struct {
	entry  *Entry
	result *result
}

// begin runs a fetch that was claimed on a goroutine of its own. It is false after Close.
func (k *Keeper) begin(x *Fetch) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.running.Add(1)
	go func() {
		defer k.running.Done()
		k.run(x)
	}()
	return true
}

// run runs a fetch on the goroutine that calls it. A source that ends the goroutine ends its
// fetch all the same.
func (k *Keeper) run(x *Fetch) {
	k.fetches.Add(1)
	timeout := k.cfg.FetchTimeout
	if x.entry.Source.Kind == Agent {
		timeout = max(timeout, AgentTimeout)
	}
	ctx := newLazyContext(k.ctx, timeout)
	defer ctx.end()
	old, there := x.at.held()
	x.puts = k.puts.Load()
	gone := true
	defer func() {
		if gone {
			k.keep(x, old, there, Value{}, &PanicError{Value: "the goroutine ended with runtime.Goexit", Stack: debug.Stack()})
		}
	}()
	v, err := k.fetch(ctx, x, old)
	gone = false
	k.keep(x, old, there, v, err)
}

// keep keeps what a fetch brought, and says that it has ended. old is the value before it, if it
// is there.
func (k *Keeper) keep(x *Fetch, old Value, there bool, v Value, err error) {
	v.At = k.now()
	switch {
	case err == nil:
		v = k.put(x, old, v)
	case there && !old.Failed:
		failed := old
		failed.Failed = true
		k.put(x, old, failed)
	}
	x.value, x.err = v, err
	k.ended.Add(1)
	if err != nil {
		k.failed.Add(1)
		if crashOf(err) != nil {
			k.crashed.Add(1)
		}
	}
	for !x.phase.CompareAndSwap(fetchRuns, fetchEnded) {
		if k.endLeft(x) {
			return
		}
	}
	x.owner.post(x)
}

// put keeps a value where the one before it is, if it can, and returns what is kept: a value that
// was given (Put) since the fetch began is newer than what the fetch brings.
func (k *Keeper) put(x *Fetch, old, v Value) Value {
	v.given = 0
	now, ok := x.at.replace(v, x.puts)
	if !ok {
		key := x.client.key(x.entry)
		k.given.Lock()
		if at, known := k.cache.get(key); known && at.given > x.puts {
			now = at
		} else {
			if _, held := x.at.held(); held && !known {
				k.cache.Wait() // behind a new value that is not there yet it would turn this one away
			}
			x.at = k.cache.set(key, v)
		}
		k.given.Unlock()
	}
	if now == v && v.JSON != old.JSON {
		k.watches.changed(x.client.key(x.entry))
	}
	return now
}

// keepFetch takes over a fetch whose session goes to sleep.
func (k *Keeper) keepFetch(x *Fetch) {
	if x.drop() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if x.phase.CompareAndSwap(fetchRuns, fetchLeft) {
		k.left[x.client.key(x.entry)] = x
	} else { // its end is on the way to an actor that has stopped
		x.result.end(x.value, x.err)
	}
}

// adopt returns the fetch of a feed that an earlier activation of the session has left running;
// nil when there is none.
func (k *Keeper) adopt(c *Client, s *state) *Fetch {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.left) == 0 {
		return nil
	}
	key := c.key(s.entry)
	x := k.left[key]
	if x == nil {
		return nil
	}
	delete(k.left, key)
	x.owner, x.state = c, s
	x.phase.Store(fetchRuns) // no other goroutine changes it from fetchLeft without the lock
	return x
}

// endLeft ends a fetch whose session sleeps, and reports whether it was one.
func (k *Keeper) endLeft(x *Fetch) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !x.phase.CompareAndSwap(fetchLeft, fetchEnded) {
		return false // adopted meanwhile
	}
	delete(k.left, x.client.key(x.entry))
	x.result.end(x.value, x.err)
	return true
}

// fetch resolves what a feed refers to and asks its source. old is its value so far.
func (k *Keeper) fetch(ctx *lazyContext, x *Fetch, old Value) (v Value, err error) {
	s, e := &x.client.session, x.entry
	var values map[string]string
	if len(x.needs) > 0 {
		values = make(map[string]string, len(x.needs))
	}
	for _, d := range x.needs {
		v, ok, err := k.await(ctx, s.Key, d.entry, d.result)
		if !ok {
			return Value{}, failCause(ReasonNeeds, err, "needs %s", d.entry.ID)
		}
		_, _, values[d.entry.ID] = injected(d.entry, v.JSON, k.cfg.Counter)
	}
	src := e.Source
	if src.Kind != Remote {
		if src.Params, err = resolve(src.Params, values); err != nil {
			return Value{}, err
		}
	}
	v, same, err := k.ask(ctx, s, src, x.env, old.Tag)
	if err == nil && same {
		return old, nil
	}
	value := v.JSON
	if err == nil {
		switch {
		case len(value) > MaxValueBytes:
			err = fail(messages.ErrQuota, ReasonValueTooLarge, "%d bytes, more than %d", len(value), MaxValueBytes)
		case (value != old.JSON || value == "") && !jsontext.Value(value).IsValid():
			err = fail(messages.ErrConfig, ReasonInvalidJSON, "the source gave no JSON value")
		}
	}
	if err == nil && e.Transform != "" {
		value, err = transformed(e.Transform, value)
	}
	if err != nil && ctx.over() {
		err = failCause(ReasonTimeout, err, "the fetch was given up")
	}
	v.JSON = value
	return v, err
}

// transformed applies the steps of a feed to a value. Where one fails there is no value: what
// the steps were to change is never shown unchanged.
func transformed(steps, value string) (string, error) {
	chain, wrong := transform.Load(steps)
	if wrong != nil { // Normal has loaded it
		return "", fail(messages.ErrConfig, ReasonTransform, "%s", wrong)
	}
	out, failed := chain.Apply(value)
	if failed != nil {
		return "", fail(messages.ErrConfig, ReasonTransform, "%s", failed)
	}
	return out, nil
}

// A PanicError is a panic of a source.
type PanicError struct {
	Value any
	Stack []byte
}

// Error names the panic's value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// ask gets a value from a source. same reports that the value under tag is still the source's.
func (k *Keeper) ask(ctx context.Context, s *Session, src Source, env []string, tag string) (v Value, same bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, same, err = Value{}, false, &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	switch {
	case src.Kind == Internal:
		var facts Facts
		if s.Facts != nil {
			facts = s.Facts()
		}
		in := k.cfg.Internals
		if s.Env != nil {
			in.Env = s.Env
		}
		v.JSON, err = in.Fetch(src, facts, env)
	case src.Kind == Ingest && s.Ingest != nil:
		v.JSON, err = s.Ingest.Fetch(ctx, src)
	case src.Kind == Ingest:
		err = fail(messages.ErrConfig, ReasonNoFiles, "this session has nothing to ingest from")
	case src.Kind == Remote && s.Peers != nil:
		return s.Peers.Fetch(ctx, src, tag)
	case src.Kind == Remote:
		err = fail(messages.ErrConfig, ReasonUnknownTarget, "this host asks no other: feeds.remotes is empty")
	case s.Fetcher == nil:
		err = fail(messages.ErrConfig, ReasonUnknownTarget, "this session calls no %s", src.Kind)
	default:
		v.JSON, err = s.Fetcher.Fetch(ctx, src)
	}
	return v, false, err
}

func failCause(reason string, cause error, format string, args ...any) *messages.Error {
	e := fail(messages.ErrTimeout, reason, format, args...)
	if reason != ReasonTimeout {
		e.Code = messages.ErrConfig
	}
	e.Cause = cause
	return e
}

// isReason reports whether the outermost typed error of err has a reason.
func isReason(err error, reason string) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Reason == reason
}

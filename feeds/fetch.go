package feeds

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/transform"
	"github.com/seed14be6753/stile/messages"
)

// await waits for a flight and gives what may be served: what it brought, or an older
// value that is young enough. err says why it is not the former.
func (k *Keeper) await(ctx context.Context, session string, e *Entry, f *flight) (v Value, ok bool, err error) {
	select {
	case <-f.done: // first, if both are ready
	default:
		select {
		case <-f.done:
		case <-ctx.Done():
			k.mu.Lock()
			k.stats.Late++
			k.mu.Unlock()
			err = failCause(ReasonTimeout, fmt.Errorf("%w: %w", errLate, context.Cause(ctx)), "not fetched in time")
		}
	}
	if err == nil {
		if f.err == nil {
			return f.value, true, nil
		}
		err = f.err
	}
	if isReason(err, ReasonDisabled) {
		return Value{}, false, err
	}
	if v, ok = k.cache.get(valueKey(session, e)); !ok || !e.served(v, k.now()) && !(e.standsIn() && errors.Is(err, errLate)) {
		return Value{}, false, err
	}
	v.Failed = true
	return v, true, err
}

// errLate is in the error of a fetch that goes on and was not waited for.
var errLate = errors.New("it goes on without those who asked")

// element shows what await gave.
func (k *Keeper) element(session string, e *Entry, v Value, ok bool, err error) Element {
	el := Element{ID: e.ID, Cause: err, Reason: Why(err), Late: errors.Is(err, errLate)}
	switch {
	case ok:
		el.Stale = e.stale(v, k.now())
		if el.Stale && err == nil {
			el.Reason = k.Reason(session, *e)
		}
		el.Body, el.Truncated, el.Value = injected(e, v.JSON, k.cfg.Counter)
		el.Origin = v.Origin
	case isReason(err, ReasonTimeout):
		el.Error = ErrorTimeout
	default:
		el.Error = ErrorFailed
	}
	return el
}

func (k *Keeper) now() time.Time { return k.cfg.Internals.now() }

// A round is one look at a set: every feed in it is decided once, so that those which
// refer to another see what the prompt shows of it.
type round struct {
	k       *Keeper
	session Session
	set     Set
	flights []*flight // by entry
}

func (k *Keeper) round(s Session, set Set) *round {
	return &round{k: k, session: s, set: set, flights: make([]*flight, len(set.entries))}
}

// want returns the flight of a feed: one that has landed if the value at hand is fresh
// enough and none is forced. It goes no deeper than a set is long.
func (r *round) want(i int, force bool) *flight {
	if r.flights[i] != nil {
		return r.flights[i]
	}
	e := &r.set.entries[i]
	key := valueKey(r.session.Key, e)
	f := r.k.held(r.session.Key, key)
	if f == nil && !force {
		if v, ok := r.k.cache.get(key); ok && (e.fresh(v, r.k.now()) || e.Source.Kind == Remote && r.k.hears(r.session.Key, key)) {
			f = landed(v, nil)
		}
	}
	if f == nil {
		f = r.fetch(e, key)
	}
	r.flights[i] = f
	return f
}

func (r *round) fetch(e *Entry, key string) *flight {
	deps := make([]dependency, 0, len(e.needs))
	for _, name := range e.needs {
		j := r.set.at(name)
		if j < 0 || r.set.entries[j].Disabled {
			return landed(Value{}, fail(messages.ErrConfig, ReasonNeeds, "needs %s: it is gone or disabled", name))
		}
		deps = append(deps, dependency{r.set.entries[j], r.want(j, false)})
	}
	return r.k.join(r.session, *e, key, deps, r.set.rules.Env)
}

// held returns the refusal of a feed that crashed and is not to be fetched now.
func (k *Keeper) held(session, key string) *flight {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.sessions[session]
	if a == nil {
		return nil
	}
	c, ok := a.crashes[key]
	switch {
	case !ok || c.May(k.now()):
		return nil
	case c.Disabled():
		return landed(Value{}, fail(messages.ErrCrash, ReasonDisabled, "it crashed %d times within %s", BackOffTimes+1, BackOffWindow))
	}
	return landed(Value{}, fail(messages.ErrCrash, ReasonBackOff, "it crashed and is restarted at %s", c.Next().UTC().Format(time.RFC3339)))
}

type dependency struct {
	entry  Entry
	flight *flight
}

// fly fetches a feed whose value so far is at a place, or nowhere, and gives the time when
// it has landed. A source that ends the goroutine ends its flight all the same.
func (k *Keeper) fly(r *runway, at *place, s *Session, e *Entry, deps []dependency, env []string) time.Time {
	timeout := k.cfg.FetchTimeout
	if e.Source.Kind == Agent {
		timeout = max(timeout, AgentTimeout)
	}
	ctx := newPatience(k.ctx, timeout)
	defer ctx.end()
	l := landing{k: k, runway: r, at: at, session: s.Key, entry: e}
	l.old, l.there = at.held()
	gone := true
	defer func() {
		if gone {
			l.land(Value{}, &PanicError{Value: "the goroutine ended with runtime.Goexit", Stack: debug.Stack()})
		}
	}()
	value, err := k.fetch(ctx, s, e, l.old, deps, env)
	gone = false
	return l.land(value, err)
}

// landing is what the end of a flight needs of its beginning.
type landing struct {
	k       *Keeper
	runway  *runway
	at      *place
	session string
	entry   *Entry
	old     Value
	there   bool // an old one
}

// land ends a flight, tells those who wait for it, and gives the time.
func (l *landing) land(v Value, err error) time.Time {
	now := l.k.now()
	v.At = now
	if err == nil {
		l.put(v)
		if f, ok := l.cleared(); ok {
			f.end(v, nil)
			return now
		}
	} else if old := l.old; l.there && !old.Failed {
		old.Failed = true
		l.put(old)
	}
	l.clear(now, err).end(v, err)
	return now
}

// put keeps a value where the one before it is, if it can.
func (l *landing) put(v Value) {
	if !l.at.take(v) {
		l.at = l.k.cache.set(valueKey(l.session, l.entry), v)
	}
	if v.JSON != l.old.JSON {
		l.k.watches.changed(valueKey(l.session, l.entry))
	}
}

// cleared clears the runway of a feed that ticks and of which nothing is remembered,
// so that only its own state changes. It is false for any other feed.
func (l *landing) cleared() (f *flight, ok bool) {
	r := l.runway
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil || r.crashed || r.failed {
		return nil, false
	}
	l.k.ended.Add(1)
	return r.clear(l.at), true
}

// clear clears the runway and remembers how the flight ended.
func (l *landing) clear(now time.Time, err error) *flight {
	k, r := l.k, l.runway
	key := valueKey(l.session, l.entry)
	var panicked *PanicError
	crashed := errors.As(err, &panicked) && !isReason(err, ReasonNeeds) // that of a feed it needs is not its own
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended.Add(1)
	if err != nil {
		k.stats.Failed++
	}
	if crashed {
		k.stats.Crashed++
	}
	a := k.sessions[l.session]
	if a != nil {
		k.remember(a, key, now, crashed, err == nil)
		a.explain(key, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		delete(k.runways, key)
	} else {
		_, r.crashed = a.crashes[key]
		_, r.failed = a.reasons[key]
	}
	return r.clear(l.at)
}

// explain keeps why the last fetch of a feed failed, until one succeeds. k.mu is held.
func (a *active) explain(key string, err error) {
	if err == nil {
		delete(a.reasons, key)
		return
	}
	if a.reasons == nil {
		a.reasons = map[string]string{}
	}
	a.reasons[key] = Why(err)
}

// remember keeps the crashes of a feed when another fetch of it has ended. k.mu is held.
func (k *Keeper) remember(a *active, key string, now time.Time, crashed, succeeded bool) {
	c, known := a.crashes[key]
	switch {
	case crashed:
		if a.crashes == nil {
			a.crashes = map[string]Crashes{}
		}
		if c = c.Crashed(now); c.Disabled() {
			k.stats.Disabled++
		}
		a.crashes[key] = c
	case known && succeeded:
		if c = c.Succeeded(); c.forgettable(now) {
			delete(a.crashes, key)
		} else {
			a.crashes[key] = c
		}
	}
}

// fetch resolves what a feed refers to and asks its source. old is its value so far.
func (k *Keeper) fetch(ctx *patience, s *Session, e *Entry, old Value, deps []dependency, env []string) (v Value, err error) {
	var values map[string]string
	if len(deps) > 0 {
		values = make(map[string]string, len(deps))
	}
	for i := range deps {
		d := &deps[i]
		v, ok, err := k.await(ctx, s.Key, &d.entry, d.flight)
		if !ok {
			return Value{}, failCause(ReasonNeeds, err, "needs %s", d.entry.ID)
		}
		_, _, values[d.entry.ID] = injected(&d.entry, v.JSON, k.cfg.Counter)
	}
	src := e.Source
	if src.Kind != Remote {
		if src.Params, err = resolve(src.Params, values); err != nil {
			return Value{}, err
		}
	}
	v, same, err := k.ask(ctx, s, src, env, old.Tag)
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

package feeds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// A Client asks the feeds of a session that is awake. It is safe for concurrent use: it sends
// the session's actor a Want, and waits on the goroutine of its caller.
type Client struct {
	keeper  *Keeper
	session Session
	post    func(msg any)
	stopped chan struct{} // closed when the session's feeds have stopped
}

// ErrStopped is the Cause of an Element whose session has gone to sleep: ask it again when it is
// awake.
var ErrStopped error = &messages.Error{Code: messages.ErrCancelled, Reason: ReasonClosed, Detail: "the session has stopped"}

// Session is the Key of the session.
func (c *Client) Session() string { return c.session.Key }

func (c *Client) key(e *Entry) string { return valueKey(c.session.Key, e) }

// ask returns what a Want is answered with.
func (c *Client) ask(ctx context.Context, m *Want) []wanted {
	m.reply = make(chan []wanted, 1)
	c.post(m)
	select {
	case all := <-m.reply:
		return all
	case <-c.stopped:
	case <-ctx.Done():
	}
	select {
	case all := <-m.reply: // first, if several are ready
		return all
	default:
		return c.unanswered(ctx, m)
	}
}

// unanswered is what a Want is answered with that came behind the end of the session's feeds, or
// of ctx.
func (c *Client) unanswered(ctx context.Context, m *Want) (all []wanted) {
	r := &result{}
	if ctx.Err() == nil {
		r = resultOf(Value{}, ErrStopped)
	}
	for i := 0; m.set != nil && i < len(m.set.entries); i++ {
		if e := &m.set.entries[i]; !e.Disabled && (m.id == "" || m.id == e.ID) {
			all = append(all, wanted{entry: e, result: r})
		}
	}
	return all
}

// Prompt returns the elements of a prompt in the order of the set. Feeds whose value is too old
// are fetched concurrently, after those they refer to, all under one deadline, or an earlier
// one of their own; a feed that is late has an older value or none (docs/spec/streaming.md
// §7.2). Late fetches go on for the next prompt. Prompt does not fail: elements have the errors.
func (c *Client) Prompt(ctx context.Context, set Set) []Element {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.keeper.cfg.Deadline)
	defer cancel()
	all := c.ask(ctx, &Want{set: &set})
	out := make([]Element, 0, len(all))
	for i := range all {
		own, done := ctx, context.CancelFunc(func() {})
		if d := all[i].entry.Deadline; d > 0 {
			own, done = context.WithDeadline(ctx, begun.Add(d))
		}
		el, _, _ := c.await(own, &all[i])
		done()
		out = append(out, el)
	}
	return out
}

// Get returns one feed now, as for get_context_feed or the first use of $id: fetched if
// its value is too old or refresh is set, for as long as ctx lasts. known reports whether
// there is a value; ok whether there is a feed by that id which is not disabled.
func (c *Client) Get(ctx context.Context, set Set, id string, refresh bool) (el Element, v Value, known, ok bool) {
	var all []wanted
	if id != "" { // no feed has it
		all = c.ask(ctx, &Want{set: &set, id: id, force: refresh})
	}
	if len(all) == 0 {
		return Element{}, Value{}, false, false
	}
	el, v, known = c.await(ctx, &all[0])
	return el, v, known, true
}

// refetch fetches a feed as the session has it now; ok is false when it has no new value.
func (c *Client) refetch(ctx context.Context, id string) (v Value, ok bool) {
	all := c.ask(ctx, &Want{id: id, force: true})
	if len(all) == 0 {
		return Value{}, false
	}
	el, v, known := c.await(ctx, &all[0])
	return v, known && el.Cause == nil
}

// await waits for a feed and shows it.
func (c *Client) await(ctx context.Context, w *wanted) (el Element, v Value, known bool) {
	k, e := c.keeper, w.entry
	v, known, err := k.await(ctx, c.session.Key, e, w.result)
	el = Element{ID: e.ID, Cause: err, Reason: Why(err), Late: errors.Is(err, errLate)}
	switch {
	case known:
		el.Stale = e.stale(v, k.now())
		if el.Stale && err == nil {
			el.Reason = w.reason
		}
		el.Body, el.Truncated, el.Value = injected(e, v.JSON, k.cfg.Counter)
		el.Origin = v.Origin
	case isReason(err, ReasonTimeout):
		el.Error = ErrorTimeout
	default:
		el.Error = ErrorFailed
	}
	return el, v, known
}

// await waits for a fetch and returns what may be served: what it brought, or an older
// value that is young enough. err says why it is not the former.
func (k *Keeper) await(ctx context.Context, session string, e *Entry, r *result) (v Value, ok bool, err error) {
	select {
	case <-r.done: // first, if both are ready
	default:
		select {
		case <-r.done:
		case <-ctx.Done():
			k.late.Add(1)
			err = failCause(ReasonTimeout, fmt.Errorf("%w: %w", errLate, context.Cause(ctx)), "not fetched in time")
		}
	}
	if err == nil {
		if r.err == nil {
			return r.value, true, nil
		}
		err = r.err
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

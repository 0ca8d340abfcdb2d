// Package feedvalues gets the values of a session's feeds for those that use them: prompts,
// references, actions on the session, and clients of the host. It also calls what feeds name as
// their sources.
//
// Invariants:
//   - nothing here runs on a session's goroutine or holds its state: a Values is what the session
//     has handed out;
//   - a feed without a value is one with an error, and a prompt is made all the same;
//   - a source runs under the gate, and what it used is counted to a run once.
//
// When a feed is due and what its cache has is the business of package feeds, the states are the
// feed actor's, and what a turn records of a feed is internal/turn's.
package feedvalues

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/internal/relics"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
	"github.com/seed14be6753/stile/tools"
)

// Env is what the feeds of all sessions of a host share.
type Env struct {
	Keeper       *feeds.Keeper // nil keeps no feeds
	Store        journal.Store
	Outputs      load.Outputs
	Scopes       *relics.Scopes
	Now          func() time.Time
	Log          *zap.Logger
	LimitReached func(limit string, n int)
	Orphan       func()       // a source overran its time and was left behind
	Run          func(func()) // runs a function on a goroutine that the host waits for
}

// Session says whose feeds they are.
type Session struct {
	Agent *compiled.Agent
	SID   string
	Inc   messages.Incarnation
	Epoch int64
}

// Values is where the values of a session's feeds come from, away from its goroutine.
type Values struct {
	Session
	*feeds.Client // nil for a session without feeds
	Calls         *Calls
	Set           feeds.Set
}

// State is what is known of a feed of a session.
type State struct {
	ID       string
	Trigger  string // on_demand or periodic
	Source   string // its kind, and what is called: "tool git.log", "internal system_clock"
	Interval time.Duration
	Added    bool // by the model
	Disabled bool
	Pinned   bool
	Updated  time.Time // of the value that is kept; zero for none
	Stale    bool      // there is none, or a refresh should have replaced it
	Value    string    // JSON, before limits; "" for none
	Reason   string    // why its last fetch failed, in words; "" when it did not
	// Failure is why Session.FeedValues has no value: failed, timeout, too_large, or forwarded
	// for one that comes from another host.
	Failure string
}

// List returns the states of a session's feeds, in the order of injection. It fetches nothing.
func List(keeper *feeds.Keeper, states *feeds.States) (all []State) {
	for _, e := range states.Set().Entries() {
		st := State{
			ID: e.ID, Trigger: string(e.Trigger), Source: e.Source.Shown(),
			Interval: e.Interval, Added: e.Added, Disabled: e.Disabled, Pinned: e.Pinned, Reason: states.Reason(e.ID),
		}
		v, known, stale := keeper.Status(states.Client().Session(), e)
		if st.Stale = stale; known {
			st.Updated, st.Value = v.At, v.JSON
		}
		all = append(all, st)
	}
	return all
}

// Fresh returns feeds by their ids, each with a value that a prompt would take now. listed are the
// states of all feeds of the session; those that are not there, or are disabled, are left out.
// first is false for a value that goes on to a further host: then what comes from another one is
// not given. asleep are those that were not got because the session was asleep again; their states
// say so.
func (f *Values) Fresh(ctx context.Context, listed []State, ids []string, first bool) (all []State, asleep []string) {
	states := map[string]State{}
	for _, st := range listed {
		states[st.ID] = st
	}
	for _, id := range ids {
		st, ok := states[id]
		if !ok || st.Disabled {
			continue
		}
		if !first && f.Set.Forwards(id) {
			st.Value, st.Failure = "", feeds.ReasonForwarded
			all = append(all, st)
			continue
		}
		el, v, known, ok := f.get(ctx, f.Set, id)
		if !ok {
			continue
		}
		if errors.Is(el.Cause, feeds.ErrStopped) {
			asleep = append(asleep, id)
		}
		st.Value, st.Updated, st.Stale, st.Reason = v.JSON, v.At, el.Stale, el.Reason
		if !known {
			st.Value, st.Updated, st.Stale, st.Failure = "", time.Time{}, true, el.Error
		}
		all = append(all, st)
	}
	return all, asleep
}

// get returns a feed of a set; ok is false when it is not there, or is disabled.
func (f *Values) get(ctx context.Context, set feeds.Set, id string) (el feeds.Element, v feeds.Value, known, ok bool) {
	if f.Client == nil {
		return el, v, false, false
	}
	return f.Get(ctx, set, id, false)
}

// Do does an action on the session's feeds (docs/spec/streaming.md §7.4). change is what the turn
// records of it; nil for none.
func (e *Env) Do(ctx context.Context, f *Values, name, args string) (result string, change *messages.FeedChange, err error) {
	call := feeds.Call{Name: name, Params: args, Permission: f.Agent.Feeds.Permission, Now: e.Now()}
	if e.Keeper != nil {
		e.Keeper.Settle() // what the prompt has just fetched is there to be found
		call.Counter = e.Keeper.Counter()
		call.Value = func(entry feeds.Entry) (feeds.Value, bool) { return e.Keeper.Value(f.Inc.String(), entry) }
	}
	out, err := f.Set.Do(call)
	if err != nil {
		reason := feeds.FailureReason(err)
		if reason == feeds.ReasonFeedLimit {
			e.LimitReached(messages.LimitFeeds, 1)
		}
		return "", nil, tools.Refuse(reason, err.Error())
	}
	if out.Fetch != "" {
		_, v, known, _ := f.Get(ctx, f.Set, out.Fetch, true)
		entry, _ := f.Set.Get(out.Fetch)
		return feeds.GetResult(entry, v, known, e.Now(), call.Counter), nil, nil
	}
	return out.Result, out.Change(), nil
}

// Ready gets what a turn asks for: the feeds of its prompt, or those that it names. A prompt has a
// deadline for its feeds, a reference waits until ctx ends.
func (e *Env) Ready(ctx context.Context, f *Values, asked *turn.FetchFeeds) *turn.FeedsReady {
	in := &turn.FeedsReady{Ident: asked.Ident, Names: asked.Names}
	supervisor.Guard(func() {
		if len(asked.Names) == 0 {
			in.Feeds = slices.Concat(e.instructions(ctx, f, asked.Instructions), e.profile(ctx, f), e.prompt(ctx, f))
			return
		}
		for _, name := range asked.Names {
			in.Feeds = append(in.Feeds, f.named(ctx, f.Set, name))
		}
	}, func(crash *supervisor.Crash) {
		e.Log.Error("fetching feeds crashed", zap.String("SID", f.SID), zap.ByteString("stack", crash.Stack))
		in.Feeds = nil
		for _, name := range asked.Names {
			in.Feeds = append(in.Feeds, messages.Feed{ID: name, Error: feeds.ErrorFailed, Reason: "fetching it crashed"})
		}
	})
	return in
}

// instructions is what the system says in front of all else in the turns of a run: made
// for its first prompt, and the same from then on, which known names. Without it no model is
// asked.
func (e *Env) instructions(ctx context.Context, f *Values, known messages.Digest) []messages.Feed {
	if f.Agent.Instructions == "" {
		return nil
	}
	fd := messages.Feed{ID: messages.InstructionsFeed}
	var err error
	if known.IsZero() {
		var text string
		if text, err = f.Agent.Fill(ctx, f.SID, func(id string) messages.Feed { return f.named(ctx, f.Agent.Feeds.Set, id) }); err == nil {
			quoted, _ := jsontext.AppendQuote(nil, text)
			fd.Value = string(quoted)
		}
	} else {
		var kept []byte
		kept, err = e.Store.Blob(ctx, f.Inc, known)
		fd.Value = string(kept)
	}
	if err != nil {
		e.Log.Warn("the instructions of a run cannot be made", zap.String("SID", f.SID), zap.Error(err))
		fd.Value, fd.Error, fd.Reason = "", feeds.ErrorFailed, err.Error()
	}
	return []messages.Feed{fd}
}

// profile is what a prompt has of its user, if anything is known. A failure is
// recorded, and no client sees it.
func (e *Env) profile(ctx context.Context, f *Values) []messages.Feed {
	if f.Agent.Profile == nil {
		return nil
	}
	fd := messages.Feed{ID: messages.ProfileFeed}
	var err error
	if fd.Value, err = f.Agent.Profile(ctx, f.SID); err != nil {
		e.Log.Warn("the profile of a user cannot be read", zap.String("SID", f.SID), zap.Error(err))
		fd.Value, fd.Error, fd.Reason = "", feeds.ErrorFailed, "the profile cannot be read"
	} else if fd.Value == "" {
		return nil
	}
	return []messages.Feed{fd}
}

// prompt gets the feeds that a prompt shows.
func (e *Env) prompt(ctx context.Context, f *Values) []messages.Feed {
	if f.Client == nil {
		return nil
	}
	els := f.Prompt(ctx, f.Set)
	out := make([]messages.Feed, len(els))
	if ctx.Err() == nil && slices.ContainsFunc(els, func(el feeds.Element) bool { return el.Late }) {
		e.LimitReached(messages.LimitFeedDeadline, 1)
	}
	for i := range els {
		if els[i].Cause != nil {
			e.Log.Info("a feed is not fresh", zap.String("feed", els[i].ID), zap.String("session", f.Client.Session()), zap.Error(els[i].Cause))
		}
		out[i] = els[i].Feed()
		f.Calls.charge(&out[i])
	}
	return out
}

// named gets one feed, or a variable of the environment.
func (f *Values) named(ctx context.Context, set feeds.Set, id string) messages.Feed {
	if name, ok := strings.CutPrefix(id, messages.EnvironmentFeed); ok {
		if f.Agent.Feeds.Environment != nil {
			if v, ok := f.Agent.Feeds.Environment(name); ok {
				quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(v, "\ufffd"))
				return messages.Feed{ID: id, Value: string(quoted)}
			}
		}
		return messages.Feed{ID: id, Error: feeds.ErrorFailed, Reason: name + " is not set"}
	}
	if el, _, _, ok := f.get(ctx, set, id); ok {
		fd := el.Feed()
		f.Calls.charge(&fd)
		return fd
	}
	return messages.Feed{ID: id, Error: feeds.ErrorFailed, Reason: "there is no such feed, or it is disabled"}
}

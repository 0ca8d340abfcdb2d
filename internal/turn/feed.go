package turn

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Context feeds as a turn has them (docs/spec/streaming.md §7). The shell knows what feeds are
// and where values come from. The machine asks for values, records them, and keeps them until
// the turn is decided: $id has one value for the model, for its actions and for its responses,
// and the same value when the turn is restored or replayed.

// FetchFeeds asks for the values of feeds; the answer is FeedsReady. Without Names it asks
// for the feeds of the prompt: all that are enabled, in their order. A name is a feed that an
// action or a response refers to and the prompt did not have, or a variable after the prefix
// messages.EnvironmentFeed. The clocks of the turn run meanwhile.
type FetchFeeds struct {
	After int64
	Ident
	Run   int64
	Names []string
	// Instructions is the blob of the run's instructions. It is zero for the run's first
	// prompt, for which they are made; later prompts repeat them.
	Instructions messages.Digest
}

func (e *FetchFeeds) after() int64 { return e.After }

// FeedsReady answers FetchFeeds, with the same Names and one feed for each, which may have an
// Error instead of a value.
type FeedsReady struct {
	Ident
	Names []string
	Feeds []messages.Feed
}

func (*FeedsReady) input() string { return "FeedsReady" }

// fed is what a turn has of feeds.
type fed struct {
	values map[string]messages.Feed
	// pending are the ids that were asked for and not answered yet.
	pending []string
	opening *OpenModel // waits for the feeds of its prompt; nil once they are there
}

// openModel opens the model, after the feeds of its prompt are fetched if there are any.
func (m *Machine) openModel(open *OpenModel) {
	if !m.anyFeeds() {
		m.do(open)
		return
	}
	m.flight.feeds.opening = open
	m.do(&FetchFeeds{After: open.After, Ident: open.Ident, Run: open.Run, Instructions: m.state.Open.Instructions})
}

// anyFeeds reports whether a prompt may have feeds.
func (m *Machine) anyFeeds() bool {
	return slices.ContainsFunc(m.cfg.Feeds, m.hasFeed) || slices.ContainsFunc(m.state.Feeds.Edits, func(e FeedEdit) bool { return !e.Gone && !e.Disabled })
}

// hasFeed reports whether the session has an enabled feed with that id.
func (m *Machine) hasFeed(id string) bool {
	there := slices.Contains(m.cfg.Feeds, id)
	for i := range m.state.Feeds.Edits { // an added feed stands after the removed one of the same id
		if e := &m.state.Feeds.Edits[i]; e.ID == id {
			there = !e.Gone && !e.Disabled
		}
	}
	return there
}

// SessionFeeds are the changes that internal actions made to the manifest's feeds, for one
// session (docs/spec/streaming.md §7.4).
type SessionFeeds struct {
	Edits   []FeedEdit `json:"edits,omitzero"`   // the latest of each feed; those removed from the manifest are Gone
	Cleared int64      `json:"cleared,omitzero"` // position of the record that dropped all values
	Changed int64      `json:"changed,omitzero"` // position of the latest change
}

// FeedEdit is one feed as the model of its session changed it.
type FeedEdit struct {
	ID       string `json:"id"`
	Added    bool   `json:"added,omitzero"`
	Gone     bool   `json:"gone,omitzero"`
	Disabled bool   `json:"disabled,omitzero"`
	Spec     string `json:"spec,omitzero"` // as of messages.FeedChange
	// Since is a position: values that were fetched before it belong to an earlier feed.
	Since int64 `json:"since,omitzero"`
}

// MaxFeedEdits bounds SessionFeeds.Edits: one of the manifest and an added one for each feed
// that a session may have (docs/spec/streaming.md §10).
const MaxFeedEdits = 2 * 32

// changeFeeds folds a change, recorded at seq, and those that came with it.
func (s *State) changeFeeds(seq int64, c *messages.FeedChange) {
	s.changeFeed(seq, c)
	for i := range c.Also {
		s.changeFeed(seq, &c.Also[i])
	}
}

func (s *State) changeFeed(seq int64, c *messages.FeedChange) {
	f := &s.Feeds
	f.Changed = seq
	if c.Cleared {
		f.Cleared = seq
		return
	}
	e := FeedEdit{ID: c.ID, Added: c.Added, Gone: c.Gone, Disabled: c.Disabled, Spec: c.Spec}
	i := slices.IndexFunc(f.Edits, func(o FeedEdit) bool { return o.ID == c.ID && o.Added == c.Added })
	if i >= 0 {
		e.Since = f.Edits[i].Since
	}
	if c.Fresh {
		e.Since = seq
	}
	switch {
	case i >= 0 && c.Gone && c.Added:
		if f.Edits = slices.Delete(f.Edits, i, i+1); len(f.Edits) == 0 {
			f.Edits = nil
		}
	case i >= 0:
		f.Edits[i] = e
	case len(f.Edits) < MaxFeedEdits:
		f.Edits = append(f.Edits, e)
	}
}

// feedsReady takes the values of feeds.
func (m *Machine) feedsReady(in *FeedsReady) {
	if !m.current(in.Ident) {
		return
	}
	f := m.flight
	if len(in.Names) == 0 {
		open := f.feeds.opening
		if open == nil || m.phase != Generating {
			m.dropped++
			return
		}
		known := m.state.Open.Instructions // recorded with the run's first prompt
		for i := range in.Feeds {
			if fd := &in.Feeds[i]; fd.ID != messages.InstructionsFeed || known.IsZero() {
				m.inject(fd)
			}
		}
		if slices.ContainsFunc(in.Feeds, used) && m.overBudget() {
			return
		}
		f.feeds.opening, open.Feeds = nil, in.Feeds
		m.do(open)
		return
	}
	if !m.acts(f) {
		m.dropped++
		return
	}
	for i := range in.Feeds {
		fd := &in.Feeds[i]
		at := slices.Index(f.feeds.pending, fd.ID)
		if at < 0 {
			m.dropped++
			continue
		}
		f.feeds.pending = slices.Delete(f.feeds.pending, at, at+1)
		m.inject(fd)
		if m.graph != nil {
			m.graph.todo = m.graph.plan.FeedReady(m.graph.todo, strings.TrimPrefix(fd.ID, messages.EnvironmentFeed))
		}
	}
	if slices.ContainsFunc(in.Feeds, used) && m.overBudget() {
		return
	}
	m.proceed()
}

// used reports whether a feed has used some of the run's budget.
func used(fd messages.Feed) bool { return fd.Tokens > 0 || fd.CostUSD > 0 }

// inject records the value of a feed that the turn has from now on.
func (m *Machine) inject(fd *messages.Feed) {
	body := &messages.FeedInjected{ID: fd.ID, Stale: fd.Stale, Truncated: fd.Truncated, Error: fd.Error, Origin: fd.Origin, Reason: fd.Reason, CostUSD: fd.CostUSD, Tokens: fd.Tokens}
	var blobs []messages.Blob
	if fd.Error == "" {
		b := blobOf([]byte(fd.Value))
		body.Digest, blobs = b.Digest, []messages.Blob{b}
	}
	m.persist(body, LazyHold, blobs...)
	m.flight.feeds.keep(*fd)
}

func (f *fed) keep(fd messages.Feed) {
	if f.values == nil {
		f.values = map[string]messages.Feed{}
	}
	f.values[fd.ID] = fd
}

// wantFeed asks for the value that a reference waits for. name is as the reference has it: a
// feed, or a variable if no feed has that id.
func (m *Machine) wantFeed(name string) {
	f := m.flight
	id := name
	if _, had := f.feeds.values[id]; had || !m.hasFeed(id) {
		id = messages.EnvironmentFeed + name
	}
	if slices.Contains(f.feeds.pending, id) {
		return
	}
	if f.doc != nil {
		m.chunk(true) // the bytes with the reference are recorded before the value
	}
	f.feeds.pending = append(f.feeds.pending, id)
	m.do(&FetchFeeds{Ident: f.Ident, Run: m.state.Open.Run, Names: []string{id}})
}

// lookup returns what the turn has of a feed or variable. there reports whether it can be
// fetched.
func (m *Machine) lookup(id string, there bool) (string, plan.Status) {
	if m.flight == nil {
		return "", plan.Absent
	}
	fd, ok := m.flight.feeds.values[id]
	switch {
	case ok && fd.Error == "":
		return fd.Value, plan.Present
	case ok || !there:
		return "", plan.Absent
	}
	return "", plan.Pending
}

// names are the feeds, which actions and responses may refer to as they do to actions.
type names struct{ m *Machine }

// Lookup implements plan.Environment.
func (n names) Lookup(name string) (string, plan.Status) {
	value, status := n.m.lookup(name, n.m.hasFeed(name))
	if status == plan.Absent && n.m.cfg.saysMissing() && n.m.flight != nil && n.m.flight.feeds.values[name].Error != "" {
		status = plan.Void
	}
	return value, status
}

// variables are what parameters may write as ${NAME}: environment.allow and
// environment.variables of the manifest.
type variables struct{ m *Machine }

// Lookup implements plan.Environment.
func (v variables) Lookup(name string) (string, plan.Status) {
	return v.m.lookup(messages.EnvironmentFeed+name, slices.Contains(v.m.cfg.Environment, name))
}

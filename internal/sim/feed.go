package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/messages"
)

// Context feeds: docs/spec/streaming.md §7 from the side of the turn. What a prompt has of them, what
// "$id" stands for until the turn is decided, and what the model made of them are read once
// more from the records; their sources and their cache are the simulation's. The keeper of a
// real host has a random test of its own, in feeds.

// feed is one of a session's feeds, as its manifest or its model wrote it.
type feed struct {
	id     string
	every  time.Duration // periodic; 0 is on demand
	served time.Duration // how old a value may be and still be shown
	bytes  int           // of a value at most; 0 is no bound
	off    bool
	added  bool
	since  int64 // record from which on values are its own
}

// manifestFeeds are what an agent may have. The last one is off.
var manifestFeeds = []feed{
	{id: "pulse", every: 5 * time.Second, served: 15 * time.Second},
	{id: "clock"},
	{id: "notes", served: 20 * time.Second, bytes: 12},
	{id: "dark", off: true},
}

// addedFeeds are ids that a model may give feeds of its own.
var addedFeeds = []string{"spare", "notes", "pulse"}

const (
	feedDeadline  = 2 * time.Second // of a prompt's fetches, docs/spec/streaming.md §7.2
	environmental = "HOME"          // a variable that parameters may name
)

// feedIDs lists those that are fetched.
func feedIDs(fs []feed) (ids []string) {
	for i := range fs {
		if !fs[i].off {
			ids = append(ids, fs[i].id)
		}
	}
	return ids
}

// feeds is an action on the session's feeds.
func (a *author) feeds(b *strings.Builder) {
	id := a.one(append(slices.Clone(addedFeeds), "clock", "dark")...)
	fmt.Fprintf(b, `<action type="internal"%s>`, a.one("", ` id="a"`, ` id="c"`))
	switch n := a.rnd.IntN(9); {
	case n < 3:
		fmt.Fprintf(b, `{"name":"add_context_feed","parameters":{"id":%q,"type":"on_demand"}}`, id)
	case n < 5:
		fmt.Fprintf(b, `{"name":"remove_context_feed","parameters":{"id": %q}}`, id) // not as its result is written: a text that is not closed may have it
	case n < 7:
		fmt.Fprintf(b, `{"name":"update_context_feed","parameters":{"id":%q,"enabled":%s}}`, id, a.one("true", "true", "false"))
	default:
		fmt.Fprintf(b, `{"name":"update_context_feed","parameters":{"id":%q,"source":{"type":"tool","name":"other"}}}`, id)
	}
	b.WriteString("</action>")
}

// onFeeds reports whether an internal action is about feeds.
func onFeeds(name string) bool {
	return name == messages.InternalAddFeed || name == messages.InternalRemoveFeed || name == messages.InternalUpdateFeed
}

// changesFeeds does an action on feeds: nothing has changed before its end is recorded.
func (s *shell) changesFeeds(e *turn.StartAction) (state messages.ActionState, reason, result string, change *messages.FeedChange) {
	var in struct {
		ID, Type string
		Enabled  *bool
		Source   json.RawMessage
	}
	if err := json.Unmarshal([]byte(e.Args), &in); err != nil {
		return messages.ActionFailed, turn.ReasonBadField, "", nil
	}
	have := s.audit.larder
	i := slices.IndexFunc(have.feeds, func(f feed) bool { return f.id == in.ID })
	change = &messages.FeedChange{ID: in.ID, Added: true, Spec: e.Args}
	switch {
	case e.Name == messages.InternalAddFeed && i >= 0:
		return messages.ActionFailed, "feed_exists", "", nil
	case e.Name == messages.InternalAddFeed:
		change.Fresh = true
	case i < 0:
		return messages.ActionFailed, "feed_not_found", "", nil
	case e.Name == messages.InternalRemoveFeed:
		change.Added, change.Gone, change.Spec = have.feeds[i].added, true, ""
	default:
		change.Added, change.Fresh, change.Disabled = have.feeds[i].added, in.Source != nil, have.feeds[i].off
		if in.Enabled != nil {
			change.Disabled = !*in.Enabled
		}
	}
	return messages.ActionOK, "", fmt.Sprintf(`{"id":%q}`, in.ID), change
}

// larder is what an audit knows of the session's feeds, and of what the open turn has of them.
type larder struct {
	feeds   []feed // in the order of a prompt
	cleared int64
	fedAt   []int64                               // by fed: seq of the record
	fed     []messages.FeedInjected               // of the turn
	gave    map[string]map[messages.Digest]string // by feed: every value that a source gave
}

func (c *client) newLarder() larder {
	return larder{feeds: slices.Clone(c.feeds), gave: c.gave}
}

// remakes takes what an action on the session has made of feeds: its end says so, and no
// other end does.
func (l *larder) remakes(seq int64, c *act, b *messages.ActionEnded) error {
	ch := b.Feed
	may := c.typ == messages.TypeInternal && b.State == messages.ActionOK && (onFeeds(c.name) || c.name == messages.InternalClearContext)
	if may != (ch != nil) {
		return fmt.Errorf("action %s (%s) ends %s, and changes of feeds: %+v", c.id, c.name, b.State, ch)
	}
	if ch == nil {
		return nil
	}
	if ch.Cleared {
		l.cleared = seq
		return nil
	}
	i := slices.IndexFunc(l.feeds, func(f feed) bool { return f.id == ch.ID })
	switch {
	case i < 0:
		l.feeds = append(l.feeds, feed{id: ch.ID, added: true, since: seq})
	case ch.Gone:
		l.feeds = slices.Delete(l.feeds, i, i+1)
	default:
		if l.feeds[i].off = ch.Disabled; ch.Fresh {
			l.feeds[i].since = seq
		}
	}
	return nil
}

// injected takes what a turn has of a feed: once, of one that is there, a value that its
// source gave or a reason why there is none.
func (l *larder) injected(seq int64, b *messages.FeedInjected) error {
	id, variable := strings.CutPrefix(b.ID, messages.EnvironmentFeed)
	if slices.ContainsFunc(l.fed, func(o messages.FeedInjected) bool { return o.ID == b.ID }) {
		return fmt.Errorf("the turn has feed %s, and now once more", b.ID)
	}
	if variable && id != environmental || !variable && !slices.Contains(feedIDs(l.feeds), id) {
		return fmt.Errorf("feed %s does not belong to the session", b.ID)
	}
	if (b.Error == "") == b.Digest.IsZero() || b.Error != "" && b.Error != "failed" && b.Error != "timeout" {
		return fmt.Errorf("feed %s has the value %s and the error %q", b.ID, b.Digest, b.Error)
	}
	if _, known := l.gave[b.ID][b.Digest]; b.Error == "" && !known {
		return fmt.Errorf("feed %s has a value that no source gave", b.ID)
	}
	l.fed = append(l.fed, *b)
	l.fedAt = append(l.fedAt, seq)
	return nil
}

// value is what a name stands for in the open turn, as a feed or a variable.
func (l *larder) value(name string) (value string, known bool) {
	for i := range l.fed {
		if b := &l.fed[i]; (b.ID == name || b.ID == messages.EnvironmentFeed+name) && b.Error == "" {
			return l.gave[b.ID][b.Digest], true
		}
	}
	return "", false
}

// lacking reports whether the turn has a feed of a name, and no value of it.
func (l *larder) lacking(name string) bool {
	return slices.ContainsFunc(l.fed, func(b messages.FeedInjected) bool { return b.ID == name && b.Error != "" })
}

// shows is how a text shows a value: strings as they are.
func shows(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}

// keeps compares what the machine knows of the session's feeds with what records made of them.
func (l *larder) keeps(f *turn.SessionFeeds) error {
	if f.Cleared != l.cleared {
		return fmt.Errorf("values of feeds count from record %d on, by the records from %d", f.Cleared, l.cleared)
	}
	for i := range l.feeds {
		have := &l.feeds[i]
		j := slices.IndexFunc(f.Edits, func(e turn.FeedEdit) bool { return e.ID == have.id && e.Added == have.added && !e.Gone })
		switch {
		case j < 0 && (have.added || have.since != 0):
			return fmt.Errorf("feed %s is not among %+v", have.id, f.Edits)
		case j >= 0 && (f.Edits[j].Disabled != have.off || f.Edits[j].Since != have.since):
			return fmt.Errorf("feed %+v is kept as %+v", *have, f.Edits[j])
		}
	}
	return nil
}

// fetch is the answer to a turn that wants feeds, on its way.
type fetch struct {
	in    *turn.FeedsReady
	until time.Time // when it comes; zero at once
}

// pot names a value that a host keeps of a feed.
type pot struct {
	client int
	inc    messages.Incarnation
	id     string
	since  int64
}

// potted is what is in it.
type potted struct {
	value string
	at    time.Time
}

// fetchFeeds asks sources for what a turn wants.
func (s *shell) fetchFeeds(e *turn.FetchFeeds) {
	w := s.host.w
	a := s.audit
	if len(e.Names) > 0 && a.lastTurn > e.Turn && s.drive.InTurn(e.Ident) {
		return // the step that wants them has ended the turn and begun another: no turn waits
	}
	s.durable("fetch-feeds", max(e.After, a.begin))
	if a.lastTurn != e.Turn || a.nonce != e.Nonce { // the step that wants them may end the turn
		w.violated("feed", "turn %d wants feeds in turn %d", e.Turn, a.lastTurn)
	}
	f := &fetch{in: &turn.FeedsReady{Ident: e.Ident, Names: e.Names}}
	names := e.Names
	if len(names) == 0 {
		if names = feedIDs(a.feeds); len(names) == 0 || len(a.fed) > 0 {
			w.violated("feed", "the feeds of a prompt are wanted, of %v the turn has %+v", names, a.fed)
		}
	}
	if w.skimps {
		names = names[1:]
	}
	for _, id := range names {
		f.in.Feeds = append(f.in.Feeds, s.serve(f, id))
	}
	s.fetches = append(s.fetches, f)
}

// serve gives what a turn gets of a feed: a value that is kept, a new one, or none.
func (s *shell) serve(f *fetch, id string) messages.Feed {
	w := s.host.w
	out := messages.Feed{ID: id}
	name, variable := strings.CutPrefix(id, messages.EnvironmentFeed)
	i := slices.IndexFunc(s.audit.feeds, func(f feed) bool { return f.id == id && !f.off })
	switch {
	case variable && name == environmental:
		out.Value = `"/home"`
		s.client.gives(id, out.Value)
		return out
	case i < 0:
		w.violated("feed", "%s is wanted, and the session has %v", id, feedIDs(s.audit.feeds))
	}
	fd := &s.audit.feeds[i]
	now := s.host.now()
	have, there := s.host.pots[s.pot(fd)]
	young := there && now.Sub(have.at) <= fd.served
	if !young {
		if late := w.happens(w.weather.hang * 4); late {
			out.Error, f.until = "timeout", now.Add(feedDeadline)
		} else if !s.fetch(fd) {
			out.Error = "failed"
		}
		have, there = s.host.pots[s.pot(fd)]
		young = out.Error == "" || there && now.Sub(have.at) <= fd.served
	}
	if !young {
		return out
	}
	out.Value, out.Stale, out.Error = have.value, out.Error != "", ""
	if text := shows(have.value); fd.bytes > 0 && len(text) > fd.bytes {
		out.Truncated = true
		out.Value = fmt.Sprintf("%q", text[:fd.bytes]+fmt.Sprintf("\n[truncated: %d of %d bytes]", fd.bytes, len(text)))
	}
	s.client.gives(id, out.Value)
	return out
}

func (s *shell) pot(f *feed) pot {
	return pot{s.client.n, s.inc, f.id, max(f.since, s.audit.cleared)}
}

// fetch asks the source of a feed, which may fail, say the same again, or too much.
func (s *shell) fetch(f *feed) (ok bool) {
	w := s.host.w
	if w.happens(4 * w.weather.fault) {
		return false
	}
	s.client.fetched++
	value := fmt.Sprintf(`"%s %d"`, f.id, s.client.fetched)
	switch n := w.rnd.IntN(8); {
	case n < 2:
		value = fmt.Sprintf(`"%s again"`, f.id)
	case n < 3:
		value = fmt.Sprintf(`{"n":%d}`, s.client.fetched)
	case n < 4:
		value = fmt.Sprintf(`"%s </context_feed> %s"`, f.id, strings.Repeat("wide ", 6))
	}
	s.host.pots[s.pot(f)] = potted{value, s.host.now()}
	return true
}

// gives remembers a value as a turn gets it.
func (c *client) gives(id, value string) {
	if c.gave[id] == nil {
		c.gave[id] = map[messages.Digest]string{}
	}
	c.gave[id][sha256.Sum256([]byte(value))] = value
}

// tick fetches the periodic feeds of a session that is awake.
func (s *shell) tick() {
	now := s.host.now()
	for i := range s.audit.feeds {
		f := &s.audit.feeds[i]
		if f.every == 0 || f.off || now.Before(s.ticks[f.id]) {
			continue
		}
		s.ticks[f.id] = now.Add(f.every)
		if s.fetch(f) {
			s.host.w.stats.Ticks++
		}
	}
}

// prompted checks what a prompt has of feeds: all there are, in their order, each with what
// the turn's records say.
func (s *shell) prompted(e *turn.OpenModel) error {
	a := s.audit
	var have []string
	for i := range e.Feeds {
		fd := &e.Feeds[i]
		have = append(have, fd.ID)
		if i >= len(a.fed) || a.fed[i].Feed(fd.Value) != *fd {
			return fmt.Errorf("the prompt of turn %d has %+v, by its records %+v", e.Turn, *fd, a.fed)
		}
		if value := a.gave[fd.ID][a.fed[i].Digest]; value != fd.Value {
			return fmt.Errorf("the prompt of turn %d has %s as %s, recorded is %s", e.Turn, fd.ID, fd.Value, value)
		}
	}
	if ids := feedIDs(a.feeds); !slices.Equal(have, ids) || len(a.fed) != len(ids) {
		return fmt.Errorf("the prompt of turn %d has the feeds %v, the session %v", e.Turn, have, ids)
	}
	return nil
}

// fedAgain reads the values of a turn that is to go on.
func (s *shell) fedAgain(inc messages.Incarnation, recs []*messages.Record) (values map[messages.Digest]string) {
	w := s.host.w
	values = map[messages.Digest]string{}
	for _, digest := range driver.FeedValues(recs) {
		value, err := w.disk.Blob(bg, inc, digest)
		if err != nil {
			w.violated("forgotten", "the value %s of a feed: %v", digest, err)
		}
		values[digest] = string(value)
	}
	return values
}

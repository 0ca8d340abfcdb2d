package stile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools"
)

// DefaultFeedDeadline is how long a prompt waits for its feeds when Feeds says nothing.
const DefaultFeedDeadline = feeds.DefaultDeadline

// Feeds says how context feeds are kept. The zero value has the defaults.
type Feeds struct {
	// CacheBytes is how much of the values of all sessions is kept; 0 is 64 MiB.
	CacheBytes int64
	// Deadline is how long a prompt waits for its feeds together; 0 is DefaultFeedDeadline.
	Deadline time.Duration
	// FetchTimeout bounds one fetch, which goes on when a prompt gave up on it; 0 is
	// 30 s.
	FetchTimeout time.Duration
	// Workers is how many fetches of periodic feeds run at once; 0 is 64.
	Workers int
	// Counter counts tokens for max_tokens; nil is a token for every four characters.
	Counter feeds.Counter
	// Remote opens what ingest sources name as git or url; without one such feeds
	// fail.
	Remote feeds.Remote
}

// FeedState is what is known of a feed of a session.
type FeedState = actors.FeedState

// Feeds lists the session's feeds in the order of their injection, those that its model
// added too. It fetches nothing, and wakes the session.
func (s *Session) Feeds(ctx context.Context) ([]FeedState, error) {
	return s.rt.host.FeedStates(ctx, s.key, s.agent.agent)
}

// IngestFeed gives a feed a value, JSON, as if its source had: it is served until the
// next fetch replaces it, by an on-demand feed as long as its cache_ttl says. It is kept
// in memory; what a prompt shows of it is recorded. Errors are ERR_CONFIG (no such feed,
// disabled, no JSON) and ERR_QUOTA.
func (s *Session) IngestFeed(ctx context.Context, id, value string) error {
	return s.rt.host.IngestFeed(ctx, s.key, s.agent.agent, id, value)
}

// startFeeds makes what keeps the feeds of all sessions.
func (rt *Runtime) startFeeds() (err error) {
	cfg := rt.cfg.Feeds
	if rt.feedCache, err = feeds.NewCache(cfg.CacheBytes); err != nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "Feeds.CacheBytes", Detail: "no cache", Cause: err}
	}
	rt.feeds, err = feeds.NewKeeper(feeds.Config{
		Cache: rt.feedCache, Internals: feeds.Internals{Now: rt.cfg.Now, Rand: rt.cfg.Rand, Env: os.LookupEnv}, Counter: cfg.Counter,
		Deadline: cfg.Deadline, FetchTimeout: cfg.FetchTimeout, Workers: cfg.Workers,
	})
	if err != nil {
		rt.feedCache.Close()
		return under("Feeds", err)
	}
	return nil
}

func (rt *Runtime) stopFeeds() {
	rt.feeds.Close()
	rt.feedCache.Close()
}

// feedSet is the set of a manifest, or everything that is wrong with its feeds and with
// the parts of the prompt that it switches.
func feedSet(m *manifest.Manifest) (feeds.Set, parts, error) {
	specs := make([]feeds.Spec, 0, len(m.ContextFeeds))
	on := parts{tools: true, profile: m.Memory.Profile}
	var found []error
	var places []int // of the specs
	seen := map[string]bool{}
	for i := range m.ContextFeeds {
		f := &m.ContextFeeds[i]
		at := fmt.Sprintf("context_feeds[%d]", i)
		if strings.HasPrefix(f.ID, builtin) {
			if seen[f.ID] {
				found = append(found, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonDuplicate, Field: at + ".id", Detail: f.ID + " is switched already"})
			}
			seen[f.ID] = true
			found = append(found, on.set(f, at))
			continue
		}
		spec, err := specOf(f, at)
		if err != nil {
			found = append(found, err)
		}
		specs, places = append(specs, spec), append(places, i)
		if e := imported(m, f, at); e != nil {
			found = append(found, e)
		}
	}
	set, err := feeds.NewSet(specs, feeds.Rules{Env: m.Environment.Allow, MaxFeeds: int(m.Quotas.Feeds)})
	found = append(found, replace(err, places))
	on.feeds = set.Len()
	if !seen[builtin+"security"] {
		on.security = wantsSecurity(m, on.feeds)
	}
	return set, on, errors.Join(found...)
}

// replace gives the mistakes of specs the places that these have in the manifest.
func replace(err error, places []int) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, replace(e, places))
		}
		return errors.Join(all...)
	}
	var e *messages.Error
	if !errors.As(err, &e) {
		return err
	}
	own := *e
	if rest, ok := strings.CutPrefix(e.Field, "context_feeds["); ok {
		number, tail, _ := strings.Cut(rest, "]")
		if n, err := strconv.Atoi(number); err == nil && n < len(places) {
			own.Field = fmt.Sprintf("context_feeds[%d]%s", places[n], tail)
		}
	}
	return &own
}

// builtin begins the ids that switch parts of the prompt (docs/spec/design.md §11).
const builtin = "builtin."

// parts are those of the prompt that stand in front of feeds and conversation.
type parts struct {
	identity bool // who the agent is: name and summary
	tools    bool // what may be called
	security bool // on where there is something to be said (wantsSecurity)
	profile  bool // what is known of the user; on with memory.profile
	feeds    int  // how many there are
}

// set switches one part.
func (p *parts) set(f *manifest.Feed, at string) error {
	bad := func(field, format string, args ...any) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + field, Detail: fmt.Sprintf(format, args...)}
	}
	on := true
	if f.Enabled != nil {
		var ok bool
		if on, ok = feeds.Truth(*f.Enabled); !ok {
			return bad(".enabled", "it is none of true, 1, yes, on, false, 0, no, off")
		}
	}
	own := manifest.Feed{ID: f.ID, Enabled: f.Enabled}
	if !reflect.DeepEqual(*f, own) {
		return bad("", "a part of the prompt has nothing but id and enabled")
	}
	switch name := strings.TrimPrefix(f.ID, builtin); name {
	case "identity":
		p.identity = on
	case "tools":
		p.tools = on
	case "security":
		p.security = on
	case "profile":
		p.profile = on
	default:
		return bad(".id", "%q is none of builtin.identity, .tools, .security, .profile", f.ID)
	}
	return nil
}

// primer is what the system says: the parts that are on, in their order.
func (p *parts) primer(m *manifest.Manifest, d parse.Dialect, specs []messages.ToolSpec) string {
	var all []string
	if p.identity {
		text := "You are " + cmp.Or(m.Name, "an agent") + "."
		if m.Summary != "" {
			text += "\n" + m.Summary
		}
		all = append(all, text)
	}
	if !p.tools {
		specs = nil
	}
	if text := d.Primer(specs); text != "" {
		all = append(all, text)
	}
	if p.security {
		all = append(all, security(m, p.feeds))
	}
	return strings.Join(all, "\n\n")
}

// feedMistakes is what is wrong with the feeds of a manifest that is read.
func feedMistakes(m *manifest.Manifest) error {
	_, _, err := feedSet(m)
	return err
}

func specOf(f *manifest.Feed, at string) (feeds.Spec, error) {
	number := func(n int64) *int64 {
		if n == 0 {
			return nil
		}
		return &n
	}
	spec := feeds.Spec{
		ID: f.ID, Type: f.Type, Interval: number(f.Interval), CacheTTL: f.CacheTTL, MaxTokens: number(f.MaxTokens),
		MaxSizeBytes: number(f.MaxSizeBytes), Enabled: f.Enabled, Pinned: f.Pinned,
		Source: feeds.SourceSpec{Type: f.Source.Type, Name: f.Source.Name, Action: f.Source.Action},
	}
	if f.Source.Params == nil {
		return spec, nil
	}
	b, err := json.Marshal(f.Source.Params)
	if err != nil {
		return spec, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source.params", Detail: "cannot be written as JSON", Cause: err}
	}
	spec.Source.Params = string(b)
	return spec, nil
}

// imported tells whether a feed's source may be called at all.
func imported(m *manifest.Manifest, f *manifest.Feed, at string) error {
	kind := f.Source.Type
	if kind == "" {
		kind = f.Type
	}
	names, key := m.Import.Tools, "tools"
	switch feeds.Kind(kind) {
	case feeds.Tool:
	case feeds.Relic:
		names, key = m.Import.Relics, "relics"
	case feeds.Workflow:
		names, key = m.Import.Workflows, "workflows"
	case feeds.LLM:
		names, key = m.Import.LLMs, "llms"
	default:
		return nil
	}
	name := f.Source.Name
	same := func(s string) bool { return s == name || key == "tools" && strings.EqualFold(s, name) }
	if name == "" || slices.ContainsFunc(names, same) || key == "tools" && slices.Contains(tools.AllowStandard(), name) {
		return nil
	}
	return &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source.name", Detail: fmt.Sprintf("the %s %q is not in import.%s", kind, name, key)}
}

// feeding makes what an agent's sessions know of feeds. Sources must be there.
func (rt *Runtime) feeding(a *Agent, m *manifest.Manifest, targets *tools.Targets) (actors.Feeds, parts, error) {
	set, on, err := feedSet(m)
	if err != nil {
		return actors.Feeds{}, on, err
	}
	f := actors.Feeds{Set: set, Environment: variables(m), Agent: feeds.AgentFacts{
		Name: m.Name, Version: m.Version, Summary: m.Summary, Author: m.Author, State: m.State, Dialect: m.Dialect, Model: m.Model.Model,
	}}
	f.Permission = feeds.Permission{
		Disabled: !*m.InternalActions.Enabled, Allowed: *m.InternalActions.Allowed, Blocked: m.InternalActions.Blocked,
		Import: map[feeds.Kind][]string{feeds.Tool: m.Import.Tools, feeds.Relic: m.Import.Relics, feeds.Workflow: m.Import.Workflows, feeds.LLM: m.Import.LLMs},
	}
	documents := false
	for i, e := range set.Entries() {
		documents = documents || e.Source.Kind == feeds.Ingest
		if e.Source.Name == "" {
			continue
		}
		if _, ok := targets.Find(messages.ActionType(e.Source.Kind), e.Source.Name); !ok {
			return f, on, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: fmt.Sprintf("context_feeds[%d].source.name", i), Detail: fmt.Sprintf("there is no %s %q", e.Source.Kind, e.Source.Name)}
		}
	}
	if documents && !a.replayed {
		var files fs.FS
		if a.Dir != "" {
			root, err := os.OpenRoot(a.Dir)
			if err != nil {
				return f, on, &messages.Error{Code: messages.ErrConfig, Field: "context_feeds", Detail: "cannot open the agent's folder", Cause: unwrapPath(err)}
			}
			if err := rt.keep(root); err != nil {
				return f, on, err
			}
			files = root.FS()
		}
		f.Ingest = &feeds.Ingester{Files: files, Remote: rt.cfg.Feeds.Remote, Cache: rt.feedCache, Scope: a.Dir}
	}
	return f, on, nil
}

// variables reads what ${NAME} stands for: what the manifest says, then what it allows
// of the process.
func variables(m *manifest.Manifest) func(string) (string, bool) {
	own, allow := m.Environment.Variables, m.Environment.Allow
	return func(name string) (string, bool) {
		if v, ok := own[name]; ok {
			return v, true
		}
		if slices.Contains(allow, name) {
			return os.LookupEnv(name)
		}
		return "", false
	}
}

// variableNames lists them.
func variableNames(m *manifest.Manifest) []string {
	names := slices.AppendSeq(slices.Clone(m.Environment.Allow), maps.Keys(m.Environment.Variables))
	slices.Sort(names)
	return slices.Compact(names)
}

// fetched lists the feeds of a set that are not disabled.
func fetched(set feeds.Set) (ids []string) {
	for _, e := range set.Entries() {
		if !e.Disabled {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

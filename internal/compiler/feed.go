package compiler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/workspace"
)

// feedSet returns the feeds of a manifest and the parts of its prompt, or all their mistakes.
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
		spec, err := feedSpec(f, at, slices.Contains(m.Extensions, manifest.FeedReferences))
		if err != nil {
			found = append(found, err)
		}
		spec.Source.Forwards = kindOf(f) == string(feeds.Agent) && readsOtherHosts(m, f.Source.Name)
		specs, places = append(specs, spec), append(places, i)
		if e := imported(m, f, at); e != nil {
			found = append(found, e)
		}
	}
	set, err := feeds.NewSet(specs, feeds.Rules{Env: m.Environment.Allow, MaxFeeds: int(m.Quotas.Feeds), References: slices.Contains(m.Extensions, manifest.FeedReferences)})
	found = append(found, replace(err, places))
	on.feeds = set.Len()
	if !seen[builtin+"security"] {
		on.security = wantsSecurity(m, on.feeds)
	}
	return set, on, errors.Join(found...)
}

// replace sets the places of mistakes in specs to those in the manifest.
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

// mistakes returns the mistakes in the feeds and instructions of a manifest.
func mistakes(m *manifest.Manifest) error {
	_, _, err := feedSet(m)
	return errors.Join(err, resolved(m))
}

// feedSpec converts a feed of a manifest. referring reads %{feed.path} in its parameters.
func feedSpec(f *manifest.Feed, at string, referring bool) (feeds.Spec, error) {
	number := func(n int64) *int64 {
		if n == 0 {
			return nil
		}
		return &n
	}
	spec := feeds.Spec{
		ID: f.ID, Type: f.Type, Interval: number(f.Interval), CacheTTL: f.CacheTTL, DeadlineMS: f.Deadline.Milliseconds(), MaxTokens: number(f.MaxTokens),
		MaxSizeBytes: number(f.MaxSizeBytes), Enabled: f.Enabled, Pinned: f.Pinned,
		Source: feeds.SourceSpec{Type: f.Source.Type, Name: f.Source.Name, Action: f.Source.Action},
	}
	if f.Transform != nil {
		b, err := json.Marshal(f.Transform)
		if err != nil {
			return spec, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".transform", Detail: "cannot be written as JSON", Cause: err}
		}
		spec.Transform = string(b)
	}
	if kindOf(f) == string(feeds.Remote) {
		if f.Source.Params != nil {
			return spec, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source.params", Detail: "a remote source has none"}
		}
		spec.Source.Params = feeds.PeerParams(f.Source.URL, f.Source.Session, f.Source.Feed, f.Source.Secret, f.Source.Push)
		return spec, nil
	}
	if kindOf(f) == string(feeds.Agent) {
		spec.Source.Fresh, spec.Source.Tokens, spec.Source.CostUSD = f.Source.Fresh, f.Source.Budget.Tokens, f.Source.Budget.CostMicroUSD
	} else if f.Source.Fresh || f.Source.Budget != (manifest.FeedBudget{}) {
		own := "budget"
		if f.Source.Fresh {
			own = "fresh"
		}
		return spec, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source." + own, Detail: "only a source of type agent has one"}
	}
	for _, own := range [][2]string{{"url", f.Source.URL}, {"session", f.Source.Session}, {"feed", f.Source.Feed}, {"secret", f.Source.Secret}} {
		if own[1] != "" {
			return spec, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source." + own[0], Detail: "only a remote source has one"}
		}
	}
	if f.Source.Push {
		return spec, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source.push", Detail: "only a remote source has it"}
	}
	if f.Source.Params == nil {
		return spec, nil
	}
	params := any(f.Source.Params)
	if referring {
		bad := ""
		if params, bad = refers(f.Source.Params); bad != "" {
			return spec, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source.params", Detail: bad + " is no reference such as %{feed.member}; %% is a percent sign"}
		}
	}
	b, err := json.Marshal(params)
	if err != nil {
		return spec, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source.params", Detail: "cannot be written as JSON", Cause: err}
	}
	spec.Source.Params = string(b)
	return spec, nil
}

// readsOtherHosts reports whether an agent that m defines has feeds of other hosts, by itself or
// by an agent that it imports. Agents nest manifest.MaxAgentDepth deep at most, by lineage.
func readsOtherHosts(m *manifest.Manifest, name string) bool {
	for i := range m.Define.Agents {
		child := &m.Define.Agents[i]
		if child.Name != name {
			continue
		}
		if slices.ContainsFunc(child.ContextFeeds, func(f manifest.Feed) bool { return kindOf(&f) == string(feeds.Remote) }) {
			return true
		}
		return slices.ContainsFunc(child.Import.Agents, func(name string) bool { return readsOtherHosts(child, name) })
	}
	return false
}

// kindOf returns the kind of a feed's source, which type may say as well.
func kindOf(f *manifest.Feed) string {
	if f.Source.Type == "" {
		return f.Type
	}
	return f.Source.Type
}

// refers returns a value of a manifest whose texts, at any depth, write references as feeds
// read them. bad is the first text that cannot be one.
func refers(v any) (out any, bad string) {
	switch v := v.(type) {
	case string:
		text, wrong, ok := feeds.Referring(v)
		if !ok {
			return nil, wrong
		}
		return text, ""
	case map[string]any:
		own := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if own[key], bad = refers(v[key]); bad != "" {
				return nil, bad
			}
		}
		return own, ""
	case []any:
		own := make([]any, len(v))
		for i := range v {
			if own[i], bad = refers(v[i]); bad != "" {
				return nil, bad
			}
		}
		return own, ""
	}
	return v, ""
}

// imported reports an error when a feed's source may not be called at all.
func imported(m *manifest.Manifest, f *manifest.Feed, at string) error {
	kind := kindOf(f)
	names, key := m.Import.Tools, "tools"
	switch feeds.Kind(kind) {
	case feeds.Tool:
	case feeds.Relic:
		names, key = m.Import.Relics, "relics"
	case feeds.Workflow:
		names, key = m.Import.Workflows, "workflows"
	case feeds.LLM:
		names, key = m.Import.LLMs, "llms"
	case feeds.Agent:
		names, key = m.Import.Agents, "agents"
	default:
		return nil
	}
	name := f.Source.Name
	if name == "" || slices.Contains(names, name) || key == "tools" && catalog.Covers(names, name) {
		return nil
	}
	return &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + ".source.name", Detail: fmt.Sprintf("the %s %q is not in import.%s", kind, name, key)}
}

// feeding returns the feeds of an agent's sessions. Their sources must exist.
func (e *Env) feeding(a *Definition, m *manifest.Manifest, has *catalog.Set, targets *catalog.Targets) (compiled.Feeds, parts, error) {
	set, on, err := feedSet(m)
	if err != nil {
		return compiled.Feeds{}, on, err
	}
	f := compiled.Feeds{Set: set, Environment: variables(m), Agent: feeds.AgentFacts{
		Name: m.Name, Version: m.Version, Summary: m.Summary, Author: m.Author, State: m.State, Dialect: m.Dialect, Model: m.Model.Model,
	}}
	f.Permission = feeds.Permission{
		Transform: slices.Contains(m.Extensions, manifest.FeedTransform), References: slices.Contains(m.Extensions, manifest.FeedReferences),
		Disabled: !*m.InternalActions.Enabled, Allowed: *m.InternalActions.Allowed, Blocked: m.InternalActions.Blocked,
		Import: map[feeds.Kind][]string{feeds.Tool: namedTools(m.Import.Tools, has), feeds.Relic: m.Import.Relics, feeds.Workflow: m.Import.Workflows, feeds.LLM: m.Import.LLMs},
	}
	ingests := false
	for _, entry := range set.Entries() {
		at := func() string {
			return fmt.Sprintf("context_feeds[%d]", slices.IndexFunc(m.ContextFeeds, func(f manifest.Feed) bool { return f.ID == entry.ID }))
		}
		ingests = ingests || entry.Source.Kind == feeds.Ingest
		if how := entry.Source.Elsewhere(); how != "" && e.Remote == nil && !e.replays() {
			return f, on, &messages.Error{
				Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at() + ".source.params." + how,
				Detail: "this host opens no " + how + " sources: set Config.Feeds.Remote, or name paths of the agent's folder",
			}
		}
		if p, ok := entry.Source.Peer(); ok && !e.replays() {
			if e.Peers == nil || !e.Peers.Allows(p.Origin) {
				return f, on, &messages.Error{
					Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at() + ".source.url",
					Detail: p.Origin + " is not in feeds.remotes of the host's settings (Config.Feeds.Remotes)",
				}
			}
			f.Peers = e.Peers
		}
		if entry.Source.Name == "" {
			continue
		}
		if _, ok := targets.Find(messages.ActionType(entry.Source.Kind), entry.Source.Name); !ok {
			return f, on, &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at() + ".source.name", Detail: fmt.Sprintf("there is no %s %q", entry.Source.Kind, entry.Source.Name)}
		}
	}
	if ingests && !e.replays() {
		var documents fs.FS
		if a.Dir != "" {
			root, err := os.OpenRoot(a.Dir)
			if err != nil {
				return f, on, &messages.Error{Code: messages.ErrConfig, Field: "context_feeds", Detail: "cannot open the agent's folder", Cause: files.Cause(err)}
			}
			if err := e.Keep(root); err != nil {
				return f, on, err
			}
			documents = workspace.Apart(root.FS())
		}
		f.Ingest = &feeds.Ingester{Files: documents, Remote: e.Remote, Cache: e.Cache, Scope: a.Dir}
	}
	return f, on, nil
}

// namedTools returns the tools that import names, by name or by group.
func namedTools(imports []string, set *catalog.Set) []string {
	names := slices.Clone(imports)
	for _, pattern := range imports {
		if !strings.HasSuffix(pattern, ".*") {
			continue
		}
		for _, name := range set.Names() {
			if catalog.Covers([]string{pattern}, name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// variables returns the lookup for ${NAME}: variables of the manifest, then those of the
// process that the manifest allows.
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

// feedsOf returns the feeds of a turn's prompt: those of a set that are not disabled, after the
// profile if that is on.
func (p *parts) feedsOf(set feeds.Set) (ids []string) {
	if p.profile {
		ids = append(ids, messages.ProfileFeed)
	}
	for _, e := range set.Entries() {
		if !e.Disabled {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

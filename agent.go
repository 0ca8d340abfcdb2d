package stile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/cogency"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/parse/profile"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/workspace"
)

// Agent is what sessions run: a manifest, and what Go adds to it. Set it up, then
// share one pointer among all sessions; it must not be changed after the first
// Open.
type Agent struct {
	// Manifest is the agent's description; nil stands for the defaults of Dialect,
	// with all of Tools allowed.
	Manifest *manifest.Manifest
	// Dialect is used when Manifest is nil: "plain", "aeiou", "cortex", "cogency", "kitsu",
	// or one of Config.Dialects.
	Dialect string
	// Name goes into session.opened when Manifest has none.
	Name string
	// Dir is the folder of the manifest: scripts are read from it, and the file
	// tools see it and nothing else. "" means neither.
	Dir string
	// Model answers instead of the manifest's provider.
	Model llm.Model
	// Tools are added to the built-in ones. A manifest must import them by name.
	Tools []tools.Tool
	// Agents are those that actions may run as child sessions. A manifest must import
	// them by name. LoadAgent puts here what the manifest imports or defines.
	Agents []*Agent
	// Library holds trusted function libraries (docs/spec/neuroscript.md §12).
	Library []neuroscript.Source
	// Gate decides where no rule of the manifest denies; may be nil. Its answers are
	// recorded, and a replay takes them from there.
	Gate func(tools.Request) (answer messages.GateAnswer, reason string, ok bool)

	// Transform is the last to change a prompt, after the window; what it returns is
	// sent as it is. It may leave out, replace and add messages: a place for summaries
	// of what is long past. It must be a function of what it gets, and of what does not
	// change while sessions run, or a replay finds another prompt; and a replay must be
	// given the agent. nil changes nothing.
	Transform func(History) []messages.Message

	// Policies are further judgements of calls, each with a name that stands in the journal
	// beside its answers. Of what they and Gate answer the strictest counts.
	Policies []tools.CustomPolicy

	// Search is what the tool search asks, in place of the manifest's search, and what a
	// search of the dialect kitsu asks, in place of the offline stub and of the manifest's
	// kitsu.search. Mood gives the intensity of the user's mood in 0…1,
	// over 0.85 of which the model may not go on by itself; nil is 0.
	Search tools.Searcher
	Mood   func(sid string) (float64, error)

	// MayApprove tells whether somebody may answer for a call that needs confirmation;
	// nil lets everybody whom the program lets call Approve and Deny.
	MayApprove func(by string, a Approval) bool

	replayed bool // calls nothing: declares tools and answers from the journal
	keeper   bool // keeps profiles
	routes   []actors.Route
}

// History is a prompt that is about to be sent: the first message may be the system
// message, which teaches the dialect and lists the tools.
type History = actors.History

// LoadAgent reads a manifest file, which may name a dialect of the product or one of
// dialects, those of the Config it is meant for. All mistakes are reported at once,
// each with file, line and key.
func LoadAgent(path string, dialects ...parse.Dialect) (*Agent, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, File: path, Detail: "cannot read the manifest", Cause: err}
	}
	m, err := manifest.ParseWith(path, data, os.LookupEnv, feedMistakes, names(dialects)...)
	if err != nil {
		return nil, err
	}
	a := &Agent{Manifest: m, Dir: filepath.Dir(path)}
	if err := a.define(names(dialects)); err != nil {
		return nil, err
	}
	return a, nil
}

// compiled is an agent ready for the actors.
type compiled struct {
	agent   *actors.Agent
	man     *manifest.Manifest // effective
	checker func(messages.Input) (messages.Input, error)
	busy    messages.Policy
	carries bool // its model sees no transcript
	// children are the agents that actions may run, by name.
	children map[string]*compiled
	servers  atomic.Pointer[[]offered] // MCP servers, as they were asked

	mayApprove func(by string, a Approval) bool
}

// Check tells whether an agent could be opened, without a runtime: what it names
// must exist and its files must be readable. Of cfg, the Config it is meant for,
// Databases, Dialects, Models, Providers and Sandbox are looked at. Errors are ERR_CONFIG, naming the
// field.
func Check(a *Agent, cfg Config) error {
	rt, err := newCompiler(cfg.Dialects)
	if err != nil {
		return err
	}
	rt.cfg.Models, rt.cfg.Providers, rt.cfg.Databases = cfg.Models, cfg.Providers, cfg.Databases
	if cfg.Sandbox != nil {
		rt.cfg.Sandbox = cfg.Sandbox
	}
	_, err = rt.compile(context.Background(), a)
	return errors.Join(err, rt.closeFiles())
}

// compile makes an agent ready, once. A failure is not kept: what was missing may
// be there the next time.
func (rt *Runtime) compile(ctx context.Context, a *Agent) (*compiled, error) {
	if a == nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "agent", Detail: "there is none"}
	}
	var before *compiled
	if c, ok := rt.agents.Load(a); ok {
		if before = c.(*compiled); !before.stale() {
			return before, nil
		}
	}
	c := &compiled{}
	if err := a.lineage(); err != nil {
		return nil, err
	}
	err := rt.build(ctx, a, c)
	switch {
	case before != nil && err != nil: // what was good goes on as it was
		rt.log.Warn("an agent keeps the tools it had", zap.String("agent", before.agent.Name), zap.Error(err))
		return before, nil
	case err != nil:
		return nil, err
	case before != nil && c.agent.Rules.ManifestDigest == before.agent.Rules.ManifestDigest:
		before.servers.Store(c.servers.Load())
		return before, nil
	}
	if rt.store != nil {
		if err := rt.keepManifest(ctx, c); err != nil {
			return nil, closedError(err)
		}
	}
	if before != nil {
		rt.agents.CompareAndSwap(a, before, c)
		return c, nil
	}
	actual, _ := rt.agents.LoadOrStore(a, c)
	return actual.(*compiled), nil
}

// effective is the agent's manifest with the defaults, without what its agents add.
func (a *Agent) effective() *manifest.Manifest {
	if a.Manifest != nil {
		return a.Manifest.WithDefaults()
	}
	m := manifest.Default(a.Dialect)
	m.Name = a.Name
	for i := range a.Tools {
		m.Import.Tools = append(m.Import.Tools, a.Tools[i].Name)
	}
	for _, child := range a.Agents {
		m.Import.Agents = append(m.Import.Agents, child.name())
	}
	return m
}

func (rt *Runtime) build(ctx context.Context, a *Agent, c *compiled) error {
	m := a.effective()
	known := names(rt.cfg.Dialects)
	if a.keeper {
		known = append(known, profile.Name)
	}
	if err := m.Validate(known...); err != nil {
		return err
	}
	routes, err := rt.routes(a, m)
	if err != nil {
		return err
	}
	if err := rt.raise(ctx, a, m, routes, c); err != nil {
		return err
	}
	dialect, err := rt.dialects.Lookup(m.Dialect)
	if err != nil {
		return err
	}
	maxTurns := m.Loop.MaxTurns
	if d, ok := dialect.(aeiou.Dialect); ok {
		d.StrictDuplicates = m.Envelope.StrictDuplicates
		dialect = d
	}
	if d, ok := dialect.(cortex.Dialect); ok {
		d.Cut = m.Loop.SyncPolicy == manifest.SyncCut
		d.NotFinal = m.Loop.DefaultFinal != nil && !*m.Loop.DefaultFinal
		d.Limits = cortex.Limits{
			TagBytes: int(m.Quotas.Tag), BodyBytes: int(m.Quotas.Body), JSONDepth: int(m.Quotas.JSONDepth),
			ThoughtDepth: int(m.Quotas.ThoughtDepth), ResultBytes: int(m.Quotas.Result),
		}
		dialect = d
	}
	if d, ok := dialect.(cogency.Dialect); ok {
		d.Limits.Calls, d.Limits.JSONDepth, d.Limits.ResultBytes = int(m.Quotas.ReplyActions), int(m.Quotas.JSONDepth), int(m.Quotas.Result)
		dialect = d
	}
	if d, ok := dialect.(kitsu.Dialect); ok {
		d.Continues = int(m.Kitsu.MaxContinues)
		dialect = d
		maxTurns = cmp.Or(maxTurns, d.Traits().MaxTurns)
	}
	foreign, from, err := rt.servers(ctx, a, m)
	if err != nil {
		return err
	}
	for _, child := range c.children {
		from = append(from, *child.servers.Load()...)
	}
	c.servers.Store(&from)
	registry, err := rt.registry(a, m, foreign)
	if err != nil {
		return err
	}
	allow := append(tools.AllowStandard(), m.Import.Tools...)
	policies := a.Policies
	if m.Dialect == kitsu.Name {
		companion, err := rt.companion(a, m, registry)
		if err != nil {
			return err
		}
		if registry, err = registry.Override(companion.Tools()...); err != nil {
			return err
		}
		for _, t := range companion.Tools() {
			allow = append(allow, t.Name)
		}
		policies = append([]tools.CustomPolicy{companion.Policy()}, policies...)
	}
	for i := range foreign {
		allow = append(allow, foreign[i].Name)
	}
	if recalls(m) {
		allow = append(allow, tools.RecallName)
	}
	set, err := registry.Apply(tools.Policy{Allow: allow})
	if err != nil {
		return err
	}
	library, err := neuroscript.CompileLibrary(a.Library...)
	if err != nil {
		return err
	}
	gate := tools.Gate{Default: m.Approval.Default, ByTool: m.Approval.Tools, Own: ownAnswers, Hook: a.Gate, Policies: policies}
	if err := gate.Validate(); err != nil {
		return err
	}
	name := m.Name
	if name == "" {
		name = a.Name
	}
	c.busy, c.man, c.mayApprove, c.carries = m.Loop.Busy, m, a.MayApprove, dialect.Traits().Carry
	if checker, ok := dialect.(interface {
		CheckInput(messages.Input) (messages.Input, error)
	}); ok {
		c.checker = checker.CheckInput
	}
	targets, err := rt.targets(a, m, set, gate, c.children)
	if err != nil {
		return err
	}
	if err := internals(targets, dialect, m.InternalActions); err != nil {
		return err
	}
	feeding, on, err := rt.feeding(a, m, targets)
	if err != nil {
		return err
	}
	specs := set.Specs()
	if others := targets.Specs(); len(others) > 0 {
		if !dialect.Traits().InStreamActions {
			return &messages.Error{Code: messages.ErrConfig, Field: "import", Detail: "the dialect " + dialect.Name() + " can call tools alone; " + string(others[0].Type) + " " + others[0].Name + " is none"}
		}
		specs = append(specs, others...)
	}
	primer := on.primer(m, dialect, specs)
	fedBy := fetched(feeding.Set)
	if on.profile {
		fedBy = append([]string{messages.ProfileFeed}, fedBy...)
	}
	c.agent = &actors.Agent{
		Name: name, Dialect: dialect, Routes: routes, Tools: set, Targets: targets, Gate: gate, Feeds: feeding, Specs: specs, Primer: primer, Digester: prompt.NewDigester(primer),
		Library: library, Limits: programLimits(m.Quotas), Receipts: journal.Receipts(m.Receipts), Window: int(m.Memory.HistoryWindow), Shape: a.Transform,
		TokenTTL: m.Token.TTL, TokenMaxTTL: m.Token.MaxTTL, TokenSkew: m.Token.Skew, KeyGrace: m.Key.Grace,
		ReplayCap: int(m.Replay.Cap), ReplayTTL: max(m.Replay.TTL, m.Token.MaxTTL+m.Key.Grace), MagicCalls: int(m.Magic.MaxPerTurn),
		Rules: &turn.Rules{
			Dialect: dialect.Name(), Judge: dialect, Limits: turnLimits(m.Quotas, dialect),
			NoProgressN: int(m.Loop.NoProgressN), MaxTurns: maxTurns, ExemptFinal: m.Loop.NoProgressExemptTerminal,
			RetryDelay: retryDelay(m), ApprovalWait: m.ApprovalWait(), Recovery: m.Loop.Recovery, OnPanic: m.Loop.OnPanic, Durability: turn.Durability(m.Stream.Durability),
			Provider: routes[0].Provider, Model: routes[0].Model, Mode: "replay",
			Target: targets.Find, Timeout: targets.Timeout, Spends: targets.Spends, Refuse: targets.Refuse, Feeds: fedBy, Environment: variableNames(m), ManifestDigest: m.Digest(), LimitsDigest: m.LimitsDigest(), ToolsDigest: registry.Digest(), LibraryDigest: libraryDigest(a.Library),
		},
	}
	return rt.profiles(ctx, a, m, routes, on, c)
}

// retryDelay is the time between two attempts at an action, as a policy has it.
func retryDelay(m *manifest.Manifest) time.Duration {
	if d := m.Loop.RetryDelay; d != nil {
		return cmp.Or(*d, plan.NoDelay)
	}
	return 0
}

// names are what a manifest calls the dialects of a configuration.
func names(dialects []parse.Dialect) []string {
	out := make([]string, len(dialects))
	for i, d := range dialects {
		out[i] = d.Name()
	}
	return out
}

// keepManifest leaves the effective manifest beside the records, for replay.
func (rt *Runtime) keepManifest(ctx context.Context, c *compiled) error {
	key := manifestKey(c.agent.Rules.ManifestDigest)
	if _, err := rt.store.Meta(ctx, key); !journal.IsNotFound(err) {
		return err
	}
	return rt.store.PutMeta(ctx, key, c.man.Canonical())
}

// libraryDigest names the function libraries of a turn: each source's name and
// text, length-prefixed. No library is the zero digest.
func libraryDigest(sources []neuroscript.Source) (d messages.Digest) {
	if len(sources) == 0 {
		return d
	}
	h := sha256.New()
	for _, src := range sources {
		fmt.Fprintf(h, "%d:%s%d:%s", len(src.Name), src.Name, len(src.Text), src.Text)
	}
	h.Sum(d[:0])
	return d
}

// registry gathers the built-in tools, those of the agent's folder, and its own.
func (rt *Runtime) registry(a *Agent, m *manifest.Manifest, foreign []tools.Tool) (*tools.Registry, error) {
	var grants tools.Grants
	for _, g := range m.Grants {
		grants = append(grants, tools.Grant{Session: g.Session, Access: g.Access})
	}
	if err := grants.Validate(); err != nil {
		return nil, err
	}
	all := append(tools.Standard(), tools.SessionOutput(grants), tools.TimeNow(rt.cfg.Now), tools.DemoPanic())
	if imports(m, "file.") {
		files, err := a.openFiles()
		if err != nil {
			return nil, err
		}
		if err := rt.keep(files); err != nil {
			return nil, err
		}
		all = append(all, files.Tools()...)
	}
	work, err := rt.workTools(a, m)
	if err != nil {
		return nil, err
	}
	all = append(all, work...)
	if recalls(m) {
		all = append(all, tools.Recall(rt.recall, rt.cfg.Now))
	}
	web, err := a.webTools(m)
	if err != nil {
		return nil, err
	}
	all = append(all, web...)
	commands, err := a.commands(m)
	if err != nil {
		return nil, err
	}
	return tools.New(slices.Concat(all, commands, foreign, a.Tools)...)
}

// imports tells whether a manifest imports a tool of a group.
func imports(m *manifest.Manifest, group string) bool {
	return slices.ContainsFunc(m.Import.Tools, func(name string) bool { return strings.HasPrefix(strings.ToLower(name), group) })
}

// openFiles opens the folder that file tools see. A replay declares them and calls
// none.
func (a *Agent) openFiles() (*workspace.Files, error) {
	if a.replayed {
		return workspace.NewFiles(os.TempDir())
	}
	if a.Dir == "" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "import.tools", Detail: "file tools need Agent.Dir, the folder they may see"}
	}
	return workspace.NewFiles(a.Dir)
}

// routes resolves the manifest's providers: its own, then the fallbacks.
func (rt *Runtime) routes(a *Agent, m *manifest.Manifest) ([]actors.Route, error) {
	if a.routes != nil {
		return a.routes, nil
	}
	if a.Model != nil {
		return []actors.Route{{Provider: m.Model.Provider, Model: m.Model.Model, Port: a.Model}}, nil
	}
	var routes []actors.Route
	for i, f := range m.Models() {
		at := "model"
		if i > 0 {
			at = fmt.Sprintf("model.fallback[%d]", i-1)
		}
		port, err := rt.provider(a, &f, at)
		if err != nil {
			return nil, err
		}
		routes = append(routes, actors.Route{Provider: f.Provider, Model: f.Model, Port: port})
	}
	return routes, nil
}

// provider finds a model; at is its place in the manifest.
func (rt *Runtime) provider(a *Agent, f *manifest.Fallback, at string) (llm.Model, error) {
	set := llm.Settings{
		BaseURL: f.BaseURL, Secret: f.Secret, API: f.API, MaxTokens: f.MaxTokens, FirstByte: f.APITimeout,
		Price: llm.Price{Input: f.Price.Input, Output: f.Price.Output, CacheRead: f.Price.CacheRead, CacheWrite: f.Price.CacheWrite},
	}
	if p, ok := rt.cfg.Models[f.Provider]; ok {
		if set != (llm.Settings{}) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at, Detail: "the provider " + f.Provider + " is a model of the host and takes no settings but model"}
		}
		return p, nil
	}
	if provide, ok := rt.cfg.Providers[f.Provider]; ok {
		if f.Model == "" {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".model", Detail: "the provider " + f.Provider + " needs the name of a model"}
		}
		port, err := provide(set)
		var e *messages.Error
		if errors.As(err, &e) {
			placed := *e
			placed.Field = at
			if e.Field != "" {
				placed.Field += "." + e.Field
			}
			return nil, &placed
		}
		return port, err
	}
	if f.Provider != "scripted" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".provider", Detail: "there is no provider " + f.Provider + " here; configured are " + rt.providerNames()}
	}
	if f.Script == "" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".script", Detail: "the scripted provider needs a script"}
	}
	path := f.Script
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".script", File: f.Script, Detail: "cannot read the script", Cause: unwrapPath(err)}
	}
	return scripted.Parse(f.Script, data)
}

// providerNames lists what a manifest may name.
func (rt *Runtime) providerNames() string {
	names := []string{"scripted"}
	names = slices.AppendSeq(names, maps.Keys(rt.cfg.Models))
	names = slices.AppendSeq(names, maps.Keys(rt.cfg.Providers))
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// unwrapPath takes the path out of a file error: it is the host's business.
func unwrapPath(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func programLimits(q manifest.Quotas) neuroscript.Limits {
	return neuroscript.Limits{
		Gas: q.Gas, Alloc: q.Alloc, Value: q.Value, Depth: q.Depth, Output: q.Output, Scratch: q.Output,
	}
}

func turnLimits(q manifest.Quotas, d parse.Dialect) turn.Limits {
	return turn.Limits{
		ProgramWall: q.ProgramWall, GenerationWall: q.GenerationWall, TurnWall: q.TurnWall, RunWall: q.RunWall,
		Actions: q.Actions, Parallel: cmp.Or(int(q.Parallel), d.Traits().Parallel), Tokens: q.Tokens, CostMicroUSD: q.CostMicroUSD,
		Reply: q.Reply, Calls: int(q.ReplyActions), GateBuffer: int(q.GateBuffer), Drain: q.Drain,
	}
}

// Retention is how long a retired token key verifies under this agent's rules.
func (a *Agent) Retention() time.Duration {
	m := a.Manifest
	if m == nil {
		m = manifest.Default(a.Dialect)
	}
	m = m.WithDefaults()
	return m.Token.MaxTTL + m.Key.Grace
}

// Package compiler makes agents ready to run: a definition, which is a manifest and what
// Go adds to it, becomes the actors.Agent that sessions are given. Everything that can
// be wrong with an agent is found here, before a session exists.
//
// Compile is the one entry. The mode in Env says what for: to run, to check that the
// agent could be opened, or to replay a journal, where nothing is reached and every
// answer comes from records. A Directory keeps what was compiled and finds the agent of
// a session. Load reads a definition from a manifest's file and those beside it.
//
// The room runs no session: what needs one (child sessions, profiles) comes in through
// the interfaces of Env.
package compiler

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/profile"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/mcp"
	"github.com/seed14be6753/stile/tools/sql"
)

// Definition is an agent before it is compiled. Its fields are those of stile.Agent,
// which documents them; Keeper marks the host's own agents that learn profiles.
type Definition struct {
	Manifest   *manifest.Manifest
	Dialect    string
	Name       string
	Dir        string
	Model      llm.Model
	Tools      []tools.Tool
	Agents     []*Definition
	Library    []neuroscript.Source
	Gate       func(tools.Request) (answer messages.GateAnswer, reason string, ok bool)
	Transform  func(actors.History) []messages.Message
	Policies   []tools.CustomPolicy
	Search     tools.Searcher
	Mood       func(sid string) (float64, error)
	MayApprove func(by string, a actors.Approval) bool
	Keeper     bool

	routes []actors.Route // of the parent, for a child whose manifest names no model
}

// Mode is what agents are compiled for.
type Mode int

// The modes. The zero value is Run.
const (
	// Run compiles for sessions: MCP servers are asked, folders are opened.
	Run Mode = iota
	// Check compiles to find mistakes: MCP servers are not asked.
	Check
	// Replay compiles for a journal: nothing is opened or asked, and no tool runs.
	Replay
)

// Database makes the backend of a relic. where gives the URL of its database for each
// connection.
type Database func(where func() (url string, err error)) *sql.Backend

// Env is what a host lends the compiler. Check needs no Pool, Store, Sessions or
// Profiles; Replay needs Dialects alone.
type Env struct {
	Mode      Mode
	Dialects  []parse.Dialect // beside those of the product
	Models    map[string]llm.Model
	Providers map[string]llm.Provider
	Databases map[string]Database
	Sandbox   func() confine.Sandbox
	Now       func() time.Time
	Log       *zap.Logger

	Pool   *mcp.Pool
	Store  journal.Store // searched by recall
	Remote feeds.Remote
	Cache  *feeds.Cache
	// Caches is the folder under which programs of agents keep their caches; "" gives
	// each agent a temporary one.
	Caches string
	// Keep takes over what an agent holds open, such as its folder.
	Keep     func(io.Closer) error
	Sessions Sessions
	Profiles Profiles
}

// Sessions runs the actions of type agent, each in a child session.
type Sessions interface {
	Delegate(ctx context.Context, child *Agent, call *tools.Call, args string) (string, error)
}

// Profiles shows and learns what users are like.
type Profiles interface {
	// JSON is the profile of the user whose session sid is; "" for none.
	JSON(ctx context.Context, sid string) (string, error)
	// Ended is told the end of a run, after which keeper may learn. It does not block.
	Ended(keeper *Agent, quotas messages.Budget, cadence int, sid string, end *messages.Record)
}

// Agent is a compiled definition. It does not change, but for Servers.
type Agent struct {
	Actor    *actors.Agent
	Manifest *manifest.Manifest // in effect
	// CheckInput is the dialect's check of what is submitted; nil takes everything.
	CheckInput func(messages.Input) (messages.Input, error)
	MayApprove func(by string, a actors.Approval) bool
	Carries    bool              // its model sees no transcript
	Children   map[string]*Agent // the agents that actions may run, by name
	Keeper     *Agent            // learns the profiles of its users; may be nil

	servers atomic.Pointer[[]offered] // MCP servers, as they were asked
}

// Name is what the agent's sessions are found by; "" when it has none.
func (c *Agent) Name() string { return c.Actor.Name }

// Digest is that of the manifest in effect.
func (c *Agent) Digest() messages.Digest { return c.Actor.Rules.ManifestDigest }

// Compile makes an agent ready, and those that its actions may run. Errors are
// ERR_CONFIG, naming the field.
func Compile(ctx context.Context, env *Env, a *Definition) (*Agent, error) {
	if err := a.lineage(); err != nil {
		return nil, err
	}
	return env.compile(ctx, a)
}

// compile is Compile below the first agent. The recursion is as deep as agents nest,
// which lineage bounds.
func (e *Env) compile(ctx context.Context, a *Definition) (*Agent, error) {
	c := &Agent{}
	if err := e.build(ctx, a, c); err != nil {
		return nil, err
	}
	return c, nil
}

func (e *Env) replays() bool { return e.Mode == Replay }

// effective is the agent's manifest with the defaults, without what its agents add.
func (a *Definition) effective() *manifest.Manifest {
	if a.Manifest != nil {
		return a.Manifest.WithDefaults()
	}
	m := manifest.Default(a.Dialect)
	m.Name = a.Name
	for i := range a.Tools {
		m.Import.Tools = append(m.Import.Tools, a.Tools[i].Name)
	}
	for _, child := range a.Agents {
		if child != nil {
			m.Import.Agents = append(m.Import.Agents, child.name())
		}
	}
	return m
}

// build fills in c. Each stage takes what those before it made, and none goes back.
func (e *Env) build(ctx context.Context, a *Definition, c *Agent) error {
	m, err := e.manifest(a)
	if err != nil {
		return err
	}
	routes, err := e.routes(a, m)
	if err != nil {
		return err
	}
	if err := e.children(ctx, a, m, routes, c); err != nil {
		return err
	}
	dialect, err := e.dialect(m)
	if err != nil {
		return err
	}
	has, err := e.toolset(ctx, a, m, c)
	if err != nil {
		return err
	}
	library, err := neuroscript.CompileLibrary(a.Library...)
	if err != nil {
		return err
	}
	targets, err := e.targets(a, m, has.set, has.gate, c.Children)
	if err != nil {
		return err
	}
	if err := internals(targets, dialect, m.InternalActions); err != nil {
		return err
	}
	feeding, on, err := e.feeding(a, m, targets)
	if err != nil {
		return err
	}
	specs, err := specsOf(dialect, has.set, targets)
	if err != nil {
		return err
	}
	c.Manifest, c.MayApprove, c.Carries = m, a.MayApprove, dialect.Traits().Carry
	if checker, ok := dialect.(parse.InputChecker); ok {
		c.CheckInput = checker.CheckInput
	}
	primer := on.primer(m, dialect, specs)
	c.Actor = &actors.Agent{
		Name: cmp.Or(m.Name, a.Name), Dialect: dialect, Routes: routes, Tools: has.set, Targets: targets, Gate: has.gate,
		Feeds: feeding, Specs: specs, Primer: primer, Digester: prompt.NewDigester(primer),
		Library: library, Limits: programLimits(m.Quotas), Receipts: journal.Receipts(m.Receipts), Window: int(m.Memory.HistoryWindow), Shape: a.Transform,
		TokenTTL: m.Token.TTL, TokenMaxTTL: m.Token.MaxTTL, TokenSkew: m.Token.Skew, KeyGrace: m.Key.Grace,
		ReplayCap: int(m.Replay.Cap), ReplayTTL: max(m.Replay.TTL, m.Token.MaxTTL+m.Key.Grace), MagicCalls: int(m.Magic.MaxPerTurn),
		Rules: rules(m, dialect, routes[0], targets),
	}
	r := c.Actor.Rules
	r.Feeds = on.feedsOf(feeding.Set)
	r.ToolsDigest, r.LibraryDigest = has.digest, libraryDigest(a.Library)
	return e.learning(ctx, m, routes, on, c)
}

// manifest is the agent's, in effect and without a mistake.
func (e *Env) manifest(a *Definition) (*manifest.Manifest, error) {
	m := a.effective()
	known := names(e.Dialects)
	if a.Keeper {
		known = append(known, profile.Name)
	}
	return m, m.Validate(known...)
}

// specsOf is what the model is told that it may call.
func specsOf(d parse.Dialect, set *catalog.Set, targets *catalog.Targets) ([]messages.ToolSpec, error) {
	specs, others := set.Specs(), targets.Specs()
	if len(others) > 0 && !d.Traits().InStreamActions {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "import", Detail: "the dialect " + d.Name() + " can call tools alone; " + string(others[0].Type) + " " + others[0].Name + " is none"}
	}
	return append(specs, others...), nil
}

// rules are the machine's for a manifest.
func rules(m *manifest.Manifest, d parse.Dialect, first actors.Route, targets *catalog.Targets) *turn.Rules {
	return &turn.Rules{
		Dialect: d.Name(), Judge: d, Limits: turnLimits(m.Quotas, d),
		NoProgressN: int(m.Loop.NoProgressN), MaxTurns: maxTurns(m, d), ExemptFinal: m.Loop.NoProgressExemptTerminal,
		RetryDelay: retryDelay(m), ApprovalWait: m.ApprovalWait(), Recovery: m.Loop.Recovery, OnPanic: m.Loop.OnPanic, Durability: turn.Durability(m.Stream.Durability),
		Provider: first.Provider, Model: first.Model, Mode: "replay",
		Target: targets.Find, Timeout: targets.Timeout, Spends: targets.Spends, Refuse: targets.Refuse,
		Environment: variableNames(m), ManifestDigest: m.Digest(), LimitsDigest: m.LimitsDigest(),
	}
}

// retryDelay is the time between two attempts at an action, as a policy has it.
func retryDelay(m *manifest.Manifest) time.Duration {
	if d := m.Loop.RetryDelay; d != nil {
		return cmp.Or(*d, plan.NoDelay)
	}
	return 0
}

// learning has an agent's sessions shown, and learned, what their users are like.
func (e *Env) learning(ctx context.Context, m *manifest.Manifest, routes []actors.Route, on parts, c *Agent) error {
	if e.Mode != Run {
		return nil
	}
	if on.profile {
		c.Actor.Profile = e.Profiles.JSON
	}
	if !m.Memory.Profile {
		return nil
	}
	own := manifest.Default(profile.Name)
	own.Name, own.Model, own.Quotas, own.Receipts = messages.ProfileID, m.Model, m.Quotas, m.Receipts
	own.Loop.Recovery = messages.RecoverHalt
	keeper, err := e.compile(ctx, &Definition{Manifest: own, Keeper: true, routes: routes})
	if err != nil {
		return messages.At(err, "memory.profile")
	}
	c.Keeper = keeper
	cadence := int(cmp.Or(m.Memory.Cadence, profile.Cadence))
	quotas := messages.Budget{CostUSD: m.Quotas.CostMicroUSD, Tokens: m.Quotas.Tokens}
	c.Actor.Ended = func(sid string, end *messages.Record) { e.Profiles.Ended(keeper, quotas, cadence, sid, end) }
	return nil
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

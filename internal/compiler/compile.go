// Package compiler makes agents ready to run: a definition, which is a manifest with additions
// in Go, becomes the compiled.Agent of sessions. All mistakes of an agent are found here, before
// a session exists.
//
// Compile is the one entry. The mode in Env is its purpose: to run, to check that the agent
// could be opened, or to replay a journal, where no service is called and every answer comes
// from records. A Directory caches compiled agents and finds the agent of a session. Load
// reads a definition from the file of a manifest and the files beside it.
//
// It runs no session: work that needs one (child sessions, profiles) goes through the
// interfaces of Env.
package compiler

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/telemetry"
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
	Transform  func(compiled.History) []messages.Message
	Policies   []tools.CustomPolicy
	Search     tools.Searcher
	Mood       func(sid string) (float64, error)
	MayApprove func(by string, a turn.Approval) bool
	Canned     catalog.Answerer
	Around     func(ctx context.Context, call *messages.ActionDeclared, do func(context.Context) *messages.ActionEnded) *messages.ActionEnded
	Output     any // of the type of the answer, or its schema as a text; nil for none
	Keeper     bool
	// Instructions come from the program; Instruct returns those of one session.
	Instructions string
	Instruct     func(ctx context.Context, sid string) (string, error)

	// Files are those that the definition was read from.
	Files []string

	routes []compiled.Route // of the parent, for a child whose manifest names no model
}

// Mode is the purpose of a compilation.
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

// Database makes the backend of a relic. where returns the URL of the database, and is called
// for each connection.
type Database func(where func() (url string, err error)) *sql.Backend

// Env is the host for which agents are compiled. Mode Check needs no Pool, Store, Sessions or
// Profiles; mode Replay needs Dialects alone.
type Env struct {
	Mode Mode
	// Rendering is the version of prompts, forgiveness and meters; 0 is the newest. A replay
	// sets that of the turn (messages.Rendering).
	Rendering int64
	Dialects  []parse.Dialect // beside those of the product
	Models    map[string]llm.Model
	Providers map[string]llm.Provider
	Databases map[string]Database
	Sandbox   func() confine.Sandbox
	Now       func() time.Time
	Log       *zap.Logger
	// ModelCalled gets the calls of models that actions make, when they have ended; nil is for a
	// replay.
	ModelCalled func(telemetry.ModelCall)

	Pool   *mcp.Pool
	Store  journal.Store // searched by recall
	Remote feeds.Sources
	Cache  *feeds.Cache
	// Peers asks other hosts for feeds; nil where none is listed.
	Peers Peers
	// Caches is the folder under which programs of agents keep their caches; "" gives
	// each agent a temporary one.
	Caches string
	// ProgramUser names the user that programs of shell run as; "" is the host's own.
	ProgramUser string
	// Own are the host's files and folders, which tools of agents must not reach.
	Own []string
	// Neighbours returns the agents of the host, whose files the tools of other agents must
	// not reach; may be nil.
	Neighbours func() []*Definition
	// Shared reports whether the host distinguishes callers, so that its own user is one of
	// several. Folders then returns those of all agents of the host; it may be nil.
	Shared  bool
	Folders *Folders
	// Keep takes over the closing of what an agent holds open, such as its folder.
	Keep     func(io.Closer) error
	Sessions Sessions
	Profiles Profiles
}

// Peers asks other hosts for feeds, and knows which are listed.
type Peers interface {
	feeds.Peers
	Allows(origin string) bool
}

// Sessions runs the actions of type agent, each in a child session.
type Sessions interface {
	Delegate(ctx context.Context, child *Agent, call *tools.Call, args string) (string, error)
}

// Profiles reads and learns the profiles of users.
type Profiles interface {
	// JSON returns the profile of the user of session sid; "" for none.
	JSON(ctx context.Context, sid string) (string, error)
	// Ended is called at the end of a run, after which keeper may learn. It must not block.
	Ended(keeper *Agent, quotas messages.Budget, cadence int, sid string, end *messages.Record)
}

// Agent is a compiled definition. It does not change, except for the cached offers of MCP
// servers.
type Agent struct {
	Actor    *compiled.Agent
	Manifest *manifest.Manifest // in effect
	// CheckInput checks an input of a submit, also by the dialect's rules.
	CheckInput func(messages.Input) (messages.Input, error)
	MayApprove func(by string, a turn.Approval) bool
	Carries    bool              // its model sees no transcript
	Children   map[string]*Agent // agents that actions may run, by name
	Keeper     *Agent            // learns the profiles of its users; may be nil

	aliases map[string]catalog.Aliased // by name of the tool
	servers atomic.Pointer[[]offered]  // MCP servers, with their last offers
}

// Name returns the agent's name, by which its sessions are found, or "".
func (c *Agent) Name() string { return c.Actor.Name }

// Digest returns the digest of the manifest in effect.
func (c *Agent) Digest() messages.Digest { return c.Actor.Rules.ManifestDigest }

// Compile compiles an agent, and the agents that its actions may run. Errors are ERR_CONFIG
// with the field.
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

// rendering returns the version in effect.
func (e *Env) rendering() int64 { return cmp.Or(e.Rendering, messages.Rendering) }

// effective returns the agent's manifest with the defaults, without additions of its agents.
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

// build fills in c in stages. A stage uses results of earlier stages alone.
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
	if err := internals(targets, dialect, m.InternalActions, m.Extensions); err != nil {
		return err
	}
	if err := e.templateTargets(m, dialect, targets); err != nil {
		return err
	}
	if err := e.distinct(has, targets); err != nil {
		return err
	}
	feeding, on, err := e.feeding(a, m, has.set, targets)
	if err != nil {
		return err
	}
	specs, err := e.specs(dialect, &has, targets)
	if err != nil {
		return err
	}
	if m.Memory.HistoryBytes > 0 && dialect.Traits().Carry {
		return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "memory.history_bytes", Detail: "the dialect " + dialect.Name() + " has no history of runs, only the streams of the turn before; leave it out, or write history_window: none"}
	}
	c.Manifest, c.MayApprove, c.Carries = m, a.MayApprove, dialect.Traits().Carry
	c.CheckInput = checkInput(dialect)
	if err := e.native(m, routes, dialect); err != nil {
		return err
	}
	sessions, whyMode, err := e.sessions(m, routes, dialect)
	if err != nil {
		return err
	}
	answer, err := answerSchema(m)
	if err != nil {
		return err
	}
	speaks, functions := dialect, e.isNative(m) && on.tools
	if functions {
		speaks = nativeDialect{dialect, m.Primer == manifest.PrimerShort}
	}
	primer := on.primer(m, speaks, specs, answer)
	c.Actor = &compiled.Agent{
		Name: cmp.Or(m.Name, a.Name), Dialect: dialect, Routes: routes, Sessions: sessions, WhyMode: whyMode, Tools: has.set, Targets: targets, Gate: has.gate,
		Feeds: feeding, Specs: specs, Native: functions, Primer: primer, Digester: prompt.NewDigester(primer, e.rendering()),
		Library: library, Limits: e.programLimits(m.Quotas), Receipts: journal.Receipts(m.Receipts), Window: window(m), Shape: a.Transform, Around: a.Around,
		TokenTTL: m.Token.TTL, TokenMaxTTL: m.Token.MaxTTL, TokenSkew: m.Token.Skew, KeyGrace: m.Key.Grace,
		ReplayCap: int(m.Replay.Cap), ReplayTTL: max(m.Replay.TTL, m.Token.MaxTTL+m.Key.Grace), MagicCalls: int(m.Magic.MaxPerTurn),
		Rules: e.rules(m, dialect, routes[0], targets),
	}
	r := c.Actor.Rules
	if of := has.aliases.templates; len(of) > 0 {
		r.Template = func(t messages.ActionType, name string) string {
			if t != messages.TypeTool {
				return ""
			}
			return of[name]
		}
	}
	c.aliases = has.aliases.of
	if answer != nil {
		c.Actor.Schema, r.Output = answer.Text(), answer.Answer
	}
	r.Feeds = on.feedsOf(feeding.Set)
	if len(prompt.Placeholders(m.Instructions.Text)) > 0 {
		c.Actor.Instructions, c.Actor.Instruct = m.Instructions.Text, a.Instruct
		r.Feeds = append([]string{messages.InstructionsFeed}, r.Feeds...)
	}
	r.ToolsDigest, r.LibraryDigest = has.digest, libraryDigest(a.Library)
	return e.learning(ctx, m, routes, on, c)
}

// manifest returns the agent's manifest in effect, or its mistakes.
func (e *Env) manifest(a *Definition) (*manifest.Manifest, error) {
	m := a.effective()
	if needsFiles(m) {
		dir, err := os.OpenRoot(a.Dir)
		if err != nil {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "instructions.file", Detail: "cannot open the agent's folder", Cause: files.Cause(err)}
		}
		defer dir.Close()
		m.Define.LLMs = slices.Clone(m.Define.LLMs) // the caller's manifest stays as it is
		if err := errors.Join(instruct(m, func(name string) ([]byte, error) { return readSome(dir, name) })...); err != nil {
			return nil, err
		}
	}
	if err := e.instructed(a, m); err != nil {
		return nil, err
	}
	if err := typedAnswer(m, a.Output); err != nil {
		return nil, err
	}
	if m.OutputFile() != "" {
		dir, err := os.OpenRoot(a.Dir)
		if err != nil {
			return nil, badOutput("output.schema.file", m.OutputFile(), "cannot open the agent's folder", files.Cause(err))
		}
		defer dir.Close()
		if err := shapeAnswer(m, func(name string) ([]byte, error) { return readSome(dir, name) }); err != nil {
			return nil, err
		}
	}
	known := names(e.Dialects)
	if a.Keeper {
		known = append(known, profile.Name)
	}
	return m, m.Validate(known...)
}

// specs returns the tools and targets that are described to the model.
func (e *Env) specs(d parse.Dialect, has *toolset, targets *catalog.Targets) ([]messages.ToolSpec, error) {
	specs, others := has.set.Specs(), targets.Specs()
	specs = slices.DeleteFunc(specs, func(s messages.ToolSpec) bool { return slices.Contains(has.hidden, s.Name) })
	if len(others) > 0 && !d.Traits().InStreamActions {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "import", Detail: "the dialect " + d.Name() + " can call tools alone; " + string(others[0].Type) + " " + others[0].Name + " is none"}
	}
	return append(specs, others...), nil
}

// rules returns the machine's rules for a manifest.
func (e *Env) rules(m *manifest.Manifest, d parse.Dialect, first compiled.Route, targets *catalog.Targets) *turn.Rules {
	return &turn.Rules{
		Dialect: d.Name(), Rendering: e.rendering(), FeedsLast: m.ContextFeedsAt == manifest.FeedsAtEnd, Judge: d, Limits: e.turnLimits(m.Quotas, d),
		NoProgressN: int(m.Loop.NoProgressN), MaxTurns: e.maxTurns(m, d), ExemptFinal: m.Loop.NoProgressExemptTerminal, Repairs: e.repairs(m), Forgets: m.Memory.HistoryWindow == manifest.NoHistory,
		RetryDelay: retryDelay(m), ApprovalWait: m.ApprovalWait(), Recovery: m.Loop.Recovery, OnPanic: m.Loop.OnPanic, Durability: turn.Durability(m.Stream.Durability),
		Provider: first.Provider, Model: first.Model,
		Target: targets.Find, Missing: targets.Missing, Timeout: targets.Timeout, Spends: targets.Spends, Refuse: targets.Refuse,
		Rollback: rollback(m), Environment: variableNames(m), ManifestDigest: m.Digest(), LimitsDigest: m.LimitsDigest(),
	}
}

// rollback returns when groups of actions are rolled back.
func rollback(m *manifest.Manifest) turn.Rollback {
	on := []string{messages.CauseError}
	if m.Rollback.On != nil {
		on = *m.Rollback.On
	}
	return turn.Rollback{
		Error: slices.Contains(on, messages.CauseError), Halt: slices.Contains(on, messages.CauseHalt),
		Cancel: slices.Contains(on, messages.CauseCancel), Unknown: m.Rollback.Unknown == "run",
	}
}

// window returns how much of the session prompts have.
func window(m *manifest.Manifest) prompt.Window {
	w := prompt.Window{Messages: int(m.Memory.HistoryWindow), Bytes: m.Memory.HistoryBytes}
	if m.Memory.HistoryWindow == manifest.NoHistory {
		w = prompt.Window{None: true}
	}
	return w
}

// retryDelay returns the time between two attempts at an action.
func retryDelay(m *manifest.Manifest) time.Duration {
	if d := m.Loop.RetryDelay; d != nil {
		return cmp.Or(*d, plan.NoDelay)
	}
	return 0
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

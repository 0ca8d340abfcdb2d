// Package compiled has an agent as sessions run it: what its definition was compiled to, a value
// that all sessions of one manifest share.
//
// Invariants:
//   - an Agent never changes, so sessions use it at once;
//   - a length or a duration of 0 means the default of the specification, which a method gives.
//
// It does not compile (internal/compiler) and runs nothing: what it has of functions and ports is
// called by others.
package compiled

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/retry"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Route is one way to a model: the agent's own, or a fallback.
type Route struct {
	Provider string
	Model    string
	Port     llm.Model
	Options  string // llm.Request.Options
	Home     bool   // at its vendor's own address
}

// Agent is everything the sessions of one manifest share. It is immutable.
type Agent struct {
	Name     string
	Rules    *turn.Rules
	Dialect  parse.Dialect
	Routes   []Route // at least one
	Retry    retry.Policy
	Sessions *Sessions // how replies come over conversations with the provider; nil uses none
	WhyMode  string    // why there are some, or none
	Tools    *catalog.Set
	Targets  *catalog.Targets // of actions in replies: Tools, and targets that are not tools
	Gate     catalog.Gate
	Feeds    Feeds
	Specs    []messages.ToolSpec
	Native   bool             // they are sent as the provider's functions
	Primer   string           // of Specs
	Schema   string           // JSON schema of the final answer; "" for any
	Digester *prompt.Digester // knows Primer; nil for one that knows nothing
	Library  *neuroscript.Library
	Limits   neuroscript.Limits
	Receipts journal.Receipts
	Window   prompt.Window
	Shape    func(History) []messages.Message // the last to change a prompt; may be nil
	// Around stands around every call that may reach beyond its session (stile.Agent.Around);
	// nil leaves calls to their targets. It runs on the goroutine of the action.
	Around func(ctx context.Context, call *messages.ActionDeclared, do func(context.Context) *messages.ActionEnded) *messages.ActionEnded
	// Instructions are those whose placeholders are filled in for each run (prompt.Expand);
	// "" where the primer has all there are. Instruct gives what stands for prompt.Given; it
	// runs on a goroutine of the pool.
	Instructions string
	Instruct     func(ctx context.Context, sid string) (string, error)
	// Profile gives the profile of a session's user as JSON, "" for none; nil shows none.
	// It runs on a goroutine of the pool.
	Profile func(ctx context.Context, sid string) (string, error)
	// Ended is told of every run that has ended, when that is durable; may be nil. It
	// must not block.
	Ended func(sid string, end *messages.Record)

	TokenTTL    time.Duration // 0: the default of docs/spec/aeiou.md §18, as for those below
	TokenMaxTTL time.Duration
	TokenSkew   time.Duration
	KeyGrace    time.Duration
	ReplayCap   int
	ReplayTTL   time.Duration
	MagicCalls  int // per turn
}

// Sessions says how conversations that the provider keeps are used
// (docs/spec/model-sessions.md).
type Sessions struct {
	Auto bool          // a run goes on without one that fails
	Idle time.Duration // how long a connection stays without a request; 0 is a minute
	Age  time.Duration // how old one gets; 0 is 55 minutes
	Seed int           // messages that a new conversation is sent, beside the system's; 0 is all
}

// Feeds are what an agent's sessions know of context feeds.
type Feeds struct {
	Set    feeds.Set // of the manifest
	Agent  feeds.AgentFacts
	Ingest *feeds.Ingester // nil: there is nothing to ingest from
	Peers  feeds.Peers     // nil: no other host is asked
	// Permission is what internal actions may do to feeds.
	Permission feeds.Permission
	// Environment reads a variable that parameters may name; nil knows none.
	Environment func(name string) (string, bool)
}

// History is a prompt that is about to be sent.
type History struct {
	SID      string
	Run      int64 // ordinal of the run
	Turn     int64
	Messages []messages.Message // the first may be a system message; the receiver's own
}

// MagicBound is the bound of MagicCalls in effect (docs/spec/aeiou.md §18).
func (a *Agent) MagicBound() int {
	if a.MagicCalls > 0 {
		return a.MagicCalls
	}
	return 32
}

// Digests returns the Digester, or one that knows no primer.
func (a *Agent) Digests() *prompt.Digester {
	if a.Digester != nil {
		return a.Digester
	}
	return prompt.NewDigester("", a.Rules.Rendering)
}

// TokenPolicy is what verified tokens must meet.
func (a *Agent) TokenPolicy() token.Policy {
	return token.Policy{Skew: a.TokenSkew, MaxTTL: a.TokenMaxTTL, Grace: a.KeyGrace}
}

// Basis is what a call rests on beside its arguments. It asks nothing and waits for nothing.
func (a *Agent) Basis(sid string, typ messages.ActionType, name string) string {
	if typ != "" && typ != messages.TypeTool {
		return catalog.Basis(nil, sid, name, string(typ))
	}
	t, _ := a.Tools.Lookup(name)
	return catalog.Basis(t, sid, name, "")
}

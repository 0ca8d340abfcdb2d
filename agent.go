package stile

import (
	"context"
	"errors"
	"time"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools"
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
	// Output is of the type that the final answer of a run must be JSON of, or a JSON
	// schema as a string; nil leaves it to the manifest's output. Outcome.Output has it.
	Output any
	// Library holds trusted function libraries (docs/spec/neuroscript.md §12).
	Library []Source
	// Gate decides where no rule of the manifest denies; may be nil. Its answers are
	// recorded, and a replay takes them from there.
	Gate func(tools.Request) (answer messages.GateAnswer, reason string, ok bool)

	// Instructions are those of the manifest, which then has none. What Instruct gives for
	// a session, when a run begins, is recorded and stands behind them, or in the place of
	// ${builtin.instructions}. Both together have 64 KiB at most.
	Instructions string
	Instruct     func(ctx context.Context, sid string) (string, error)

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
	// kitsu.search. Mood gives the intensity of the user's mood in 0…1; above 0.85,
	// continue tokens are denied. nil is 0.
	Search tools.Searcher
	Mood   func(sid string) (float64, error)

	// MayApprove reports whether a principal may answer for a call that needs
	// confirmation; nil allows every principal for whom the program calls Approve or Deny.
	MayApprove func(by string, a Approval) bool

	// Canned is asked once for each tool, but those of class pure, and each other target:
	// what it gives, JSON or an error, is what calls give, and nothing is done. nil: they run.
	Canned func(messages.ToolSpec) (result string, err error)

	// Around stands around every call of a tool or other target that may reach beyond its
	// session: it gives the end of the call, by do, which has the target work and gives its
	// end, or by what it knows itself, such as the recorded end of an equal call. call has
	// type, name, class and arguments as they are after references were replaced. Of the end
	// State (ok, failed, unknown or cancelled), Reason, Result (JSON) and ErrorCode count; an
	// end that is not do's is final, and no attempt follows. It is called for each attempt,
	// from many goroutines, within the time of the action. Pure tools of programs, actions on
	// the session and key-value relics do not pass it; nor do the calls of Agents and the
	// steps of workflows, whose own call does. nil: calls reach their targets.
	Around func(ctx context.Context, call *messages.ActionDeclared, do func(context.Context) *messages.ActionEnded) *messages.ActionEnded

	files []string // that it was loaded from
}

// History is a prompt that is about to be sent: the first message may be the system
// message, which teaches the dialect and lists the tools.
type History = actors.History

// Source is the text of a function library.
type Source = neuroscript.Source

// LoadAgent reads a manifest file, which may name a dialect of the product or one of
// dialects, those of the Config it is meant for. All mistakes are reported at once,
// each with file, line and key.
func LoadAgent(path string, dialects ...parse.Dialect) (*Agent, error) {
	d, err := compiler.Load(path, dialects)
	if err != nil {
		return nil, err
	}
	return loaded(d), nil
}

// loaded is what a manifest's file says of an agent, and of those that it imports.
func loaded(d *compiler.Definition) *Agent {
	a := &Agent{Manifest: d.Manifest, Dir: d.Dir, files: d.Files}
	for _, child := range d.Agents {
		a.Agents = append(a.Agents, loaded(child))
	}
	return a
}

// Check reports whether an agent could be opened, without a runtime: what it names
// must exist and its files must be readable. Of cfg, the Config it is meant for,
// Databases, Dialects, Models, Providers and Sandbox are looked at. Errors are ERR_CONFIG, naming the
// field.
func Check(a *Agent, cfg Config) error {
	if a == nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "agent", Detail: "there is none"}
	}
	cfg = cfg.withDefaults()
	held := compiler.Holder{}
	env := cfg.compiler(compiler.Check)
	env.Keep = held.Keep
	_, err := compiler.Compile(context.Background(), env, a.definition(lineage{}))
	return errors.Join(err, held.Close())
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

// lineage are the definitions of agents that are on the way, so that one that runs itself
// gets its own definition and is refused by the compiler.
type lineage map[*Agent]*compiler.Definition

// definition is the agent as the compiler takes it; nil for nil.
func (a *Agent) definition(seen lineage) *compiler.Definition {
	if a == nil || seen[a] != nil {
		return seen[a]
	}
	d := &compiler.Definition{
		Manifest: a.Manifest, Dialect: a.Dialect, Name: a.Name, Dir: a.Dir, Model: a.Model, Tools: a.Tools,
		Library: a.Library, Gate: a.Gate, Transform: a.Transform, Policies: a.Policies,
		Search: a.Search, Mood: a.Mood, Output: a.Output, MayApprove: a.MayApprove, Canned: a.Canned, Around: a.Around,
		Instructions: a.Instructions, Instruct: a.Instruct, Files: a.files,
	}
	seen[a] = d
	for _, child := range a.Agents {
		d.Agents = append(d.Agents, child.definition(seen))
	}
	return d
}

// own are the files of the host that agents leave alone.
func (c *Config) own() []string {
	if c.InMemory {
		return c.Protect
	}
	return append([]string{c.Dir}, c.Protect...)
}

// compiler is the part of a configuration that agents are compiled with.
func (c *Config) compiler(mode compiler.Mode) *compiler.Env {
	return &compiler.Env{
		Mode: mode, Dialects: c.Dialects, Models: c.Models, Providers: c.Providers, Databases: c.Databases,
		Sandbox: c.Sandbox, Now: c.Now, Log: c.Log, Remote: c.Feeds.Remote, Own: c.own(), Neighbours: c.neighbours, Shared: c.Shared,
	}
}

// neighbours are the agents of a host.
func (c *Config) neighbours() (all []*compiler.Definition) {
	for _, a := range c.Agents {
		all = append(all, a.definition(lineage{}))
	}
	return all
}

package stile

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools"
)

// Agent is a manifest together with Go values: model, tools, policies. All sessions of an
// agent share one pointer to it. It must not be changed after the first Open.
type Agent struct {
	// Manifest is the agent's description; nil stands for the defaults of Dialect,
	// with all of Tools allowed.
	Manifest *manifest.Manifest
	// Dialect is used when Manifest is nil: "plain", "aeiou", "cortex", "cogency", "kitsu",
	// or one of Config.Dialects.
	Dialect string
	// Name goes into session.opened when Manifest has none.
	Name string
	// Dir is the folder of the manifest: scripts are read from it, and file tools have access
	// to it alone. "" means no scripts and no files.
	Dir string
	// Model replaces the model that the manifest names.
	Model llm.Model
	// Tools are added to the built-in ones. A manifest must import them by name.
	Tools []tools.Tool
	// Agents are the agents that actions may run as child sessions. A manifest must import
	// them by name. LoadAgent fills in those that the manifest imports or defines.
	Agents []*Agent
	// Output sets the schema of a run's final answer: a value of the Go type that the answer's
	// JSON must decode into, or a JSON schema as a string. nil takes the manifest's output.
	// The answer is in Outcome.Output.
	Output any
	// Library holds trusted function libraries (docs/spec/neuroscript.md §12).
	Library []Source
	// Gate decides on calls that no rule of the manifest denies; ok false means no decision.
	// It may be nil. Its answers are recorded, and a replay uses the recorded ones.
	Gate func(tools.Request) (answer messages.GateAnswer, reason string, ok bool)

	// Instructions are the agent's instructions; the manifest must then have none. Instruct
	// returns further instructions for a session when a run begins. They are recorded and
	// follow Instructions, or replace ${builtin.instructions}. Both together may have 64 KiB.
	Instructions string
	Instruct     func(ctx context.Context, sid string) (string, error)

	// Transform is the last step that changes a prompt, after the context window is applied;
	// its result is sent unchanged. It may leave out, replace and add messages, for example
	// to summarise old ones. Its result must depend only on its argument and on values that
	// do not change while sessions run, or a replay finds another prompt; a replay must be
	// given the agent. nil changes nothing.
	Transform func(History) []messages.Message

	// Policies decide on calls too, each under a name that is recorded with its answers. Of
	// the answers of Policies and Gate the strictest counts.
	Policies []tools.CustomPolicy

	// Search is the search engine of the tool search, in place of the manifest's search, and
	// of searches in the dialect kitsu, in place of the manifest's kitsu.search or the
	// offline stub. Mood returns the intensity of the user's mood in 0…1; above 0.85,
	// continue tokens are denied. nil is 0.
	Search tools.Searcher
	Mood   func(sid string) (float64, error)

	// MayApprove reports whether a principal may answer for a call that needs
	// confirmation; nil allows every principal for whom the program calls Approve or Deny.
	MayApprove func(by string, a Approval) bool

	// Canned replaces tools, except those of class pure, and other targets by fixed results,
	// for tests. It is called once for each; every call then returns this result, JSON or an
	// error, and has no effect. With nil the targets run.
	Canned func(messages.ToolSpec) (result string, err error)

	// Around wraps every call of a tool or other target that may have effects outside its
	// session. It returns the end of the call: either the result of do, which runs the target,
	// or an end of its own, such as the recorded end of an equal call. call has type, name,
	// class and arguments, with references replaced. Of the end, State (ok, failed, unknown or
	// cancelled), Reason, Result (JSON) and ErrorCode count; an end that did not come from do
	// is final, and the call is not retried. Around is called for each attempt, from many
	// goroutines, within the action's deadline. It is not called for pure tools of programs,
	// actions on the session and key-value relics, nor for calls inside a child session or
	// workflow; it is called for the action that starts that one. A result that was shown as it
	// grew must not be changed: readers have its pieces, and the action fails. nil wraps nothing.
	Around func(ctx context.Context, call *messages.ActionDeclared, do func(context.Context) *messages.ActionEnded) *messages.ActionEnded

	files []string // from which it was loaded
	mark  []byte   // digest of what they said, definitions that were imported included
}

// History is a prompt that is about to be sent: the first message may be the system
// message, which teaches the dialect and lists the tools.
type History = compiled.History

// Source is the text of a function library.
type Source = neuroscript.Source

// LoadAgent reads a manifest file and the files that it imports. dialects are those of
// Config.Dialects; the manifest may name one of them or a built-in one. All mistakes are
// reported at once, each with file, line and key.
func LoadAgent(path string, dialects ...parse.Dialect) (*Agent, error) {
	d, err := compiler.Load(path, dialects)
	if err != nil {
		return nil, err
	}
	a := loaded(d)
	h := sha256.New()
	a.digest(h)
	a.mark = h.Sum(nil)
	return a, nil
}

// digest writes what an agent and its children were read as. The recursion is as deep as agents nest.
func (a *Agent) digest(w io.Writer) {
	_, _ = w.Write(a.Manifest.Canonical())
	for _, child := range a.Agents {
		child.digest(w)
	}
}

// loaded makes an Agent of a definition that was read from files, with its children.
func loaded(d *compiler.Definition) *Agent {
	a := &Agent{Manifest: d.Manifest, Dir: d.Dir, files: d.Files}
	for _, child := range d.Agents {
		a.Agents = append(a.Agents, loaded(child))
	}
	return a
}

// Check reports whether a Runtime with cfg could open an agent, without starting one: names
// must resolve and files must be readable. Of cfg it uses Databases, Dialects, Models,
// Providers and Sandbox. Errors are ERR_CONFIG and name the field.
func Check(a *Agent, cfg Config) error {
	_, _, err := CheckMode(a, cfg)
	return err
}

// CheckMode is Check. It returns the mode that model.mode of the manifest comes to, "resume" or
// "replay", and why, in words.
func CheckMode(a *Agent, cfg Config) (mode, why string, err error) {
	if a == nil {
		return "", "", &messages.Error{Code: messages.ErrConfig, Field: "agent", Detail: "is nil"}
	}
	cfg = cfg.withDefaults()
	held := compiler.Holder{}
	env := cfg.compiler(compiler.Check)
	env.Keep = held.Keep
	c, err := compiler.Compile(context.Background(), env, a.definition(lineage{}))
	if err = errors.Join(err, held.Close()); err != nil {
		return "", "", err
	}
	if c.Actor.Sessions != nil {
		return messages.ModelResume, c.Actor.WhyMode, nil
	}
	return messages.ModelReplay, c.Actor.WhyMode, nil
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

// lineage holds the definitions in progress, so that an agent that runs itself refers to its
// own definition, which the compiler refuses.
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

// own are the files of the host that agents must not touch.
func (c *Config) own() []string {
	if c.InMemory {
		return c.Protect
	}
	return append([]string{c.Dir}, c.Protect...)
}

// compiler is the part of a configuration that the compiler of agents needs.
func (c *Config) compiler(mode compiler.Mode) *compiler.Env {
	peers, err := c.Feeds.peers()
	if err != nil { // New says so
		peers = nil
	}
	return &compiler.Env{
		Mode: mode, Peers: peers, Dialects: c.Dialects, Models: c.Models, Providers: c.Providers, Databases: c.Databases,
		Sandbox: c.Sandbox, Now: c.Now, Log: c.Log, Remote: c.Feeds.Remote, Own: c.own(), Neighbours: c.neighbours, Shared: c.Shared, ProgramUser: c.ProgramUser,
	}
}

func (c *Config) neighbours() (all []*compiler.Definition) {
	for _, a := range c.Agents {
		all = append(all, a.definition(lineage{}))
	}
	return all
}

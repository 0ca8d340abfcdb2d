// Package manifest reads what an agent is made of: one YAML file with one shape
// (docs/spec/design.md §11).
//
// Invariants:
//   - the struct Manifest is the shape: its tags drive the reader, the checks, the
//     canonical form and the published schema, so the four cannot differ;
//   - all mistakes of a file are reported at once, each with file, line, column
//     and key;
//   - a value this release cannot honour is refused, never ignored. Which ones is
//     in the tag "later" of the field;
//   - a manifest with mistakes is never handed out.
//
// It opens no file and reads no environment: the caller passes the bytes and a
// lookup, and resolves script paths against the manifest's folder. Whether a tool
// or provider exists is for those to say who have the registries.
package manifest

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Manifest is an agent. The zero value of a field takes the default of Default;
// WithDefaults fills them in. It must not be changed once a session runs under it.
//
// Tags: yaml is the key; doc the sentence in the schema; enum the values, parted
// by '|'; min and max the bounds of a number, duration or size; unit says how an
// int64 is written ("bytes": 64MiB, "usd": "1.00", "seconds": whole ones);
// text is the key of a struct that a plain text stands for;
// required keys must be there in an item of a list, raw texts are not expanded, and of optional numbers 0
// stands for absent; shape names a pattern of
// shapes for a string, a list's items or a map's keys; later lists the values
// that later releases honour, '*' for every value but the empty one.
type Manifest struct {
	Kind    string `yaml:"kind" enum:"Agent" doc:"Always Agent."`
	Version string `yaml:"version" shape:"scalar" doc:"Version of the agent, for people."`
	Name    string `yaml:"name" shape:"name" doc:"Name of the agent; session.opened records it."`
	Summary string `yaml:"summary" doc:"One line about the agent."`
	Author  string `yaml:"author" doc:"Who wrote the manifest."`
	State   string `yaml:"state" doc:"Stage of life of the agent, for people."`

	Instructions struct {
		Text string `yaml:"text" raw:"true" doc:"The text. ${NAME} is a variable of environment or a feed, as it is when a run begins; ${NAME:-text} says what it is without a value, $$ is a dollar sign, any other stays."`
		File string `yaml:"file" shape:"file" doc:"Or a file with it, UTF-8, relative to the manifest's folder."`
	} `yaml:"instructions" optional:"true" text:"text" doc:"What the agent is and does: the first part of what the system says to the model, 64KiB at most. A text, or a file."`

	Output struct {
		Schema any `yaml:"schema" raw:"true" optional:"true" doc:"JSON schema of the answer, or {file: …} with one, relative to the manifest's folder."`
	} `yaml:"output" optional:"true" doc:"What the final answer of a run must be: one JSON value that fits a schema. It is shown when it does."`

	Dialect string `yaml:"dialect" enum:"plain|aeiou|cortex|cogency|kitsu" doc:"How the model speaks."`
	Primer  string `yaml:"primer" enum:"full|short" doc:"How the dialect is taught to the model; default full."`
	Model   Model  `yaml:"model" doc:"Which model answers."`

	Extensions []string `yaml:"extensions" enum:"if|foreach|parallel|rollback|stream|sub_thoughts|templates|feed_transform|feed_references|remote_feeds" optional:"true" doc:"Parts of the streaming protocol beyond its core that are on; default none."`
	Rollback   struct {
		On      *[]string `yaml:"on" enum:"error|halt|cancel" optional:"true" doc:"What rolls groups of actions back unasked: error, a member failed; halt, the run ends HALT; cancel, it is cancelled; by default error alone."`
		Unknown string    `yaml:"unknown" enum:"run|report" optional:"true" doc:"What a rollback does about a member whose outcome is unknown: run its compensation, or report it alone; default report."`
	} `yaml:"rollback" optional:"true" doc:"When groups of actions are undone, with the extension rollback."`
	ActionTemplates map[string]any `yaml:"action_templates" shape:"action" raw:"true" optional:"true" doc:"Actions with places for values, by name, for the extension templates."`

	Import Import `yaml:"import" doc:"All that may be called; nothing else can be. The key tools is a short form of import.tools."`

	Define Define `yaml:"define" optional:"true" doc:"What import names, when it has no file of its own."`

	Workspace Workspace `yaml:"workspace" optional:"true" doc:"The folder that the tools read, write, edit, list, find, replace and shell work in."`

	Shell Shell `yaml:"shell" optional:"true" doc:"What the programs of the tool shell may use."`

	Search Search `yaml:"search" optional:"true" doc:"Where the tool search looks: one of the two."`

	ContextFeeds    []Feed          `yaml:"context_feeds" doc:"Named context kept fresh."`
	ContextFeedsAt  string          `yaml:"context_feeds_at" enum:"start|end" doc:"Where prompts have the feeds: start is in front of the conversation, the default, and end behind it. At the end they do not keep providers from caching the conversation, and in cortex it can be kept (model.mode)."`
	InternalActions InternalActions `yaml:"internal_actions" doc:"Actions on the session itself."`
	Loop            Loop            `yaml:"loop" doc:"How runs go on and end."`
	Quotas          Quotas          `yaml:"quotas" doc:"Clocks and meters."`
	Approval        Approval        `yaml:"approval" doc:"What the gate says of calls."`
	Kitsu           Kitsu           `yaml:"kitsu" optional:"true" doc:"Action tokens of the dialect kitsu."`
	Memory          Memory          `yaml:"memory" doc:"What is remembered across runs."`
	Environment     Environment     `yaml:"environment" doc:"What ${NAME} in this file may stand for."`
	Grants          []Grant         `yaml:"grants" doc:"Explicit, audited access to other sessions."`

	Token  Token  `yaml:"token" doc:"Control tokens."`
	Replay Replay `yaml:"replay" doc:"The set of control tokens seen."`
	Key    struct {
		Grace time.Duration `yaml:"grace" unit:"seconds" min:"1s" max:"24h" doc:"How much longer than token.max_ttl a retired key verifies; whole seconds."`
	} `yaml:"key" doc:"Signing keys."`
	Magic struct {
		MaxPerTurn int64 `yaml:"max_per_turn" min:"1" max:"1024" doc:"Tokens a turn may mint."`
	} `yaml:"magic" doc:"tool.aeiou.magic."`
	Envelope struct {
		StrictDuplicates bool `yaml:"strict_duplicates" doc:"Refuses a reply that repeats a section instead of reading the first with a lint."`
	} `yaml:"envelope" doc:"AEIOU envelopes."`
	Receipts string `yaml:"receipts" enum:"decision|run|off" doc:"Which records are signed: every decision, the end of every run, or none."`
	Stream   Stream `yaml:"stream" doc:"How growing text is shown."`
}

// Model says which model answers, and which ones stand in for it.
type Model struct {
	Provider   string        `yaml:"provider" shape:"name" doc:"Key of the provider; scripted needs no network."`
	Model      string        `yaml:"model" doc:"The provider's name for the model."`
	Script     string        `yaml:"script" doc:"Script of the scripted provider, relative to the manifest's folder."`
	BaseURL    string        `yaml:"base_url" shape:"url" doc:"Where the provider is, when it is not the vendor's own address."`
	Secret     string        `yaml:"secret" shape:"secret" doc:"Environment variable that holds the provider's key, when it is not the usual one; never the key itself."`
	API        string        `yaml:"api" enum:"responses|chat" doc:"Which interface of OpenAI to speak; compatible servers speak chat."`
	MaxTokens  int64         `yaml:"max_tokens" min:"1" max:"1000000000" optional:"true" doc:"Longest reply in tokens."`
	APITimeout time.Duration `yaml:"api_timeout" min:"1s" max:"1h" optional:"true" doc:"How long an answer may take to begin."`
	Price      Price         `yaml:"price" optional:"true" doc:"What the model costs; without it the cost of replies is unknown."`
	Options    Options       `yaml:"options" optional:"true" doc:"How the model answers; what the provider does not have is refused."`
	Stream     *bool         `yaml:"stream" doc:"Whether the reply is asked for as a stream; default true. Without, the whole reply is one piece, for servers that cannot stream."`
	ToolCalls  string        `yaml:"tool_calls" enum:"native|text" doc:"How tools are called: native sends them as the provider's functions, text has the model write calls as its dialect does. By default native at the vendors' own addresses, in cogency and cortex, and text elsewhere. It goes for the fallbacks too."`
	Mode       string        `yaml:"mode" enum:"auto|resume|replay" doc:"How the history gets to the model: replay sends all of it with every request, resume what is new over a conversation that the provider keeps. auto is resume where the provider's own address and the dialect allow it, and goes on with replay where that fails."`
	Session    ModelSession  `yaml:"session" optional:"true" doc:"The conversation that the provider keeps."`
	Fallback   []Fallback    `yaml:"fallback" doc:"Models asked in turn when the one before fails."`
}

// ModelSession is a conversation that the provider keeps: model.session.
type ModelSession struct {
	Transport string        `yaml:"transport" enum:"responses_ws|realtime|live" doc:"How the provider keeps it: OpenAI's Responses over WebSockets, or its Realtime or Gemini's Live, which also are how a model is asked without a conversation. When it is given, auto uses it also at another base_url."`
	Idle      time.Duration `yaml:"idle" min:"1s" max:"1h" optional:"true" doc:"How long a connection stays open without a request; default 60s."`
	MaxAge    time.Duration `yaml:"max_age" min:"1m" max:"24h" optional:"true" doc:"How old a connection gets; default 55m."`
	Compress  struct {
		Trigger int64 `yaml:"trigger_tokens" min:"1" max:"1000000000" optional:"true" doc:"Tokens of a conversation at which it is cut; default is the provider's."`
		Target  int64 `yaml:"target_tokens" min:"1" max:"1000000000" optional:"true" doc:"Tokens that are left of it; default is the provider's."`
	} `yaml:"compress" optional:"true" doc:"When Live forgets the oldest part of a conversation; without it one that is too long fails."`
	Seed int64 `yaml:"seed_window" min:"1" max:"1000000" optional:"true" doc:"How many of the latest messages a new conversation is sent, beside what the system says; default all. It begins with a question of the user."`
}

// Fallback is a model that stands in.
type Fallback struct {
	Provider   string        `yaml:"provider" required:"true" shape:"name" doc:"Key of the provider."`
	Model      string        `yaml:"model" doc:"The provider's name for the model."`
	Script     string        `yaml:"script" doc:"Script of the scripted provider."`
	BaseURL    string        `yaml:"base_url" shape:"url" doc:"As model.base_url."`
	Secret     string        `yaml:"secret" shape:"secret" doc:"As model.secret."`
	API        string        `yaml:"api" enum:"responses|chat" doc:"As model.api."`
	MaxTokens  int64         `yaml:"max_tokens" min:"1" max:"1000000000" optional:"true" doc:"As model.max_tokens."`
	APITimeout time.Duration `yaml:"api_timeout" min:"1s" max:"1h" optional:"true" doc:"As model.api_timeout."`
	Price      Price         `yaml:"price" optional:"true" doc:"As model.price."`
	Options    Options       `yaml:"options" optional:"true" doc:"As model.options."`
	Stream     *bool         `yaml:"stream" doc:"As model.stream."`
}

// Price is what a million tokens cost. A cache price that is not given is that of
// input.
type Price struct {
	Input      int64 `yaml:"input_usd" unit:"usd" min:"1" max:"9007199254740991" optional:"true" doc:"US dollars for a million tokens of prompt, at most six decimals."`
	Output     int64 `yaml:"output_usd" unit:"usd" min:"1" max:"9007199254740991" optional:"true" doc:"US dollars for a million tokens of reply."`
	CacheRead  int64 `yaml:"cache_read_usd" unit:"usd" min:"1" max:"9007199254740991" optional:"true" doc:"US dollars for a million tokens of prompt that the provider had in its cache."`
	CacheWrite int64 `yaml:"cache_write_usd" unit:"usd" min:"1" max:"9007199254740991" optional:"true" doc:"US dollars for a million tokens of prompt that it put there."`
}

// How tools are called: Model.ToolCalls.
const (
	ToolCallsNative = "native"
	ToolCallsText   = "text"
)

// FeedsAtEnd has feeds end the prompt: Manifest.ContextFeedsAt.
const FeedsAtEnd = "end"

// How the history gets to the model: Model.Mode.
const (
	ModeAuto   = "auto"
	ModeResume = "resume"
	ModeReplay = "replay"
)

// Values of ModelSession.Transport that are interfaces of their own, as those of Model.API are.
const (
	TransportRealtime = "realtime"
	TransportLive     = "live"
)

// How much of a primer the model gets.
const (
	PrimerFull  = "full"
	PrimerShort = "short"
)

// MaxInstructions bounds instructions, in bytes.
const MaxInstructions = 64 << 10

// Import lists what may be called, by kind.
type Import struct {
	Tools     []string `yaml:"tools" shape:"tools" doc:"Tools, spelled as a call spells them, or groups of them, such as str.*."`
	Agents    []string `yaml:"agents" shape:"agent" doc:"Agents that may be run as child sessions: names, or paths of their manifests."`
	Relics    []string `yaml:"relics" shape:"tool" doc:"Services that keep or know something, for the same dialects."`
	Workflows []string `yaml:"workflows" shape:"tool" doc:"Graphs of actions that run inside one, for the same dialects."`
	LLMs      []string `yaml:"llms" shape:"tool" doc:"Prompt templates with a model, for dialects that act while they speak."`
	MCP       []MCP    `yaml:"mcp" doc:"MCP servers, whose tools may be called."`
}

// MCP is a server of the Model Context Protocol: a program, or an address.
type MCP struct {
	Name      string            `yaml:"name" required:"true" shape:"id" doc:"Group of the server's tools: they are called name.tool."`
	Command   []string          `yaml:"command" doc:"Program and its arguments, spoken to on its standard streams. A bare name is looked up in /usr/local/bin, /usr/bin and /bin; a relative path is in the agent's folder."`
	Env       map[string]string `yaml:"env" shape:"env" doc:"Variables of the program's environment, which has besides PATH, HOME and LANG nothing of the host's."`
	Resources Process           `yaml:"resources" doc:"What the program may use."`
	Confine   Confine           `yaml:"confine" optional:"true" doc:"What the program may reach."`
	URL       string            `yaml:"url" shape:"url" doc:"Address of a server that speaks streamable HTTP. The author of the manifest vouches for it: it may be in a private network or on this machine."`
	Header    string            `yaml:"header" shape:"name" doc:"Header that carries the secret as it is; without it Authorization carries it as a bearer token."`
	Secrets   []string          `yaml:"secrets" shape:"secret" doc:"Environment variables of the host: a program gets them under their names, a url has one at most. Never the keys themselves."`
	Connect   time.Duration     `yaml:"connect_timeout" min:"1ms" max:"1h" optional:"true" doc:"How long making a connection may take; default 30s."`
	Timeout   time.Duration     `yaml:"timeout" min:"1ms" max:"1h" optional:"true" doc:"Longest attempt of a call; default 30s."`
	MaxBytes  int64             `yaml:"max_bytes" unit:"bytes" min:"1" max:"8388608" optional:"true" doc:"Longest result; default 1MiB."`
	Pin       string            `yaml:"pin" doc:"Digest of the server's list of tools, sha256: and 64 digits, as stile doctor --pins says it. A server that offers anything else is refused."`
	Tools     []MCPTool         `yaml:"tools" doc:"Tools that may be called; without it all that the server offers."`
}

// MCPTool is a tool of an MCP server.
type MCPTool struct {
	Name        string              `yaml:"name" required:"true" doc:"Name by which the server knows it; with a * all of its tools that are named so, such as read_*."`
	As          string              `yaml:"as" shape:"id" doc:"Name behind the dot; without it the server's, in which all but letters, digits and '_' becomes '_'."`
	Class       messages.Class      `yaml:"class" enum:"read_only|idempotent|effectful" doc:"What repeating it does; default effectful, whatever the server says."`
	Gate        messages.GateAnswer `yaml:"gate" enum:"approve|deny|confirm" doc:"What the gate says of it; as approval.tools does."`
	Timeout     time.Duration       `yaml:"timeout" min:"1ms" max:"1h" optional:"true" doc:"Longest attempt; default that of the server."`
	Pin         string              `yaml:"pin" doc:"Digest of what the server says of it, sha256: and 64 digits, as stile doctor --pins says it. A tool that is described otherwise is refused."`
	Description string              `yaml:"description" raw:"true" doc:"What the model is told of it; without it what the server says."`
	Schema      string              `yaml:"schema" raw:"true" doc:"JSON schema of its arguments. With it the server is not asked before the tool is called; a manifest kept in a journal has it."`
}

// Process bounds a program. The kernel holds it to them.
type Process struct {
	Memory int64         `yaml:"memory" unit:"bytes" min:"1048576" max:"1099511627776" optional:"true" doc:"Address space of a process; default 4GiB."`
	CPU    time.Duration `yaml:"cpu" unit:"seconds" min:"1s" max:"720h" optional:"true" doc:"Processor time of a process; whole seconds, default 1h."`
	Files  int64         `yaml:"files" min:"8" max:"65536" optional:"true" doc:"Open files of a process; default 256."`
}

// Confine is what a command or the program of an MCP server may reach. The kernel holds it to
// that.
type Confine struct {
	Isolation string   `yaml:"isolation" enum:"guard|landlock|none" doc:"guard, which is what nothing says, leaves it everything that the host's user reaches but the host's own files; landlock, which read, write and network ask for, leaves it the system's programs, the agent's folder to read, a temporary folder, and what is named; none is for programs that the operator trusts with the host's keys."`
	Network   bool     `yaml:"network" mapped:"loopback" optional:"true" doc:"Lets it use the network: other machines, and the name servers of this one. {loopback: true} lets it reach this machine and link-local addresses too."`
	Loopback  bool     `yaml:"loopback" optional:"true" doc:"Lets a program that has the network reach this machine and link-local addresses, and so what listens here for people of this machine, such as a host without tokens."`
	Read      []string `yaml:"read" doc:"Further files and folders that it may read and execute. Paths here are relative to the manifest's folder."`
	Write     []string `yaml:"write" doc:"Further folders in which it may change everything but the host's own files."`
}

// What isolates programs of a manifest.
const (
	IsolationGuard    = "guard"
	IsolationLandlock = "landlock"
	IsolationNone     = "none"
)

// Kind is what isolates the program.
func (c *Confine) Kind() string {
	switch {
	case c.Isolation != "":
		return c.Isolation
	case c.named():
		return IsolationLandlock
	}
	return IsolationGuard
}

// named reports whether it names what the program may reach.
func (c *Confine) named() bool {
	return c.Network || c.Loopback || len(c.Read) > 0 || len(c.Write) > 0
}

// Workspace is the folder the tools of files and shell work in (docs/spec/cogency.md §14).
type Workspace struct {
	Access   string   `yaml:"access" enum:"sandbox|project|system" doc:"How far file tools reach: a folder of the agent's own, which is what nothing says; a folder others work in too; or every file of the host but credentials and the system's own."`
	Root     string   `yaml:"root" doc:"The folder, relative to the manifest's. Without it that of a sandbox is sandbox, which is made when it is not there, and otherwise the manifest's own."`
	Per      string   `yaml:"per" enum:"session|user|tenant|agent" doc:"Who works together: has one folder, one cache of programs and one connection to each MCP server. A user, which is what nothing says; a session; a tenant; or all who use the agent. access: system is agent alone."`
	MaxBytes int64    `yaml:"max_bytes" unit:"bytes" min:"65536" max:"1099511627776" optional:"true" doc:"What the files of one folder may take on the disc, that of each user, session or tenant; by default without bound. Not for access: system."`
	Editable []string `yaml:"editable" enum:".git|.hg|.svn|.vscode|.idea|.vs|.zed|.fleet|.devcontainer|.env" doc:"Folders and files that tools otherwise only read, because other programs act on them."`
}

// Shell is what the programs of the tool shell may use (docs/spec/cogency.md §14).
type Shell struct {
	Isolation   string            `yaml:"isolation" enum:"landlock|namespace|bubblewrap|none" doc:"What confines programs: the kernel, by Landlock, which is what nothing says, and a mount namespace where the host can make one; namespace, the same and never without the namespace; an installed bubblewrap; or nothing, on a host whose operator does without."`
	Network     bool              `yaml:"network" mapped:"loopback" doc:"Lets programs use the network: other machines, and the name servers of this one. {loopback: true} lets them reach this machine and link-local addresses too."`
	Loopback    bool              `yaml:"loopback" optional:"true" doc:"Lets programs that have the network reach this machine and link-local addresses, and so what listens here for people of this machine, such as a host without tokens."`
	Path        []string          `yaml:"path" doc:"Folders of programs, before /usr/local/bin, /usr/bin and /bin. They may be read and executed."`
	Read        []string          `yaml:"read" doc:"Further files and folders that may be read and executed."`
	Write       []string          `yaml:"write" doc:"Further folders in which everything may be changed."`
	Caches      []string          `yaml:"caches" shape:"env" doc:"Variables of the programs that each name a folder of the agent's own, kept between calls in the data directory."`
	Environment map[string]string `yaml:"environment" shape:"env" doc:"Variables of the programs, beside PATH, HOME, TMPDIR, LANG and TERM. Nothing of the host's own gets there."`
	Timeout     time.Duration     `yaml:"timeout" min:"100ms" max:"1h" optional:"true" doc:"Longest run of a program; default 30s."`
	Memory      int64             `yaml:"memory" unit:"bytes" min:"1048576" max:"1099511627776" optional:"true" doc:"Address space of a process; default 4GiB."`
	CPU         time.Duration     `yaml:"cpu" unit:"seconds" min:"1s" max:"1h" optional:"true" doc:"Processor time of a process; whole seconds, default 60s."`
	Files       int64             `yaml:"files" min:"8" max:"65536" optional:"true" doc:"Open files of a process; default 1024."`
	Processes   int64             `yaml:"processes" min:"1" max:"65536" optional:"true" doc:"Processes and threads that the host's user may have beyond those of the machine when a program begins; default 1024. Linux does not bound those of root."`
}

// Search says where the tool search looks.
type Search struct {
	BaseURL   string `yaml:"base_url" shape:"url" doc:"Address of a SearXNG server that answers in JSON."`
	Documents string `yaml:"documents" doc:"Folder of texts (.md, .txt, .html), relative to the manifest's, which are searched without a network."`
}

// Feed is a context feed (docs/spec/streaming.md §7.1).
type Feed struct {
	ID           string        `yaml:"id" required:"true" shape:"feed" doc:"Unique name of the feed. builtin.identity, builtin.tools and builtin.security are parts of the prompt, which enabled switches."`
	Type         string        `yaml:"type" enum:"on_demand|periodic|internal|ingest|tool|relic|workflow|llm|agent|remote" unsupported:"streaming|event_driven" doc:"Trigger, or kind of source."`
	Interval     int64         `yaml:"interval" min:"1" optional:"true" doc:"Seconds between fetches of a periodic feed."`
	CacheTTL     *int64        `yaml:"cache_ttl" min:"0" doc:"Seconds a value may be served; 0 and none differ for a periodic feed."`
	Deadline     time.Duration `yaml:"deadline" min:"1ms" max:"60s" optional:"true" doc:"Longest time that a prompt waits for the feed, where the host's feeds.deadline, 2s, is not shorter."`
	MaxTokens    int64         `yaml:"max_tokens" min:"1" optional:"true" doc:"Longest value in tokens."`
	MaxSizeBytes int64         `yaml:"max_size_bytes" min:"1" optional:"true" doc:"Longest value in bytes."`
	Enabled      *string       `yaml:"enabled" shape:"scalar" undefined:"empty" doc:"Whether the feed is fetched, after expansion: true, 1, yes, on, or false, 0, no, off or empty."`
	Pinned       bool          `yaml:"pinned" doc:"Keeps the model from changing the feed."`
	Transform    any           `yaml:"transform" raw:"true" optional:"true" doc:"Steps that change each value before its limits apply, for the extension feed_transform: a list of at most 16, each {op: …} with its members."`
	Source       FeedSource    `yaml:"source" doc:"Where values come from."`
}

// Extensions of the dialect cortex.
const (
	subThoughts = "sub_thoughts" // numbers the thoughts of a reply, labels them, and lets them nest
	rollback    = "rollback"     // undoes groups of actions
)

// Templates is the extension that has templates of actions.
const Templates = "templates"

// stream shows results as they grow.
const stream = "stream"

// FeedTransform is the extension that lets feeds have transform, and the model write one.
const FeedTransform = "feed_transform"

// RemoteFeeds is the extension that lets feeds of the manifest have their values from other
// hosts, and from agents.
const RemoteFeeds = "remote_feeds"

// FeedReferences is the extension that lets feeds that the model adds refer to other feeds, and
// feeds of the manifest write references as %{feed.path}.
const FeedReferences = "feed_references"

// FeedSource is where a feed's values come from.
type FeedSource struct {
	Type    string         `yaml:"type" enum:"internal|ingest|tool|relic|workflow|llm|agent|remote" doc:"Kind of source."`
	Name    string         `yaml:"name" doc:"Target in the registry of that kind."`
	Action  string         `yaml:"action" doc:"Internal source."`
	Params  map[string]any `yaml:"params" doc:"Parameters of the source."`
	URL     string         `yaml:"url" shape:"url" doc:"Of a remote source: the other host, such as https://host:8471."`
	Session string         `yaml:"session" doc:"Of a remote source: tenant:user:id, or agent/id with a session of the token's user that runs that agent."`
	Feed    string         `yaml:"feed" doc:"Of a remote source: the feed of that session."`
	Secret  string         `yaml:"secret" shape:"secret" doc:"Of a remote source: the environment variable with a token of the scope feeds; never the token itself."`
	Push    bool           `yaml:"push" optional:"true" doc:"Of a remote source: the other host is asked for changes, and the feed is fetched when there is one."`
	Fresh   bool           `yaml:"fresh" optional:"true" doc:"Of an agent: each fetch has a session of its own; otherwise one session is kept, and remembers."`
	Budget  FeedBudget     `yaml:"budget" optional:"true" doc:"Of an agent: the most that one fetch uses."`
}

// FeedBudget bounds one fetch of a feed; 0 is no bound beside those of the agent.
type FeedBudget struct {
	Tokens       int64 `yaml:"tokens" min:"1" max:"9007199254740991" optional:"true" doc:"Tokens of models, in and out."`
	CostMicroUSD int64 `yaml:"cost_usd" unit:"usd" min:"1" max:"9007199254740991" optional:"true" doc:"Price in US dollars, at most six decimals."`
}

// InternalActions allows actions on the session itself (docs/spec/streaming.md §7.4). A list that
// is not there is not an empty one: it has the default of the dialect.
type InternalActions struct {
	Enabled *bool     `yaml:"enabled" doc:"Switches internal actions on, where the dialect has them."`
	Allowed *[]string `yaml:"allowed_actions" enum:"add_context_feed|remove_context_feed|update_context_feed|list_context_feeds|get_context_feed|clear_context|set_variable|delete_variable" doc:"Those allowed; an empty list allows none. By default the five about feeds."`
	Blocked []string  `yaml:"blocked_actions" enum:"add_context_feed|remove_context_feed|update_context_feed|list_context_feeds|get_context_feed|clear_context|set_variable|delete_variable" doc:"Those blocked, also when allowed."`
}

// Loop says how runs go on and end.
type Loop struct {
	// NoProgressN is how many equal turns in a row halt a session; ≤ 0 is the
	// default and 1 is refused (docs/spec/aeiou.md §12).
	NoProgressN              int64           `yaml:"no_progress_n" max:"1000000" doc:"Equal turns in a row that halt a session; 0 and less are the default 3, 1 is refused."`
	NoProgressExemptTerminal bool            `yaml:"no_progress_exempt_terminal" doc:"Keeps the progress guard from overriding DONE and ABORT."`
	MaxTurns                 int64           `yaml:"max_turns" min:"0" max:"1000000000" doc:"Turns a run may take; 0 is no limit in cortex and cogency, and the default elsewhere. iteration_cap is an alias."`
	Busy                     messages.Policy `yaml:"busy" enum:"reject|enqueue|interrupt|rollback|merge|debounce" doc:"What a submit meets when a run is in flight."`
	Recovery                 string          `yaml:"recovery" enum:"resume|halt" doc:"What follows a turn that a crash ended."`
	OnPanic                  string          `yaml:"on_panic" enum:"halt|fail" doc:"What a panicking tool does to its turn."`
	RetryDelay               *time.Duration  `yaml:"retry_delay" min:"0s" max:"60s" doc:"Time between two attempts at an action, 0s to 60s; default 1s."`
	DefaultFinal             *bool           `yaml:"default_final" doc:"Whether a response that does not say so is final, in the dialect cortex; default true."`
	SyncPolicy               string          `yaml:"sync_policy" enum:"gate|cut" doc:"What an action in mode sync does to the reply it stands in, in the dialect cortex: gate, which is what nothing says, holds back what follows until the action has ended; cut ends the reply, and the model is asked again with the result."`
	Repairs                  *int64          `yaml:"repairs" min:"0" max:"8" doc:"Turns of a run that may follow one which failed by a mistake of its model; they are told of it; default 2."`
	Strict                   []string        `yaml:"strict" optional:"true" enum:"all|fence|prose|think|commas|controls|aliases|strings|case|single|closing|sections|bare|unseen|silence" doc:"Habits of models that are not forgiven; all forgives none."`
}

// What an action in mode sync does to its reply (docs/spec/streaming.md §4). "" is SyncGate.
const (
	SyncGate = "gate"
	SyncCut  = "cut"
)

// Quotas are the clocks and meters of docs/spec/design.md §8.
type Quotas struct {
	ProgramWall    time.Duration `yaml:"program_wall" min:"1ms" max:"720h" doc:"Longest run of one ACTIONS program; below token.ttl."`
	GenerationWall time.Duration `yaml:"generation_wall" min:"1ms" max:"720h" doc:"Longest model reply."`
	TurnWall       time.Duration `yaml:"turn_wall" min:"1ms" max:"720h" doc:"Longest turn."`
	RunWall        time.Duration `yaml:"run_wall" min:"1ms" max:"720h" doc:"Longest run."`
	Gas            int64         `yaml:"gas" min:"1" max:"9007199254740991" doc:"Steps of a program."`
	Alloc          int64         `yaml:"alloc" unit:"bytes" min:"1" max:"9007199254740991" doc:"Bytes a program may allocate in all."`
	Value          int64         `yaml:"value" unit:"bytes" min:"1" max:"9007199254740991" doc:"Size of one value of a program."`
	Depth          int64         `yaml:"depth" min:"1" max:"256" doc:"Nested calls of a program."`
	Output         int64         `yaml:"output" unit:"bytes" min:"1" max:"524288" doc:"Bytes of OUTPUT and of SCRATCHPAD, each."`
	Calls          int64         `yaml:"calls" min:"1" max:"9007199254740991" optional:"true" doc:"Calls of a program, those of pure tools not counted; default 4096."`
	Emits          int64         `yaml:"emits" min:"1" max:"9007199254740991" optional:"true" doc:"emit and whisper statements that a program executes; default 10000."`
	Actions        int64         `yaml:"actions" min:"1" max:"9007199254740991" doc:"Recorded actions of a run."`
	Parallel       int64         `yaml:"parallel" min:"1" max:"64" optional:"true" doc:"Actions of a reply that run at once; default 5, in cogency 8."`
	Tokens         int64         `yaml:"tokens" min:"1" max:"9007199254740991" doc:"Model tokens of a run."`
	CostMicroUSD   int64         `yaml:"cost_usd" unit:"usd" min:"1" max:"9007199254740991" doc:"Price of a run in US dollars, at most six decimals."`

	// Of one reply (docs/spec/streaming.md §10). What a dialect has not is refused there.
	Reply        int64         `yaml:"reply" unit:"bytes" min:"1" max:"8388608" optional:"true" doc:"Bytes of a reply; default 8MiB."`
	ReplyActions int64         `yaml:"reply_actions" min:"1" max:"1024" optional:"true" doc:"Actions of a reply; default 64."`
	GateBuffer   int64         `yaml:"gate_buffer" unit:"bytes" min:"1" max:"8388608" optional:"true" doc:"What waits behind a sync action before the model's stream is left unread; default 256KiB."`
	Drain        time.Duration `yaml:"drain" min:"1ms" max:"1h" optional:"true" doc:"How long async actions may run on after a final response; default 5s."`
	RollbackWall time.Duration `yaml:"rollback_wall" min:"1ms" max:"1h" optional:"true" doc:"How long compensations may run in a turn that is being stopped, with the extension rollback; default 60s."`
	Tag          int64         `yaml:"tag" unit:"bytes" min:"64" max:"65536" optional:"true" doc:"Longest tag, in the dialect cortex; default 4KiB."`
	Body         int64         `yaml:"body" unit:"bytes" min:"2" max:"8388608" optional:"true" doc:"Longest body of an action, in the dialect cortex; default 256KiB."`
	JSONDepth    int64         `yaml:"json_depth" min:"1" max:"64" optional:"true" doc:"Nested arrays and objects in the body of an action, in the dialects cortex and cogency; default 64."`
	ThoughtDepth int64         `yaml:"thought_depth" min:"1" max:"64" optional:"true" doc:"Nested thoughts, in the dialect cortex; default 8."`
	Result       int64         `yaml:"result" unit:"bytes" min:"256" max:"1048576" optional:"true" doc:"What the model is shown of a result, in the dialects cortex and cogency; default 16KiB, in cogency 64KiB."`

	Feeds int64 `yaml:"feeds" min:"1" max:"256" optional:"true" doc:"Feeds of a session, those of the manifest and those that the model adds; default 32."`
}

// Approval is what the gate says of calls.
type Approval struct {
	Default messages.GateAnswer            `yaml:"default" enum:"approve|deny|confirm" doc:"The answer for tools not named."`
	Tools   map[string]messages.GateAnswer `yaml:"tools" shape:"tool" enum:"approve|deny|confirm" doc:"The answer by tool."`
	Wait    time.Duration                  `yaml:"wait" min:"1s" max:"720h" optional:"true" doc:"How long a call waits for confirmation; default 24h, in the dialect kitsu 120s."`
}

// ApprovalWait is how long a call waits for confirmation.
func (m *Manifest) ApprovalWait() time.Duration {
	switch {
	case m.Approval.Wait > 0:
		return m.Approval.Wait
	case m.Dialect == "kitsu":
		return 120 * time.Second // docs/spec/kitsu.md §4
	}
	return 24 * time.Hour // docs/spec/design.md §7
}

// Kitsu is what the meta-controller goes by (docs/spec/kitsu.md §4).
type Kitsu struct {
	AllowSearch   *bool  `yaml:"allow_search" doc:"Whether the model may search; default true."`
	AllowContinue *bool  `yaml:"allow_continue" doc:"Whether the model may go on by itself; default true."`
	MaxContinues  int64  `yaml:"max_continues" min:"1" max:"64" optional:"true" doc:"How often it may go on for one message; default 2."`
	ConfirmTopics *bool  `yaml:"confirm_topics" optional:"true" doc:"Whether a search about another topic than the last one waits for confirmation; by default where a person may approve."`
	Search        string `yaml:"search" shape:"tool" doc:"What searches: an imported tool; recall for what the user said and was told in earlier sessions; or stub for made-up results. Without it an imported tool search, else nothing."`
	Zone          string `yaml:"zone" shape:"scalar" doc:"Zone of get_time where the user's is not known: Europe/Oslo, UTC+7, -03:30; default UTC."`
}

// SearchStub is what Kitsu.Search says for results that are made up.
const SearchStub = "stub"

// Memory is what is remembered across runs.
type Memory struct {
	Profile       bool   `yaml:"profile" doc:"Keeps a profile of the user, learned from what they write, and shows it to the model."`
	Cadence       int64  `yaml:"profile_cadence" min:"1" max:"100" optional:"true" doc:"Messages of the user after which the profile is looked at again; default 5."`
	Results       *int64 `yaml:"results" unit:"bytes" min:"0" max:"65536" optional:"true" doc:"What the model is shown of the results of a finished run in cortex; default 4KiB, 0 for none."`
	Recall        bool   `yaml:"recall" doc:"Lets the model search earlier sessions of the user: the tool recall."`
	HistoryWindow int64  `yaml:"history_window" min:"0" max:"1000000" none:"true" sized:"history_bytes" doc:"Messages of the history that the model gets at most, with their question; 0 for all; none for nothing of finished runs; a size such as 32KiB is history_bytes. In aeiou the history is the streams of the turn before: none drops those of finished runs, and a number changes nothing."`
	HistoryBytes  int64  `yaml:"history_bytes" unit:"bytes" min:"1" max:"67108864" optional:"true" doc:"Text of finished runs that the model gets at most: the latest runs, each whole or not at all. The run in flight is not counted. Not in aeiou."`
}

// NoHistory is Memory.HistoryWindow for prompts with nothing of finished runs; a file
// writes none.
const NoHistory = -1

// Environment says what ${NAME} may stand for.
type Environment struct {
	Allow     []string          `yaml:"allow" shape:"env" doc:"Variables of the process that ${NAME} may read."`
	Variables map[string]string `yaml:"variables" shape:"env" doc:"Further variables; they go before those of the process."`
}

// Grant allows access to another session.
type Grant struct {
	Session string `yaml:"session" required:"true" shape:"grant" doc:"tenant:user:id, a bare id, or tenant:user:* for all of a user."`
	Access  string `yaml:"access" required:"true" enum:"read" doc:"What is allowed."`
}

// Token bounds control tokens (docs/spec/aeiou.md §18).
type Token struct {
	TTL    time.Duration `yaml:"ttl" unit:"seconds" min:"1s" max:"24h" doc:"Life of a token that asks for none; whole seconds."`
	MaxTTL time.Duration `yaml:"max_ttl" unit:"seconds" min:"1s" max:"24h" doc:"Longest life a program may ask for; whole seconds."`
	Skew   time.Duration `yaml:"skew" unit:"seconds" min:"1s" max:"24h" doc:"How far in the future a token may be issued; whole seconds."`
}

// Replay bounds the set of tokens seen.
type Replay struct {
	TTL time.Duration `yaml:"ttl" min:"1s" max:"96h" doc:"How long a token is remembered; at least token.max_ttl and key.grace together."`
	Cap int64         `yaml:"cap" min:"1" max:"1048576" doc:"How many tokens are remembered."`
}

// Which records are signed: Manifest.Receipts.
const (
	ReceiptsDecision = "decision"
	ReceiptsRun      = "run"
	ReceiptsOff      = "off"
)

// Stream says how growing text is shown.
type Stream struct {
	Durability Durability `yaml:"durability" enum:"strict|checkpoint|unit" doc:"What must be on disk before text is shown."`
}

// Durability is when text may be shown (docs/spec/design.md §2).
type Durability string

// The durabilities.
const (
	DurabilityStrict     Durability = "strict"
	DurabilityCheckpoint Durability = "checkpoint"
	DurabilityUnit       Durability = "unit"
)

// DefaultNoProgressN is the default of loop.no_progress_n (docs/spec/aeiou.md §18).
const DefaultNoProgressN = 3

// With loops a run may have more actions by default.
const (
	extForeach  = "foreach"
	loopActions = 1024
)

// Default is the manifest of an agent that says nothing but its dialect. An
// unknown dialect gets the values all dialects share; Validate refuses it.
func Default(dialect string) *Manifest {
	m := &Manifest{
		Kind:    "Agent",
		Dialect: dialect,
		Model:   Model{Provider: "scripted", Mode: ModeAuto},
		Loop: Loop{
			NoProgressN: DefaultNoProgressN,
			Busy:        messages.Enqueue,
			Recovery:    messages.RecoverResume,
			OnPanic:     messages.PanicHalt,
		},
		Quotas: Quotas{
			ProgramWall: 30 * time.Second, GenerationWall: 5 * time.Minute,
			TurnWall: 15 * time.Minute, RunWall: time.Hour,
			Gas: 1_000_000, Alloc: 64 << 20, Value: 8 << 20, Depth: 64, Output: 512 << 10,
			Actions: 256, Tokens: 200_000, CostMicroUSD: 1_000_000,
		},
		Approval: Approval{Default: messages.GateApprove},
		Token:    Token{TTL: 120 * time.Second, MaxTTL: 240 * time.Second, Skew: 60 * time.Second},
		Replay:   Replay{TTL: 300 * time.Second, Cap: 4096},
		Receipts: ReceiptsDecision,
		Stream:   Stream{Durability: DurabilityCheckpoint},
	}
	m.Key.Grace, m.Magic.MaxPerTurn = 60*time.Second, 32
	// They are off where the dialect cannot name them.
	m.InternalActions = InternalActions{Enabled: new(bool), Allowed: new([]string)}
	switch dialect {
	case "plain":
		m.Loop.MaxTurns = 1
	case "cortex":
		m.Loop.MaxTurns = 10
	case "cogency":
		m.Loop.MaxTurns = 10
		m.Stream.Durability = DurabilityStrict // docs/spec/design.md §2
	case "kitsu":
		m.Loop.Busy = messages.Interrupt
	}
	if dialect == "cortex" {
		*m.InternalActions.Enabled = true
		*m.InternalActions.Allowed = []string{
			messages.InternalAddFeed, messages.InternalRemoveFeed, messages.InternalUpdateFeed, messages.InternalListFeeds, messages.InternalGetFeed,
		}
	}
	return m
}

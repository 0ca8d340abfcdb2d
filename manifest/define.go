package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Define describes what import names besides the tools of the host: each in a file of
// its own, <folder>/<name>.yaml beside the manifest, or here (docs/spec/streaming.md §7.1).
// Texts in which $name refers to parameters and steps are tagged raw: ${NAME} of the
// environment is not expanded there.
type Define struct {
	Agents    []Manifest `yaml:"agents" optional:"true" doc:"Agents, each a manifest like this one; else agents/<name>.yaml, or the path that import gives."`
	LLMs      []LLM      `yaml:"llms" doc:"Prompt templates with a model; else llms/<name>.yaml."`
	Relics    []Relic    `yaml:"relics" doc:"Services with endpoints; else relics/<name>.yaml."`
	Tools     []Command  `yaml:"tools" doc:"External commands; else tools/<name>.yaml."`
	Workflows []Workflow `yaml:"workflows" doc:"Graphs of actions; else workflows/<name>.yaml."`
	Aliases   []Alias    `yaml:"aliases" doc:"Templates of actions as tools, in every dialect with tools."`
}

// Alias offers a template of actions as a tool.
type Alias struct {
	Name     string `yaml:"name" required:"true" shape:"tool" doc:"Name that calls know the tool by; not that of another tool."`
	Template string `yaml:"template" required:"true" shape:"action" doc:"Name in action_templates, of a template that calls a tool."`
	Summary  string `yaml:"summary" doc:"One line for the model that calls it."`
}

// LLM is a prompt template with a model.
type LLM struct {
	Kind         string   `yaml:"kind" enum:"LLM" doc:"Always LLM."`
	Version      string   `yaml:"version" shape:"scalar" doc:"Version of the template, for people."`
	Name         string   `yaml:"name" required:"true" shape:"tool" doc:"Name that actions call it by."`
	Summary      string   `yaml:"summary" doc:"One line for the model that calls it."`
	Author       string   `yaml:"author" doc:"Who wrote it."`
	State        string   `yaml:"state" doc:"Stage of its life, for people."`
	Provider     string   `yaml:"provider" shape:"name" doc:"Key of the provider; without it that of the agent. Its other settings are those that the agent's model or a fallback of it has for that provider."`
	Script       string   `yaml:"script" doc:"Script of the scripted provider: the lines with a match, else its first line."`
	Model        string   `yaml:"model" doc:"The provider's name for the model; without it the first of allow_models, else the agent's."`
	AllowModels  []string `yaml:"allow_models" doc:"Models that the parameter model may ask for."`
	Options      Options  `yaml:"options" optional:"true" doc:"As model.options; without it those of the agent's model."`
	Instructions struct {
		Text string `yaml:"text" raw:"true" doc:"The text. ${NAME} is a variable of environment, as it is when the agent is loaded; ${NAME:-text} says what it is without a value, $$ is a dollar sign, any other stays."`
		File string `yaml:"file" shape:"file" doc:"Or a file with it, UTF-8, relative to the manifest's folder."`
	} `yaml:"instructions" optional:"true" text:"text" doc:"What the model is and does: the first part of the system message, 64KiB at most. A text, or a file."`
	System   string        `yaml:"system" raw:"true" doc:"System message, as it stands, behind the instructions."`
	Template string        `yaml:"template" raw:"true" required:"true" doc:"The question. $name and ${name.path} stand for parameters, all of which must be given; $$ is one $."`
	Timeout  time.Duration `yaml:"timeout" min:"1ms" max:"1h" optional:"true" doc:"Longest attempt; that of the action counts when it is shorter."`
}

// Workflow is a graph of actions that runs inside one.
type Workflow struct {
	Kind    string        `yaml:"kind" enum:"Workflow" doc:"Always Workflow."`
	Version string        `yaml:"version" shape:"scalar" doc:"Version of the workflow, for people."`
	Name    string        `yaml:"name" required:"true" shape:"tool" doc:"Name that actions call it by."`
	Summary string        `yaml:"summary" doc:"One line for the model that calls it."`
	Author  string        `yaml:"author" doc:"Who wrote it."`
	State   string        `yaml:"state" doc:"Stage of its life, for people."`
	Inputs  []Parameter   `yaml:"inputs" doc:"Parameters of the action; $name in the steps."`
	Steps   []Step        `yaml:"steps" doc:"Actions, at most 64. All whose dependencies allow it run side by side."`
	Output  any           `yaml:"output" raw:"true" optional:"true" doc:"Result, with $references to inputs and steps; without it an object of every step's result by its id."`
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"1h" optional:"true" doc:"Longest attempt; that of the action counts when it is shorter."`
}

// Step is an action of a workflow.
type Step struct {
	ID         string         `yaml:"id" required:"true" shape:"action" doc:"Unique name of the step."`
	Type       string         `yaml:"type" enum:"tool|llm|workflow|relic|agent" doc:"Whose name it is; default tool."`
	Name       string         `yaml:"name" required:"true" shape:"tool" doc:"Target, which the agent must import."`
	Parameters map[string]any `yaml:"parameters" raw:"true" doc:"Parameters, with $references to inputs and to earlier steps."`
	DependsOn  []string       `yaml:"depends_on" shape:"action" doc:"Steps that must end first; those that parameters refer to need not be named."`
	OnError    string         `yaml:"on_error" enum:"fail|skip|retry" doc:"What a failure means: as of actions."`
	Retry      int64          `yaml:"retry" min:"1" max:"5" optional:"true" doc:"Further attempts after the first; 3 under on_error retry."`
	RetryDelay *time.Duration `yaml:"retry_delay" min:"0s" max:"60s" doc:"Time before the second attempt, 0s to 60s; default loop.retry_delay."`
	Backoff    int64          `yaml:"backoff" min:"1" max:"10" optional:"true" doc:"Each pause is so many times the one before, 1 to 10; default 1."`
	Timeout    time.Duration  `yaml:"timeout" min:"1ms" max:"1h" optional:"true" doc:"Longest attempt."`
}

// Parameter is an argument that a target takes.
type Parameter struct {
	Name        string `yaml:"name" required:"true" shape:"id" doc:"Name of the parameter."`
	Type        string `yaml:"type" enum:"string|integer|number|boolean|object|array" doc:"Type of its value; default any."`
	Description string `yaml:"description" doc:"One line for the model."`
	Required    bool   `yaml:"required" doc:"Whether it must be given."`
	Default     any    `yaml:"default" raw:"true" optional:"true" doc:"Value when it is not given."`
	Enum        []any  `yaml:"enum" raw:"true" doc:"All values it may have."`
}

// Relic is a service with endpoints.
type Relic struct {
	Kind        string        `yaml:"kind" enum:"Relic" doc:"Always Relic."`
	Version     string        `yaml:"version" shape:"scalar" doc:"Version of the relic, for people."`
	Name        string        `yaml:"name" required:"true" shape:"tool" doc:"Name that actions call it by."`
	Summary     string        `yaml:"summary" doc:"One line for the model that calls it."`
	Author      string        `yaml:"author" doc:"Who wrote it."`
	State       string        `yaml:"state" doc:"Stage of its life, for people."`
	ServiceType string        `yaml:"service_type" required:"true" enum:"http|sql|key_value" doc:"What kind of service it is."`
	Connection  Connection    `yaml:"connection" doc:"How the service is reached."`
	Interface   Interface     `yaml:"interface" doc:"What actions may ask of it."`
	Storage     Storage       `yaml:"storage" optional:"true" doc:"How much a key_value relic keeps."`
	Scope       string        `yaml:"scope" enum:"session|user|tenant" optional:"true" doc:"Who shares the values of a key_value relic: the calls of a session, all sessions of a user, or all of a tenant; default session."`
	Timeout     time.Duration `yaml:"timeout" min:"1ms" max:"1h" optional:"true" doc:"Longest attempt; that of the action counts when it is shorter."`
}

// Storage bounds a key-value relic.
type Storage struct {
	MaxKeys  int64 `yaml:"max_keys" min:"1" max:"4096" optional:"true" doc:"Keys; default 1024."`
	MaxValue int64 `yaml:"max_value" unit:"bytes" min:"1" max:"262144" optional:"true" doc:"Longest value as JSON; default 64KiB."`
	MaxBytes int64 `yaml:"max_bytes" unit:"bytes" min:"1" max:"4194304" optional:"true" doc:"Keys and values together; default 1MiB."`
}

// Command is a tool that is a program of its own.
type Command struct {
	Kind           string         `yaml:"kind" enum:"Tool" doc:"Always Tool."`
	Version        string         `yaml:"version" shape:"scalar" doc:"Version of the tool, for people."`
	Name           string         `yaml:"name" required:"true" shape:"tool" doc:"Name that calls know it by, such as web_scraper or lab.tick; not that of a built-in tool."`
	Summary        string         `yaml:"summary" doc:"One line for the model that calls it."`
	Author         string         `yaml:"author" doc:"Who wrote it."`
	State          string         `yaml:"state" doc:"Stage of its life, for people."`
	Class          string         `yaml:"class" enum:"read_only|idempotent|keyed|effectful" doc:"What repeating it does; default effectful."`
	Parameters     []Parameter    `yaml:"parameters" doc:"What it takes; those required go first."`
	Implementation Implementation `yaml:"implementation" doc:"What is run."`
}

// Implementation says what a command runs.
type Implementation struct {
	Type       string    `yaml:"type" required:"true" enum:"command" doc:"Always command."`
	Entrypoint []string  `yaml:"entrypoint" raw:"true" doc:"Program, in the agent's folder or by its whole path, and its arguments. Nothing is expanded, and no shell reads it but one that is named."`
	Stream     string    `yaml:"stream" enum:"lines|json_lines" doc:"How its standard output is a result that can be shown as it grows: lines is a text, json_lines a list with one JSON value a line. Needs extensions: [stream]. By default one JSON text."`
	Resources  Resources `yaml:"resources" doc:"What it may use."`
	Confine    Confine   `yaml:"confine" optional:"true" doc:"What it may reach."`
}

// Resources bound a command. The kernel holds it to them.
type Resources struct {
	Memory  int64         `yaml:"memory" unit:"bytes" min:"1048576" max:"1099511627776" optional:"true" doc:"Address space of a process; default 1GiB. A program in Go needs some 700MiB of it before it does anything."`
	CPU     time.Duration `yaml:"cpu" unit:"seconds" min:"1s" max:"1h" optional:"true" doc:"Processor time of a process; whole seconds, default 60s."`
	Files   int64         `yaml:"files" min:"8" max:"4096" optional:"true" doc:"Open files of a process; default 64."`
	Output  int64         `yaml:"output" unit:"bytes" min:"1" max:"8388608" optional:"true" doc:"Longest result; default 1MiB."`
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"1h" optional:"true" doc:"Longest attempt; that of the action counts when it is shorter."`
}

func (c *checker) command(path string, d *Command) {
	c.parameters(join(path, "parameters"), d.Parameters)
	entry := d.Implementation.Entrypoint
	at := join(path, "implementation.entrypoint")
	switch {
	case len(entry) == 0 || entry[0] == "":
		c.add(at, ReasonMissing, "it names a program")
	case slices.ContainsFunc(entry, func(s string) bool { return strings.ContainsRune(s, 0) }):
		c.add(at, ReasonBadValue, "no argument has a NUL")
	}
	c.confine(join(path, "implementation.confine"), &d.Implementation.Confine)
}

// Connection says how a service is reached.
type Connection struct {
	BaseURL  string   `yaml:"base_url" shape:"url" doc:"Address in front of the endpoints' paths."`
	Driver   string   `yaml:"driver" enum:"sqlite|postgres" doc:"Database of a sql relic."`
	Path     string   `yaml:"path" shape:"file" doc:"File of a SQLite database, in the agent's folder."`
	Hosts    []string `yaml:"hosts" shape:"name" doc:"Further hosts that a redirect may lead to."`
	Secret   string   `yaml:"secret" shape:"secret" doc:"Environment variable that holds the key, or the URL of a PostgreSQL database; never the key itself."`
	Header   string   `yaml:"header" shape:"name" doc:"Header that carries the key as it is; without it Authorization carries it as a bearer token."`
	Private  bool     `yaml:"private" doc:"Whether the service may be in a private network or on this machine."`
	MaxBytes int64    `yaml:"max_bytes" unit:"bytes" min:"1" max:"8388608" optional:"true" doc:"Longest answer; default 1MiB."`
	MaxRows  int64    `yaml:"max_rows" min:"1" max:"10000" optional:"true" doc:"Rows in an answer of a database; default 100."`
}

// Interface is what a relic can be asked.
type Interface struct {
	Type      string     `yaml:"type" doc:"Kind of interface, for people."`
	Endpoints []Endpoint `yaml:"endpoints" doc:"What there is; the parameter operation selects one."`
}

// Endpoint is one operation of a relic.
type Endpoint struct {
	Name       string      `yaml:"name" required:"true" shape:"id" doc:"Value of the parameter operation."`
	Summary    string      `yaml:"summary" doc:"One line for the model."`
	Method     string      `yaml:"method" enum:"GET|HEAD|POST|PUT|PATCH|DELETE" doc:"Method; default GET."`
	Path       string      `yaml:"path" raw:"true" shape:"path" doc:"Path under base_url; {name} stands for a parameter. The others go into the query, or as JSON into the body of POST, PUT and PATCH."`
	Query      string      `yaml:"query" raw:"true" doc:"Statement of a database that reads; :name stands for a parameter, and is bound."`
	Exec       string      `yaml:"exec" raw:"true" doc:"Statement of a database that changes something."`
	Stream     string      `yaml:"stream" enum:"events|lines|json_lines" doc:"What a service answers, as a result that can be shown as it grows: events is the list of the data of text/event-stream, lines a text, json_lines a list with one JSON value a line. Needs extensions: [stream]. By default an object with status and body."`
	Class      string      `yaml:"class" enum:"read_only|idempotent|keyed|effectful" doc:"What repeating it does; by default by the method: GET and HEAD read_only, PUT and DELETE idempotent, others effectful. keyed: it heeds Idempotency-Key. A query is read_only by default, an exec effectful, and a keyed one is done once under its key."`
	Parameters []Parameter `yaml:"parameters" doc:"What it takes."`
}

// PathNames lists the parameters in a path, in order.
func (e *Endpoint) PathNames() []string {
	var names []string
	for _, m := range pathName.FindAllStringSubmatch(e.Path, -1) {
		names = append(names, m[1])
	}
	return names
}

var pathName = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]{0,63})\}`)

func (c *checker) relic(path string, d *Relic) {
	keeps := d.ServiceType == "key_value"
	for _, k := range []struct {
		key       string
		given, ok bool
	}{
		{"connection", !reflect.ValueOf(d.Connection).IsZero(), !keeps},
		{"interface", !reflect.ValueOf(d.Interface).IsZero(), !keeps},
		{"storage", d.Storage != Storage{}, keeps},
		{"scope", d.Scope != "", keeps},
	} {
		if k.given && !k.ok {
			c.add(join(path, k.key), ReasonBadValue, "a relic of service_type %s has no use for it", clip.Quoted(d.ServiceType))
		}
	}
	if keeps {
		return
	}
	c.connection(join(path, "connection"), d)
	if d.ServiceType == "http" && d.Connection.BaseURL == "" {
		c.add(join(path, "connection.base_url"), ReasonMissing, "missing")
	}
	if d.Connection.Header != "" && d.Connection.Secret == "" {
		c.add(join(path, "connection.header"), ReasonBadValue, "there is no secret to carry")
	}
	all := d.Interface.Endpoints
	if len(all) == 0 {
		c.add(join(path, "interface.endpoints"), ReasonMissing, "a relic needs one at least")
	}
	for i := range all {
		e, at := &all[i], index(join(path, "interface.endpoints"), i)
		if slices.ContainsFunc(all[:i], func(o Endpoint) bool { return o.Name == e.Name }) {
			c.add(join(at, "name"), ReasonDuplicate, "%q is an endpoint already", clip.Quoted(e.Name))
		}
		c.parameters(join(at, "parameters"), e.Parameters)
		for j, p := range e.Parameters {
			if p.Name == "operation" {
				c.add(join(index(join(at, "parameters"), j), "name"), ReasonBadValue, "operation selects the endpoint")
			}
		}
		c.endpoint(at, d, e)
		if d.ServiceType == "sql" {
			continue
		}
		for _, name := range e.PathNames() {
			j := slices.IndexFunc(e.Parameters, func(p Parameter) bool { return p.Name == name })
			if j < 0 || !e.Parameters[j].Required && e.Parameters[j].Default == nil {
				c.add(join(at, "path"), ReasonBadValue, "{%s} is no parameter that is required or has a default", name)
			}
		}
	}
}

// connection checks what a kind of service needs and has no use for.
func (c *checker) connection(path string, d *Relic) {
	n := &d.Connection
	database := d.ServiceType == "sql"
	file := database && n.Driver == "sqlite"
	for _, k := range []struct {
		key             string
		given, ok, must bool
	}{
		{"base_url", n.BaseURL != "", !database, false},
		{"hosts", len(n.Hosts) > 0, !database, false},
		{"header", n.Header != "", !database, false},
		{"private", n.Private, !database, false},
		{"driver", n.Driver != "", database, database},
		{"path", n.Path != "", file, file},
		{"secret", n.Secret != "", !file, database && n.Driver == "postgres"},
		{"max_rows", n.MaxRows != 0, database, false},
	} {
		switch {
		case k.given && !k.ok:
			c.add(join(path, k.key), ReasonBadValue, "there is no use for it here")
		case k.must && !k.given:
			c.add(join(path, k.key), ReasonMissing, "missing")
		}
	}
}

// endpoint checks one against the kind of service it is of.
func (c *checker) endpoint(path string, d *Relic, e *Endpoint) {
	if d.ServiceType != "sql" {
		if e.Path == "" {
			c.add(join(path, "path"), ReasonMissing, "missing")
		}
		if e.Query != "" {
			c.add(join(path, "query"), ReasonBadValue, "a service has no statements")
		}
		if e.Exec != "" {
			c.add(join(path, "exec"), ReasonBadValue, "a service has no statements")
		}
		return
	}
	if e.Path != "" {
		c.add(join(path, "path"), ReasonBadValue, "a database has statements: query or exec")
	}
	if e.Method != "" {
		c.add(join(path, "method"), ReasonBadValue, "a database has statements: query or exec")
	}
	if e.Stream != "" {
		c.add(join(path, "stream"), ReasonBadValue, "only a service streams its answer")
	}
	switch {
	case e.Query == "" && e.Exec == "":
		c.add(path, ReasonMissing, "want query or exec")
	case e.Query != "" && e.Exec != "":
		c.add(join(path, "exec"), ReasonBadValue, "there is a query already")
	case e.Query != "" && e.Class != "" && e.Class != "read_only", e.Exec != "" && e.Class == "read_only":
		c.add(join(path, "class"), ReasonBadValue, "a query is read_only, and an exec is not")
	}
}

// MaxSteps bounds a workflow: it is one generation of a plan (docs/spec/streaming.md §4).
const MaxSteps = 64

// Wanted is what import names and Define lacks.
type Wanted struct {
	Field string // of the manifest, such as import.llms[0]
	Kind  string // Agent, LLM, Relic, Tool or Workflow
	Name  string // "" where the file says it: an agent imported by its path
	File  string // where its definition is expected, relative to the manifest
	// Host reports whether the host may have it: there need not be a definition.
	Host bool
}

// group is a list of import with the definitions that stand behind it.
type group struct {
	key, kind string
	names     []string
	host      bool // the host may have them, too
	defined   []string
	value     reflect.Value // the list of Define
}

func (m *Manifest) groups() []group {
	all := []group{
		{key: "agents", kind: "Agent", names: m.Import.Agents},
		{key: "llms", kind: "LLM", names: m.Import.LLMs},
		{key: "relics", kind: "Relic", names: m.Import.Relics},
		{key: "tools", kind: "Tool", names: m.Import.Tools, host: true},
		{key: "workflows", kind: "Workflow", names: m.Import.Workflows},
	}
	for i := range all {
		g := &all[i]
		fields := fieldsOf(reflect.TypeFor[Define]())
		f := fields[slices.IndexFunc(fields, func(f field) bool { return f.key == g.key })]
		g.value = reflect.ValueOf(&m.Define).Elem().Field(f.index)
		for j := range g.value.Len() {
			g.defined = append(g.defined, g.value.Index(j).FieldByName("Name").String())
		}
		if g.kind == "Tool" { // what is an alias has no file
			for j := range m.Define.Aliases {
				g.defined = append(g.defined, m.Define.Aliases[j].Name)
			}
		}
	}
	return all
}

// Wants lists what is imported and not defined, in the order of import.
func (m *Manifest) Wants() []Wanted {
	var all []Wanted
	for _, g := range m.groups() {
		for i, name := range g.names {
			if slices.Contains(g.defined, name) || strings.HasSuffix(name, ".*") {
				continue // a group is of tools that are there
			}
			w := Wanted{Field: index("import."+g.key, i), Kind: g.kind, Name: name, File: g.key + "/" + name + ".yaml", Host: g.host}
			if isPath(name) {
				w.Name, w.File = "", name
			}
			all = append(all, w)
		}
	}
	return all
}

// Adopt reads the file of a definition into Define. Texts may name variables as those
// of the manifest may. Mistakes are those of Parse, in the definition's file. The
// manifests of agents are read by Parse and taken by AdoptAgent.
func (m *Manifest) Adopt(w Wanted, file string, data []byte, lookup func(name string) (string, bool)) error {
	groups := m.groups()
	i := slices.IndexFunc(groups, func(g group) bool { return g.kind == w.Kind })
	if i < 0 || w.Kind == "Agent" {
		return &messages.Error{Code: messages.ErrConfig, Field: "kind", Detail: fmt.Sprintf("there is no kind %q", clip.Quoted(w.Kind))}
	}
	l := loader{file: file, places: map[string]place{}, lookup: lookup, definition: true, allow: m.Environment.Allow, vars: m.Environment.Variables}
	v := reflect.New(groups[i].value.Type().Elem()).Elem()
	l.define(data, v)
	c := checker{}
	c.streamed(m, "", v.Addr().Interface())
	l.merge(c.found)
	if name := v.FieldByName("Name").String(); name != w.Name && len(l.found) == 0 {
		l.add(l.near("name"), "name", ReasonBadValue, "is %q, and %s imports it as %q", clip.Quoted(name), w.Field, w.Name)
	}
	if err := l.mistakes(); err != nil {
		return err
	}
	groups[i].value.Set(reflect.Append(groups[i].value, v))
	return nil
}

// define fills one definition from its file.
func (l *loader) define(data []byte, v reflect.Value) {
	doc := l.begin(data)
	if doc == nil {
		return
	}
	l.structure("", doc, v)
	c := checker{}
	c.structure("", v)
	c.definition("", v)
	l.merge(c.found)
}

// definition checks what one field of a definition cannot say alone.
func (c *checker) definition(path string, v reflect.Value) {
	switch d := v.Addr().Interface().(type) {
	case *LLM:
		c.llm(path, d)
	case *Relic:
		c.relic(path, d)
	case *Command:
		c.command(path, d)
	case *Workflow:
		c.workflow(path, d)
	case *Manifest:
		c.agent(path, d)
	}
}

// definitions checks those that stand in the manifest.
func (c *checker) definitions(m *Manifest) {
	for _, g := range m.groups() {
		for i := range g.value.Len() {
			at := index("define."+g.key, i)
			c.definition(at, g.value.Index(i))
			if slices.Contains(g.defined[:i], g.defined[i]) {
				c.add(join(at, "name"), ReasonDuplicate, "%q is defined already", clip.Quoted(g.defined[i]))
			}
		}
	}
}

func (c *checker) llm(path string, d *LLM) {
	c.instructions(join(path, "instructions"), d.Instructions.Text, d.Instructions.File)
	if d.Script != "" && d.Provider != "scripted" {
		c.add(join(path, "script"), ReasonBadValue, "only the provider scripted reads a script, not %q", clip.Quoted(d.Provider))
	}
	c.options(join(path, "options"), &d.Options, 0)
	if d.Script != "" && !d.Options.empty() {
		c.add(join(path, "options"), ReasonBadValue, "the provider scripted has no use for it")
	}
	if d.Model != "" && len(d.AllowModels) > 0 && !slices.Contains(d.AllowModels, d.Model) {
		c.add(join(path, "model"), ReasonBadValue, "%q is not in allow_models", clip.Quoted(d.Model))
	}
	if slices.Contains(plan.Names(d.Template), "model") && len(d.AllowModels) > 0 {
		c.add(join(path, "template"), ReasonBadValue, "the parameter model chooses from allow_models and cannot be a part of the text")
	}
}

func (c *checker) parameters(path string, all []Parameter) {
	for i, p := range all {
		at := index(path, i)
		if slices.ContainsFunc(all[:i], func(q Parameter) bool { return q.Name == p.Name }) {
			c.add(join(at, "name"), ReasonDuplicate, "%q is a parameter already", clip.Quoted(p.Name))
		}
		if p.Default == nil {
			continue
		}
		if p.Required {
			c.add(join(at, "default"), ReasonBadValue, "a required parameter has no use for it")
		}
		if !TypeFits(p.Type, p.Default) {
			c.add(join(at, "default"), ReasonBadValue, "is no %s", p.Type)
		}
	}
}

// TypeFits reports whether a value as a manifest reads it has the type of a Parameter.
func TypeFits(typ string, v any) bool {
	switch typ {
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "integer", "number":
		switch x := v.(type) {
		case int, int64, uint64:
			return true
		case float64:
			return typ == "number" || x == float64(int64(x))
		}
		return false
	}
	return true
}

func (c *checker) workflow(path string, w *Workflow) {
	before := len(c.found)
	c.parameters(join(path, "inputs"), w.Inputs)
	steps := join(path, "steps")
	if len(w.Steps) == 0 || len(w.Steps) > MaxSteps {
		reason := ReasonBadValue
		if len(w.Steps) == 0 {
			reason = ReasonMissing
		}
		c.add(steps, reason, "a workflow has 1 to %d steps, not %d", MaxSteps, len(w.Steps))
		return
	}
	known := map[string]bool{}
	for _, in := range w.Inputs {
		known[in.Name] = true
	}
	for i, s := range w.Steps {
		at := index(steps, i)
		if slices.ContainsFunc(w.Steps[:i], func(o Step) bool { return o.ID == s.ID }) {
			c.add(join(at, "id"), ReasonDuplicate, "%q is a step already", clip.Quoted(s.ID))
			return
		}
		if known[s.ID] {
			c.add(join(at, "id"), ReasonDuplicate, "%q is an input already", clip.Quoted(s.ID))
			return
		}
		ahead := map[string]bool{}
		for queue := slices.Clone(s.DependsOn); len(queue) > 0; queue = queue[1:] {
			if ahead[queue[0]] {
				continue
			}
			ahead[queue[0]] = true
			d := slices.IndexFunc(w.Steps, func(o Step) bool { return o.ID == queue[0] })
			if d < 0 {
				c.add(join(at, "depends_on"), ReasonBadValue, "there is no step %q", clip.Quoted(queue[0]))
				return
			}
			queue = append(queue, w.Steps[d].DependsOn...)
		}
		for _, name := range unknown(s.Parameters, known, ahead) {
			c.add(join(at, "parameters"), ReasonBadValue, "$%s is no input, no step before this one and none it depends on", clip.Quoted(name))
		}
		known[s.ID] = true
	}
	for _, name := range unknown(w.Output, known, nil) {
		c.add(join(path, "output"), ReasonBadValue, "$%s is no input and no step", clip.Quoted(name))
	}
	if len(c.found) == before {
		c.cycles(steps, w)
	}
}

// cycles declares the steps to a plan as a run of the workflow will, and reports what
// it skips.
func (c *checker) cycles(path string, w *Workflow) {
	p := plan.New(plan.Options{Environment: everything{}})
	if p.Begin() != nil {
		return
	}
	for i := range w.Steps {
		a, err := w.Steps[i].Action()
		if err != nil {
			c.add(join(index(path, i), "parameters"), ReasonBadValue, "%s", err)
			return
		}
		effects, err := p.Declare(nil, a)
		if err != nil {
			return // a mistake of one field, which has been reported
		}
		for _, e := range effects {
			if e.Kind == plan.End && strings.HasPrefix(e.Reason, plan.ReasonDependencyCycle) {
				c.add(join(index(path, i), "depends_on"), ReasonBadValue, "a cycle: %s", strings.TrimPrefix(e.Reason, plan.ReasonDependencyCycle+":"))
				return
			}
		}
	}
}

// everything is an environment in which every name is null, for plans that never run.
type everything struct{}

// Lookup implements plan.Environment.
func (everything) Lookup(string) (string, plan.Status) { return "null", plan.Present }

// Action is the step as a plan takes it.
func (s *Step) Action() (*messages.Action, error) {
	a := &messages.Action{
		ID: s.ID, Type: messages.ActionType(s.Type), Mode: messages.ModeAsync, Name: s.Name, DependsOn: s.DependsOn,
		OnError: s.OnError, Retry: int(s.Retry), Backoff: int(s.Backoff), Timeout: s.Timeout,
	}
	if s.RetryDelay != nil {
		a.RetryDelay = cmp.Or(*s.RetryDelay, plan.NoDelay)
	}
	if a.Type == "" {
		a.Type = messages.TypeTool
	}
	if a.OnError == messages.OnErrorRetry && a.Retry == 0 {
		a.Retry = 3
	}
	if len(s.Parameters) > 0 {
		b, err := json.Marshal(s.Parameters)
		if err != nil {
			return nil, err
		}
		a.Args = string(b)
	}
	return a, nil
}

// unknown lists the names that whole strings of a value refer to and that are not known:
// they would fail each run. Inside longer text such a name is text (docs/spec/streaming.md §6).
func unknown(v any, known ...map[string]bool) []string {
	var all []string
	switch v := v.(type) {
	case string:
		name, ok := plan.Whole(v)
		if ok && !slices.ContainsFunc(known, func(set map[string]bool) bool { return set[name] }) {
			all = append(all, name)
		}
	case []any:
		for _, e := range v {
			all = append(all, unknown(e, known...)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			all = append(all, unknown(v[k], known...)...)
		}
	}
	return all
}

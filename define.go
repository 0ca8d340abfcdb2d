package stile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/web"
)

// What a manifest imports besides the tools of the host: definitions become targets of
// actions.

// define reads the definitions that the manifest imports and does not hold, from the
// agent's folder. All mistakes are reported at once.
func (a *Agent) define(dialects []string) error {
	g := gatherer{dialects: dialects}
	if !g.wanting(a.Manifest) {
		return nil
	}
	dir, err := os.OpenRoot(a.Dir)
	if err != nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "import", Detail: "cannot open the agent's folder", Cause: unwrapPath(err)}
	}
	defer dir.Close()
	g.dir = dir
	g.gather(a, a.Manifest, ".", nil)
	return errors.Join(g.found...)
}

// gatherer reads the files of an agent and of those that it imports.
type gatherer struct {
	dir      *os.Root
	dialects []string
	agents   int // read so far
	found    []error
}

func (g *gatherer) wanting(m *manifest.Manifest) bool {
	return len(m.Wants()) > 0 || slices.ContainsFunc(m.Define.Agents, func(c manifest.Manifest) bool { return g.wanting(&c) })
}

// gather fills in what a manifest imports. in is its folder under the agent's, within
// the files that lead to it. The recursion is as deep as agents nest.
func (g *gatherer) gather(a *Agent, m *manifest.Manifest, in string, within []string) {
	for i := range m.Define.Agents { // those inside the manifest share its folder
		child := &Agent{Manifest: &m.Define.Agents[i], Dir: g.folder(in)}
		g.gather(child, child.Manifest, in, within)
		a.Agents = append(a.Agents, child)
	}
	for _, w := range m.Wants() {
		file := path.Join(in, w.File)
		data, err := readSome(g.dir, file)
		switch {
		case w.Host && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			g.found = append(g.found, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonMissing, Field: w.Field, File: file, Detail: "cannot read the definition of " + cmp.Or(w.Name, w.File), Cause: unwrapPath(err)})
		case w.Kind == agentKind:
			g.agent(a, m, w, file, data, within)
		default:
			if err := m.Adopt(w, file, data, os.LookupEnv); err != nil {
				g.found = append(g.found, err)
			}
		}
	}
}

// agent reads the manifest of an agent that m imports. Its own files are looked for
// beside it.
func (g *gatherer) agent(a *Agent, m *manifest.Manifest, w manifest.Wanted, file string, data []byte, within []string) {
	fault := func(format string, args ...any) {
		g.found = append(g.found, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: w.Field, File: file, Detail: fmt.Sprintf(format, args...)})
	}
	if slices.Contains(within, file) {
		fault("the agent calls itself: %s", strings.Join(append(within[slices.Index(within, file):], file), " > "))
		return
	}
	if len(within) >= manifest.MaxAgentDepth {
		fault("agents nest at most %d deep", manifest.MaxAgentDepth)
		return
	}
	if g.agents++; g.agents > manifest.MaxAgents {
		if g.agents == manifest.MaxAgents+1 {
			fault("an agent has at most %d agents, all depths together", manifest.MaxAgents)
		}
		return
	}
	child, err := manifest.ParseEnv(file, data, os.LookupEnv, g.dialects...)
	if err != nil {
		g.found = append(g.found, err)
		return
	}
	own := &Agent{Manifest: child, Dir: g.folder(path.Dir(file))}
	before := len(g.found)
	g.gather(own, child, path.Dir(file), append(within[:len(within):len(within)], file))
	if len(g.found) > before {
		return
	}
	if err := m.AdoptAgent(w, file, child); err != nil {
		g.found = append(g.found, err)
		return
	}
	a.Agents = append(a.Agents, own)
}

func (g *gatherer) folder(in string) string {
	return filepath.Join(g.dir.Name(), filepath.FromSlash(in))
}

// agentKind is the kind of manifests.
const agentKind = "Agent"

// readSome reads a file of a folder up to one byte more than a manifest may have.
func readSome(dir *os.Root, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, manifest.MaxFileBytes+1))
}

// targets gathers what actions may name: the tools of set, and the definitions that are
// imported.
func (rt *Runtime) targets(a *Agent, m *manifest.Manifest, set *tools.Set, gate tools.Gate, children map[string]*compiled) (*tools.Targets, error) {
	t := tools.NewTargets(set, programLimits(m.Quotas))
	wants := m.Wants()
	if i := slices.IndexFunc(wants, func(w manifest.Wanted) bool { return !w.Host }); i >= 0 {
		w := wants[i]
		return nil, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonMissing, Field: w.Field, Detail: "there is no definition of " + w.Name + " in define, and no file was read"}
	}
	for i := range m.Define.Agents {
		d := &m.Define.Agents[i]
		if !slices.Contains(m.Import.Agents, d.Name) {
			continue
		}
		if err := t.Add(rt.delegate(d, children[d.Name])); err != nil {
			return nil, err
		}
	}
	for i := range m.Define.LLMs {
		d := &m.Define.LLMs[i]
		if !slices.Contains(m.Import.LLMs, d.Name) {
			continue
		}
		x, err := rt.prompt(a, m, d, fmt.Sprintf("define.llms[%d]", i))
		if err == nil {
			err = t.Add(x)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range m.Define.Relics {
		d := &m.Define.Relics[i]
		if !slices.Contains(m.Import.Relics, d.Name) {
			continue
		}
		at := fmt.Sprintf("define.relics[%d]", i)
		x, err := rt.relic(a, d, at)
		if err == nil {
			err = under(at, t.Add(x))
		}
		if err != nil {
			return nil, err
		}
	}
	g := graphs{t: t, m: m, gate: gate, state: make([]int, len(m.Define.Workflows))}
	for i := range m.Define.Workflows {
		if err := g.add(i); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// graphs adds workflows, those first that others call.
type graphs struct {
	t     *tools.Targets
	m     *manifest.Manifest
	gate  tools.Gate
	state []int // 1 while those it calls are added, 2 when it is
}

// add adds a workflow. The recursion is as deep as workflows call each other, at most
// maxNesting.
func (g *graphs) add(i int) error { return g.nested(i, 0) }

// maxNesting bounds how deep workflows call workflows (docs/spec/design.md §8, as of agents).
const maxNesting = 4

func (g *graphs) nested(i, depth int) error {
	d := &g.m.Define.Workflows[i]
	at := fmt.Sprintf("define.workflows[%d]", i)
	if g.state[i] == 2 || !slices.Contains(g.m.Import.Workflows, d.Name) {
		return nil
	}
	if depth >= maxNesting || g.state[i] == 1 {
		return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: at + ".steps", Detail: fmt.Sprintf("the workflow %s calls itself, or workflows nest more than %d deep", d.Name, maxNesting)}
	}
	g.state[i] = 1
	graph := tools.Graph{Name: d.Name, Summary: d.Summary, Timeout: d.Timeout, RetryDelay: retryDelay(g.m), Targets: g.t, Gate: g.gate}
	for j := range d.Steps {
		s := &d.Steps[j]
		if s.Type == string(messages.TypeWorkflow) {
			if k := slices.IndexFunc(g.m.Define.Workflows, func(w manifest.Workflow) bool { return w.Name == s.Name }); k >= 0 {
				if err := g.nested(k, depth+1); err != nil {
					return err
				}
			}
		}
		act, err := s.Action()
		if err != nil {
			return &messages.Error{Code: messages.ErrConfig, Field: fmt.Sprintf("%s.steps[%d].parameters", at, j), Detail: "no JSON", Cause: err}
		}
		graph.Steps = append(graph.Steps, act)
	}
	var err error
	if graph.Inputs, err = parameters(d.Inputs, at+".inputs"); err != nil {
		return err
	}
	if d.Output != nil {
		if graph.Output, err = jsonOf(d.Output, at+".output"); err != nil {
			return err
		}
	}
	x, err := tools.Workflow(graph)
	if err == nil {
		err = g.t.Add(x)
	}
	g.state[i] = 2
	return under(at, err)
}

// under puts the field of an error under another.
func under(at string, err error) error {
	var e *messages.Error
	if !errors.As(err, &e) {
		return err
	}
	placed := *e
	placed.Field = at
	if e.Field != "" {
		placed.Field += "." + e.Field
	}
	return &placed
}

// commands makes the tools that are programs of their own.
func (a *Agent) commands(m *manifest.Manifest) ([]tools.Tool, error) {
	var all []tools.Tool
	for i := range m.Define.Tools {
		d := &m.Define.Tools[i]
		if !slices.Contains(m.Import.Tools, d.Name) {
			continue
		}
		at := fmt.Sprintf("define.tools[%d]", i)
		params, err := parameters(d.Parameters, at+".parameters")
		if err != nil {
			return nil, err
		}
		r := d.Implementation.Resources
		t, err := tools.NewCommand(tools.Command{
			Name: d.Name, Summary: d.Summary, Class: messages.Class(d.Class), Params: params, Dir: a.Dir, Entrypoint: d.Implementation.Entrypoint,
			Memory: r.Memory, CPU: r.CPU, Files: r.Files, Output: r.Output, Timeout: r.Timeout, Absent: a.replayed,
		})
		if err != nil {
			return nil, under(at, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// relic makes the target of a relic.
func (rt *Runtime) relic(a *Agent, d *manifest.Relic, at string) (*tools.Executor, error) {
	switch d.ServiceType {
	case "sql":
		return rt.database(a, d, at)
	case "key_value":
	default:
		return service(d, at)
	}
	return tools.KeyValue(tools.Shelf{
		Name: d.Name, Summary: d.Summary, Timeout: d.Timeout, Operations: turn.RelicOperations,
		Limits: messages.RelicLimits{Keys: d.Storage.MaxKeys, ValueBytes: d.Storage.MaxValue, Bytes: d.Storage.MaxBytes},
	}), nil
}

// service makes the target of a relic behind HTTP. Its key is read when it is needed
// and kept nowhere.
func service(d *manifest.Relic, at string) (*tools.Executor, error) {
	s := web.Service{
		Name: d.Name, Summary: d.Summary, Base: d.Connection.BaseURL, Hosts: d.Connection.Hosts, Private: d.Connection.Private,
		Header: d.Connection.Header, MaxBytes: d.Connection.MaxBytes, Timeout: d.Timeout,
	}
	if name := d.Connection.Secret; name != "" {
		s.Key = func() (string, error) {
			if key := strings.TrimSpace(os.Getenv(name)); key != "" {
				return key, nil
			}
			return "", messages.Errorf(messages.ErrConfig, "%s is not set", name)
		}
	}
	for i, e := range d.Interface.Endpoints {
		ps, err := parameters(e.Parameters, fmt.Sprintf("%s.interface.endpoints[%d].parameters", at, i))
		if err != nil {
			return nil, err
		}
		s.Endpoints = append(s.Endpoints, web.Endpoint{
			Name: e.Name, Summary: e.Summary, Method: e.Method, Path: e.Path, Class: messages.Class(e.Class), Params: ps,
		})
	}
	x, err := web.Relic(s)
	return x, under(at, err)
}

// parameters are those of a manifest as a target takes them.
func parameters(ps []manifest.Parameter, at string) (tools.Parameters, error) {
	var out tools.Parameters
	for i, p := range ps {
		own := tools.Parameter{Name: p.Name, Type: p.Type, Description: p.Description, Required: p.Required}
		var err error
		if p.Default != nil {
			if own.Default, err = jsonOf(p.Default, fmt.Sprintf("%s[%d].default", at, i)); err != nil {
				return nil, err
			}
		}
		for j, e := range p.Enum {
			text, err := jsonOf(e, fmt.Sprintf("%s[%d].enum[%d]", at, i, j))
			if err != nil {
				return nil, err
			}
			own.Enum = append(own.Enum, text)
		}
		out = append(out, own)
	}
	return out, nil
}

// jsonOf is a value of a manifest as canonical JSON.
func jsonOf(v any, at string) (string, error) {
	b, err := json.Marshal(v)
	own := jsontext.Value(b)
	if err == nil {
		err = own.Canonicalize()
	}
	if err != nil {
		return "", &messages.Error{Code: messages.ErrConfig, Field: at, Detail: "cannot be written as JSON", Cause: err}
	}
	return string(own), nil
}

// prompt makes the target of an llm.
func (rt *Runtime) prompt(a *Agent, m *manifest.Manifest, d *manifest.LLM, at string) (*tools.Executor, error) {
	p := tools.Prompt{
		Name: d.Name, Summary: d.Summary, Template: d.Template, System: d.System, Allow: d.AllowModels, Timeout: d.Timeout,
	}
	// Settings of the provider are those the agent has for it.
	provider := d.Provider
	if provider == "" {
		provider = m.Model.Provider
	}
	own := manifest.Fallback{Provider: provider, Script: d.Script}
	if i := slices.IndexFunc(m.Models(), func(f manifest.Fallback) bool { return f.Provider == provider }); i >= 0 && d.Script == "" {
		own = m.Models()[i]
	}
	priced := own.Model
	switch {
	case d.Model != "":
		p.Model = d.Model
	case len(d.AllowModels) > 0:
		p.Model = d.AllowModels[0]
	default:
		p.Model = own.Model
	}
	ports := map[string]llm.Model{}
	for _, name := range append([]string{p.Model}, d.AllowModels...) {
		if ports[name] != nil || a.replayed {
			continue
		}
		if a.Model != nil && d.Provider == "" {
			ports[name] = a.Model
			continue
		}
		f := own
		if f.Model = name; name != priced {
			f.Price = manifest.Price{} // that of another model
		}
		port, err := rt.provider(a, &f, at)
		if err != nil {
			return nil, err
		}
		ports[name] = port
	}
	p.Ask = func(ctx context.Context, q tools.Question) (tools.Answer, error) {
		req := llm.Request{
			Session: q.Session, Turn: q.Turn, Provider: provider, Model: q.Model, MaxReplyBytes: q.MaxReplyBytes,
		}
		if q.System != "" {
			req.Messages = append(req.Messages, messages.Message{Role: messages.RoleSystem, Text: q.System})
		}
		req.Messages = append(req.Messages, messages.Message{Role: messages.RoleUser, Text: q.Text})
		return ask(ctx, ports[q.Model], req)
	}
	return tools.LLM(p), nil
}

// ask puts one question, again when the failure says that it may help and no byte came.
func ask(ctx context.Context, port llm.Model, req llm.Request) (sum tools.Answer, err error) {
	var policy llm.Policy
	for n := 1; ; n++ {
		var b strings.Builder
		usage, cost, err := answer(ctx, port, req, &b)
		sum.Tokens += usage.Input + usage.Output
		sum.CostMicroUSD += cost
		if err == nil {
			sum.Text = b.String()
			return sum, nil
		}
		step := policy.Next(llm.Attempt{N: n, Delivered: int64(b.Len())}, llm.FailureOf(err))
		if step.Do != llm.Retry || ctx.Err() != nil {
			return sum, err
		}
		wait := time.NewTimer(step.Wait)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return sum, context.Cause(ctx)
		}
	}
}

// answer reads one reply to its end.
func answer(ctx context.Context, port llm.Model, req llm.Request, b *strings.Builder) (usage messages.Usage, cost int64, err error) {
	for chunk, err := range port.Stream(ctx, req) {
		if err != nil {
			return usage, cost, err
		}
		if chunk.Usage != (messages.Usage{}) {
			usage, cost = chunk.Usage, chunk.CostMicroUSD
		}
		b.Write(chunk.Text)
		switch chunk.Finish {
		case "":
		case messages.FinishStop, messages.FinishComplete:
			return usage, cost, nil
		case messages.FinishCancelled:
			return usage, cost, cmp.Or(context.Cause(ctx), context.Canceled)
		default:
			return usage, cost, llm.Fail(llm.Failure{Code: "finish_" + string(chunk.Finish)}, "the reply is not whole")
		}
	}
	return usage, cost, llm.Fail(llm.Failure{Code: "protocol"}, "the stream ended without a finish")
}

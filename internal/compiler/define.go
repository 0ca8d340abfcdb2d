package compiler

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/web"
)

// What a manifest imports besides the tools of the host: definitions become targets of
// actions.

// targets returns the targets of actions: the tools of set, and imported definitions.
func (e *Env) targets(a *Definition, m *manifest.Manifest, set *catalog.Set, gate catalog.Gate, children map[string]*Agent) (*catalog.Targets, error) {
	t := catalog.NewTargets(set, e.programLimits(m.Quotas))
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
		if err := t.Add(e.delegate(d, children[d.Name])); err != nil {
			return nil, err
		}
	}
	for i := range m.Define.LLMs {
		d := &m.Define.LLMs[i]
		if !slices.Contains(m.Import.LLMs, d.Name) {
			continue
		}
		x, err := e.prompt(a, m, i)
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
		x, err := e.relic(a, d, at)
		if err == nil {
			err = messages.At(t.Add(x), at)
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
	if a.Canned != nil {
		t.Can(a.Canned)
	}
	return t, nil
}

// graphs adds workflows, those first that others call.
type graphs struct {
	t     *catalog.Targets
	m     *manifest.Manifest
	gate  catalog.Gate
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
	graph := catalog.Graph{Name: d.Name, Summary: d.Summary, Timeout: d.Timeout, RetryDelay: retryDelay(g.m), Targets: g.t, Gate: g.gate}
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
	x, err := catalog.Workflow(graph)
	if err == nil {
		err = g.t.Add(x)
	}
	g.state[i] = 2
	return messages.At(err, at)
}

// commands returns the tools that are programs of their own.
func (e *Env) commands(a *Definition, m *manifest.Manifest) ([]tools.Tool, error) {
	var all []tools.Tool
	var ready *confine.Ready
	for i := range m.Define.Tools {
		d := &m.Define.Tools[i]
		if !catalog.Covers(m.Import.Tools, d.Name) {
			continue
		}
		at := fmt.Sprintf("define.tools[%d]", i)
		if err := ownName(d.Name, at+".name"); err != nil {
			return nil, err
		}
		params, err := parameters(d.Parameters, at+".parameters")
		if err != nil {
			return nil, err
		}
		r := d.Implementation.Resources
		reach, err := e.reach(a, m, &d.Implementation.Confine, d.Implementation.Entrypoint[0])
		if err != nil {
			return nil, messages.At(err, at+".implementation")
		}
		if reach != nil && ready == nil {
			ready = &confine.Ready{}
			if err := e.Keep(ready); err != nil {
				return nil, err
			}
		}
		if reach != nil {
			reach.Ready = ready
		}
		t, err := catalog.NewCommand(catalog.Command{
			Name: d.Name, Summary: d.Summary, Class: messages.Class(d.Class), Params: params, Dir: a.Dir, Entrypoint: d.Implementation.Entrypoint,
			Memory: r.Memory, CPU: r.CPU, Files: r.Files, Output: r.Output, Timeout: r.Timeout, Stream: d.Implementation.Stream, Absent: e.replays(), Reach: reach,
		})
		if err != nil {
			return nil, messages.At(err, at)
		}
		all = append(all, t)
	}
	return all, nil
}

// relic makes the target of a relic.
func (e *Env) relic(a *Definition, d *manifest.Relic, at string) (*catalog.Executor, error) {
	switch d.ServiceType {
	case "sql":
		return e.database(a, d, at)
	case "key_value":
	default:
		return service(d, at)
	}
	scope := d.Scope
	if scope == "session" {
		scope = ""
	}
	return catalog.KeyValue(catalog.KeyValueRelic{
		Scope: scope, Name: d.Name, Summary: d.Summary, Timeout: d.Timeout, Operations: turn.RelicOperations, Lasting: e.rendering() < 2,
		Limits: messages.RelicLimits{Keys: d.Storage.MaxKeys, ValueBytes: d.Storage.MaxValue, Bytes: d.Storage.MaxBytes},
	}), nil
}

// service returns the target of a relic over HTTP. Its key is read for each call and not kept.
func service(d *manifest.Relic, at string) (*catalog.Executor, error) {
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
			Name: e.Name, Summary: e.Summary, Method: e.Method, Path: e.Path, Stream: e.Stream, Class: messages.Class(e.Class), Params: ps,
		})
	}
	x, err := web.Relic(s)
	return x, messages.At(err, at)
}

func parameters(ps []manifest.Parameter, at string) (catalog.Parameters, error) {
	var out catalog.Parameters
	for i, p := range ps {
		own := catalog.Parameter{Name: p.Name, Type: p.Type, Description: p.Description, Required: p.Required}
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

// jsonOf returns a value of a manifest as canonical JSON.
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

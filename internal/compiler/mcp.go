package compiler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/mcp"
)

// Tools of MCP servers. Which there are is asked when an agent is opened, and becomes a
// part of its effective manifest, which the journal keeps: a replay needs no server, and
// what the model was told is on record.

// mcpTimeout bounds a call whose manifest says nothing (docs/spec/cogency.md §5).
const mcpTimeout = 30 * time.Second

// offered is a server of an agent and how often its list may have changed when it was
// asked.
type offered struct {
	server  *mcp.Server
	changes int64
	asked   bool
}

// servers makes the tools of a manifest's MCP servers, and completes the manifest with
// what they say. Servers all of whose tools the manifest describes are not asked, and
// none is by a runtime that only compiles.
func (e *Env) servers(ctx context.Context, a *Definition, m *manifest.Manifest) (all []tools.Tool, from []offered, err error) {
	if len(m.Import.MCP) == 0 {
		return nil, nil, nil
	}
	m.Import.MCP = slices.Clone(m.Import.MCP)
	m.Approval.Tools = maps.Clone(m.Approval.Tools)
	who, err := e.share(m)
	if err != nil && importsAny(m, overWorkspace...) {
		return nil, nil, err
	}
	names := map[string]string{} // what is called so, by the server's own name
	for i := range m.Import.MCP {
		d, at := &m.Import.MCP[i], fmt.Sprintf("import.mcp[%d]", i)
		d.Tools = slices.Clone(d.Tools)
		var o offered
		cfg, err := e.serverConfig(a, m, d)
		if err != nil {
			return nil, nil, messages.At(err, at)
		}
		if e.Mode == Run {
			if o.server, err = e.Pool.Server(cfg); err != nil {
				return nil, nil, messages.At(err, at)
			}
			if !described(d) {
				if o.changes, err = e.describe(ctx, o.server, d); err != nil {
					return nil, nil, messages.At(err, at)
				}
				o.asked = true
			}
			from = append(from, o)
		}
		for j := range d.Tools {
			t := &d.Tools[j]
			if t.As == "" {
				t.As = mcp.Name(t.Name)
			}
			name := d.Name + "." + t.As
			place := fmt.Sprintf("%s.tools[%d]", at, j)
			if other, taken := names[name]; taken {
				return nil, nil, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonDuplicate, Field: place, Detail: fmt.Sprintf("%s and %s would both be %s; list the tools and give one another name by the key as", other, t.Name, name)}
			}
			names[name] = t.Name
			own, err := catalog.NewForeign(catalog.Foreign{
				Name: name, Description: t.Description, Schema: t.Schema, Class: t.Class, Timeout: cmp.Or(t.Timeout, d.Timeout, mcpTimeout),
				Do:    e.caller(o, cfg, who, d, t),
				Basis: basisOf(o, t),
			})
			if err != nil {
				return nil, nil, messages.At(err, place)
			}
			all = append(all, own)
			if t.Gate != "" {
				if m.Approval.Tools == nil {
					m.Approval.Tools = map[string]messages.GateAnswer{}
				}
				if already, ok := m.Approval.Tools[name]; ok && already != t.Gate {
					return nil, nil, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: place + ".gate", Detail: "approval.tools says " + string(already) + " of " + name}
				}
				m.Approval.Tools[name] = t.Gate
			}
		}
	}
	if n := len(m.Canonical()); n > manifest.MaxFileBytes {
		return nil, nil, &messages.Error{Code: messages.ErrConfig, Field: "import.mcp", Detail: fmt.Sprintf("with what the servers say of their tools the manifest has %d bytes; it may have %d: list the tools that are wanted", n, manifest.MaxFileBytes)}
	}
	return all, from, nil
}

// caller does the calls of a tool, each on the connection of those who have one together.
// Without a server there are none: the agent is only looked at, or replayed.
//
// A call of a tool that is pinned, or that a person has approved, is made when the server
// offers on that connection what was agreed to, and nothing else.
func (e *Env) caller(o offered, cfg mcp.Config, who share, d *manifest.MCP, t *manifest.MCPTool) func(context.Context, *tools.Call, string) (string, error) {
	tool, class := t.Name, cmp.Or(t.Class, messages.Effectful)
	pin, list, agents := t.Pin, d.Pin, o.server
	call := func(ctx context.Context, c *tools.Call, s *mcp.Server, args string) (string, error) {
		agreed := []mcp.Agreed{{Tool: pin, List: list}}
		if o.asked {
			agreed = append(agreed, mcp.Agreed{Tool: agreedTo(c.Host.Basis)})
		}
		return s.Do(ctx, c, tool, class, args, agreed...)
	}
	return func(ctx context.Context, c *tools.Call, args string) (string, error) {
		if agents == nil {
			return "", errors.New("no server is called here")
		}
		names, tenant, err := who.of(c.SID)
		if err != nil {
			return "", err
		}
		if names == nil {
			return call(ctx, c, agents, args)
		}
		s, done, err := e.Pool.Apart(cfg, tenant, path.Join(names...))
		if err != nil {
			return "", err
		}
		defer done()
		return call(ctx, c, s, args)
	}
}

// offerMember is the member of a basis that has the digest of an MCP server's tool.
const offerMember = "offer"

// basisOf is what an approved call rests on: what the server says of the tool by now, or
// what the manifest does where no server is asked.
func basisOf(o offered, t *manifest.MCPTool) func(string) map[string]string {
	name, described := t.Name, mcp.Described(t.Name, t.Description, t.Schema)
	return func(string) map[string]string {
		if o.asked {
			return map[string]string{offerMember: cmp.Or(o.server.Offered(name), "none")}
		}
		return map[string]string{offerMember: described}
	}
}

// agreedTo is the digest of a tool in a basis that was approved; "" for none.
func agreedTo(basis string) string {
	var of map[string]string
	if basis == "" || json.Unmarshal([]byte(basis), &of) != nil {
		return ""
	}
	return of[offerMember]
}

// serverConfig is how a server of a manifest is reached.
func (e *Env) serverConfig(a *Definition, m *manifest.Manifest, d *manifest.MCP) (mcp.Config, error) {
	cfg := mcp.Config{
		Name: d.Name, Command: d.Command, Env: d.Env, Memory: d.Resources.Memory, CPU: d.Resources.CPU, Files: d.Resources.Files,
		URL: d.URL, Header: d.Header, Secrets: d.Secrets, Connect: d.Connect, MaxBytes: d.MaxBytes,
	}
	if len(d.Command) == 0 {
		return cfg, nil
	}
	if a.Dir != "" {
		cfg.Dir = a.Dir
		if dir, err := filepath.Abs(a.Dir); err == nil {
			cfg.Dir = dir // equal agents of different spelling share the program
		}
	}
	var err error
	cfg.Reach, err = e.reach(a, m, &d.Confine, d.Command[0])
	return cfg, err
}

// described reports whether a manifest has all of a server's tools, and pins nothing that
// only the server can say.
func described(d *manifest.MCP) bool {
	return d.Pin == "" && len(d.Tools) > 0 && !slices.ContainsFunc(d.Tools, func(t manifest.MCPTool) bool { return t.Schema == "" || t.Pin != "" })
}

// describe asks a server for its tools and fills in what the manifest leaves open.
func (e *Env) describe(ctx context.Context, s *mcp.Server, d *manifest.MCP) (changes int64, err error) {
	there, changes, err := s.Tools(ctx)
	if err != nil {
		return 0, err
	}
	if len(d.Tools) == 0 {
		for _, t := range there {
			d.Tools = append(d.Tools, manifest.MCPTool{Name: t.Name})
		}
	}
	if err := offeredBy(d, there); err != nil {
		return 0, err
	}
	if err := pinned(s, d, there); err != nil {
		return 0, err
	}
	for i := range d.Tools {
		t := &d.Tools[i]
		j := slices.IndexFunc(there, func(o mcp.Tool) bool { return o.Name == t.Name })
		if j < 0 {
			if t.Schema != "" {
				continue // described here: a call will tell
			}
			return 0, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonMissing, Field: fmt.Sprintf("tools[%d]", i), Detail: fmt.Sprintf("the MCP server %s has no tool %q", d.Name, t.Name)}
		}
		if t.Schema == "" {
			if t.Schema = there[j].Schema; t.Schema == "" {
				t.Schema = `{"type":"object"}`
			}
		}
		if t.Description == "" {
			t.Description = there[j].Description
		}
	}
	return changes, nil
}

// pinned compares what a server offers with what a manifest pins.
func pinned(s *mcp.Server, d *manifest.MCP, there []mcp.Tool) error {
	for i := range d.Tools {
		if pin := d.Tools[i].Pin; pin != "" {
			if err := s.Pinned(there, "", map[string]string{d.Tools[i].Name: pin}); err != nil {
				return messages.At(err, fmt.Sprintf("tools[%d]", i))
			}
		}
	}
	return s.Pinned(there, d.Pin, nil)
}

// Pins asks the MCP servers of a definition what they offer, and gives the digests by
// server and tool; that of a server's whole list is under "". Nothing is compared.
func Pins(ctx context.Context, e *Env, pool *mcp.Pool, a *Definition) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	if a.Manifest == nil {
		return all, nil
	}
	for i := range a.Manifest.Import.MCP {
		d := &a.Manifest.Import.MCP[i]
		cfg, err := e.serverConfig(a, a.Manifest, d)
		if err != nil {
			return nil, messages.At(err, fmt.Sprintf("import.mcp[%d]", i))
		}
		s, err := pool.Server(cfg)
		if err != nil {
			return nil, messages.At(err, fmt.Sprintf("import.mcp[%d]", i))
		}
		there, _, err := s.Tools(ctx)
		if err != nil {
			return nil, messages.At(err, fmt.Sprintf("import.mcp[%d]", i))
		}
		of := map[string]string{"": mcp.ListDigest(there)}
		for _, t := range there {
			of[t.Name] = t.Digest
		}
		all[d.Name] = of
	}
	return all, nil
}

// offeredBy puts the tools that the server has in the place of names with a '*', such as
// read_*, each with the settings of that entry. A tool that another entry names keeps its
// own.
func offeredBy(d *manifest.MCP, there []mcp.Tool) error {
	listed := d.Tools
	d.Tools = nil
	for i, t := range listed {
		if !strings.Contains(t.Name, "*") {
			d.Tools = append(d.Tools, t)
			continue
		}
		found := false
		for _, o := range there {
			if ok, err := path.Match(t.Name, o.Name); err != nil || !ok {
				continue
			}
			found = true
			same := func(x manifest.MCPTool) bool { return x.Name == o.Name }
			if !slices.ContainsFunc(listed, same) && !slices.ContainsFunc(d.Tools, same) {
				own := t
				own.Name = o.Name
				d.Tools = append(d.Tools, own)
			}
		}
		if !found {
			return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonMissing, Field: fmt.Sprintf("tools[%d]", i), Detail: fmt.Sprintf("the MCP server %s has no tool like %q", d.Name, t.Name)}
		}
	}
	return nil
}

// stale reports whether a server of a compiled agent may offer something else by now.
func (c *Agent) stale() bool {
	of := c.servers.Load()
	return of != nil && slices.ContainsFunc(*of, func(o offered) bool { return o.asked && o.server.Changes() != o.changes })
}

// asksServers reports whether what an agent, or an agent of it, can call is known by
// asking alone.
func (a *Definition) asksServers() bool {
	return a.Manifest != nil && slices.ContainsFunc(a.Manifest.Import.MCP, func(s manifest.MCP) bool { return !described(&s) }) ||
		slices.ContainsFunc(a.Agents, (*Definition).asksServers)
}

package compiler

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/workspace"
)

// toolset is what an agent can call, and who decides about a call.
type toolset struct {
	set     *catalog.Set
	gate    catalog.Gate
	digest  messages.Digest // of all tools there are, those that are not imported too
	foreign []tools.Tool    // those of MCP servers
	hidden  []string        // tools of set that the model is not told of
	aliases *aliases
}

// toolset gathers the agent's tools. It completes m with what MCP servers say of theirs.
func (e *Env) toolset(ctx context.Context, a *Definition, m *manifest.Manifest, c *Agent) (has toolset, err error) {
	foreign, from, err := e.servers(ctx, a, m)
	if err != nil {
		return has, err
	}
	for _, child := range c.Children {
		from = append(from, *child.servers.Load()...)
	}
	c.servers.Store(&from)
	has.foreign = foreign
	registry, err := e.registry(a, m, foreign)
	if err != nil {
		return has, err
	}
	if has.aliases, err = e.aliases(m, registry); err != nil {
		return has, err
	}
	if len(has.aliases.tools) > 0 {
		if registry, err = registry.Override(has.aliases.tools...); err != nil {
			return has, err
		}
	}
	imports, err := importable(m, registry)
	if err != nil {
		return has, err
	}
	var allow []string
	if m.Dialect == aeiou.Name || e.rendering() < 2 {
		allow = catalog.AllowStandard()
	}
	allow = append(allow, imports...)
	policies := a.Policies
	if m.Dialect == kitsu.Name {
		companion, err := e.companion(a, m, registry)
		if err != nil {
			return has, err
		}
		own := companion.Tools()
		if registry, err = registry.Override(own...); err != nil {
			return has, err
		}
		for i := range own {
			allow = append(allow, own[i].Name)
			if e.rendering() >= 2 && !companion.Offers(kitsu.Kind(own[i].Name)) {
				has.hidden = append(has.hidden, own[i].Name)
			}
		}
		policies = append([]tools.CustomPolicy{companion.Policy()}, policies...)
	}
	for i := range foreign {
		allow = append(allow, foreign[i].Name)
	}
	if recalls(m) {
		allow = append(allow, catalog.RecallName)
	}
	if has.set, err = registry.Apply(catalog.Policy{Allow: allow}); err != nil {
		return has, err
	}
	if a.Canned != nil {
		if registry, err = registry.Override(catalog.Can(has.set, a.Canned)...); err != nil {
			return has, err
		}
		if has.set, err = registry.Apply(catalog.Policy{Allow: allow}); err != nil {
			return has, err
		}
	}
	if err := has.aliases.allowed(m, has.set); err != nil {
		return has, err
	}
	has.gate = catalog.Gate{Aliases: has.aliases.of, Default: m.Approval.Default, ByTool: m.Approval.Tools, Own: ownAnswers, Hook: a.Gate, Policies: policies}
	has.digest = registry.Digest()
	return has, has.gate.Validate()
}

// registry gathers the built-in tools, those of the agent's folder, and its own.
func (e *Env) registry(a *Definition, m *manifest.Manifest, foreign []tools.Tool) (*catalog.Registry, error) {
	var grants catalog.Grants
	for _, g := range m.Grants {
		grants = append(grants, catalog.Grant{Session: g.Session, Access: g.Access})
	}
	if err := grants.Validate(); err != nil {
		return nil, err
	}
	all := append(catalog.Standard(), catalog.SessionOutput(grants), catalog.TimeNow(e.Now), catalog.DemoPanic())
	if imports(m, "file.") {
		files, err := e.openFiles(a)
		if err != nil {
			return nil, err
		}
		files.Deny(e.hosts(a, m)...)
		if err := e.Keep(files); err != nil {
			return nil, err
		}
		all = append(all, files.Tools()...)
	}
	work, err := e.workTools(a, m)
	if err != nil {
		return nil, err
	}
	all = append(all, work...)
	if recalls(m) {
		all = append(all, catalog.Recall(e.recall, e.Now))
	}
	web, err := e.webTools(a, m)
	if err != nil {
		return nil, err
	}
	all = append(all, web...)
	commands, err := e.commands(a, m)
	if err != nil {
		return nil, err
	}
	return catalog.New(slices.Concat(all, commands, foreign, a.Tools)...)
}

// importable are the imports that tools answer to; one that no tool does is an error.
// Groups of MCP servers are known when those are asked.
func importable(m *manifest.Manifest, registry *catalog.Registry) (all []string, err error) {
	var names []string
	for _, s := range registry.Specs(nil) {
		names = append(names, s.Name)
	}
	for i, name := range m.Import.Tools {
		group, isGroup := strings.CutSuffix(name, ".*")
		switch {
		case slices.ContainsFunc(names, func(n string) bool { return catalog.Covers([]string{name}, n) }):
			all = append(all, name)
			continue
		case isGroup && slices.ContainsFunc(m.Import.MCP, func(s manifest.MCP) bool { return strings.EqualFold(s.Name, group) }):
			continue
		}
		bad := &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: fmt.Sprintf("import.tools[%d]", i), Detail: "there is no tool " + clip.Quoted(name)}
		known := slices.Concat(names, builtins())
		if isGroup {
			bad.Detail = "there is no tool in the group " + clip.Quoted(group)
			known = groupsOf(known)
			name = group
		}
		slices.Sort(known)
		if near := catalog.Near(name, slices.Compact(known)); len(near) > 0 {
			bad.Detail += "; near: " + strings.Join(near, ", ")
		}
		return nil, bad
	}
	return all, nil
}

func groupsOf(names []string) (groups []string) {
	for _, name := range names {
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			groups = append(groups, name[:i])
		}
	}
	return groups
}

// imports reports whether a manifest imports a tool of a group.
func imports(m *manifest.Manifest, group string) bool {
	return slices.ContainsFunc(m.Import.Tools, func(name string) bool { return strings.HasPrefix(strings.ToLower(name), group) })
}

// openFiles opens the folder that file tools see. A replay declares them and calls
// none.
func (e *Env) openFiles(a *Definition) (*workspace.Files, error) {
	if e.replays() {
		return workspace.NewFiles(os.TempDir())
	}
	if a.Dir == "" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "import.tools", Detail: "file tools need Agent.Dir, the folder they may see"}
	}
	return workspace.NewFiles(a.Dir)
}

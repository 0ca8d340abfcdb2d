package compiler

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/workspace"
)

// toolset is what an agent can call, and who decides about a call.
type toolset struct {
	set    *catalog.Set
	gate   catalog.Gate
	digest messages.Digest // of all tools there are, those that are not imported too
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
	registry, err := e.registry(a, m, foreign)
	if err != nil {
		return has, err
	}
	allow := append(catalog.AllowStandard(), m.Import.Tools...)
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
	has.gate = catalog.Gate{Default: m.Approval.Default, ByTool: m.Approval.Tools, Own: ownAnswers, Hook: a.Gate, Policies: policies}
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

package compiler

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// aliases are the templates that are offered as tools (docs/spec/extensions.md §7): each fills
// its template with the arguments of a call and calls the template's tool with what comes of it.
type aliases struct {
	tools     []tools.Tool
	of        map[string]catalog.Aliased
	templates map[string]string // by name of the tool
	set       *catalog.Set      // in which the tools of the templates are; known after the last tool
}

// aliases makes the tools of the manifest's aliases. registry has all other tools.
func (e *Env) aliases(m *manifest.Manifest, registry *catalog.Registry) (*aliases, error) {
	all := &aliases{of: map[string]catalog.Aliased{}, templates: map[string]string{}}
	if len(m.Define.Aliases) == 0 {
		return all, nil
	}
	known, err := templates(m)
	if err != nil {
		return nil, err
	}
	limits := e.programLimits(m.Quotas)
	for i := range m.Define.Aliases {
		d := &m.Define.Aliases[i]
		at := fmt.Sprintf("define.aliases[%d]", i)
		t := known[d.Template]
		typ, target := t.Target()
		if typ != messages.TypeTool {
			return nil, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: at + ".template", Detail: "it calls the " + string(typ) + " " + target + ", and an alias calls a tool"}
		}
		if _, there := registry.Lookup(d.Name); there {
			return nil, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonDuplicate, Field: at + ".name", Detail: clip.Quoted(d.Name) + " is a tool already"}
		}
		made, err := all.tool(d, t, target, registry)
		if err != nil {
			return nil, messages.At(err, at)
		}
		made.Do = func(ctx context.Context, c *tools.Call, args string) (string, error) {
			parameters, wrong := t.Fill(args)
			if wrong != nil {
				return "", &tools.Refused{Reason: cortex.BadTemplate, Text: wrong.Error()}
			}
			own := *c
			own.Name = target
			return catalog.NewTargets(all.set, limits).Do(ctx, &own, messages.TypeTool, parameters)
		}
		tool, err := catalog.NewForeign(made)
		if err != nil {
			return nil, messages.At(err, at)
		}
		all.tools = append(all.tools, tool)
		all.templates[d.Name] = d.Template
		all.of[d.Name] = catalog.Aliased{Tool: target, Args: func(args string) (string, bool) {
			parameters, wrong := t.Fill(args)
			return parameters, wrong == nil
		}}
	}
	return all, nil
}

// tool describes the tool of an alias: with the class, the time and the basis of what it calls.
func (*aliases) tool(d *manifest.Alias, t *cortex.Template, target string, registry *catalog.Registry) (catalog.Foreign, error) {
	f := catalog.Foreign{
		Name: d.Name, Description: cmp.Or(d.Summary, "Calls "+target+"."), Schema: t.Schema(), Class: messages.Effectful, Timeout: t.Timeout(),
	}
	own, there := registry.Lookup(target)
	if !there { // of an MCP server that was not asked
		return f, nil
	}
	if own.Form.Bound != nil {
		return f, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "template", Detail: target + " serves programs alone"}
	}
	if f.Class, f.Basis = own.Class, own.Form.Basis; f.Class == messages.Pure {
		f.Class = messages.ReadOnly // an action of its own
	}
	if own.Timeout > 0 && (f.Timeout == 0 || own.Timeout < f.Timeout) {
		f.Timeout = own.Timeout
	}
	return f, nil
}

// allowed refuses an alias whose tool the agent does not import, and keeps the set in which they
// are.
func (all *aliases) allowed(m *manifest.Manifest, set *catalog.Set) error {
	all.set = set
	for i := range m.Define.Aliases {
		target := all.of[m.Define.Aliases[i].Name].Tool
		server, _, _ := strings.Cut(target, ".")
		if _, found := set.Target(target); !found && !serves(m, server) {
			return &messages.Error{
				Code: messages.ErrConfig, Reason: manifest.ReasonMissing, Field: fmt.Sprintf("define.aliases[%d].template", i),
				Detail: "its tool " + clip.Quoted(target) + " is not imported",
			}
		}
	}
	return nil
}

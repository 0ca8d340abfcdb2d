package compiler

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/tools/catalog"
)

// templates returns the manifest's templates of actions, by name; nil for none.
func templates(m *manifest.Manifest) (map[string]*cortex.Template, error) {
	var all map[string]*cortex.Template
	for name, v := range m.ActionTemplates {
		at := "action_templates." + name
		definition, err := jsonOf(v, at)
		if err != nil {
			return nil, err
		}
		t, wrong := cortex.LoadTemplate(definition, cortex.ExtensionsOf(m.Extensions))
		if wrong != nil {
			return nil, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: at, Detail: wrong.Error()}
		}
		if all == nil {
			all = make(map[string]*cortex.Template, len(m.ActionTemplates))
		}
		all[name] = t
	}
	return all, nil
}

// templateTargets refuses a template whose actions would call what the agent does not have. The
// tools of an MCP server are those that it offers at the time.
func (e *Env) templateTargets(m *manifest.Manifest, d parse.Dialect, targets *catalog.Targets) error {
	x, ok := d.(cortex.Dialect)
	if !ok || e.replays() {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(x.Templates)) {
		typ, target := x.Templates[name].Target()
		server, _, _ := strings.Cut(target, ".")
		if serves(m, server) {
			continue
		}
		if _, found := targets.Find(typ, target); !found {
			return &messages.Error{
				Code: messages.ErrConfig, Reason: manifest.ReasonMissing, Field: "action_templates." + name + ".name",
				Detail: targets.Missing(typ, target) + "; what a template calls must be imported",
			}
		}
	}
	return nil
}

// serves reports whether a group of tools is that of an MCP server.
func serves(m *manifest.Manifest, group string) bool {
	return slices.ContainsFunc(m.Import.MCP, func(s manifest.MCP) bool { return s.Name == group })
}

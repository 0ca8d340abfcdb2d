package manifest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/parse/cortex"
)

// templates checks the templates of actions (docs/spec/extensions.md §7).
func (c *checker) templates(m *Manifest) {
	if len(m.ActionTemplates) == 0 {
		return
	}
	if !slices.Contains(m.Extensions, Templates) {
		c.add("action_templates", ReasonBadValue, "needs the extension: write extensions: [%s]", Templates)
		return
	}
	on := cortex.ExtensionsOf(m.Extensions)
	for _, name := range slices.Sorted(maps.Keys(m.ActionTemplates)) {
		at := join("action_templates", name)
		definition, err := json.Marshal(m.ActionTemplates[name])
		if err != nil {
			c.add(at, ReasonBadValue, "cannot be written as JSON: %v", err)
			continue
		}
		if _, wrong := cortex.LoadTemplate(string(definition), on); wrong != nil {
			field := at
			if wrong.Field != "" {
				field = join(at, wrong.Field)
			}
			c.add(field, reasonOfTemplate(wrong), "%s", wrong.Detail)
		}
	}
}

// aliases checks the templates that are offered as tools.
func (c *checker) aliases(m *Manifest) {
	for i := range m.Define.Aliases {
		a, at := &m.Define.Aliases[i], index("define.aliases", i)
		for j := range m.Define.Tools {
			if m.Define.Tools[j].Name == a.Name {
				c.add(join(at, "name"), ReasonDuplicate, "%q is a tool already", clip.Quoted(a.Name))
			}
		}
		if slices.ContainsFunc(m.Define.Aliases[:i], func(o Alias) bool { return o.Name == a.Name }) {
			c.add(join(at, "name"), ReasonDuplicate, "%q is an alias already", clip.Quoted(a.Name))
		}
		if _, there := m.ActionTemplates[a.Template]; !there && a.Template != "" {
			c.add(join(at, "template"), ReasonBadValue, "there is no template %q in action_templates", clip.Quoted(a.Template))
		}
	}
}

// reasonOfTemplate is the reason for what is wrong with a template.
func reasonOfTemplate(e *cortex.TemplateError) string {
	switch e.Why {
	case "unknown":
		return ReasonUnknownKey
	case "missing":
		return ReasonMissing
	}
	return ReasonBadValue
}

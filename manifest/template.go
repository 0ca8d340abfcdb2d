package manifest

import (
	"encoding/json"
	"maps"
	"slices"

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

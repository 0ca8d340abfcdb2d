package stile

import (
	"context"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/turn"
)

// internals adds the actions on the session itself, where the dialect has a way to
// name them (streaming.md §7.4). m has its defaults.
func internals(t *tools.Targets, d parse.Dialect, m manifest.InternalActions) error {
	if tr := d.Traits(); !tr.InStreamActions || tr.Verbatim {
		if m.Allowed != nil && len(*m.Allowed) > 0 {
			return &messages.Error{Code: messages.ErrConfig, Field: "internal_actions.allowed_actions", Detail: "the dialect " + d.Name() + " knows no actions on the session itself"}
		}
		return nil
	}
	return t.AddInternal(tools.Permission{Disabled: !*m.Enabled, Allowed: *m.Allowed, Blocked: m.Blocked}, variableActions()...)
}

// variableActions are those about the session's variables.
func variableActions() []tools.Internal {
	do := func(action string) func(context.Context, *tools.Call, string) (string, error) {
		return func(_ context.Context, c *tools.Call, args string) (string, error) {
			result, err := turn.Variables(c.Variables).Do(action, args)
			return result, tools.RefusalOf(err)
		}
	}
	name := tools.Parameter{Name: "name", Type: "string", Required: true}
	return []tools.Internal{
		{
			Name: messages.InternalSetVariable, Class: messages.Idempotent, Do: do(messages.InternalSetVariable),
			Summary: "Keeps a value in the session; $name is it from then on, also in later turns and runs.",
			Params:  tools.Parameters{name, {Name: "value", Required: true}},
		},
		{
			Name: messages.InternalDeleteVariable, Class: messages.Idempotent, Do: do(messages.InternalDeleteVariable),
			Summary: "Forgets a variable.", Params: tools.Parameters{name},
		},
		{
			Name: messages.InternalClearContext, Class: messages.Idempotent, Do: do(messages.InternalClearContext),
			Summary: "Forgets all variables, and what context feeds have fetched.",
		},
	}
}

package compiler

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// companion is what stands behind an agent's action tokens (docs/spec/kitsu.md).
func (e *Env) companion(a *Definition, m *manifest.Manifest, registry *catalog.Registry) (catalog.Companion, error) {
	c := catalog.Companion{
		Permissions: kitsu.Permissions{DenySearch: no(m.Kitsu.AllowSearch), DenyContinue: no(m.Kitsu.AllowContinue)},
		Continues:   int(m.Kitsu.MaxContinues), Search: a.Search, Zone: m.Kitsu.Zone, Now: e.Now, Mood: a.Mood,
		Limits: programLimits(m.Quotas),
		Failed: func(sid string, err error) {
			e.Log.Warn("the mood of a session cannot be told", zap.String("SID", sid), zap.Error(err))
		},
	}
	for _, kind := range []kitsu.Kind{kitsu.GetTime, kitsu.Continue} {
		if _, ok := registry.Lookup(string(kind)); ok {
			return c, &messages.Error{Code: messages.ErrConfig, Field: "tools." + string(kind), Detail: "the dialect kitsu has an action of this name"}
		}
	}
	if a.Search != nil {
		return c, nil
	}
	set, err := registry.Apply(catalog.Policy{Allow: append(catalog.AllowStandard(), m.Import.Tools...)})
	if err != nil {
		return c, err
	}
	switch name := strings.ToLower(m.Kitsu.Search); {
	case name == "":
		// A tool search that is imported is what a search is meant to ask.
		if t, err := set.Lookup(string(kitsu.Search)); err == nil {
			c.SearchTool = t
		}
	case name == catalog.RecallName && !own(a, name):
		c.Search = earlier{e}
	default:
		if c.SearchTool, err = set.Lookup(name); err != nil {
			return c, &messages.Error{Code: messages.ErrConfig, Field: "kitsu.search", Detail: "there is no tool " + m.Kitsu.Search + " among those that are imported"}
		}
	}
	return c, nil
}

// own reports whether a tool is the agent's own.
func own(a *Definition, name string) bool {
	return slices.ContainsFunc(a.Tools, func(t tools.Tool) bool { return strings.EqualFold(t.Name, name) })
}

func no(allowed *bool) bool { return allowed != nil && !*allowed }

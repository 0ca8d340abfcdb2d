package stile

import (
	"strings"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/tools"
)

// companion is what stands behind an agent's action tokens (kitsu.md).
func (rt *Runtime) companion(a *Agent, m *manifest.Manifest, registry *tools.Registry) (tools.Companion, error) {
	c := tools.Companion{
		Permissions: kitsu.Permissions{DenySearch: no(m.Kitsu.AllowSearch), DenyContinue: no(m.Kitsu.AllowContinue)},
		Continues:   int(m.Kitsu.MaxContinues), Search: a.Search, Zone: m.Kitsu.Zone, Now: rt.cfg.Now, Mood: a.Mood,
		Limits: programLimits(m.Quotas),
		Failed: func(sid string, err error) {
			rt.log.Warn("the mood of a session cannot be told", zap.String("SID", sid), zap.Error(err))
		},
	}
	name := m.Kitsu.Search
	if name == "" || a.Search != nil {
		return c, nil
	}
	set, err := registry.Apply(tools.Policy{Allow: append(tools.AllowStandard(), m.Import.Tools...)})
	if err != nil {
		return c, err
	}
	if c.SearchTool, err = set.Lookup(strings.ToLower(name)); err != nil {
		return c, &messages.Error{Code: messages.ErrConfig, Field: "kitsu.search", Detail: "there is no tool " + name + " among those that are imported"}
	}
	return c, nil
}

func no(allowed *bool) bool { return allowed != nil && !*allowed }

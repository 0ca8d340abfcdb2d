package compiler

import (
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/zone"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// companion returns the implementation of an agent's action tokens (docs/spec/kitsu.md).
func (e *Env) companion(a *Definition, m *manifest.Manifest, registry *catalog.Registry) (catalog.Companion, error) {
	c := catalog.Companion{
		Permissions: kitsu.Permissions{DenySearch: no(m.Kitsu.AllowSearch), DenyContinue: no(m.Kitsu.AllowContinue)},
		Continues:   int(m.Kitsu.MaxContinues), Search: a.Search, Zone: m.Kitsu.Zone, Now: e.Now, Mood: a.Mood,
		Limits: e.programLimits(m.Quotas),
		Failed: func(sid string, err error) {
			e.Log.Warn("the mood of a session cannot be told", zap.String("SID", sid), zap.Error(err))
		},
	}
	if err := e.checkZone(m); err != nil {
		return c, err
	}
	for _, kind := range []kitsu.Kind{kitsu.GetTime, kitsu.Continue} {
		if _, ok := registry.Lookup(string(kind)); ok {
			return c, &messages.Error{Code: messages.ErrConfig, Field: "tools." + string(kind), Detail: "the dialect kitsu has an action of this name"}
		}
	}
	if e.rendering() >= 2 {
		c.AnyTopic = !confirmsTopics(a, m)
	}
	if a.Search != nil {
		return c, nil
	}
	imports, err := importable(m, registry)
	if err != nil {
		return c, err
	}
	set, err := registry.Apply(catalog.Policy{Allow: append(catalog.AllowStandard(), imports...)})
	if err != nil {
		return c, err
	}
	switch name := strings.ToLower(m.Kitsu.Search); {
	case name == "":
		// A tool search that is imported is what a search is meant to ask.
		if t, err := set.Lookup(string(kitsu.Search)); err == nil {
			c.SearchTool = t
			break
		}
		// What the stub says is made up: a model that is asked for real must not get it.
		// A scripted provider without a script is one that Agent.Model stands for.
		c.Permissions.NoIndex = e.rendering() >= 2 && (m.Model.Provider != "scripted" || m.Model.Script == "")
	case name == manifest.SearchStub && !own(a, name):
	case name == catalog.RecallName && !own(a, name):
		c.Search = recallSearcher{e}
	default:
		if c.SearchTool, err = set.Lookup(name); err != nil {
			return c, &messages.Error{Code: messages.ErrConfig, Field: "kitsu.search", Detail: "there is no tool " + m.Kitsu.Search + " among those that are imported"}
		}
	}
	return c, nil
}

// checkZone refuses a manifest with an unknown zone, for which the user would get a wrong time.
// Runs of such a manifest can still be replayed.
func (e *Env) checkZone(m *manifest.Manifest) error {
	if m.Kitsu.Zone == "" || e.replays() {
		return nil
	}
	if _, err := zone.Parse(m.Kitsu.Zone); err != nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "kitsu.zone", Detail: strconv.Quote(clip.Short(m.Kitsu.Zone, 64)) + ": " + err.Error()}
	}
	return nil
}

// CheckInput checks an input for agents of a dialect, of the product or of further. The error
// is ERR_CONFIG for an unknown dialect, and otherwise the dialect's.
func CheckInput(further []parse.Dialect, dialect string, in messages.Input) (messages.Input, error) {
	all, err := Dialects(further)
	if err != nil {
		return in, err
	}
	if all[dialect] == nil {
		return in, &messages.Error{Code: messages.ErrConfig, Field: "dialect", Detail: "there is no dialect " + strconv.Quote(dialect)}
	}
	return checkInput(all[dialect])(in)
}

// checkInput returns the check of an agent's inputs: the zone is known, and the dialect accepts
// the input.
func checkInput(d parse.Dialect) func(messages.Input) (messages.Input, error) {
	own, _ := d.(parse.InputChecker)
	return func(in messages.Input) (messages.Input, error) {
		if in.Zone != "" {
			if _, err := zone.Parse(in.Zone); err != nil {
				return in, &messages.Error{Code: messages.ErrInvalid, Field: "zone", Detail: strconv.Quote(clip.Short(in.Zone, 64)) + ": " + err.Error()}
			}
		}
		if own == nil {
			return in, nil
		}
		checked, err := own.CheckInput(in)
		return checked, err
	}
}

// confirmsTopics reports whether a search about another topic than the last one waits for a
// person: as the manifest says, and by default if the agent has approvers.
func confirmsTopics(a *Definition, m *manifest.Manifest) bool {
	if m.Kitsu.ConfirmTopics != nil {
		return *m.Kitsu.ConfirmTopics
	}
	return a.MayApprove != nil
}

// own reports whether a tool is the agent's own.
func own(a *Definition, name string) bool {
	return slices.ContainsFunc(a.Tools, func(t tools.Tool) bool { return strings.EqualFold(t.Name, name) })
}

func no(allowed *bool) bool { return allowed != nil && !*allowed }

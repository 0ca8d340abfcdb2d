package compiler

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/cogency"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/parse/profile"
)

// Dialects returns the dialects of the product and further ones, by name. There is no
// registration at package initialisation, so the dialects of a host are named in one place. A
// nil dialect, one without a name, or two of one name are ERR_CONFIG.
func Dialects(further []parse.Dialect) (map[string]parse.Dialect, error) {
	all := map[string]parse.Dialect{}
	for i, d := range append([]parse.Dialect{plain.Dialect{}, aeiou.Dialect{}, cortex.Dialect{}, cogency.Dialect{}, kitsu.Dialect{}, profile.Dialect{}}, further...) {
		detail := ""
		switch {
		case d == nil:
			detail = "number " + strconv.Itoa(i+1) + " is nil"
		case d.Name() == "":
			detail = "number " + strconv.Itoa(i+1) + " has no name"
		case all[d.Name()] != nil:
			detail = "two dialects are named " + d.Name()
		default:
			all[d.Name()] = d
			continue
		}
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "dialects", Detail: detail}
	}
	return all, nil
}

// names are what a manifest calls the dialects of a configuration.
func names(dialects []parse.Dialect) []string {
	out := make([]string, len(dialects))
	for i, d := range dialects {
		out[i] = d.Name()
	}
	return out
}

// dialect returns the manifest's dialect, with the manifest's settings.
func (e *Env) dialect(m *manifest.Manifest) (parse.Dialect, error) {
	all, err := Dialects(e.Dialects)
	if err != nil {
		return nil, err
	}
	found := all[m.Dialect]
	if found == nil {
		known := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "dialect", Detail: "there is no dialect " + strconv.Quote(m.Dialect) + "; known: " + known}
	}
	forgive := parse.AllHabits
	if forgive &^= parse.HabitsOf(m.Loop.Strict...); e.rendering() < 2 {
		forgive = 0
	}
	short := m.Primer == manifest.PrimerShort
	switch d := found.(type) {
	case plain.Dialect:
		d.Rendering, d.Forgive = e.rendering(), forgive
		return d, nil
	case aeiou.Dialect:
		d.Rendering, d.Forgive, d.Short = e.rendering(), forgive, short
		d.StrictDuplicates = m.Envelope.StrictDuplicates
		d.Calls, d.Emits, d.Gas = m.Quotas.Calls, m.Quotas.Emits, m.Quotas.Gas
		return d, nil
	case cortex.Dialect:
		d.Rendering, d.Forgive, d.Short = e.rendering(), forgive, short
		d.Cut = m.Loop.SyncPolicy == manifest.SyncCut
		d.FeedsLast = m.ContextFeedsAt == manifest.FeedsAtEnd
		if d.Kept = defaultKept; m.Memory.Results != nil {
			d.Kept = int(*m.Memory.Results)
		}
		d.NotFinal = m.Loop.DefaultFinal != nil && !*m.Loop.DefaultFinal
		d.Extensions = cortex.ExtensionsOf(m.Extensions)
		if d.Templates, err = templates(m); err != nil {
			return nil, err
		}
		d.Limits = cortex.Limits{
			TagBytes: int(m.Quotas.Tag), BodyBytes: int(m.Quotas.Body), JSONDepth: int(m.Quotas.JSONDepth),
			ThoughtDepth: int(m.Quotas.ThoughtDepth), ResultBytes: int(m.Quotas.Result),
		}
		return d, nil
	case cogency.Dialect:
		d.Rendering, d.Forgive, d.Short = e.rendering(), forgive, short
		d.Limits.Calls, d.Limits.JSONDepth, d.Limits.ResultBytes = int(m.Quotas.ReplyActions), int(m.Quotas.JSONDepth), int(m.Quotas.Result)
		return d, nil
	case kitsu.Dialect:
		d.Rendering, d.Forgive, d.Short = e.rendering(), forgive, short
		d.Continues = int(m.Kitsu.MaxContinues)
		return d, nil
	}
	return found, nil
}

// defaultKept is how many bytes of a finished run's results cortex shows when the manifest
// does not say.
const defaultKept = 4 << 10

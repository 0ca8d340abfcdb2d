package compiler

import (
	"cmp"
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

// Dialects are those of the product and further ones, by name. There is no registration
// at package initialisation, so what a host speaks is written in one place. A nil
// dialect, one without a name, or two of one name are ERR_CONFIG.
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

// dialect is the manifest's, with the manifest's settings.
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
	switch d := found.(type) {
	case aeiou.Dialect:
		d.StrictDuplicates = m.Envelope.StrictDuplicates
		return d, nil
	case cortex.Dialect:
		d.Cut = m.Loop.SyncPolicy == manifest.SyncCut
		d.NotFinal = m.Loop.DefaultFinal != nil && !*m.Loop.DefaultFinal
		d.Limits = cortex.Limits{
			TagBytes: int(m.Quotas.Tag), BodyBytes: int(m.Quotas.Body), JSONDepth: int(m.Quotas.JSONDepth),
			ThoughtDepth: int(m.Quotas.ThoughtDepth), ResultBytes: int(m.Quotas.Result),
		}
		return d, nil
	case cogency.Dialect:
		d.Limits.Calls, d.Limits.JSONDepth, d.Limits.ResultBytes = int(m.Quotas.ReplyActions), int(m.Quotas.JSONDepth), int(m.Quotas.Result)
		return d, nil
	case kitsu.Dialect:
		d.Continues = int(m.Kitsu.MaxContinues)
		return d, nil
	}
	return found, nil
}

// maxTurns is how many turns a run may have; 0 is no limit.
func maxTurns(m *manifest.Manifest, d parse.Dialect) int64 {
	if k, ok := d.(kitsu.Dialect); ok {
		return cmp.Or(m.Loop.MaxTurns, k.Traits().MaxTurns)
	}
	return m.Loop.MaxTurns
}

package compiler

import (
	"cmp"

	"github.com/seed14be6753/stile/internal/dialects"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/cogency"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/parse/profile"
)

// Dialects holds the dialects of the product and further ones.
func Dialects(further []parse.Dialect) (*dialects.Registry, error) {
	return dialects.New(append([]parse.Dialect{plain.Dialect{}, aeiou.Dialect{}, cortex.Dialect{}, cogency.Dialect{}, kitsu.Dialect{}, profile.Dialect{}}, further...)...)
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
	found, err := all.Lookup(m.Dialect)
	if err != nil {
		return nil, err
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

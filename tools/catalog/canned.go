package catalog

import (
	"context"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Answerer returns the canned answer to every call of a tool or another target: a result in
// JSON, or an error. It is called once for each target.
type Answerer func(messages.ToolSpec) (result string, err error)

// Can returns copies of a set's tools that do nothing and return the answers of a. Arguments
// are checked as usual. Pure tools are left out, because they have no effects and still
// work.
func Can(set *Set, a Answerer) (canned []tools.Tool) {
	for _, spec := range set.Specs() {
		t, err := set.Lookup(spec.Name)
		if err != nil || t.Class == messages.Pure {
			continue
		}
		own := *t
		text, failure := a(spec)
		own.Run = func(context.Context, *tools.Call) (neuroscript.Value, error) {
			if failure != nil {
				return neuroscript.Value{}, failure
			}
			return neuroscript.FromJSON([]byte(text))
		}
		if own.Form.Direct != nil {
			own.Form.Direct = func(_ context.Context, _ *tools.Call, args string) (string, error) {
				schema, err := compileSchema(own.Form.Schema)
				if err == nil {
					err = violations(schema, args)
				}
				if err == nil {
					err = failure
				}
				return text, err
			}
		}
		canned = append(canned, own)
	}
	return canned
}

// Can makes all targets that are no tools do nothing and return the answers of a.
func (t *Targets) Can(a Answerer) {
	for _, x := range t.others {
		text, failure := a(messages.ToolSpec{Type: x.Type, Name: x.Name, Description: x.Summary, Schema: x.Params.Schema(), Class: x.Class})
		x.Run = func(context.Context, *tools.Call, string) (string, error) { return text, failure }
	}
}

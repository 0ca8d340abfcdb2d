package catalog

import (
	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/tools"
)

// Basis returns what the outcome of a call depends on beside its arguments, for a person who
// approves the call: a canonical JSON object with the name of the tool and its Form's Basis,
// or with the type of another target. t may be nil.
func Basis(t *tools.Tool, sid, name, typ string) string {
	of := map[string]string{}
	if t != nil && t.Form.Basis != nil {
		for k, v := range t.Form.Basis(sid) {
			of[k] = v
		}
	}
	of["tool"] = name
	if typ != "" {
		of["type"] = typ
	}
	b, err := json.Marshal(of, json.Deterministic(true)) // names and digests are ASCII: this is canonical
	if err != nil {
		return `{}` // a name that is not UTF-8 is no tool's
	}
	return string(b)
}

// Package dialects holds the dialects of a host by their names.
//
// Invariant: a Registry does not change after New, so every session may share it.
package dialects

import (
	"sort"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Registry holds the dialects a host offers. It is built once, by the facade, and
// never changes; there is no registration at package initialisation, so what a
// host speaks is written in one place.
type Registry struct {
	byName map[string]parse.Dialect
	names  []string
}

// New builds a registry. A nil dialect, one without a name, or two of one name
// are ERR_CONFIG.
func New(dialects ...parse.Dialect) (*Registry, error) {
	r := &Registry{byName: make(map[string]parse.Dialect, len(dialects))}
	for i, d := range dialects {
		if d == nil {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "dialects", Detail: "number " + strconv.Itoa(i+1) + " is nil"}
		}
		name := d.Name()
		if name == "" {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "dialects", Detail: "number " + strconv.Itoa(i+1) + " has no name"}
		}
		if r.byName[name] != nil {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "dialects", Detail: "two dialects are named " + name}
		}
		r.byName[name] = d
		r.names = append(r.names, name)
	}
	sort.Strings(r.names)
	return r, nil
}

// Lookup finds a dialect by the name a manifest gives; an unknown one is
// ERR_CONFIG at field "dialect" and names those there are.
func (r *Registry) Lookup(name string) (parse.Dialect, error) {
	if d := r.byName[name]; d != nil {
		return d, nil
	}
	known := "none"
	if len(r.names) > 0 {
		known = strings.Join(r.names, ", ")
	}
	return nil, &messages.Error{
		Code: messages.ErrConfig, Field: "dialect",
		Detail: "there is no dialect " + strconv.Quote(name) + "; known: " + known,
	}
}

// Names lists the dialects in alphabetical order. The slice is a copy.
func (r *Registry) Names() []string { return append([]string(nil), r.names...) }

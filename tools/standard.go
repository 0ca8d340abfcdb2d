package tools

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
)

const classPure = messages.Pure

// Standard gives the default set of NS-A (docs/spec/neuroscript.md §11), all of it pure:
// the groups str, list, map, math, error, userdata and meta.
func Standard() []Tool {
	return slices.Concat(stringTools(), listTools(), mapTools(), mathTools(), errorTools(), userdataTools(), metaTools())
}

// AllowStandard gives the policy entries of the default set.
func AllowStandard() []string {
	return []string{"str.*", "list.*", "map.*", "math.*", "error.*", "userdata.*", "meta.*"}
}

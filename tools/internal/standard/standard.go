// Package standard has the default set of NS-A (docs/spec/neuroscript.md §11): pure
// functions of strings, lists, maps, numbers, errors and USERDATA. A function checks the size
// of its result against the limits before it makes the result (§13.4).
package standard

import (
	"slices"

	"github.com/seed14be6753/stile/tools"
)

// Tools returns the set: the groups str, list, map, math, error, userdata and meta.
func Tools() []tools.Tool {
	return slices.Concat(stringTools(), listTools(), mapTools(), mathTools(), errorTools(), userdataTools(), metaTools())
}

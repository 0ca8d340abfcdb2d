package tools

import (
	"github.com/seed14be6753/stile/internal/neuroscript"
)

// metaTools is the group meta.
func metaTools() []Tool {
	return []Tool{{
		Name: "meta.listTools", Class: classPure,
		Description: "The names of the tools this program may call.",
		bound: func(p *Program) func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
			return func(c *neuroscript.Call, _ []neuroscript.Value) (neuroscript.Value, error) {
				return nameList(c, p.Names())
			}
		},
	}}
}

func nameList(m budget, names []string) (neuroscript.Value, error) {
	size := int64(listBase)
	for _, n := range names {
		size += listSlot + stringBase + int64(len(n))
	}
	if err := m.CheckValue(size); err != nil {
		return neuroscript.Value{}, err
	}
	l := make([]neuroscript.Value, len(names))
	for i, n := range names {
		l[i] = neuroscript.String(n)
	}
	return neuroscript.List(l), nil
}

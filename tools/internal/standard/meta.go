package standard

import (
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// metaTools is the group meta.
func metaTools() []tools.Tool {
	return []tools.Tool{{
		Name: "meta.listTools", Class: messages.Pure,
		Description: "The names of the tools this program may call.",
		Form: seam.Form[tools.Call]{Bound: func(names func() []string) func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
			return func(c *neuroscript.Call, _ []neuroscript.Value) (neuroscript.Value, error) {
				return nameList(c, names())
			}
		}},
	}}
}

func nameList(m budget, names []string) (neuroscript.Value, error) {
	size := int64(neuroscript.ListBase)
	for _, n := range names {
		size += neuroscript.ListSlot + neuroscript.StringBase + int64(len(n))
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

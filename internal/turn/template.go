package turn

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// Templates of actions that the model defines in its replies (docs/spec/extensions.md §7). A
// record has the definition, so that the decoder of a later turn, and of a replay, knows it. The
// decoder of a turn begins with what the turns before it defined: read again, a reply means what
// it meant.

// MaxTemplates bounds the definitions of a reply: each is a record.
const MaxTemplates = 256

// defined takes a definition of the reply.
func (m *Machine) defined(ev *messages.Event) (fault string) {
	f := m.flight
	if f.parsed.templates++; f.parsed.templates > MaxTemplates {
		m.overrun("templates", MaxTemplates, "definitions of templates a reply")
		return ""
	}
	if d := f.doc; d != nil && d.known.templates > 0 {
		d.known.templates--
		return ""
	}
	m.persist(&messages.ActionTemplate{Definition: ev.Block.Definition, Name: ev.Block.Name}, LazyHold)
	return ""
}

// define keeps what a turn has defined for those after it.
func (run *OpenRun) define(made []*messages.ActionTemplate) {
	if len(made) == 0 {
		return
	}
	own := slices.Clone(run.Templates)
	for _, t := range made {
		if i := slices.IndexFunc(own, func(o *messages.ActionTemplate) bool { return o.Name == t.Name }); i >= 0 {
			own[i] = t
		} else {
			own = append(own, t)
		}
	}
	run.Templates = own
}

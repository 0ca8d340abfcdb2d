package sim

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonvalue"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

// Templates of actions, and thoughts in thoughts (docs/spec/extensions.md §§6, 7). A model
// defines templates, defines them anew, and uses them in later turns of the run; between them
// hosts die, and a decoder reads a reply again that was read before.

// ownTemplate is the agent's.
const ownTemplate = "t"

var ownTemplates = func() map[string]*cortex.Template {
	t, wrong := cortex.LoadTemplate(fmt.Sprintf(`{"name":%q,"params":{"p":{"default":"a"}},"parameters":{"what":"%%{p}"}}`, solo), cortex.ExtTemplates)
	if wrong != nil {
		panic(wrong)
	}
	return map[string]*cortex.Template{ownTemplate: t}
}()

// templated is a reply of cortex with templates.
func (a *author) templated() []byte {
	var b strings.Builder
	if !a.calm {
		for range a.rnd.IntN(5) {
			switch n := a.rnd.IntN(9); {
			case n < 3:
				fmt.Fprintf(&b, `<action_template name=%q>{"name":%q,"params":["p"],"parameters":{"what":"%%{p}"}}</action_template>`,
					a.one("f", "f", "g", ownTemplate, "1"), toolNames[a.rnd.IntN(len(toolNames))])
			case n < 8:
				fmt.Fprintf(&b, `<action template=%q mode=%q>{"with":{"p":%q}}</action>`, a.one("f", "f", "g", ownTemplate, "none"), a.one("sync", "async"), a.one("a", "b", "c", a.ref()))
			default:
				fmt.Fprintf(&b, `<thought label="x">%s<thought>%s`, a.word(), a.word())
				a.action(&b)
				b.WriteString("</thought></thought>")
			}
		}
	}
	return append([]byte(b.String()), a.stream()...)
}

// patterns are the templates that a run has defined: the tool of each, by name.
type patterns map[string]string

func (p patterns) defines(b *messages.ActionTemplate) error {
	name, ok := jsonvalue.Member(b.Definition, "name")
	if !ok || b.Name == ownTemplate {
		return fmt.Errorf("template %s is defined as %s", b.Name, b.Definition)
	}
	p[b.Name] = jsonvalue.Meant(name)
	return nil
}

// made checks that an action is what its template says at that place of the run.
func (p patterns) made(b *messages.ActionDeclared) error {
	want, known := p[b.Template]
	if b.Template == ownTemplate {
		want, known = solo, true
	}
	if b.Template != "" && (!known || b.Name != want) {
		return fmt.Errorf("action %s calls %s, and its template %s is of %q", b.ID, b.Name, b.Template, want)
	}
	return nil
}

// misled are the templates of a run as a host has them that takes those of another.
func misled(all []*messages.ActionTemplate) (others []*messages.ActionTemplate) {
	for _, t := range all {
		others = append(others, &messages.ActionTemplate{Name: t.Name, Definition: `{"name":"w.gone","params":["p"]}`})
	}
	return others
}

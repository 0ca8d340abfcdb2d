package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// A session's variables: docs/spec/streaming.md §7.4 read once more, from the records.

// variables are names that actions on the session take; no action is called so.
var variables = []string{"v", "w", "w2"}

// internal is an action on the session itself.
func (a *author) internal(b *strings.Builder) {
	fmt.Fprintf(b, `<action type="internal"%s>`, a.one("", ` id="a"`, ` id="b"`, ` mode="async"`))
	name := variables[a.rnd.IntN(len(variables))]
	switch n := a.rnd.IntN(12); {
	case n < 7:
		value := a.one(`"soft"`, `7`, `{"x":"deep"}`, `null`, `["$k"]`, `"$v"`, `"$a"`)
		fmt.Fprintf(b, `{"name":"set_variable","parameters":{"name":%q,"value":%s}}`, name, value)
	case n < 9:
		fmt.Fprintf(b, `{"name":"delete_variable","parameters":{"name":%q}}`, name)
	case n < 10:
		b.WriteString(`{"name":"clear_context","parameters":{}}`)
	case n < 11:
		b.WriteString(`{"name":"set_variable","parameters":{"name":"2w"}}`)
	default:
		b.WriteString(`{"name":"list_context_feeds","parameters":{}}`)
	}
	b.WriteString("</action>")
}

// internals are the actions on the session that the agent has.
func internals(name string) bool {
	switch name {
	case messages.InternalSetVariable, messages.InternalDeleteVariable, messages.InternalClearContext:
		return true
	}
	return onFeeds(name)
}

// does gives the end of an action on the session: it can only fail for what it asks.
func (s *shell) does(e *turn.StartAction) (state messages.ActionState, reason, result string, change *messages.FeedChange) {
	if onFeeds(e.Name) {
		return s.changesFeeds(e)
	}
	result, err := s.machine.State().Variables.Do(e.Name, e.Args)
	if bad := (*messages.Error)(nil); errors.As(err, &bad) {
		return messages.ActionFailed, bad.Reason, "", nil
	}
	if e.Name == messages.InternalClearContext {
		change = &messages.FeedChange{Cleared: true}
	}
	return messages.ActionOK, "", result, change
}

// store is what an audit knows of the session's variables.
type store struct {
	vars map[string]string          // JSON by name
	had  map[string]map[string]bool // every value that a name had
}

// stores takes an action on the session that has ended well.
func (a *audit) stores(c *act) error {
	var in struct {
		Name  string
		Value json.RawMessage
	}
	if err := json.Unmarshal([]byte(c.args), &in); err != nil {
		return fmt.Errorf("%s %s ended well: %w", c.name, c.args, err)
	}
	switch c.name {
	case messages.InternalSetVariable:
		a.vars[in.Name] = string(in.Value)
		if a.had[in.Name] == nil {
			a.had[in.Name] = map[string]bool{}
		}
		a.had[in.Name][string(in.Value)] = true
	case messages.InternalDeleteVariable:
		delete(a.vars, in.Name)
	case messages.InternalClearContext:
		clear(a.vars)
		for _, o := range a.acts { // what is bound is not known by its key any more
			o.forgotten = true
		}
	}
	return nil
}

// holds compares the session's variables with what the records made of them.
func (a *audit) holds(v turn.Variables) error {
	if len(v) != len(a.vars) {
		return fmt.Errorf("the session has the variables %v, by its records %v", v, a.vars)
	}
	for name, value := range a.vars {
		if v[name] != value {
			return fmt.Errorf("variable %s is %s, by the records %s", name, v[name], value)
		}
	}
	return nil
}

// variable reports whether an action may have begun with a value that a variable had.
func (a *audit) variable(c *act, name string) bool {
	for value := range a.had[name] {
		if strings.Contains(c.args, value) {
			return true
		}
	}
	return false
}

// isVariable reports whether a name is a variable now.
func (a *audit) isVariable(name string) bool {
	_, known := a.vars[name]
	return known && slices.Contains(variables, name)
}

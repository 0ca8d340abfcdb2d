package catalog

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// Operation is one of several operations of a relic; the parameter "operation" selects it by
// name.
type Operation struct {
	Name    string
	Summary string
	Class   messages.Class
	Params  Parameters
}

const operation = "operation"

// Operations are those of one relic.
type Operations []Operation

// selects returns the parameter "operation".
func (ops Operations) selects() Parameter {
	names := make([]string, len(ops))
	for i, op := range ops {
		names[i] = op.Name
	}
	return oneOf(operation, names)
}

// Describe returns the description of a target with these operations. Its class is the worst
// of theirs. Its parameters are those of all operations; each operation takes its own.
func (ops Operations) Describe(summary string) (line string, params Parameters, class messages.Class) {
	// A single operation need not be named.
	selects := ops.selects()
	selects.Required = len(ops) != 1
	class = messages.Pure
	for _, op := range ops {
		class = worse(class, op.Class)
		summary += " " + op.Name + op.Params.Signature()
		if op.Summary != "" {
			summary += ": " + op.Summary
		}
		summary += "."
		for _, p := range op.Params {
			if !slices.ContainsFunc(params, func(q Parameter) bool { return q.Name == p.Name }) {
				p.Required, p.Default = false, ""
				params = append(params, p)
			}
		}
	}
	return strings.TrimSpace(summary), append(Parameters{selects}, params...), class
}

// Pick returns the index of the operation that the arguments name, and the other arguments
// as its parameters. The error is a *neuroscript.ScriptError.
func (ops Operations) Pick(args string) (at int, given map[string]jsontext.Value, err error) {
	if given, err = members(args); err != nil {
		return 0, nil, err
	}
	selects := ops.selects()
	if given[operation] == nil && len(ops) == 1 {
		given[operation] = jsontext.Value(selects.Enum[0])
	}
	if why := selects.misfit(orNull(given[operation])); why != "" {
		return 0, nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: %s", operation, why)
	}
	name, _ := jsontext.AppendUnquote(nil, given[operation])
	at = slices.IndexFunc(ops, func(op Operation) bool { return op.Name == string(name) })
	delete(given, operation)
	rest, err := json.Marshal(given)
	if err != nil {
		return 0, nil, err
	}
	given, err = ops[at].Params.Bind(string(rest))
	return at, given, err
}

// orNull returns null for a missing member.
func orNull(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}

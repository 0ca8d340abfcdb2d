package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Invoke performs an action of a reply: it calls t with an object of named arguments, which
// are coerced as those of a program's call (docs/spec/neuroscript.md §11). The error is a
// *neuroscript.ScriptError that names the parameter for arguments that do not fit, a
// *neuroscript.Breach for a meter that ran out, and otherwise the tool's. ctx bounds the
// work of pure tools; other tools honour it themselves.
func Invoke(ctx context.Context, t *tools.Tool, c *tools.Call, args neuroscript.Value, limits neuroscript.Limits) (neuroscript.Value, error) {
	if t.Form.Direct != nil {
		return viaJSON(ctx, t.Form.Direct, c, args)
	}
	list, err := arrange(t, args)
	if err != nil {
		return neuroscript.Value{}, err
	}
	var failed error
	do := func(call *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
		switch {
		case t.Run != nil:
			own := *c
			own.Args = args
			var v neuroscript.Value
			v, failed = t.Run(ctx, &own)
			return v, failed
		case t.Pure != nil:
			return t.Pure(call, args)
		}
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeDenied, "tool %s serves programs alone", t.Name)
	}
	v, res := neuroscript.Invoke(ctx, native(t, do), list, &neuroscript.Env{SID: c.SID, TurnIndex: c.Turn, Limits: limits})
	switch {
	case res.Breach != nil:
		return neuroscript.Value{}, res.Breach
	case failed != nil:
		return neuroscript.Value{}, failed // the tool's own error, not the ScriptError made of it
	case res.Err != nil:
		return neuroscript.Value{}, &neuroscript.ScriptError{Code: res.Err.Code, Message: res.Err.Message, Details: res.Err.Details}
	}
	return v, nil
}

// arrange puts named arguments into the order of the parameters. A tool that prepares its
// own arguments gets the object as it is, unless its Form has Name: that coerces them, and
// takes no map among them for an object of names.
func arrange(t *tools.Tool, args neuroscript.Value) ([]neuroscript.Value, error) {
	named, ok := args.AsMap()
	if !ok {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "the arguments of %s must be an object", t.Name)
	}
	if t.Form.Name != nil {
		return t.Form.Name(named)
	}
	if t.Form.Prepare != nil && len(t.Params) > 0 {
		return []neuroscript.Value{args}, nil
	}
	out := make([]neuroscript.Value, len(t.Params))
	last := -1
	var bad seam.Mistakes
	for _, e := range named {
		i := param(t.Params, e.Key)
		if i < 0 {
			bad.Add("argument %s: %s has no such parameter; it takes %s", clip.Excerpt(e.Key), t.Name, Signature(t))
			continue
		}
		if e.Value.IsNil() && t.Params[i].Optional {
			continue
		}
		out[i], last = e.Value, max(last, i)
	}
	for i, p := range t.Params {
		if out[i].IsNil() && !p.Optional {
			bad.Add("argument %s: missing", p.Name)
		}
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return out[:last+1], nil
}

// param finds a parameter by its name.
func param(params []neuroscript.Param, name string) int {
	return slices.IndexFunc(params, func(p neuroscript.Param) bool { return p.Name == name })
}

// Target reports whether an action of a reply may name a tool, and returns its class. It may
// if the policy allows the tool and the tool does not need a program. Case matters here,
// unlike in a program (docs/spec/cogency.md §5, docs/spec/streaming.md §1).
func (s *Set) Target(name string) (class messages.Class, found bool) {
	i, ok := s.lookup[strings.ToLower(name)]
	if !ok || !s.entries[i].allowed || s.entries[i].tool.Form.Bound != nil || s.entries[i].tool.Name != name {
		return "", false
	}
	return s.entries[i].tool.Class, true
}

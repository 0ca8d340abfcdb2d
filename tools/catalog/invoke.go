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

// Invoke does an action of a reply: t is called with an object of named arguments,
// coerced as those of a program's call (docs/spec/neuroscript.md §11). Arguments that do not
// fit are a *neuroscript.ScriptError naming the parameter, a meter that ran out is a
// *neuroscript.Breach, any other error is the tool's. ctx bounds the work of pure
// tools; others honour it themselves.
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
		return neuroscript.Value{}, failed // the tool's own, before it was made an error of a script
	case res.Err != nil:
		return neuroscript.Value{}, &neuroscript.ScriptError{Code: res.Err.Code, Message: res.Err.Message, Details: res.Err.Details}
	}
	return v, nil
}

// arrange puts named arguments into the order of the parameters. Tools that prepare
// their own arguments take the object as it is, unless they can name them: then what
// prepare sees is coerced, and no map among it can be taken for names.
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

// Target gives what an action of a reply may name as a tool, and its class: tools
// that the policy allows and that do not need a program around them. Unlike a program
// a reply names them as they are written (docs/spec/cogency.md §5, docs/spec/streaming.md §1).
func (s *Set) Target(name string) (class messages.Class, found bool) {
	i, ok := s.lookup[strings.ToLower(name)]
	if !ok || !s.entries[i].allowed || s.entries[i].tool.Form.Bound != nil || s.entries[i].tool.Name != name {
		return "", false
	}
	return s.entries[i].tool.Class, true
}

package catalog

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// MaxResultBytes bounds the result of the ten tools of docs/spec/cogency.md §6. A longer result
// is cut, and says so and how to get the rest.
const MaxResultBytes = 64 << 10

// Reporting returns a tool like the ten of docs/spec/cogency.md §15, whose result is an
// outcome, one line, and content. All arguments are checked against ps first; do gets one
// value per parameter, defaults filled in, for tools.Call.Text and the like.
func Reporting(name, description string, class messages.Class, ps Parameters, do func(context.Context, *tools.Call) (outcome, content string, err error)) tools.Tool {
	t := tools.Tool{Name: name, Description: description, Class: class}
	t.Form.Schema, t.Form.Prepare = ps.Schema(), ps.settle
	for _, p := range ps {
		t.Params = append(t.Params, neuroscript.Param{Name: p.Name, Type: seam.TypeOf(p.Type), Optional: !p.Required})
	}
	t.Run = func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
		own := *c
		var err error
		// Calls that do not come from a program are not prepared yet; preparing twice
		// changes nothing.
		if own.Args, err = ps.settle(c.Args); err != nil {
			return neuroscript.Value{}, err
		}
		outcome, content, err := do(ctx, &own)
		if err != nil {
			return neuroscript.Value{}, err
		}
		return neuroscript.MapOf([]neuroscript.Entry{
			{Key: "content", Value: neuroscript.String(strings.ToValidUTF8(content, "\ufffd"))},
			{Key: "outcome", Value: neuroscript.String(strings.ToValidUTF8(outcome, "\ufffd"))},
		}), nil
	}
	return t
}

// Failed returns a failure for the model, of code 21. The text must show nothing of the host.
func Failed(format string, args ...any) error {
	return neuroscript.Errorf(neuroscript.CodeToolFailed, format, args...)
}

// settle returns one value per parameter, defaults filled in, from positional arguments or
// from one map that names them.
func (ps Parameters) settle(args []neuroscript.Value) ([]neuroscript.Value, error) {
	if len(args) > len(ps) {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "want %d arguments at most, not %d", len(ps), len(args))
	}
	given := make([]neuroscript.Value, len(ps))
	copy(given, args)
	var bad seam.Mistakes
	if named, ok := alone(given); ok {
		clear(given)
		for _, e := range named {
			i := slices.IndexFunc(ps, func(p Parameter) bool { return p.Name == e.Key })
			if i < 0 {
				bad.Add("argument %s: there is no such parameter; it takes %s", clip.Excerpt(e.Key), ps.Signature())
				continue
			}
			given[i] = e.Value
		}
	}
	for i := range ps {
		p := &ps[i]
		switch {
		case !given[i].IsNil():
			if why := p.mismatch(given[i]); why != "" {
				bad.Add("argument %s: %s", p.Name, why)
			}
		case p.Required:
			bad.Add("argument %s: missing", p.Name)
		case p.Default != "":
			v, err := neuroscript.FromJSON([]byte(p.Default))
			if err != nil {
				return nil, err
			}
			given[i] = v
		}
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return given, nil
}

// alone reports whether the arguments are one map of names: no parameter of the ten tools
// takes a map.
func alone(given []neuroscript.Value) ([]neuroscript.Entry, bool) {
	if len(given) == 0 || slices.ContainsFunc(given[1:], func(v neuroscript.Value) bool { return !v.IsNil() }) {
		return nil, false
	}
	return given[0].AsMap()
}

// mismatch is misfit for a value of the language. A boolean is no integer.
func (p *Parameter) mismatch(v neuroscript.Value) (why string) {
	var n int64
	ok := true
	switch p.Type {
	case "string":
		var s string
		s, ok = v.AsString()
		n = int64(utf8.RuneCountInString(s))
	case "integer":
		n, ok = v.AsInt()
		ok = ok && v.Kind() == neuroscript.KindNumber
	case "boolean":
		_, ok = v.AsBool()
		ok = ok && v.Kind() == neuroscript.KindBool
	}
	if !ok {
		return "want " + p.Type
	}
	return p.outside(func() (int64, bool) { return n, true })
}

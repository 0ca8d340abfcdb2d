package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// MaxResultBytes bounds what one of the ten tools gives back (docs/spec/cogency.md §6). Where
// there is more it says so, and how to get it.
const MaxResultBytes = 64 << 10

// Reporting makes a tool like the ten of docs/spec/cogency.md §15: it gives an outcome, one line, and
// content. Its arguments are judged by ps, all of them before any is used; do gets one
// value per parameter, defaults filled in, which Call.Text and its like read.
func Reporting(name, description string, class messages.Class, ps Parameters, do func(context.Context, *Call) (outcome, content string, err error)) Tool {
	t := Tool{Name: name, Description: description, Class: class, schema: ps.Schema(), prepare: ps.settle}
	for _, p := range ps {
		t.Params = append(t.Params, neuroscript.Param{Name: p.Name, Type: typeOf(p.Type), Optional: !p.Required})
	}
	t.Run = func(ctx context.Context, c *Call) (neuroscript.Value, error) {
		own := *c
		var err error
		// Calls that do not come from a program were not prepared; doing it twice
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

// Failed is a failure the model is told of. The text names what the model named, and
// nothing of the host.
func Failed(format string, args ...any) error {
	return neuroscript.Errorf(neuroscript.CodeToolFailed, format, args...)
}

// settle gives one value per parameter, defaults filled in, of positional arguments or of
// one map that names them.
func (ps Parameters) settle(args []neuroscript.Value) ([]neuroscript.Value, error) {
	if len(args) > len(ps) {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "want %d arguments at most, not %d", len(ps), len(args))
	}
	given := make([]neuroscript.Value, len(ps))
	copy(given, args)
	var bad mistakes
	if named, ok := alone(given); ok {
		clear(given)
		for _, e := range named {
			i := slices.IndexFunc(ps, func(p Parameter) bool { return p.Name == e.Key })
			if i < 0 {
				bad.add("argument %s: there is no such parameter; it takes %s", clip.Excerpt(e.Key), ps.Signature())
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
				bad.add("argument %s: %s", p.Name, why)
			}
		case p.Required:
			bad.add("argument %s: missing", p.Name)
		case p.Default != "":
			v, err := neuroscript.FromJSON([]byte(p.Default))
			if err != nil {
				return nil, err
			}
			given[i] = v
		}
	}
	if err := bad.err(); err != nil {
		return nil, err
	}
	return given, nil
}

// mistakes are what is wrong with the arguments of a call, all told at once
// (docs/spec/cogency.md §5).
type mistakes []string

const maxMistakes = 16

func (m *mistakes) add(format string, args ...any) { *m = append(*m, fmt.Sprintf(format, args...)) }

// err is one error of them, nil for none.
func (m mistakes) err() error {
	if len(m) == 0 {
		return nil
	}
	if more := len(m) - maxMistakes; more > 0 {
		m = append(m[:maxMistakes:maxMistakes], fmt.Sprintf("and %d more", more))
	}
	return neuroscript.Errorf(neuroscript.CodeArgument, "%s", strings.Join(m, "; "))
}

// alone tells whether the arguments are one map of named ones: no parameter of the ten
// tools takes a map.
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

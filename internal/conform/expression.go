package conform

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/expr"
)

// expressionCase is a condition of docs/spec/extensions.md §1 with what its names mean.
type expressionCase struct {
	Expr     *string                   `json:"expr"`
	Values   map[string]jsontext.Value `json:"values"`
	Statuses map[string]string         `json:"statuses"`
	Needs    *[]string                 `json:"needs"`
	Awaits   *[]string                 `json:"awaits"`
	Expect   *bool                     `json:"expect"`
	Error    *struct {
		Why string `json:"why"`
		At  int    `json:"at"`
	} `json:"error"`
}

func expressionCases(d *document) ([]testCase, error) {
	return each(d.listed, "id", "", judgeExpression), nil
}

// expressed is what came of an expression.
type expressed struct {
	result        string // true, false, or why and at
	parsed        bool
	needs, awaits []string
}

func (e expressed) String() string {
	if !e.parsed {
		return e.result
	}
	return fmt.Sprintf("%s, needs %q, awaits %q", e.result, e.needs, e.awaits)
}

// matches compares the names only where a case has them.
func (e expressed) matches(want expressed) bool {
	return e.result == want.result && (!want.parsed || e.parsed && slices.Equal(e.needs, want.needs) && slices.Equal(e.awaits, want.awaits))
}

func refused(why string, at int) string { return fmt.Sprintf("%s at %d", why, at) }

func judgeExpression(raw jsontext.Value) (verdict, error) {
	var c expressionCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	switch {
	case c.Expr == nil:
		return verdict{}, malformed("expr", "missing")
	case (c.Expect == nil) == (c.Error == nil):
		return verdict{}, malformed("expect", "a case has a result or an error")
	case (c.Needs == nil) != (c.Awaits == nil):
		return verdict{}, malformed("needs", "a case has needs and awaits or neither")
	}
	want := expressed{parsed: c.Needs != nil}
	if want.parsed {
		want.needs, want.awaits = *c.Needs, *c.Awaits
	}
	if c.Expect != nil {
		want.result = fmt.Sprint(*c.Expect)
	} else {
		want.result = refused(c.Error.Why, c.Error.At)
	}
	got := expressed{}
	if e, err := expr.Parse(*c.Expr); err != nil {
		got.result = refused(err.Why, err.At)
	} else {
		got.parsed, got.needs, got.awaits = true, e.Needs(), e.Awaits()
		if is, err := e.Eval(bindings(c)); err != nil {
			got.result = refused(err.Why, err.At)
		} else {
			got.result = fmt.Sprint(is)
		}
	}
	return compare(got, got.matches, []expressed{want}), nil
}

// bindings are the names and states of a case.
type bindings expressionCase

func (b bindings) Value(ref expr.Ref) (string, bool) {
	v, ok := b.Values[ref.Name]
	return string(v), ok
}

func (b bindings) Status(id string) (string, bool) {
	s, ok := b.Statuses[id]
	return s, ok
}

package conform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/jsonvalue"
	"github.com/seed14be6753/stile/parse/cortex"
)

// templateCase is a template of actions and a use of it (docs/spec/extensions.md §7).
type templateCase struct {
	Extensions []string          `json:"extensions"`
	Template   jsontext.Value    `json:"template"`
	Use        jsontext.Value    `json:"use"`
	Attributes map[string]string `json:"attributes"`
	Action     streamedEvent     `json:"action"`
	Error      *struct {
		In    string `json:"in"`
		Code  string `json:"code"`
		Field string `json:"field"`
	} `json:"error"`
}

func templateCases(d *document) ([]testCase, error) {
	return each(d.listed, "id", "", judgeTemplate), nil
}

// refusal is what keeps a template from becoming an action.
func refusal(in, code, field string) streamed {
	e := streamedEvent{"ev": jsontext.Value(`"error"`)}
	for name, v := range map[string]string{"in": in, "code": code, "field": field} {
		if v != "" {
			e[name] = jsontext.Value(jsonvalue.Quote(v))
		}
	}
	return streamed{e}
}

func judgeTemplate(raw jsontext.Value) (verdict, error) {
	var c templateCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	var want streamed
	switch {
	case c.Template == nil:
		return verdict{}, malformed("template", "missing")
	case (c.Action == nil) == (c.Error == nil):
		return verdict{}, malformed("action", "a case has an action or an error")
	case c.Error != nil && c.Error.In == "template":
		want = refusal(c.Error.In, "", c.Error.Field)
	case c.Use == nil:
		return verdict{}, malformed("use", "missing")
	case c.Error != nil:
		want = refusal(c.Error.In, c.Error.Code, c.Error.Field)
	default:
		c.Action["ev"] = jsontext.Value(`"action"`)
		want = streamed{c.Action}
	}
	got, err := useTemplate(&c)
	if err != nil {
		return verdict{}, err
	}
	return compare(got, got.matches, []streamed{want}), nil
}

// useTemplate writes the use as a model does, and gives the action that comes of it.
func useTemplate(c *templateCase) (streamed, error) {
	on := cortex.ExtensionsOf(c.Extensions)
	t, wrong := cortex.LoadTemplate(string(c.Template), on)
	if wrong != nil {
		return refusal("template", "", wrong.Field), nil
	}
	var reply strings.Builder
	reply.WriteString(`<action template="t" id="a"`)
	names := make([]string, 0, len(c.Attributes))
	for name := range c.Attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&reply, " %s=%q", name, c.Attributes[name])
	}
	reply.WriteString(">" + string(c.Use) + "</action>")
	x := cortex.Dialect{Extensions: on, Templates: map[string]*cortex.Template{"t": t}}
	got, err := decodeStream(x, []byte(reply.String()), reply.Len())
	for _, e := range got {
		delete(e, "template")
		if code := e["code"]; code != nil {
			e["in"] = jsontext.Value(`"use"`)
		}
	}
	return got, err
}

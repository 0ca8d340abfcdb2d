package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/schema"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Foreign describes a tool that runs elsewhere, with a JSON schema of its arguments.
type Foreign struct {
	Name        string
	Description string
	Schema      string // of the arguments object; "" takes any
	Class       messages.Class
	Timeout     time.Duration
	// Do makes one attempt. args is the JSON object of the arguments, which the schema
	// accepts, with its numbers as they were written; the result is JSON. *tools.Unsettled
	// means that the outcome is unknown.
	Do func(ctx context.Context, c *tools.Call, args string) (result string, err error)
	// Basis is that of the tool's Form; may be nil.
	Basis func(sid string) map[string]string
}

// MaxDescriptionBytes bounds the description of a foreign tool; the rest is cut off.
const MaxDescriptionBytes = 4 << 10

// NewForeign returns the tool. A program calls it with arguments in the order of Params, or
// with one map that names them; a map is the first argument only if the first parameter
// takes maps. Members of the schema whose names are not identifiers can be given in a map
// alone.
//
// Arguments are checked against the schema before Do is called, except that formats and
// content keywords are annotations, as in JSON Schema, and that a pattern which RE2 cannot
// read is left to the server. The error is ERR_CONFIG for a schema that is over its bounds,
// invalid, not of an object, or refers to another document.
func NewForeign(d Foreign) (tools.Tool, error) {
	bad := func(format string, args ...any) (tools.Tool, error) {
		return tools.Tool{}, invalid("tools."+d.Name, fmt.Sprintf(format, args...))
	}
	if d.Schema == "" {
		d.Schema = `{"type":"object"}`
	}
	form, err := compileSchema(d.Schema)
	if err != nil {
		return bad("the schema of its arguments cannot be used: %s", clip.Excerpt(err.Error()))
	}
	params, err := paramsOf(d.Schema)
	if err != nil {
		return bad("%s", err)
	}
	t := tools.Tool{Name: d.Name, Description: clip.Short(d.Description, MaxDescriptionBytes), Class: d.Class, Timeout: d.Timeout, Params: params}
	t.Form.Schema, t.Form.Basis = d.Schema, d.Basis
	t.Form.Direct = func(ctx context.Context, c *tools.Call, args string) (string, error) {
		if err := violations(form, args); err != nil {
			return "", err
		}
		return d.Do(ctx, c, args)
	}
	t.Form.Prepare = func(args []neuroscript.Value) ([]neuroscript.Value, error) { return named(params, args) }
	t.Run = func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
		args, err := named(params, c.Args)
		if err != nil {
			return neuroscript.Value{}, err
		}
		return viaJSON(ctx, t.Form.Direct, c, args[0])
	}
	if err := t.Validate(); err != nil {
		return tools.Tool{}, err
	}
	return t, nil
}

// viaJSON calls a tool whose arguments and results are JSON from a program's side.
func viaJSON(ctx context.Context, direct func(context.Context, *tools.Call, string) (string, error), c *tools.Call, args neuroscript.Value) (neuroscript.Value, error) {
	raw, err := neuroscript.AppendJSON(nil, args)
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "%s", err)
	}
	result, err := direct(ctx, c, string(raw))
	if err != nil {
		return neuroscript.Value{}, err
	}
	return neuroscript.FromJSON([]byte(result))
}

// do is Invoke with the JSON object of named arguments as it was written; the result is
// JSON.
func do(ctx context.Context, t *tools.Tool, c *tools.Call, args string, limits neuroscript.Limits) (string, error) {
	if t.Form.Direct != nil {
		return t.Form.Direct(ctx, c, args)
	}
	v, err := neuroscript.FromJSON([]byte(args))
	if err != nil {
		return "", neuroscript.Errorf(neuroscript.CodeArgument, "%s", err)
	}
	if v, err = Invoke(ctx, t, c, v, limits); err != nil {
		return "", err
	}
	raw, err := neuroscript.AppendJSON(nil, v)
	return string(raw), err
}

// named returns the arguments of a program's call as one map of names.
func named(params []neuroscript.Param, args []neuroscript.Value) ([]neuroscript.Value, error) {
	for len(args) > 0 && args[len(args)-1].IsNil() {
		args = args[:len(args)-1]
	}
	takesMap := len(params) > 0 && (params[0].Type == "map" || params[0].Type == "any")
	if len(args) == 1 && args[0].Kind() == neuroscript.KindMap && (!takesMap || names(params, args[0])) {
		return args, nil
	}
	if len(args) > len(params) {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "want %d arguments at most, not %d", len(params), len(args))
	}
	var members []neuroscript.Entry
	for i, v := range args {
		if v.IsNil() {
			continue
		}
		v, ok := seam.Coerce(params[i].Type, v)
		if !ok {
			return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: want %s, not a %s", params[i].Name, params[i].Type, args[i].Kind())
		}
		members = append(members, neuroscript.Entry{Key: params[i].Name, Value: v})
	}
	return []neuroscript.Value{neuroscript.MapOf(members)}, nil
}

// names reports whether every member of a map is the name of a parameter, and those that
// must be there are.
func names(params []neuroscript.Param, v neuroscript.Value) bool {
	members, _ := v.AsMap()
	for _, e := range members {
		if param(params, e.Key) < 0 {
			return false
		}
	}
	for _, p := range params {
		if _, there := v.MapGet(p.Name); !there && !p.Optional {
			return false
		}
	}
	return len(members) > 0
}

// compileSchema compiles the schema of a tool's arguments.
func compileSchema(text string) (*schema.Schema, error) {
	var top struct {
		Type jsontext.Value `json:"type"`
	}
	err := json.Unmarshal([]byte(text), &top, jsontext.AllowDuplicateNames(true))
	if err == nil && top.Type != nil && string(top.Type) != `"object"` {
		return nil, errors.New("arguments are an object, and its type is another")
	}
	s, compiled := schema.Compile(text)
	if compiled == nil && err != nil { // true and false
		return nil, errors.New("it is no object")
	}
	return s, compiled
}

// violations checks arguments against a schema. One error has all violations, up to a bound.
func violations(s *schema.Schema, args string) error {
	if v := jsontext.Value(args); v.Kind() != '{' || !v.IsValid(jsontext.AllowDuplicateNames(true)) {
		return neuroscript.Errorf(neuroscript.CodeArgument, "the arguments must be an object")
	}
	fault := s.Check(args, func(pointer string) string {
		if pointer == "" {
			return "arguments"
		}
		return "argument " + strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
	})
	if fault != "" {
		return neuroscript.Errorf(neuroscript.CodeArgument, "%s", fault)
	}
	return nil
}

// paramsOf returns the parameters of a schema: the required members in the order of
// "required", then the others by name. Members whose names are not identifiers are left out.
func paramsOf(schema string) ([]neuroscript.Param, error) {
	var doc struct {
		Properties map[string]jsontext.Value `json:"properties"`
		Required   []string                  `json:"required"`
	}
	if err := json.Unmarshal([]byte(schema), &doc, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, errors.New("the schema of its arguments describes no object")
	}
	var params []neuroscript.Param
	add := func(name string, optional bool) {
		property, there := doc.Properties[name]
		if !seam.IsWord(name) || len(name) > seam.MaxNameBytes || param(params, name) >= 0 || !there {
			return
		}
		var of struct {
			Type jsontext.Value `json:"type"`
		}
		typ := "any"
		if json.Unmarshal(property, &of, jsontext.AllowDuplicateNames(true)) == nil && of.Type.Kind() == '"' {
			b, _ := jsontext.AppendUnquote(nil, of.Type)
			typ = seam.TypeOf(string(b))
		}
		params = append(params, neuroscript.Param{Name: name, Type: typ, Optional: optional})
	}
	for _, name := range doc.Required {
		add(name, false)
	}
	others := make([]string, 0, len(doc.Properties))
	for name := range doc.Properties {
		others = append(others, name)
	}
	slices.Sort(others)
	for _, name := range others {
		add(name, true)
	}
	return params, nil
}
